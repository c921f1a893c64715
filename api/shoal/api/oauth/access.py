"""Cloudflare Access as a login: who its policy lets through to this host is the owner.

Access puts a signed assertion into each request's header. Whether it stands in front at all, only the signature tells,
so everything about it is checked here (developers.cloudflare.com, Cloudflare One, "Validate JWTs" and "Application
token"). PyJWT is of no help: it reads the process's clock, and its signatures need a library that a Worker lacks.
Service tokens are not the owner: their assertions name nobody (`sub` is empty).
"""

import base64
import binascii
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeGuard

from pydantic_core import from_json
from starlette.datastructures import Headers

from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.ports import FetchFailed
from shoal.api.oauth.sessions import Method, Session, session_of
from shoal.core.protocols import Statement

HEADER: Final = "cf-access-jwt-assertion"
CERTS_PATH: Final = "/cdn-cgi/access/certs"
ALGORITHM: Final = "RS256"
SKEW_S: Final = 60
"""By which two clocks may differ."""
KEYS_LAST_MS: Final = 3_600_000
"""Access changes its key every six weeks, and takes the old one for another week."""
REFETCH_AFTER_MS: Final = 60_000
"""Made-up names of keys, and a team that doesn't answer, cost one fetch a minute."""
FETCH_TIMEOUT_S: Final = 5.0
CERTS_MAX_BYTES: Final = 65_536
ASSERTION_MAX_CHARS: Final = 8_192
_HEAD_MAX_CHARS: Final = 1_024
"""Of the part that is read before the signature is checked."""
_NAME_MAX_CHARS: Final = 256
_TIME_MAX_S: Final = 2**40
"""Some 35,000 years: far more than any assertion says, far less than what numbers can't hold."""
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")

log: Final = logging.getLogger("shoal.oauth")


class _Refused(Exception):
    """An assertion that proves nothing; `args[0]` is the reason for the log."""


@dataclass(slots=True)
class _Keys:
    """A team's public keys by their names. Plain data, so they may outlive a request."""

    fetched_at: int | None = None
    tried_at: int | None = None
    keys: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


_teams: Final[dict[str, _Keys]] = {}
"""The settings name one team, so there is one entry."""


def forget_keys() -> None:
    """Forget the keys that are cached in this process."""
    _teams.clear()


async def current(authority: Authority, headers: Headers) -> Session | None:
    """Return the session that a request's assertion stands for; None without Access, or where it proves nothing.

    All of one person's assertions are one session, which lasts as long as they come: Access decides when to ask again.
    Why an assertion is refused goes to the log, never to the visitor.
    """
    settings = authority.settings
    assertions = headers.getlist(HEADER)
    if not (settings.access_team and settings.access_audience and assertions):
        return None
    try:
        claims = await _verified(authority, assertions)
    except _Refused as refused:
        log.warning("Access assertion refused: %s", refused.args[0])
        return None
    return await _session(authority, claims)


async def _verified(authority: Authority, assertions: list[str]) -> Mapping[str, Any]:
    """Return the claims of an assertion that is right in every respect. Raises _Refused."""
    if len(assertions) != 1:
        _refuse("several")
    if len(assertions[0]) > ASSERTION_MAX_CHARS:
        _refuse("too_long")
    parts = assertions[0].split(".")
    if len(parts) != 3 or len(parts[0]) > _HEAD_MAX_CHARS:
        _refuse("malformed")
    head = _json_object(parts[0])
    # What the assertion says of its own algorithm is never followed, only compared (RFC 8725, 3.1).
    if head.get("alg") != ALGORITHM or "crit" in head:
        _refuse("algorithm")
    kid = head.get("kid")
    if not _is_name(kid):
        _refuse("no_kid")
    key = await _key(authority, kid)
    signed = f"{parts[0]}.{parts[1]}".encode()
    if not await authority.cryptography.verify_rs256(key, signed, _decoded(parts[2])):
        _refuse("signature")
    claims = _json_object(parts[1])
    _check_claims(authority, claims)
    return claims


def _check_claims(authority: Authority, claims: Mapping[str, Any]) -> None:
    """Raise _Refused unless the claims are of this team, for this application, for now, and about a person."""
    settings = authority.settings
    now_s = authority.clock() / 1000
    audience = claims.get("aud")
    if claims.get("iss") != f"https://{settings.access_team}":
        _refuse("issuer")
    if settings.access_audience not in (audience if isinstance(audience, list) else [audience]):
        _refuse("audience")
    if not _is_time(claims.get("exp")) or claims["exp"] + SKEW_S <= now_s:
        _refuse("expired")
    if not _is_time(claims.get("iat")) or claims["iat"] - SKEW_S > now_s:
        _refuse("issued_later")
    if "nbf" in claims and (not _is_time(claims["nbf"]) or claims["nbf"] - SKEW_S > now_s):
        _refuse("not_yet")
    if not _is_name(claims.get("sub")) or claims.get("type", "app") != "app":
        _refuse("nobody")


async def _key(authority: Authority, kid: str) -> Mapping[str, str]:
    """Return the team's public key of a name, as a JWK. Raises _Refused."""
    known = _teams.setdefault(authority.settings.access_team, _Keys())
    now_ms = authority.clock()
    fresh = known.fetched_at is not None and now_ms - known.fetched_at < KEYS_LAST_MS
    if fresh and kid in known.keys:
        return known.keys[kid]
    if known.tried_at is None or now_ms - known.tried_at >= REFETCH_AFTER_MS:
        known.tried_at = now_ms
        known.keys = await _fetched(authority)
        known.fetched_at, fresh = now_ms, True
    if not fresh:
        _refuse("keys_unreachable")
    if kid not in known.keys:
        _refuse("unknown_kid")
    return known.keys[kid]


async def _fetched(authority: Authority) -> dict[str, dict[str, str]]:
    """Return the team's public keys as Access tells them. Raises _Refused."""
    try:
        answer = await authority.fetcher.fetch(
            f"https://{authority.settings.access_team}{CERTS_PATH}",
            accept="application/json",
            timeout_s=FETCH_TIMEOUT_S,
            max_bytes=CERTS_MAX_BYTES,
        )
    except FetchFailed:
        _refuse("keys_unreachable")
    if answer.status != 200 or len(answer.body) > CERTS_MAX_BYTES:
        _refuse("keys_unreachable")
    try:
        told: Any = from_json(answer.body)
        listed: list[Any] = list(told["keys"])
    except (ValueError, KeyError, TypeError):
        _refuse("keys_unreadable")
    return {key["kid"]: {name: key[name] for name in ("kty", "n", "e")} for key in listed if _is_key(key)}


def _is_key(key: Any) -> TypeGuard[dict[str, str]]:
    """Say whether this is a public RSA key for signatures that we can name (RFC 7517, RFC 7518, 6.3.1)."""
    return (
        _is_object(key)
        and _is_name(key.get("kid"))
        and key.get("kty") == "RSA"
        and key.get("use", "sig") == "sig"
        and key.get("alg", ALGORITHM) == ALGORITHM
        and all(isinstance(key.get(part), str) and _BASE64URL.fullmatch(key[part]) for part in ("n", "e"))
    )


async def _session(authority: Authority, claims: Mapping[str, Any]) -> Session:
    """Return the session of the person whom the claims name; its row is written when it is new or lasts longer now."""
    now_ms = authority.clock()
    hashed = sha256(f"access:{claims['iss']}:{claims['sub']}")
    expires_at = int(min((claims["exp"] + SKEW_S) * 1000, now_ms + authority.settings.session_s * 1000))
    rows = await authority.database.query(
        "select sha256, created_at, expires_at, method from owner_session where sha256 = ?1 and expires_at >= ?2",
        # A minute's difference is not worth a write with each request.
        (hashed, expires_at - REFETCH_AFTER_MS),
    )
    if rows:
        return session_of(rows[0])
    params = (hashed, now_ms, expires_at, str(Method.ACCESS), authority.network or None)
    (rows,) = await authority.database.batch([Statement(_KEEP, params)])
    return session_of(rows[0])


_KEEP: Final = """
insert into owner_session (sha256, created_at, expires_at, method, network) values (?1, ?2, ?3, ?4, ?5)
on conflict (sha256) do update set expires_at = max(expires_at, excluded.expires_at),
  created_at = case when expires_at > excluded.created_at then created_at else excluded.created_at end
returning sha256, created_at, expires_at, method
"""


def _json_object(part: str) -> dict[str, Any]:
    try:
        # Anybody may send one: what is nested deeply would exhaust a Worker's stack in Python's own parser.
        told = from_json(_decoded(part))
    except ValueError:
        _refuse("malformed")
    if not _is_object(told):
        _refuse("malformed")
    return told


def _decoded(part: str) -> bytes:
    """Return the bytes of base64url without padding (RFC 7515, 2)."""
    if not _BASE64URL.fullmatch(part):
        _refuse("malformed")
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        _refuse("malformed")


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _NAME_MAX_CHARS


def _is_time(value: Any) -> TypeGuard[int | float]:
    """Say whether this can be seconds since 1970 (NumericDate, RFC 7519, 2), neither NaN nor without end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _TIME_MAX_S


def _refuse(reason: str) -> NoReturn:
    raise _Refused(reason)
