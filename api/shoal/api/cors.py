"""What browsers are told about pages of other hosts (the Fetch standard's CORS protocol)."""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders

from shoal.api.gate import HostRule

ANY_ORIGIN: Final = "*"
"""Allows reading to every page, which then sends no cookies."""
_ASKED_METHOD: Final = "access-control-request-method"
_READING: Final = frozenset({"GET", "HEAD"})
_METHODS: Final = "GET, POST, PATCH, DELETE"
_SENT: Final = (
    "authorization, content-type, accept-language, x-request-id, shoal-time-zone, shoal-profile,"
    " mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id"
)
"""Request headers of MCP's and OAuth's browser clients; this server keeps no sessions, but their clients may ask."""
_READ: Final = "X-Request-Id, Location, WWW-Authenticate, Retry-After, Mcp-Session-Id"
_MAX_AGE_S: Final = "600"


def is_preflight(method: str, headers: Headers) -> bool:
    """Say whether a browser asks what a page may send, before it sends it."""
    return method == "OPTIONS" and _ASKED_METHOD in headers


def only_reads(method: str, headers: Headers) -> bool:
    """Say whether a request reads, or asks whether it might."""
    return (headers[_ASKED_METHOD] if is_preflight(method, headers) else method) in _READING


def reader(hosts: HostRule, origin: str | None, *, any_origin: bool) -> str | None:
    """Return the origin whose pages may read the answer: `*`, the one that asks, or None."""
    if any_origin:
        return ANY_ORIGIN
    return origin if hosts.may_read(origin) else None


def preflight_headers(allowed: str | None) -> Mapping[str, str]:
    """Return what a page may send: nothing special when its origin isn't allowed."""
    if allowed is None:
        return {}
    return {
        "Access-Control-Allow-Methods": "GET" if allowed == ANY_ORIGIN else _METHODS,
        "Access-Control-Allow-Headers": _SENT,
        "Access-Control-Max-Age": _MAX_AGE_S,
    }


def mark(headers: MutableHeaders, allowed: str | None, *, asked: bool) -> None:
    """Put into an answer who may read it. `asked`: a page asked, so that caches must tell origins apart."""
    if asked and allowed != ANY_ORIGIN:
        headers.add_vary_header("Origin")
    if allowed is not None:
        headers["Access-Control-Allow-Origin"] = allowed
        headers["Access-Control-Expose-Headers"] = _READ
