"""From a request to the faces: who may call, how often, how much, and which face answers.

The faces are plain code without state, made once; the shell around them is made for each request, on its bindings.
"""

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Container, Coroutine
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Network, ip_address
from typing import Any, Final, Protocol

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope

from shoal.api.gate import SYNC_PATHS, HostRule
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority, authority_of
from shoal.api.oauth.gate import TokenGate
from shoal.api.oauth.paths import BODY_TYPES, OAUTH_PATHS, WELL_KNOWN_PATHS
from shoal.api.shell import REQUEST_ID, Present, Shell, new_request_id
from shoal.core.caller import Caller
from shoal.core.service import Memory
from shoal.schema.errors import RateLimited, ShoalError
from shoal.schema.limits import BODY_MAX_BYTES, INFLATED_MAX_BYTES
from shoal.worker import configuration
from shoal.worker.background import Background
from shoal.worker.bindings import RateLimitBinding
from shoal.worker.configuration import Configuration
from shoal.worker.edge import Edge, now_ms, open_edge
from shoal.worker.fetching import RuntimeFetcher
from shoal.worker.issuer import issuer
from shoal.worker.runtime import Runtime
from shoal.worker.webcrypto import WebCryptography

log: Final = logging.getLogger("shoal.edge")

HEALTH: Final = "/healthz"
PUBLIC: Final = frozenset({HEALTH, "/openapi.json", "/docs"})
MCP: Final = "/mcp"
ADMIN: Final = "/api/v1/admin/"
_DOCUMENTS: Final = frozenset({"/openapi.json", "/docs"})
"""They describe the owner's routes too."""
RETRY_AFTER_S: Final = 60
"""The period of the rate limit in wrangler.toml."""
_ADDRESS: Final = b"cf-connecting-ip"
_OWN_BITS: Final = 64
"""Of an IPv6 address, those that say whose it is; the others its owner chooses."""
_RAY: Final = b"cf-ray"

WaitUntil = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(frozen=True, slots=True)
class Faces:
    """The apps without their shells."""

    rest: ASGIApp
    admin: ASGIApp
    """REST with the owner's routes, which are asked for so seldom that no new isolate should pay for them."""
    mcp: ASGIApp
    sync: ASGIApp
    oauth: ASGIApp
    oauth_present: Present
    """Shows what is refused on OAuth's paths before its app is reached."""

    def named(self, path: str) -> tuple[Callable[..., Shell], Container[str]]:
        """Return what puts a shell around the face that serves a path, and which paths that serves to anyone."""
        if path in OAUTH_PATHS:
            options = {"accepts": BODY_TYPES, "present": self.oauth_present, "open_reads": WELL_KNOWN_PATHS}
            return partial(Shell, self.oauth, **options), OAUTH_PATHS
        if path.rstrip("/") == MCP:
            return partial(Shell, self.mcp), frozenset[str]()
        if path.startswith(SYNC_PATHS):
            return partial(Shell, self.sync, inflated_max=INFLATED_MAX_BYTES), frozenset[str]()
        whole = path.startswith(ADMIN) or path in _DOCUMENTS
        return partial(Shell, self.admin if whole else self.rest), PUBLIC


class Front:
    """The ASGI app of one request."""

    def __init__(self, faces: Faces, env: object, wait_until: WaitUntil, runtime: Runtime) -> None:
        self._faces = faces
        self._env = env
        self._wait_until = wait_until
        self._runtime = runtime

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Serve the request. Other kinds of connection are none that we know."""
        if scope["type"] == "http":
            await self._shell(scope)(scope, receive, send)

    def _shell(self, scope: HttpScope) -> Shell:
        shell, public = self._faces.named(scope["path"])
        shell = partial(shell, new_id=partial(request_id, scope))
        try:
            told = configuration.read(self._env)
            edge = open_edge(self._env, self._wait_until, told)
            scope[AUTHORITY_KEY] = self._authority(scope, told, edge)
        except ShoalError as error:
            closed = _Closed(error)
            return shell(closed.memory, closed, HostRule.anywhere())

        async def memory(_scope: HttpScope) -> Memory:
            return edge.memory

        shell = partial(shell, memory, hosts=HostRule.anywhere(told.origins), limiter=_Limiter(self._env))
        if not told.has_owner:
            return shell(_Closed(configuration.no_owner()), public=frozenset({HEALTH}))
        later = partial(Background(self._wait_until).start, "note use")
        return shell(TokenGate(authority_of, later), public=public)

    def _authority(self, scope: HttpScope, told: Configuration, edge: Edge) -> Authority:
        """Return the authorization server of the request, on the database and the budget that its memory has."""
        js, to_js = self._runtime.js, self._runtime.to_js
        return Authority(
            database=edge.context.database,
            settings=told.oauth,
            issuer=issuer(scope, told.public_url),
            clock=now_ms,
            random=secrets.token_bytes,
            cryptography=WebCryptography(js.crypto.subtle, to_js),
            fetcher=RuntimeFetcher(js, to_js, edge.budget),
            network=network(header(scope, _ADDRESS)),
        )


class _Closed:
    """The gate of a Worker that lacks something: nobody gets in, and all are told what is missing."""

    def __init__(self, error: ShoalError) -> None:
        self._error = error

    async def admit(self, scope: HttpScope) -> Caller:
        raise self._error

    async def memory(self, scope: HttpScope) -> Memory:
        raise self._error

    def challenge(self, scope: HttpScope, error: ShoalError) -> str:
        return "Bearer"


class _Limiter:
    """Counts requests by what let their caller in, or by address where nothing did.

    A request that can't be counted goes on, and the log says so.
    """

    def __init__(self, env: object) -> None:
        self._env = env

    async def count(self, scope: HttpScope, caller: Caller | None) -> None:
        limit: RateLimitBinding = configuration.binding(self._env, "LIMIT")
        if caller is None:
            key = f"address {authority_of(scope).network}"
        else:
            key = "owner" if caller.owner else f"grant {caller.token}"
        try:
            within = (await limit.limit({"key": key}))["success"]
        except Exception as error:
            # It guards a quota, not a right: what lets nobody in stands elsewhere, wrong sign-ins are counted in D1.
            log.warning("the rate limit did not count a request, which goes on: %s", error)
            return
        if not within:
            raise RateLimited(
                "Too many requests in a short time.", f"Wait {RETRY_AFTER_S} s.", retry_after_s=RETRY_AFTER_S
            )


def network(address: str) -> str:
    """Return what one client surely has for itself: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        whole = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((whole, _OWN_BITS), strict=False)) if whole.version == 6 else address


def request_id(scope: HttpScope) -> str:
    """Return the id under which Cloudflare knows the request, so that its logs and ours meet; else a random one."""
    ray = header(scope, _RAY)
    return ray if REQUEST_ID.fullmatch(ray) else new_request_id()


def header(scope: HttpScope, name: bytes) -> str:
    """Return a request's header, empty when it has none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


class Chunk(Protocol):
    """A piece of a body, as the runtime gives it."""

    def __len__(self) -> int: ...

    def to_bytes(self) -> bytes:
        """Return its bytes."""
        ...


class HttpRequest(Protocol):
    """What the runtime's ASGI adapter reads of a request."""

    @property
    def method(self) -> str:
        """GET and the like."""
        ...

    @property
    def url(self) -> str:
        """Whole."""
        ...

    @property
    def headers(self) -> Any:
        """A mapping whose `items()` may repeat a name."""
        ...

    @property
    def body(self) -> AsyncIterator[Chunk] | None:
        """Its pieces, None when there is none."""
        ...


class Bounded:
    """A request of which the adapter, which reads bodies whole, gets no more than we take.

    The shell refuses what is longer: by its declared length when it has one, else by what came of it.
    """

    def __init__(self, request: HttpRequest) -> None:
        # The SDK's own property knows only the methods of Python's HTTPMethod.
        self.method: str = getattr(request, "js_object", request).method
        self.url = request.url
        self.headers: list[tuple[str, str]] = list(request.headers.items())
        declared = next((value for name, value in self.headers if name.lower() == "content-length"), "")
        too_much = declared.isdecimal() and int(declared) > BODY_MAX_BYTES
        self.body: AsyncIterator[Chunk] | None = None if too_much or not request.body else _bounded(request.body)
        """The pieces up to the one that is too much; None when the declared length already is."""


async def _bounded(body: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    size = 0
    async for chunk in body:
        size += len(chunk)
        yield chunk
        if size > BODY_MAX_BYTES:
            return
