"""POST /register: an app registers itself (RFC 7591). GET and DELETE of what it got: it looks after that (RFC 7592)."""

import json
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.gate import bearer_token
from shoal.api.oauth import client_metadata, clients, secrets
from shoal.api.oauth.authority import Authority, authority_of, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.paths import REGISTER
from shoal.api.oauth.records import CLIENT_SCOPES, COUNTED_MS, Client, ClientKind, scope_text
from shoal.api.oauth.responses import answering, told
from shoal.api.oauth.secrets import Secret
from shoal.api.shell import JSON, media_type
from shoal.core.protocols import Statement
from shoal.core.times import MS_PER_DAY
from shoal.schema.errors import Unauthorized

NETWORK_HOURLY: Final = 30
HOURLY: Final = 300
"""Registrations of one network, and in all."""
UNUSED_MS: Final = MS_PER_DAY
"""How long a client lasts that nobody has let in yet."""
_REGISTER: Final = f"""
insert into oauth_client (id, kind, name, redirect_uris, auth_method, secret_sha256, management_sha256, network,
  created_at, expires_at)
select ?1, 'registered', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8 + {UNUSED_MS}
where (select count(*) from oauth_client where created_at > ?8 - {COUNTED_MS} and kind = 'registered') < {HOURLY}
  and (select count(*) from oauth_client where created_at > ?8 - {COUNTED_MS} and kind = 'registered' and network = ?7)
    < {NETWORK_HOURLY}
returning id
"""
_OWN: Final = (
    "select id, kind, name, redirect_uris, auth_method, secret_sha256, created_at from oauth_client"
    " where id = ?1 and management_sha256 = ?2 and expires_at > ?3"
)


@answering
async def register(request: Request) -> Response:
    """Register a client. Raises OAuthError (invalid_client_metadata, invalid_redirect_uri, temporarily_unavailable)."""
    authority = authority_of(request.scope)
    if not authority.settings.registration:
        raise OAuthError(Code.INVALID_REQUEST, "Clients do not register themselves here. The owner can register one.")
    given = client_metadata.checked(await _json(request), authority)
    method = client_metadata.auth_method(given)
    client, secret = clients.made(authority, ClientKind.REGISTERED, given.name, given.redirect_uris, method)
    management = secrets.make(Secret.MANAGEMENT, authority.random)
    now = authority.clock()
    await _keep(authority, client, sha256(management), now)
    shown = _shown(authority, client, now)
    if secret is not None:
        shown |= {"client_secret": secret, "client_secret_expires_at": 0}
    return told({**shown, "registration_access_token": management}, 201)


@answering
async def show(request: Request) -> Response:
    """Show a client its own registration, without its secret. Raises OAuthError (invalid_token)."""
    authority = authority_of(request.scope)
    client, created_at = await _own(authority, request)
    # RFC 7592, 3: the answer names the token too. Only its hash is kept, but it has just been sent.
    return told({**_shown(authority, client, created_at), "registration_access_token": bearer_token(request.scope)})


@answering
async def remove(request: Request) -> Response:
    """Forget a client that asks for it, and end what it was allowed. Raises OAuthError (invalid_token)."""
    authority = authority_of(request.scope)
    client, _ = await _own(authority, request)
    await clients.remove(authority, client.id)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def _keep(authority: Authority, client: Client, management_sha256: str, now_ms: int) -> None:
    params = (
        client.id,
        client.name,
        json.dumps(client.redirect_uris),
        str(client.auth_method),
        client.secret_sha256,
        management_sha256,
        authority.network,
        now_ms,
    )
    (kept,) = await authority.database.batch([Statement(_REGISTER, params)])
    if not kept:
        raise OAuthError(
            Code.TEMPORARILY_UNAVAILABLE,
            "Too many clients have registered in this hour. Try again later.",
            retry_after_s=COUNTED_MS // 1000,
        )


def _shown(authority: Authority, client: Client, created_at_ms: int) -> dict[str, Any]:
    # What the app asked for as `scope` is no limit: the owner decides, and may be asked for more later.
    return {
        "client_id": client.id,
        "client_id_issued_at": created_at_ms // 1000,
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "token_endpoint_auth_method": str(client.auth_method),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "scope": scope_text(CLIENT_SCOPES),
        "registration_client_uri": f"{authority.issuer}{REGISTER}/{client.id}",
    }


async def _own(authority: Authority, request: Request) -> tuple[Client, int]:
    try:
        token = bearer_token(request.scope)
    except Unauthorized:
        token = ""
    client_id = str(request.path_params["client_id"])
    if clients.is_id(client_id) and secrets.is_well_formed(token, Secret.MANAGEMENT):
        params = (client_id, sha256(token), authority.clock())
        rows = await authority.database.query(_OWN, params)
        if rows:
            return clients.client_of(rows[0]), cast("int", rows[0]["created_at"])
    raise OAuthError(Code.INVALID_TOKEN, "Send the registration_access_token of this client as a bearer token.")


async def _json(request: Request) -> Any:
    if media_type(request.headers) != JSON:
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "Send JSON, with Content-Type: application/json.")
    try:
        # Not by pydantic's parser: it refuses half a surrogate pair, as in a name that was cut within an emoji.
        return json.loads((await request.body()).decode())
    except (ValueError, RecursionError) as error:
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "The body is not JSON.") from error
