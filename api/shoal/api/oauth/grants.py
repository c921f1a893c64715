"""Grants: what the owner has allowed an app, or a device by a token of its own. Whatever ends one ends all its tokens.

An app's grant is written when the owner approves, with the authorization code in the same batch, and becomes active
when the code is exchanged (codes.py). A token is looked up together with its grant, so revoking is one row's change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from shoal.api.oauth import secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.records import Client, GrantKind, Reach, TokenKind, living, scope_text
from shoal.core.caller import Scope
from shoal.core.protocols import SqlValue, Statement

GRANT_ID_BYTES: Final = 16
"""Random bytes of a grant's id, which stands in lists and the log of writes as hexadecimal characters; no secret."""
LISTED_MAX: Final = 1_000
"""Grants in one list."""


class Because(StrEnum):
    """Why a grant was revoked."""

    OWNER = "owner"
    """The owner ended it."""
    CLIENT = "client"
    """The app gave its token back (RFC 7009)."""
    CODE_REUSED = "code_reused"
    """Its authorization code came twice."""
    TOKEN_REUSED = "token_reused"  # noqa: S105 - a reason, not a secret
    """One of its refresh tokens came after its time."""
    CLIENT_REMOVED = "client_removed"
    """The app itself was removed."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What the owner has just approved."""

    client: Client
    redirect_uri: str
    redirect_uri_given: bool
    """Whether the request named it; then the exchange has to name it as well (RFC 6749, 4.1.3)."""
    challenge: str
    """PKCE's, by S256."""
    scopes: frozenset[Scope]
    """What the app's first tokens are good for, within the reach."""
    reach: Reach
    resource: str
    expires_at: int | None = None
    """When the grant ends by itself; None = it doesn't."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant as lists show it. Times are milliseconds since 1970."""

    id: str
    kind: GrantKind
    client_id: str | None
    name: str
    device: str | None
    reach: Reach
    created_at: int
    used_at: int | None
    """To the day."""
    expires_at: int | None


async def approve(authority: Authority, approval: Approval) -> str:
    """Write a grant and its authorization code, and return the code, which is kept only as its hash."""
    now = authority.clock()
    grant_id = _new_id(authority)
    code = secrets.make(secrets.Secret.CODE, authority.random)
    client = approval.client
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_grant (id, kind, client_id, name, reach, resource, created_at, expires_at)"
                " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                (
                    grant_id,
                    str(GrantKind.APP),
                    client.id,
                    client.name,
                    approval.reach.to_json(),
                    approval.resource,
                    now,
                    approval.expires_at,
                ),
            ),
            Statement(
                "insert into oauth_code (sha256, grant_id, client_id, redirect_uri, redirect_uri_given, challenge,"
                " scopes, resource, expires_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                (
                    sha256(code),
                    grant_id,
                    client.id,
                    approval.redirect_uri,
                    int(approval.redirect_uri_given),
                    approval.challenge,
                    scope_text(approval.scopes),
                    approval.resource,
                    now + authority.settings.code_s * 1000,
                ),
            ),
        ]
    )
    return code


async def make_device_token(
    authority: Authority, name: str, device: str, reach: Reach, expires_at: int | None = None
) -> tuple[str, str]:
    """Write the grant of a device or script and return (its id, its token). The token can't be shown again.

    It is good at any name of this server, and until it is revoked unless `expires_at` says otherwise.
    """
    now = authority.clock()
    grant_id = _new_id(authority)
    token = secrets.make(secrets.Secret.DEVICE, authority.random)
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_grant (id, kind, name, device, reach, created_at, activated_at, expires_at)"
                " values (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
                (grant_id, str(GrantKind.DEVICE), name, device, reach.to_json(), now, expires_at),
            ),
            Statement(
                "insert into oauth_token (sha256, kind, grant_id, scopes, created_at, expires_at)"
                " values (?1, ?2, ?3, ?4, ?5, ?6)",
                (sha256(token), str(TokenKind.ACCESS), grant_id, scope_text(reach.scopes), now, expires_at),
            ),
        ]
    )
    return grant_id, token


async def listed(authority: Authority) -> list[GrantRow]:
    """Return the grants by which someone can still come in, the last used first; at most LISTED_MAX."""
    rows = await authority.database.query(
        "select id, kind, client_id, name, device, reach, created_at, used_at, expires_at from oauth_grant as g"
        f" where g.activated_at is not null and {living('?1')}"
        " and exists (select 1 from oauth_token as t where t.grant_id = g.id"
        " and (t.expires_at is null or t.expires_at > ?1))"
        f" order by coalesce(used_at, created_at) desc, id limit {LISTED_MAX}",
        (authority.clock(),),
    )
    return [_row(row) for row in rows]


async def revoke(authority: Authority, grant_id: str, because: Because) -> bool:
    """End a grant and with it all its tokens, at once. Return whether there was one to end."""
    (rows,) = await authority.database.batch([revoking(grant_id, authority.clock(), because)])
    return bool(rows)


def revoking(grant_id: str, now_ms: int, because: Because) -> Statement:
    """Return the statement that ends a grant, and returns a row if it had not ended before."""
    return ending("id = ?1", (grant_id,), now_ms, because)


def ending(condition: str, params: tuple[SqlValue, ...], now_ms: int, because: Because) -> Statement:
    """Return the statement that ends those grants that meet a condition over ?1 and on, and returns their rows.

    One that has ended stays as it ended first.
    """
    number = len(params)
    return Statement(
        f"update oauth_grant set revoked_at = ?{number + 1}, revoked_because = ?{number + 2}"
        f" where revoked_at is null and {condition} returning id",
        (*params, now_ms, str(because)),
    )


def _new_id(authority: Authority) -> str:
    return authority.random(GRANT_ID_BYTES).hex()


def _row(row: Mapping[str, Any]) -> GrantRow:
    return GrantRow(
        id=row["id"],
        kind=GrantKind(row["kind"]),
        client_id=row["client_id"],
        name=row["name"],
        device=row["device"],
        reach=Reach.from_json(row["reach"]),
        created_at=row["created_at"],
        used_at=row["used_at"],
        expires_at=row["expires_at"],
    )
