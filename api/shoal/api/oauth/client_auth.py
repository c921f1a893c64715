"""How a client proves at /token and /revoke that it is itself: exactly as it registered to (RFC 6749, 2.3)."""

import base64
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from starlette.datastructures import Headers

from shoal.api.oauth import clients, documents
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import AuthMethod, Client

_NOBODY: Final = "0" * 64
"""What a secret is compared with where there is none: the hash of nothing that is known."""


async def authenticate(authority: Authority, headers: Headers, form: Mapping[str, str]) -> Client:
    """Return the client that a request comes from.

    Raises OAuthError: invalid_client for one that is unknown or can't prove itself, whichever it is; invalid_request
    for one that tries two ways at once.
    """
    method, client_id, secret = _credentials(headers, form)
    if documents.is_url(client_id):
        client = documents.named(authority, client_id)
    else:
        client = await clients.find(authority, client_id)
    known = client.secret_sha256 or _NOBODY
    proven = method is AuthMethod.NONE or hmac.compare_digest(known, sha256(secret))
    if method is not client.auth_method or not proven:
        raise clients.unknown()
    return client


def _credentials(headers: Headers, form: Mapping[str, str]) -> tuple[AuthMethod, str, str]:
    named = form.get("client_id", "")
    sent = headers.getlist("authorization")
    if sent:
        if "client_secret" in form or len(sent) > 1:
            raise OAuthError(Code.INVALID_REQUEST, "Authenticate one way: in the header or in the form.")
        client_id, secret = _basic(sent[0])
        if named not in ("", client_id):
            raise OAuthError(Code.INVALID_REQUEST, "The header and the form name different clients.")
        return AuthMethod.BASIC, client_id, secret
    if not named:
        raise OAuthError(Code.INVALID_CLIENT, "The client_id is missing.")
    if "client_secret" in form:
        return AuthMethod.POST, named, form["client_secret"]
    return AuthMethod.NONE, named, ""


def _basic(header: str) -> tuple[str, str]:
    """Return the id and the secret, both form-encoded before they were put together (RFC 6749, 2.3.1)."""
    scheme, _, encoded = header.partition(" ")
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, colon, secret = decoded.partition(":")
        if scheme.lower() == "basic" and colon:
            return unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    except ValueError:  # binascii.Error and UnicodeDecodeError among them
        pass
    raise OAuthError(Code.INVALID_CLIENT, "The Authorization header is not Basic with an id and a secret.")
