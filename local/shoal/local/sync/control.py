"""The daemon's routes for replication: how it stands, exchange now, and what has been read. For `shoal sync`, `status`.

GET  /daemon/sync         {"sync": SyncInfo, "working", "next_s", "sent", "received"}
POST /daemon/sync[?retry] a line of JSON for each step, and at the end {"report": ...} or {"error": ...}
POST /daemon/sync/seen    somebody has read which spaces have left
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shoal.core import replication
from shoal.core.context import Context
from shoal.core.statistics import sync_info
from shoal.local.sync.syncer import Syncer
from shoal.schema.errors import ShoalError

if TYPE_CHECKING:
    from shoal.local.sync.steps import Step

SEEN: Final = "/daemon/sync/seen"
_NO_STORE: Final = {"cache-control": "no-store"}


class SyncControl:
    """An ASGI app. Who may call is the front's to say."""

    def __init__(self, context: Context, syncer: Syncer) -> None:
        self._context = context
        self._syncer = syncer
        self._running: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Break off what was asked for: the database is about to be closed. Nothing is lost."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        request = Request(scope, receive)
        await (await self._answer(request))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "POST" and request.url.path == SEEN:
            await self._context.database.batch([replication.seen()])
            return JSONResponse({"seen": True}, headers=_NO_STORE)
        if request.method == "POST":
            lines = self._exchange(retry="retry" in request.query_params)
            return StreamingResponse(lines, headers=_NO_STORE, media_type="application/x-ndjson")
        return JSONResponse(await self._state(), headers=_NO_STORE)

    async def _state(self) -> dict[str, Any]:
        info = await sync_info(self._context)
        next_s = self._syncer.next_s()
        return {
            "sync": None if info is None else info.model_dump(mode="json"),
            "working": self._syncer.working,
            "next_s": None if next_s == float("inf") else round(next_s, 1),
            "sent": self._syncer.sent,
            "received": self._syncer.received,
        }

    async def _exchange(self, retry: bool) -> AsyncGenerator[bytes]:
        """Yield the lines of an exchange, which goes on if the one who asked for it goes away."""
        lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        def hear(step: "Step") -> None:
            lines.put_nowait(asdict(step))

        async def work() -> None:
            try:
                report = await self._syncer.exchange_now(hear, retry=retry)
                lines.put_nowait({"report": asdict(report)})
            except ShoalError as error:
                lines.put_nowait({"error": error.as_dict()})
            finally:
                lines.put_nowait(None)

        task = asyncio.create_task(work())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        while (line := await lines.get()) is not None:
            yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
        # What is no ShoalError is a fault of ours: it is logged with its request.
        await task
