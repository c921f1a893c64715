"""From a request to the faces: who may call, how often, how much, and which face answers.

The faces are plain code without state, made once; the shell around them is made for each request, on its bindings.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address
from typing import Any, Final, Protocol

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope

from shoal.api.gate import BearerGate, HostRule
from shoal.api.shell import REQUEST_ID, Shell, new_request_id
from shoal.core.caller import Caller
from shoal.core.service import Memory
from shoal.schema.errors import NotConfigured, RateLimited
from shoal.schema.limits import BODY_MAX_BYTES
from shoal.worker import configuration
from shoal.worker.bindings import RateLimitBinding
from shoal.worker.edge import open_edge

HEALTH: Final = "/healthz"
PUBLIC: Final = frozenset({HEALTH, "/openapi.json", "/docs"})
MCP: Final = "/mcp"
RETRY_AFTER_S: Final = 60
"""The period of the rate limit in wrangler.toml."""
_NAME_CHARS: Final = 8
"""Of a token's hash, by which logs and rate limits know it."""
_ADDRESS: Final = b"cf-connecting-ip"
_OWN_BITS: Final = 64
"""Of an IPv6 address, those that say whose it is; the others its owner chooses."""
_RAY: Final = b"cf-ray"

WaitUntil = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(frozen=True, slots=True)
class Faces:
    """The apps without their shells."""

    rest: ASGIApp
    mcp: ASGIApp

    def named(self, path: str) -> tuple[ASGIApp, frozenset[str]]:
        """Return the face that serves a path, and which paths it serves to anyone."""
        return (self.mcp, frozenset()) if path.rstrip("/") == MCP else (self.rest, PUBLIC)


class Front:
    """The ASGI app of one request."""

    def __init__(self, faces: Faces, env: object, wait_until: WaitUntil) -> None:
        self._faces = faces
        self._env = env
        self._wait_until = wait_until

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Serve the request. Other kinds of connection are none that we know."""
        if scope["type"] == "http":
            await self._shell(scope)(scope, receive, send)

    def _shell(self, scope: HttpScope) -> Shell:
        app, public = self._faces.named(scope["path"])

        def new_id() -> str:
            return request_id(scope)

        try:
            told = configuration.read(self._env)
        except NotConfigured as error:
            closed = _Closed(error)
            return Shell(app, closed.memory, closed, HostRule.anywhere(), frozenset({HEALTH}), new_id)

        async def memory(_scope: HttpScope) -> Memory:
            return open_edge(self._env, self._wait_until, told).memory

        hosts, limiter = HostRule.anywhere(told.origins), _Limiter(self._env)
        if told.token_sha256 is None:
            closed = _Closed(configuration.no_token())
            return Shell(app, memory, closed, hosts, frozenset({HEALTH}) & public, new_id, limiter=limiter)
        owner = Caller(time_zone=told.time_zone, client=f"token {told.token_sha256[:_NAME_CHARS]}")
        gate = BearerGate({told.token_sha256: owner})
        return Shell(app, memory, gate, hosts, public, new_id, limiter=limiter)


class _Closed:
    """The gate of a Worker that lacks something: nobody gets in, and all are told what is missing."""

    def __init__(self, error: NotConfigured) -> None:
        self._error = error

    async def admit(self, scope: HttpScope) -> Caller:
        raise self._error

    async def memory(self, scope: HttpScope) -> Memory:
        raise self._error

    def challenge(self, scope: HttpScope) -> str:
        return "Bearer"


class _Limiter:
    """Counts requests by token, or by address where no token was good."""

    def __init__(self, env: object) -> None:
        self._env = env

    async def count(self, scope: HttpScope, caller: Caller | None) -> None:
        limit: RateLimitBinding = configuration.binding(self._env, "LIMIT")
        key = f"address {network(header(scope, _ADDRESS))}" if caller is None else caller.client
        if not (await limit.limit({"key": key}))["success"]:
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
