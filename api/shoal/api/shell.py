"""What stands around every face: host and origin, caller, body limit, one shape of error, headers, the access log.

Plain ASGI, since a middleware that wraps requests in objects costs more than the whole store. The body is read
whole before the face runs: it is bounded, and the edge has it whole anyway.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from shoal.api.context import CONTEXT_KEY, CallContext, MemoryProvider
from shoal.api.gate import Gate, HostRule, Limiter, in_time_zone
from shoal.api.messages import language_of
from shoal.core.caller import Caller
from shoal.schema.errors import (
    BodyTooLarge,
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
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})
_SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_CORS_HEADERS: Final = (
    "authorization, content-type, accept-language, x-request-id, shoal-time-zone, shoal-profile,"
    " mcp-protocol-version, mcp-method, mcp-name"
)
_CORS_METHODS: Final = "GET, POST, PATCH, DELETE"
_CORS_MAX_AGE_S: Final = "600"


NOBODY: Final = Caller(scopes=frozenset(), spaces=())
"""The caller of public paths: may do nothing in no space."""


def new_request_id() -> str:
    """Return a random request id."""
    return secrets.token_hex(8)


def error_response(error: ShoalError, request_id: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error in the one shape of all faces: {error: {code, message, mend, request_id, ...}}."""
    body = {"error": {**error.as_dict(), "request_id": request_id}}
    return Response(json_text(body), error.status, headers, "application/json")


def json_text(told: dict[str, Any]) -> str:
    """Return JSON that people and models can read in any language.

    Only lone surrogates are escaped, so that one in what was refused can't break the answer that says so.
    """
    return json.dumps(told, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Shell:
    """Wraps a face's ASGI app. `public` paths are served to anyone from an allowed host, as NOBODY."""

    app: ASGIApp
    memory: MemoryProvider
    gate: Gate
    hosts: HostRule
    public: frozenset[str] = frozenset()
    new_id: Callable[[], str] = new_request_id
    clock: Callable[[], float] = time.perf_counter
    """Seconds from any start."""
    limiter: Limiter | None = None

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
        self._scope = scope
        self._send = send
        self._headers = Headers(scope=scope)
        self._origin = self._headers.get("origin")
        self._started = shell.clock()
        self._status = 0
        self._client = ""
        given = self._headers.get(REQUEST_ID_HEADER, "")
        self.request_id = given if REQUEST_ID.fullmatch(given) else shell.new_id()

    async def serve(self, receive: Receive) -> None:
        shell, scope = self._shell, self._scope
        shell.hosts.check(self._headers)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in self._headers:
            await self._preflight()(scope, receive, self.send)
            return
        caller = await self._admitted()
        self._client = caller.client
        caller = in_time_zone(caller, self._headers)
        body = await self._read(receive)
        if scope["method"] in _BODY_METHODS and body and not _is_json(self._headers.get("content-type", "")):
            raise UnsupportedMediaType("The body is not JSON.", "Send it with `Content-Type: application/json`.")
        language = language_of(self._headers.get("accept-language"))
        scope[CONTEXT_KEY] = CallContext(await shell.memory(scope), caller, language, self.request_id)
        await shell.app(scope, _replay(body, receive), self.send)

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
        headers: dict[str, str] = {}
        if isinstance(error, Unauthorized):
            headers["WWW-Authenticate"] = self._shell.gate.challenge(self._scope)
        if isinstance(error, RateLimited):
            headers["Retry-After"] = str(error.details["retry_after_s"])
        await error_response(error, self.request_id, headers)(self._scope, _nothing, self.send)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS:
                headers.setdefault(name, value)
            headers[REQUEST_ID_HEADER] = self.request_id
            if self._origin is not None:
                headers.add_vary_header("Origin")
                if self._shell.hosts.may_read(self._origin):
                    headers["Access-Control-Allow-Origin"] = self._origin
                    headers["Access-Control-Expose-Headers"] = "X-Request-Id, Location, WWW-Authenticate"
        await self._send(message)

    def log_access(self) -> None:
        route: Any = self._scope.get("route")
        fields = {
            "method": self._scope["method"],
            "route": getattr(route, "path", self._scope.get(ROUTE_KEY, "-")),
            "status": self._status,
            "duration_ms": round((self._shell.clock() - self._started) * 1000, 2),
            "client": self._client,
            "request_id": self.request_id,
        }
        access_log.info("%(method)s %(route)s %(status)d %(duration_ms).2f ms", fields, extra={"shoal": fields})

    def _preflight(self) -> Response:
        if not self._shell.hosts.may_read(self._origin):
            return Response(status_code=204)
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": _CORS_METHODS,
                "Access-Control-Allow-Headers": _CORS_HEADERS,
                "Access-Control-Max-Age": _CORS_MAX_AGE_S,
            },
        )

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


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _replay(body: bytes, receive: Receive) -> Receive:
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
