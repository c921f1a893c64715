"""The gate of the edge: the owner by key, everyone else by a token and the grant behind it, asked for at each request.

Nothing is remembered from one request to the next, so what is revoked is refused at once.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Scope as HttpScope

from shoal.api.gate import SYNC_PATHS, bearer_challenge, bearer_token
from shoal.api.oauth import secrets
from shoal.api.oauth.authority import RESOURCE_PATH, Authority, sha256
from shoal.api.oauth.owner_key import is_owner_key
from shoal.api.oauth.paths import PROTECTED_RESOURCE
from shoal.api.oauth.records import (
    CLIENT_SCOPES,
    DEFAULT_SCOPES,
    SPACE_SCOPES,
    Reach,
    TokenKind,
    living,
    scope_text,
    scopes_of,
)
from shoal.api.oauth.secrets import Secret
from shoal.core.caller import Caller, Scope
from shoal.core.protocols import Database, Statement
from shoal.schema.errors import ShoalError, Unauthorized

log: Final = logging.getLogger("shoal.oauth")

METADATA_PATH: Final = PROTECTED_RESOURCE + RESOURCE_PATH
"""Where clients learn who gives tokens for the resource (RFC 9728, 3.1)."""
OWNER: Final = "owner"
"""The owner's name as a client."""
TOUCH_MS: Final = 86_400_000
"""How much later a use must be to be noted anew: a row written at each request would cost more than it tells."""

Later = Callable[[Coroutine[Any, Any, None]], object]
"""Takes work that goes on after the answer."""

_ALIVE: Final = (
    "select t.scopes, g.id, g.name, g.device, g.reach, g.used_at"
    " from oauth_token as t join oauth_grant as g on g.id = t.grant_id"
    " where t.sha256 = ?1 and t.kind = ?2 and coalesce(t.expires_at > ?3, 1)"
    f" and g.activated_at is not null and {living('?3')}"
    " and coalesce(g.resource, ?4) = ?4"
)


@dataclass(frozen=True, slots=True)
class TokenGate:
    """Knows the owner by key, and apps and devices by their tokens.

    `later` takes the noting of a use; without it the request waits for that.
    """

    authority_of_scope: Callable[[HttpScope], Authority]
    later: Later | None = None

    async def admit(self, scope: HttpScope) -> Caller:
        """Return the caller whose token the Authorization header carries. Raises Unauthorized, StorageError."""
        token = bearer_token(scope)
        authority = self.authority_of_scope(scope)
        if secrets.is_well_formed(token, Secret.ACCESS, Secret.DEVICE):
            row = await _alive(authority, token)
            if row is None:
                raise _refused()
            await self._note_use(authority, row)
            return _caller(authority, row)
        if is_owner_key(token, authority.settings.owner_key_sha256):
            return Caller(client=OWNER, owner=True, time_zone=authority.settings.default_time_zone)
        raise _refused()

    def challenge(self, scope: HttpScope, error: ShoalError) -> str:
        """Return where tokens are to be had, and which scopes to ask for (RFC 9728, 5.1; RFC 6750, 3).

        A replica is of use with all of them: it stands for its owner, who purges on it too.
        """
        metadata = self.authority_of_scope(scope).issuer + METADATA_PATH
        wanted = CLIENT_SCOPES if scope["path"].startswith(SYNC_PATHS) else DEFAULT_SCOPES
        return bearer_challenge(scope, error, resource_metadata=metadata, scope=scope_text(wanted))

    async def _note_use(self, authority: Authority, row: Mapping[str, Any]) -> None:
        now = authority.clock()
        if row["used_at"] is not None and now - row["used_at"] < TOUCH_MS:
            return
        work = touch(authority.database, row["id"], now)
        if self.later is None:
            await work
        else:
            self.later(work)


async def touch(database: Database, grant_id: str, now_ms: int) -> None:
    """Note that a grant was used. A failure is logged and no more: the request that it goes with has succeeded."""
    try:
        await database.batch([Statement("update oauth_grant set used_at = ?2 where id = ?1", (grant_id, now_ms))])
    except ShoalError as error:
        log.warning("the use of grant %s was not noted: %s", grant_id, error.code)
    except Exception:
        log.exception("the use of grant %s was not noted", grant_id)


def caller_of(reach: Reach, scopes: frozenset[Scope], **who: Any) -> Caller:
    """Return the caller that holds these scopes where a grant allows them: `Caller.reach` is `Reach.of` for each.

    SYNC, which isn't allowed space by space, goes as far as the others together. `who` are the Caller's other fields.
    """
    held = scopes & reach.scopes
    limits = {scope: reach.of(scope) for scope in SPACE_SCOPES if scope in held}
    spaces = None if None in limits.values() else _united(reach, limits)
    narrower = tuple((scope, limit) for scope, limit in limits.items() if limit is not None and limit != spaces)
    return Caller(scopes=held, spaces=spaces, narrower=narrower, **who)


def _united(reach: Reach, limits: Mapping[Scope, tuple[str, ...] | None]) -> tuple[str, ...]:
    """Return the spaces that any of the scopes reaches, in the order in which they were allowed."""
    reached = {space for limit in limits.values() for space in limit or ()}
    return tuple(space for space in reach.spaces if space in reached)


def _caller(authority: Authority, row: Mapping[str, Any]) -> Caller:
    return caller_of(
        Reach.from_json(row["reach"]),
        scopes_of(row["scopes"]),
        client=row["name"],
        token=row["id"],
        device=row["device"] or "",
        time_zone=authority.settings.default_time_zone,
    )


async def _alive(authority: Authority, token: str) -> Mapping[str, Any] | None:
    """Return an access token with its grant, if both are good now and here."""
    params = (sha256(token), str(TokenKind.ACCESS), authority.clock(), authority.resource)
    rows = await authority.database.query(_ALIVE, params)
    return rows[0] if rows else None


def _refused() -> Unauthorized:
    return Unauthorized("The token is unknown, expired or revoked.", "Connect again, or send a token that is good.")
