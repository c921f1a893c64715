"""An edge on CPython: the real authorization server, the real gate and the real half of replication, over HTTP."""

import asyncio
import gzip
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import parse_qs

import apsw
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.api.oauth.doubles import OWNER_KEY, Clock, made_authority, seeded
from tests.edge.oauth import Flow

from shoal.api.gate import HostRule, OpenGate
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority, OAuthSettings
from shoal.api.oauth.face import oauth_face, present
from shoal.api.oauth.gate import TokenGate
from shoal.api.oauth.paths import BODY_TYPES, OAUTH_PATHS, WELL_KNOWN_PATHS
from shoal.api.shell import Shell, error_response
from shoal.core.caller import Caller
from shoal.core.context import EDGE
from shoal.core.fakes import FakeDatabase
from shoal.core.service import Memory, open_memory
from shoal.local.runtime import clock_ms
from shoal.schema.errors import ShoalError
from shoal.schema.wire import PullRequest, PushRequest
from shoal.sync import server

START_S = 10


@dataclass
class Asked:
    """A request that the edge has had."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Server:
    """A port of this machine at which edges are served, one after the other: to start one takes longer than a test."""

    def __init__(self) -> None:
        self.edge: LocalEdge | None = None
        self.url = ""

    def __enter__(self) -> Self:
        # The protocol is named because asyncio turns Nagle's delay off only then: 40 ms a call.
        listening = socket.socket(proto=socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        ready = threading.Event()
        config = uvicorn.Config(
            self._answer, interface="asgi3", lifespan="off", log_level="critical", timeout_graceful_shutdown=0
        )
        self._server = _Server(config, ready.set)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="edge", daemon=True)
        self._thread.start()
        assert ready.wait(START_S), "the edge doesn't start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "the edge doesn't end"

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.edge is not None
        await self.edge.answer(scope, receive, send)


@dataclass
class LocalEdge:
    """Serves on 127.0.0.1 between `with` and its end. Its clock is the real one plus `clock.now_ms`."""

    clock: Clock = field(default_factory=lambda: Clock(0))
    asked: list[Asked] = field(default_factory=list)
    before: Callable[[Asked], Response | None] = lambda _asked: None
    """Answers in the edge's place, where it returns something."""
    after: Callable[[Asked], None] = lambda _asked: None
    """Is called when the edge has done what was asked, and before it says so."""
    settings: dict[str, Any] = field(default_factory=dict)
    url: str = ""
    server: Server | None = None
    """Where it is served; at a port of its own if not given."""

    def __enter__(self) -> Self:
        self._own = None if self.server is not None else Server().__enter__()
        serving = self.server or self._own
        assert serving is not None
        self.url = serving.url
        asyncio.run(self._make())
        serving.edge = self
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.__exit__()

    async def _make(self) -> None:
        def now() -> int:
            return clock_ms() + self.clock.now_ms

        made = await made_authority()
        settings: OAuthSettings = replace(made.settings, **self.settings)
        port = int(self.url.rpartition(":")[2])
        self.authority: Authority = replace(made, issuer=self.url, clock=now, settings=settings, random=seeded(port))
        opened = await open_memory(
            FakeDatabase(apsw.Connection(":memory:")), None, None, clock=now, new_device="edge", policy=EDGE
        )
        context = opened.context
        named = replace(context.replica, name_batch=lambda: secrets.token_hex(8))
        self.memory: Memory = Memory(replace(context, replica=named), "none")
        self._gate = TokenGate(lambda _scope: self.authority)

        async def no_memory(_scope: Scope) -> Any:
            return None

        self._oauth = Shell(
            oauth_face(), no_memory, OpenGate(Caller()), HostRule.anywhere(), OAUTH_PATHS,
            accepts=BODY_TYPES, present=present, open_reads=WELL_KNOWN_PATHS,
        )  # fmt: skip

    def flow(self) -> Flow:
        """Return the owner with a browser."""
        return Flow(self.url, OWNER_KEY)

    def paths(self) -> list[str]:
        """Return what was asked for, oldest first."""
        return [f"{one.method} {one.path}" for one in self.asked]

    def of(self, path: str) -> list[Asked]:
        return [one for one in self.asked if one.path == path]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        asked = Asked(scope["method"], scope["path"], headers, body)
        self.asked.append(asked)
        instead = self.before(asked)
        if instead is not None:
            await instead(scope, receive, send)
        elif asked.path.startswith("/sync/"):
            await (await self._sync(scope, asked))(scope, receive, send)
        else:
            scope[AUTHORITY_KEY] = self.authority
            await self._oauth(scope, _of(body), _hold(send, lambda: self.after(asked)))

    async def _sync(self, scope: Scope, asked: Asked) -> Response:
        try:
            caller, context = await self._gate.admit(scope), self.memory.context
            match asked.path:
                case "/sync/status":
                    told: Any = await server.status(context, caller)
                case "/sync/push":
                    request = PushRequest.model_validate_json(gzip.decompress(asked.body))
                    told = await server.push(context, request, caller)
                case _:
                    told = await server.pull(
                        context, PullRequest.model_validate_json(gzip.decompress(asked.body)), caller
                    )
            return Response(told.model_dump_json(), media_type="application/json")
        except ShoalError as error:
            return error_response(error, "a-request")


def _of(body: bytes) -> Receive:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _hold(send: Send, before: Callable[[], None]) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            before()
        await send(message)

    return sending


class _Server(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._ready()
