"""The one gate in front of every transport: which host, which origin, which caller. Deny by default."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from starlette.datastructures import Headers
from starlette.types import Scope as HttpScope

from shoal.core.caller import Caller
from shoal.core.times import zone_named
from shoal.schema.errors import HostNotAllowed, InsufficientScope, OriginNotAllowed, ShoalError, Unauthorized

SYNC_PATHS: Final = "/sync/"
"""What the paths begin with by which replicas exchange memories."""
TIME_ZONE_HEADER: Final = "shoal-time-zone"
"""IANA name of the time zone in which the caller's words for times are meant."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_PORT: Final = re.compile(r"(:\d{1,5})?")
_AUTHORITY: Final = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(:\d{1,5})?")
"""What may follow `://`, in lower case (RFC 3986, 3.2, without userinfo): a name or an address, and a port."""
_ORIGIN: Final = re.compile(rf"[a-z][a-z0-9+.-]*://{_AUTHORITY.pattern}")
DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


class Gate(Protocol):
    """Tells who calls."""

    async def admit(self, scope: HttpScope) -> Caller:
        """Return the caller of an HTTP request. Raises Unauthorized or NotAllowed."""
        ...

    def challenge(self, scope: HttpScope, error: ShoalError) -> str:
        """Return the WWW-Authenticate value that goes with Unauthorized (401) or InsufficientScope (403)."""
        ...


class Limiter(Protocol):
    """Keeps one client from taking all."""

    async def count(self, scope: HttpScope, caller: Caller | None) -> None:
        """Count a request of a caller, or of nobody in particular. Raises RateLimited."""
        ...


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Lets everyone in as one caller: for a daemon that only its own user can reach."""

    caller: Caller

    async def admit(self, scope: HttpScope) -> Caller:
        """Return the one caller."""
        return self.caller

    def challenge(self, scope: HttpScope, error: ShoalError) -> str:
        """Return a challenge, for the one caller may lack scopes."""
        return bearer_challenge(scope, error)


@dataclass(frozen=True, slots=True)
class BearerGate:
    """Knows callers by their token's SHA-256 (64 hexadecimal characters); the tokens themselves are kept nowhere."""

    callers: Mapping[str, Caller] = field(repr=False)

    async def admit(self, scope: HttpScope) -> Caller:
        """Return the caller whose token the Authorization header carries. Raises Unauthorized."""
        found: Caller | None = None
        digest = token_hash(bearer_token(scope))
        # All are compared, in constant time each, so that the time tells nothing about near misses.
        for known, caller in self.callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None:
            raise Unauthorized(
                "The token is unknown, expired or revoked.",
                "Send the one that the server was set up with, whole; it may have been changed since.",
            )
        return found

    def challenge(self, scope: HttpScope, error: ShoalError) -> str:
        """Return a challenge without parameters of ours: there is no authorization server to point to."""
        return bearer_challenge(scope, error)


def token_hash(token: str) -> str:
    """Return the form in which a token is stored: SHA-256 as 64 hexadecimal characters."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def bearer_token(scope: HttpScope) -> str:
    """Return the token of a request's Authorization header. Raises Unauthorized when there is not exactly one."""
    given = Headers(scope=scope).getlist("authorization")
    scheme, _, token = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("There is no token.", "Send the header `Authorization: Bearer TOKEN`.")
    return token.strip()


def bearer_challenge(scope: HttpScope, error: ShoalError, /, **parameters: str) -> str:
    """Return the WWW-Authenticate value of a refusal (RFC 6750, section 3).

    The error adds its own parameters: all scopes that the request needs, those that the token holds among them, or
    `invalid_token` where credentials came; who sent none is told of no error. `parameters` are the gate's, such as
    `resource_metadata`; a `scope` among them is what to ask for at first. Their values hold no quotes.
    """
    told = dict(parameters)
    if isinstance(error, InsufficientScope):
        told = {"error": "insufficient_scope", **told, "scope": " ".join(error.details["scopes"])}
    elif "authorization" in Headers(scope=scope):
        told = {"error": "invalid_token", **told}
    written = ", ".join(f'{name}="{value}"' for name, value in told.items())
    return f"Bearer {written}".rstrip()


@dataclass(frozen=True, slots=True)
class HostRule:
    """Which Host and Origin headers are served, against pages that rebind their DNS name to this machine.

    `hosts` are lower-case names as the header has them: `memory.example.com`, `localhost:8377`, `localhost:*` for any
    port or none, or `*` for a server on the internet, which rebinding reaches no better than its own name. `origins`
    are web pages' (`https://app.example.com`, `http://localhost:*`) that may call from another host and read the
    answers (CORS). Pages of the server itself may always call; so may loopback pages when loopback hosts are served,
    but without CORS they read nothing and change nothing.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()

    @classmethod
    def loopback(cls, origins: frozenset[str] = frozenset()) -> "HostRule":
        """Return the rule of a daemon on this machine: loopback names with any port."""
        return cls(frozenset(f"{name}:*" for name in _LOOPBACK), origins)

    @classmethod
    def anywhere(cls, origins: frozenset[str] = frozenset()) -> "HostRule":
        """Return the rule of a server on the internet, under whatever names it has."""
        return cls(frozenset({"*"}), origins)

    def check(self, headers: Headers, *, any_origin: bool = False) -> None:
        """Raise HostNotAllowed or OriginNotAllowed unless the request is meant for this server.

        `any_origin` is for what pages of every origin may read.
        """
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not _AUTHORITY.fullmatch(host) or not any(_matches(host, allowed) for allowed in self.hosts):
            raise HostNotAllowed(
                "The Host header names another server.",
                "Use an address of this server, or add the name to the allowed hosts in the settings.",
            )
        origins = headers.getlist("origin")
        if any_origin or not origins:
            return
        if len(origins) > 1 or not self._may_call(origins[0].lower(), host):
            raise OriginNotAllowed(
                "Web pages of this origin may not call here.",
                "Add the origin to the setting ALLOWED_ORIGINS, of the daemon SHOAL_ALLOWED_ORIGINS.",
            )

    def may_read(self, origin: str | None) -> bool:
        """Say whether pages of this origin may read answers across hosts. `null` stands for no page in particular."""
        if origin is None or not _ORIGIN.fullmatch(origin.lower()):
            return False
        return any(_matches(origin.lower(), allowed) for allowed in self.origins)

    def _may_call(self, origin: str, host: str) -> bool:
        if self.may_read(origin):
            return True
        scheme, _, page = origin.partition("://")
        if scheme not in DEFAULT_PORTS or not _AUTHORITY.fullmatch(page):
            return False
        loopback = [name for name in self.hosts if name.removesuffix(":*") in _LOOPBACK]
        # Browsers leave the default port out of both headers; other clients and proxies may write it in one of them.
        port = DEFAULT_PORTS[scheme]
        own = page.removesuffix(port) == host.removesuffix(port)
        return own or any(_matches(page, allowed) for allowed in loopback)


def _matches(value: str, allowed: str) -> bool:
    if allowed == "*":
        return True
    if not allowed.endswith(":*"):
        return value == allowed
    name = allowed.removesuffix(":*")
    return value.startswith(name) and _PORT.fullmatch(value[len(name) :]) is not None


def in_time_zone(caller: Caller, headers: Headers) -> Caller:
    """Return the caller in the time zone that the request names, if it names one. Raises InvalidTime."""
    wanted = headers.get(TIME_ZONE_HEADER)
    if wanted is None:
        return caller
    return replace(caller, time_zone=zone_named(wanted).key)
