"""POST /revoke (RFC 7009): an app gives its own token back. POST /introspect (RFC 7662): the owner asks about one."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.gate import bearer_token
from shoal.api.oauth import client_auth, secrets
from shoal.api.oauth.authority import Authority, authority_of, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.forms import read_form, required
from shoal.api.oauth.gate import OWNER, caller_of
from shoal.api.oauth.grants import Because, ending
from shoal.api.oauth.owner_key import is_owner_key
from shoal.api.oauth.records import SPACE_SCOPES, Reach, living, scope_text, scopes_of
from shoal.api.oauth.responses import answering, told
from shoal.api.oauth.secrets import Secret
from shoal.api.oauth.tokens import USABLE
from shoal.core.caller import ALL_SPACES, Caller
from shoal.schema.errors import Unauthorized

_ITS_GRANT = "id = (select grant_id from oauth_token where sha256 = ?1 and client_id = ?2)"
_INSPECT = (
    "select t.kind, t.scopes, t.client_id, t.created_at, t.expires_at, g.reach"
    " from oauth_token as t join oauth_grant as g on g.id = t.grant_id"
    " where t.sha256 = ?1 and coalesce(t.expires_at > ?3, 1)"
    f" and g.activated_at is not null and {living('?3')}"
    f" and coalesce(g.resource, ?4) = ?4 and (t.kind = 'access' or {USABLE})"
)


@answering
async def revoke(request: Request) -> Response:
    """End the grant that one of the client's own tokens belongs to. The answer is the same for all other tokens."""
    authority = authority_of(request.scope)
    form = await read_form(request)
    client = await client_auth.authenticate(authority, request.headers, form)
    token = required(form, "token")
    if secrets.is_well_formed(token, Secret.ACCESS, Secret.REFRESH):
        ended = ending(_ITS_GRANT, (sha256(token), client.id), authority.clock(), Because.CLIENT)
        await authority.database.batch([ended])
    return told({}, 200)


@answering
async def introspect(request: Request) -> Response:
    """Tell the owner, whose key is the bearer token, whether a token is good and for what."""
    authority = authority_of(request.scope)
    _require_owner(request, authority)
    token = required(await read_form(request), "token")
    if not secrets.is_well_formed(token, Secret.ACCESS, Secret.REFRESH, Secret.DEVICE):
        return told({"active": False}, 200)
    digest = sha256(token)
    rows = await authority.database.query(_INSPECT, (digest, digest, authority.clock(), authority.resource))
    return told(_shown(authority, rows[0]) if rows else {"active": False}, 200)


def _shown(authority: Authority, row: Mapping[str, Any]) -> dict[str, Any]:
    caller = caller_of(Reach.from_json(row["reach"]), scopes_of(row["scopes"]))
    shown = {
        "active": True,
        "scope": scope_text(caller.scopes),
        "client_id": row["client_id"],
        "token_type": "Bearer" if row["kind"] == "access" else None,
        "exp": None if row["expires_at"] is None else row["expires_at"] // 1000,
        "iat": row["created_at"] // 1000,
        "aud": authority.resource,
        "iss": authority.issuer,
        "sub": OWNER,
        "spaces": _spaces(caller),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _spaces(caller: Caller) -> dict[str, list[str]]:
    """Return the scopes by space, `*` for every space, as a grant has them."""
    spaces: dict[str, list[str]] = {}
    for scope in SPACE_SCOPES:
        reached = caller.reach(scope)
        for space in (ALL_SPACES,) if reached is None else reached:
            spaces.setdefault(space, []).append(str(scope))
    return spaces


def _require_owner(request: Request, authority: Authority) -> None:
    try:
        given = bearer_token(request.scope)
    except Unauthorized:
        given = ""
    if not is_owner_key(given, authority.settings.owner_key_sha256):
        raise OAuthError(Code.INVALID_TOKEN, "Only the owner may ask. Send the key of the owner as a bearer token.")
