"""Browsers in which the owner has signed in: a cookie of 256 random bits, of which the database has the SHA-256.

A session lasts `settings.session_s` from the sign-in on, however much it is used: a copied cookie ends with it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.datastructures import Headers

from shoal.api.oauth import secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.secrets import Secret
from shoal.core.protocols import Row, Statement

COOKIE: Final = "__Host-shoal"
"""With this prefix browsers take it only over HTTPS, for the whole host and no other (RFC 6265bis, 4.1.3.2)."""
_ATTRIBUTES: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"
_COOKIES_MAX_CHARS: Final = 16_384
"""Of a request's cookies in all; more is not ours, and not worth reading."""


class Method(StrEnum):
    """How the owner proved to be the owner."""

    KEY = "key"
    PASSPHRASE = "passphrase"  # noqa: S105 - a name, not a secret
    ACCESS = "access"
    """By Cloudflare Access, request by request (access.py); leaving it is up to Access too."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser in which the owner is signed in. Times are milliseconds since 1970."""

    sha256: str
    method: Method
    created_at: int
    expires_at: int


def cookie(value: str, max_age_s: int) -> str:
    """Return the Set-Cookie header that hands a session to the browser."""
    return f"{COOKIE}={value}; Max-Age={max_age_s}; {_ATTRIBUTES}"


def no_cookie() -> str:
    """Return the Set-Cookie header that takes it away."""
    return cookie("", 0)


async def begin(authority: Authority, method: Method) -> str:
    """Begin a session and return the cookie's value. It is always a new one, so nobody can plant it beforehand."""
    value = secrets.make(Secret.BROWSER, authority.random)
    now_ms = authority.clock()
    expires_at = now_ms + authority.settings.session_s * 1000
    params = (sha256(value), now_ms, expires_at, str(method), authority.network or None)
    await authority.database.batch([Statement(_BEGIN, params)])
    return value


_BEGIN: Final = """
insert into owner_session (sha256, created_at, expires_at, method, network) values (?1, ?2, ?3, ?4, ?5)
"""


async def current(authority: Authority, headers: Headers) -> Session | None:
    """Return the session of a request's cookie; None without one, with two of the name, or when it has ended.

    What can't be one of ours is not looked up.
    """
    value = _value(headers)
    if value is None or not secrets.is_well_formed(value, Secret.BROWSER):
        return None
    rows = await authority.database.query(
        "select sha256, created_at, expires_at, method from owner_session where sha256 = ?1 and expires_at > ?2",
        (sha256(value), authority.clock()),
    )
    return session_of(rows[0]) if rows else None


def session_of(row: Row) -> Session:
    """Return a row of owner_session as a value."""
    return Session(
        str(row["sha256"]), Method(str(row["method"])), int(row["created_at"] or 0), int(row["expires_at"] or 0)
    )


def _value(headers: Headers) -> str | None:
    """Return the cookie's value. With two, one was planted by a neighbour, and nobody can say which."""
    text = ";".join(headers.getlist("cookie"))
    if len(text) > _COOKIES_MAX_CHARS:
        return None
    pairs = (pair.strip().partition("=") for pair in text.split(";"))
    values = [value for name, _, value in pairs if name == COOKIE]
    return values[0] if len(values) == 1 else None


async def end(authority: Authority, session: Session) -> None:
    """End a session with the forms that it has open. One of Access comes back with its next request."""
    await authority.database.batch(
        [
            Statement("delete from owner_form where session_sha256 = ?1", (session.sha256,)),
            Statement("delete from owner_session where sha256 = ?1", (session.sha256,)),
        ]
    )


async def end_all(authority: Authority, *, but: Session | None = None) -> None:
    """End all sessions, or all other than this one."""
    await authority.database.batch(ending_all(but))


def ending_all(but: Session | None = None) -> list[Statement]:
    """Return the statements that `end_all` runs, for a batch that does more."""
    kept = but.sha256 if but else ""
    return [
        Statement("delete from owner_form where session_sha256 <> ?1", (kept,)),
        Statement("delete from owner_session where sha256 <> ?1", (kept,)),
    ]
