"""POST /token: a code or a refresh token for tokens (RFC 6749, 3.2). Forms only; the answer may lie in no cache."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.oauth import client_auth, codes, tokens
from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.forms import read_form, required
from shoal.api.oauth.records import Client
from shoal.api.oauth.responses import answering, told
from shoal.api.oauth.tokens import TokenAnswer

GRANT_TYPES: Final[Mapping[str, Callable[[Authority, Client, Mapping[str, str]], Awaitable[TokenAnswer]]]] = {
    "authorization_code": codes.exchange,
    "refresh_token": tokens.refresh,
}
"""What tokens are given for."""


@answering
async def token(request: Request) -> Response:
    """Give tokens to an authenticated client."""
    authority = authority_of(request.scope)
    form = await read_form(request)
    grant_type = required(form, "grant_type")
    client = await client_auth.authenticate(authority, request.headers, form)
    give = GRANT_TYPES.get(grant_type)
    if give is None:
        raise OAuthError(Code.UNSUPPORTED_GRANT_TYPE, f"The grant types are {' and '.join(GRANT_TYPES)}.")
    return told(await give(authority, client, form), 200)
