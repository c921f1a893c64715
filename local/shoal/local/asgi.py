"""The daemon's front: sends requests to MCP, REST or its own routes, and counts them."""

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.local.background import Activity

ABOUT: Final = "/daemon"
STOP: Final = "/daemon/stop"
SYNC: Final = "/daemon/sync"
MCP: Final = "/mcp"


class Front:
    """The ASGI app that uvicorn serves.

    `mcp` gives MCP's app when it is first asked for, since the SDK takes a second to import. The routes of the
    daemon itself need its token, whatever the settings say: they are for processes that can read daemon.json.
    """

    def __init__(
        self,
        rest: ASGIApp,
        mcp: Callable[[], Awaitable[ASGIApp]],
        activity: Activity,
        token: str,
        about: dict[str, Any],
        stop: Callable[[], None],
        sync: ASGIApp,
    ) -> None:
        self._rest = rest
        self._mcp = mcp
        self._activity = activity
        self._authorization = f"Bearer {token}".encode()
        self._about = about
        self._stop = stop
        self._sync = sync

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        path: str = scope.get("path", "")
        if path in (ABOUT, STOP) or path.startswith(SYNC):
            await self._own(path, scope, receive, send)
            return
        async with self._activity.request():
            app = await self._mcp() if path == MCP or path.startswith(f"{MCP}/") else self._rest
            await app(scope, receive, send)

    async def _own(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, self._authorization):
            await _answer(send, 401, {"error": "unauthorized"})
        elif path.startswith(SYNC):
            await self._sync(scope, receive, send)
        elif path == STOP and scope["method"] == "POST":
            await _answer(send, 202, {"stopping": True})
            self._stop()
        elif path == ABOUT and scope["method"] == "GET":
            await _answer(send, 200, self._about)
        else:
            await _answer(send, 405, {"error": "method_not_allowed"})


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
