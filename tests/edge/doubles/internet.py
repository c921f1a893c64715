"""The internet, as far as a test has made it: documents by URL, and nothing else anywhere.

The rig leads every fetch of the Worker here and names the URL that was meant in a header. A URL that nobody has put
here belongs to a host that isn't there.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

import uvicorn
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from tests.edge.doubles.standin import listen, url_of

START_S: Final = 10.0
PIECE: Final = b" " * 65_536
"""Of a body without end."""
_MEANT: Final = "x-original-url"
_NO_HOST: Final = "x-no-such-host"


@dataclass(frozen=True, slots=True)
class Document:
    """What a URL leads to."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    """Before the answer begins; the asker may give up meanwhile."""
    endless: bool = False
    """Whether spaces follow the body for ever."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that has come."""

    method: str
    url: str
    headers: dict[str, str]
    """Names in lower case."""


class Internet:
    """Runs in a thread of this process: `with Internet() as internet: Rig(..., internet=internet.url)`."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self.asked: list[Asked] = []
        """All requests since the last `clear`, oldest first."""
        self.url = ""

    def put(self, url: str, body: object = b"", **more: Any) -> None:
        """Let a URL lead to a document: bytes, text, or what is written as JSON. `more` are fields of Document."""
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        self._documents[url] = Document(data, headers=headers, **more)

    def redirect(self, url: str, target: str, status: int = 302) -> None:
        """Let a URL lead elsewhere."""
        self._documents[url] = Document(status=status, headers={"location": target})

    def clear(self) -> None:
        """Take everything away, and forget what was asked."""
        self._documents.clear()
        self.asked.clear()

    def __enter__(self) -> Self:
        listening = listen(0)
        self.url = url_of(listening)
        # A connection that waits for its document must not keep the tests.
        config = uvicorn.Config(self._answer, interface="asgi3", log_level="critical", timeout_graceful_shutdown=0)
        ready = threading.Event()
        self._server = _Server(config, ready.set)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="internet", daemon=True)
        self._thread.start()
        assert ready.wait(START_S), "the internet doesn't start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(START_S)
        assert not self._thread.is_alive(), "the internet doesn't end"

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        url = request.headers[_MEANT]
        headers = {name: value for name, value in request.headers.items() if name != _MEANT}
        self.asked.append(Asked(request.method, url, headers))
        document = self._documents.get(url)
        if document is None:
            await Response(status_code=502, headers={_NO_HOST: "1"})(scope, receive, send)
            return
        await asyncio.sleep(document.delay_s)
        await StreamingResponse(_pieces(document), document.status, document.headers)(scope, receive, send)


class _Server(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


async def _pieces(document: Document) -> AsyncIterator[bytes]:
    yield document.body
    while document.endless:
        yield PIECE
        await asyncio.sleep(0)
