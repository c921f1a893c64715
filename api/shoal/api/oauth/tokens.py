"""Access and refresh tokens: how they are handed out, and how a refresh token is followed by the next.

A refresh token is usable while none made from it has been used, and while no other made from the same one was used
before it. So a lost answer costs nothing, as the old token still serves, and of two who hold the same token one is
found out at the latest when both have gone on from it; then the whole grant ends (OAuth 2.1, 4.3.1; RFC 9700, 4.14).
All of it is decided by conditions inside one batch, as others may write between our reading and our writing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shoal.api.oauth import clients, secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.forms import required
from shoal.api.oauth.grants import Because, ending, revoking
from shoal.api.oauth.records import Client, TokenKind, living, scope_text, scopes_of
from shoal.api.oauth.targets import target_of
from shoal.core.caller import Scope
from shoal.core.protocols import Statement

TokenAnswer = dict[str, str | int]
"""What the token endpoint answers (RFC 6749, 5.1)."""

USABLE: Final = (
    "exists (select 1 from oauth_token as t left join oauth_token as p on p.sha256 = t.parent"
    " where t.sha256 = ?1 and t.spent_by is null and coalesce(p.spent_by, ?2) = ?2)"
)
"""Whether the refresh token ?1 may be used; ?2 is the same hash, as its parent must have been spent by it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a pair of tokens is made from: a code or a refresh token that has passed every check."""

    grant_id: str
    grant_expires_at: int | None
    client_id: str
    scopes: frozenset[Scope]
    """What the refresh token goes on to hold."""
    condition: str
    """SQL over ?1 and ?2 that holds if, inside the batch, it may still be used."""
    bound: tuple[str, str]
    """Its ?1 and ?2."""
    reused: Because
    """Why the grant ends if it may not."""
    parent: str | None = None
    """The hash of the refresh token that it is."""


async def issue(authority: Authority, basis: Basis, scopes: frozenset[Scope], claim: Statement) -> TokenAnswer:
    """Run the claim, and if the basis may then be used and the grant has not ended hand out a pair of tokens.

    If it may not be used, because somebody has been faster, the grant ends.

    `scopes` are the access token's. Raises OAuthError (invalid_grant).
    """
    now = authority.clock()
    settings = authority.settings
    access = secrets.make(secrets.Secret.ACCESS, authority.random)
    refresh = secrets.make(secrets.Secret.REFRESH, authority.random)
    ends = _earlier(now + settings.access_s * 1000, basis.grant_expires_at)
    idle = _earlier(now + settings.refresh_idle_s * 1000, basis.grant_expires_at)
    results = await authority.database.batch(
        [
            claim,
            _new(basis, TokenKind.ACCESS, access, scopes, now, ends),
            _new(basis, TokenKind.REFRESH, refresh, basis.scopes, now, idle),
            Statement(
                "update oauth_grant set activated_at = coalesce(activated_at, ?4), used_at = ?4"
                f" where id = ?3 and {basis.condition}",
                (*basis.bound, basis.grant_id, now),
            ),
            ending_unless(basis, now),
            clients.note_use(basis.client_id, now, settings),
        ]
    )
    if not results[2]:
        raise reuse_refused()
    return {
        "access_token": access,
        "token_type": "Bearer",
        "expires_in": (ends - now) // 1000,
        "refresh_token": refresh,
        "scope": scope_text(scopes),
    }


async def refresh(authority: Authority, client: Client, form: Mapping[str, str]) -> TokenAnswer:
    """Answer the grant type refresh_token (RFC 6749, 6). Raises OAuthError."""
    token = required(form, "refresh_token")
    if not secrets.is_well_formed(token, secrets.Secret.REFRESH):
        raise _not_good()
    digest = sha256(token)
    row = await _known(authority, digest)
    if row is None:
        raise _not_good()
    if not row["usable"]:
        # Whoever shows it: it has got into hands that it was not given to.
        await authority.database.batch([revoking(row["grant_id"], authority.clock(), Because.TOKEN_REUSED)])
        raise reuse_refused()
    if not row["alive"] or row["client_id"] != client.id:
        raise _not_good()
    if target_of(authority, form.get("resource")) != row["resource"]:
        raise OAuthError(Code.INVALID_TARGET, "The refresh token is for another resource.")
    held = scopes_of(row["scopes"])
    basis = Basis(
        grant_id=row["grant_id"],
        grant_expires_at=row["grant_expires_at"],
        client_id=client.id,
        scopes=held,
        condition=USABLE,
        bound=(digest, digest),
        reused=Because.TOKEN_REUSED,
        parent=digest,
    )
    claim = Statement(
        "update oauth_token set spent_by = ?2 where sha256 = ?1 and spent_by is null", (row["parent"], digest)
    )
    return await issue(authority, basis, _narrowed(held, form.get("scope", "")), claim)


def ending_unless(basis: Basis, now_ms: int) -> Statement:
    """Return the statement that ends the grant if the basis may not be used."""
    return ending(f"id = ?3 and not {basis.condition}", (*basis.bound, basis.grant_id), now_ms, basis.reused)


def reuse_refused() -> OAuthError:
    """Return what is told to whoever shows a code or a refresh token that was used before."""
    return OAuthError(Code.INVALID_GRANT, "This was used before, so the connection has been ended. Connect again.")


async def _known(authority: Authority, digest: str) -> Mapping[str, Any] | None:
    rows: Sequence[Mapping[str, Any]] = await authority.database.query(
        "select t.grant_id, t.client_id, t.scopes, t.parent, g.resource, g.expires_at as grant_expires_at,"
        f" {USABLE} as usable, t.expires_at > ?3 and g.activated_at is not null and {living('?3')} as alive"
        " from oauth_token as t join oauth_grant as g on g.id = t.grant_id where t.sha256 = ?1 and t.kind = ?4",
        (digest, digest, authority.clock(), str(TokenKind.REFRESH)),
    )
    return rows[0] if rows else None


def _narrowed(held: frozenset[Scope], text: str) -> frozenset[Scope]:
    """Return the scopes that a refresh asks for. Raises OAuthError (invalid_scope) when that is more, or nothing."""
    if not text.strip():
        return held
    asked = scopes_of(text)
    if not asked or not asked <= held:
        raise OAuthError(Code.INVALID_SCOPE, "A refresh can ask for no more than was allowed. Connect again for more.")
    return asked


def _new(
    basis: Basis, kind: TokenKind, token: str, scopes: frozenset[Scope], now_ms: int, expires_at: int
) -> Statement:
    return Statement(
        "insert into oauth_token (sha256, kind, grant_id, client_id, scopes, parent, created_at, expires_at)"
        f" select ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where {basis.condition}"
        " and exists (select 1 from oauth_grant where id = ?5 and revoked_at is null) returning sha256",
        (
            *basis.bound,
            sha256(token),
            str(kind),
            basis.grant_id,
            basis.client_id,
            scope_text(scopes),
            basis.parent,
            now_ms,
            expires_at,
        ),
    )


def _earlier(time_ms: int, other_ms: int | None) -> int:
    return time_ms if other_ms is None else min(time_ms, other_ms)


def _not_good() -> OAuthError:
    return OAuthError(Code.INVALID_GRANT, "The refresh token is unknown, expired or revoked. Connect again.")
