"""What stands around every face: host and origin, caller, body limit, one shape of error, headers, the access log.

Plain ASGI, since a middleware that wraps requests in objects costs more than the whole store. The body is read
whole before the face runs: it is bounded, and the edge has it whole anyway.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from shoal.api import cors
from shoal.api.context import CONTEXT_KEY, CallContext, MemoryProvider
from shoal.api.gate import Gate, HostRule, Limiter, in_time_zone
from shoal.api.messages import language_of
from shoal.core.caller import Caller
from shoal.schema.errors import (
    BodyTooLarge,
    InsufficientScope,
    InternalError,
    MalformedBody,
    RateLimited,
    ShoalError,
    Unauthorized,
    UnsupportedMediaType,
)
from shoal.schema.limits import BODY_MAX_BYTES

access_log = logging.getLogger("shoal.access")
"""One line a request, never its contents; the fields also come as `record.shoal`."""
log = logging.getLogger("shoal.api")

REQUEST_ID_HEADER: Final = "X-Request-Id"
ROUTE_KEY: Final = "shoal.route"
"""Where a face without FastAPI's routes notes in the ASGI scope which of its paths was called, for the log."""
REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GATE_KEY: Final = "shoal.gate"
"""Where the gate lies in the ASGI scope, for the headers of what a face refuses."""
JSON: Final = "application/json"
NESTING_MAX: Final = 201
"""Levels of JSON in a body: as deep as pydantic's parser goes, which REST reads with."""
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})
_UNCODED: Final = ("", "identity")
_GZIP: Final = (["gzip"], ["x-gzip"])
"""Both names mean the same (RFC 9110, 8.4.1.3)."""
_SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


NOBODY: Final = Caller(scopes=frozenset(), spaces=())
"""The caller of public paths: may do nothing in no space."""


def new_request_id() -> str:
    """Return a random request id."""
    return secrets.token_hex(8)


def media_type(headers: Mapping[str, str]) -> str:
    """Return the type of a body in lower case, without its parameters; empty when none is named."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def allowed_methods(scope: HttpScope) -> list[str]:
    """Return the methods of a path of a face with routes, sorted, for `Allow`. HEAD goes with each GET."""
    from starlette.routing import Match, Route  # Only faces with routes need it.

    routes = cast("list[Route]", scope["app"].routes)
    fitting = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    # /memories/delete is no memory's path, though an id could stand there.
    named = [route for route in fitting if route.path == scope["path"]]
    methods = {method for route in named or fitting for method in route.methods or ()}
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


def error_response(error: ShoalError, request_id: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error in the one shape of all faces: {error: {code, message, mend, request_id, ...}}."""
    body = {"error": {**error.as_dict(), "request_id": request_id}}
    return Response(json_text(body), error.status, headers, JSON)


def error_headers(error: ShoalError, scope: HttpScope) -> dict[str, str]:
    """Return the headers that go with an error, whoever answers with it: what to log in for, when to come back, how
    to send it.
    """
    if isinstance(error, Unauthorized | InsufficientScope):
        gate: Gate = scope[_GATE_KEY]
        return {"WWW-Authenticate": gate.challenge(scope, error)}
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.details["retry_after_s"])}
    if isinstance(error, UnsupportedMediaType) and "codings" in error.details:
        return {"Accept-Encoding": ", ".join(error.details["codings"])}  # RFC 9110, 12.5.3
    return {}


Present = Callable[[ShoalError, str, HttpScope], Response]
"""Shows an error under a request's id."""


def _in_the_one_shape(error: ShoalError, request_id: str, _scope: HttpScope) -> Response:
    return error_response(error, request_id)


def json_text(told: dict[str, Any]) -> str:
    """Return JSON that people and models can read in any language.

    Only lone surrogates are escaped, so that one in what was refused can't break the answer that says so.
    """
    return json.dumps(told, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Shell:
    """Wraps a face's ASGI app. `public` paths are served to anyone from an allowed host, as NOBODY.

    HEAD is answered by the face's GET without the body.
    """

    app: ASGIApp
    memory: MemoryProvider
    gate: Gate
    hosts: HostRule
    public: Container[str] = frozenset[str]()
    new_id: Callable[[], str] = new_request_id
    clock: Callable[[], float] = time.perf_counter
    """Seconds from any start."""
    limiter: Limiter | None = None
    accepts: frozenset[str] = frozenset({JSON})
    """Media types of bodies, in lower case."""
    inflated_max: int = 0
    """Bytes that a body with `Content-Encoding: gzip` may have once it is unpacked; 0 where none is taken."""
    present: Present = _in_the_one_shape
    """How errors are shown that the face does not answer itself."""
    open_reads: Container[str] = frozenset[str]()
    """Paths that pages of any origin may GET and read, without cookies."""

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(self, scope, send)
        try:
            await exchange.serve(receive)
        except ShoalError as error:
            await exchange.fail(error)
        except Exception:
            log.exception("request %s failed", exchange.request_id)
            await exchange.fail(internal_error())
        finally:
            exchange.log_access()


def internal_error() -> InternalError:
    """Return what callers are told of a fault of ours."""
    return InternalError("Something went wrong here.", "Try again; if it stays, report the request_id.")


class _Exchange:
    """One HTTP request and its response."""

    def __init__(self, shell: Shell, scope: HttpScope, send: Send) -> None:
        self._shell = shell
        self._method: str = scope["method"]
        self._headed = self._method == "HEAD"
        """Whether only the head of the answer is sent."""
        self._scope: HttpScope = {**scope, "method": "GET" if self._headed else self._method, _GATE_KEY: shell.gate}
        self._send = send
        self._headers = Headers(scope=scope)
        self._any_origin = scope["path"] in shell.open_reads and cors.only_reads(self._method, self._headers)
        self._origin = self._headers.get("origin")
        self._reader = cors.reader(shell.hosts, self._origin, any_origin=self._any_origin)
        self._started = shell.clock()
        self._status = 0
        self._client = ""
        given = self._headers.get(REQUEST_ID_HEADER, "")
        self.request_id = given if REQUEST_ID.fullmatch(given) else shell.new_id()

    async def serve(self, receive: Receive) -> None:
        shell, scope = self._shell, self._scope
        shell.hosts.check(self._headers, any_origin=self._any_origin)
        if cors.is_preflight(self._method, self._headers):
            await Response(None, 204, cors.preflight_headers(self._reader))(scope, receive, self.send)
            return
        caller = await self._admitted()
        self._client = caller.client
        caller = in_time_zone(caller, self._headers)
        body = await self._read(receive)
        if body and self._method in _BODY_METHODS:
            body = self._unpacked(body)
            self._check_type(body)
        language = language_of(self._headers.get("accept-language"))
        scope[CONTEXT_KEY] = CallContext(await shell.memory(scope), caller, language, self.request_id)
        await shell.app(scope, replay(body, receive), self.send)

    async def _admitted(self) -> Caller:
        shell, scope = self._shell, self._scope
        caller: Caller | None = None
        try:
            if scope["path"] not in shell.public:
                caller = await shell.gate.admit(scope)
        finally:
            # Whoever is refused is counted too: that is how tokens are guessed.
            if shell.limiter is not None:
                await shell.limiter.count(scope, caller)
        return caller or NOBODY

    async def fail(self, error: ShoalError) -> None:
        if self._status:
            return  # The response has begun; what is left is to end the connection.
        shown = self._shell.present(error, self.request_id, self._scope)
        shown.headers.update(error_headers(error, self._scope))
        await shown(self._scope, _nothing, self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._complete(MutableHeaders(scope=message))
        elif self._headed and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    def _complete(self, headers: MutableHeaders) -> None:
        for name, value in _SECURITY_HEADERS:
            headers.setdefault(name, value)
        if headers.get("content-type", "").startswith("text/event-stream"):
            # nginx and its like otherwise hold events back until their buffer is full.
            headers["X-Accel-Buffering"] = "no"
        headers[REQUEST_ID_HEADER] = self.request_id
        cors.mark(headers, self._reader, asked=self._origin is not None)

    def log_access(self) -> None:
        route: Any = self._scope.get("route")
        fields = {
            "method": self._method,
            "route": getattr(route, "path", self._scope.get(ROUTE_KEY, "-")),
            "status": self._status,
            "duration_ms": round((self._shell.clock() - self._started) * 1000, 2),
            "client": self._client,
            "request_id": self.request_id,
        }
        access_log.info("%(method)s %(route)s %(status)d %(duration_ms).2f ms", fields, extra={"shoal": fields})

    def _unpacked(self, body: bytes) -> bytes:
        """Return the body without the coding that it was sent in (RFC 9110, 8.4)."""
        named = ",".join(self._headers.getlist("content-encoding")).lower().split(",")
        codings = [coding for coding in map(str.strip, named) if coding not in _UNCODED]
        if not codings:
            return body
        if codings not in _GZIP or not self._shell.inflated_max:
            taken = ["gzip", "identity"] if self._shell.inflated_max else ["identity"]
            raise UnsupportedMediaType(
                "The body is in a coding that is not taken here.",
                f"Send it with `Content-Encoding: {taken[0]}`, or without that header.",
                codings=taken,
            )
        from shoal.api.inflating import inflated  # Only replicas send such bodies.

        return inflated(body, self._shell.inflated_max)

    def _check_type(self, body: bytes) -> None:
        sent = media_type(self._headers)
        if sent not in self._shell.accepts:
            taken = " or ".join(f"`Content-Type: {name}`" for name in sorted(self._shell.accepts))
            raise UnsupportedMediaType("The body is not of a type that is taken here.", f"Send it with {taken}.")
        if sent == JSON:
            _check_nesting(body)

    async def _read(self, receive: Receive) -> bytes:
        declared = self._headers.get("content-length", "0")
        if not declared.isdecimal():
            raise MalformedBody("Content-Length is not a number.", "Send the body's length in bytes.")
        _bound(int(declared))
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise MalformedBody("The body broke off.", "Send it again.")
            body += message.get("body", b"")
            _bound(len(body))
            if not message.get("more_body", False):
                return bytes(body)


def _bound(size: int) -> None:
    if size > BODY_MAX_BYTES:
        raise BodyTooLarge(
            "The body is too large.", f"Send at most {BODY_MAX_BYTES} bytes a request.", limit=BODY_MAX_BYTES
        )


def _check_nesting(body: bytes) -> None:
    """Raise MalformedBody for JSON that is nested too deeply.

    Python's own parser, which some faces use, recurses into it: in WebAssembly the stack ends before Python's limit is
    reached, and the isolate with all its requests with it.
    """
    if body.count(b"[") + body.count(b"{") <= NESTING_MAX:
        return
    try:
        from_json(body)
    except ValueError as error:
        mend = f"Send JSON in UTF-8, with at most {NESTING_MAX} levels of lists and objects."
        raise MalformedBody(f"The body is not JSON that is taken here: {error}.", mend) from error


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, then what else comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
