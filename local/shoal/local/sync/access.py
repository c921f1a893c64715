"""How a command exchanges with the edge: through the daemon when one runs, else in this process under the same lock."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

from shoal.local.backend import daemon_of, error_from
from shoal.local.client import NotSent, OutcomeUnknown, Reply, request, request_lines
from shoal.local.home import DaemonRecord
from shoal.local.settings import Loaded
from shoal.local.sync.steps import Hear, Step
from shoal.schema.errors import DaemonUnreachable
from shoal.schema.models import SyncInfo
from shoal.sync.engine import Phase, Report

WATCH_EVERY_S: Final = 1.0
"""How often the daemon is asked how far it is."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How replication stands."""

    info: SyncInfo
    daemon: bool
    """Whether a daemon runs, which exchanges by itself."""
    working: bool = False
    """Whether it does so at this moment, and"""
    next_s: float | None = None
    """in how many seconds it will again; None where that is not known or never."""
    sent: int = 0
    """Cells since it began, and"""
    received: int = 0
    """cells that came."""


Watch = Callable[[Standing], None]


class Access(Protocol):
    """Replication of one database, wherever it runs."""

    async def standing(self) -> Standing:
        """Say how it stands."""
        ...

    async def exchange(self, hear: Hear, *, retry: bool) -> Report:
        """Exchange all that there is; `retry`: also what was refused. Raises NotLinked, SyncError."""
        ...

    async def watch(self, told: Watch) -> None:
        """Exchange for ever, and say how it stands whenever that has changed."""
        ...

    async def seen(self) -> None:
        """Note that somebody has read which spaces have left."""
        ...


@asynccontextmanager
async def open_access(loaded: Loaded) -> AsyncGenerator[Access]:
    """Give the daemon's replication when one runs, else that of the database opened here.

    Raises DaemonRunning when the daemon serves another file, StorageError.
    """
    record = daemon_of(loaded)
    if record is not None:
        yield OverDaemon(record)
        return
    # Only here: with a daemon, a command does without drivers and service.
    from shoal.local.sync.here import open_here

    async with open_here(loaded) as here:
        yield here


class OverDaemon:
    """By the daemon's own routes (control.py)."""

    def __init__(self, record: DaemonRecord) -> None:
        self._record = record

    async def standing(self) -> Standing:
        """Say how it stands."""
        said = await self._call("GET", "/daemon/sync")
        return Standing(SyncInfo(**said.pop("sync")), daemon=True, **said)

    async def exchange(self, hear: Hear, *, retry: bool) -> Report:
        """Have the daemon exchange now, and hear how far it is."""
        path = "/daemon/sync?retry" if retry else "/daemon/sync"
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()

        def ask() -> None:
            try:
                for line in request_lines(self._record, "POST", path):
                    loop.call_soon_threadsafe(lines.put_nowait, json.loads(line))
            finally:
                loop.call_soon_threadsafe(lines.put_nowait, None)

        asking = asyncio.create_task(asyncio.to_thread(ask))
        last: dict[str, Any] = {}
        while (line := await lines.get()) is not None:
            last = line
            if "phase" in line:
                hear(Step(**{**line, "phase": Phase(line["phase"])}))
        try:
            await asking
        except (NotSent, OutcomeUnknown, ValueError) as error:
            raise self._unreachable(error) from error
        if "error" in last:
            raise error_from(last["error"])
        if "report" not in last:
            raise self._unreachable("it broke off")
        return Report(**last["report"])

    async def watch(self, told: Watch) -> None:
        """Ask the daemon, which exchanges by itself, again and again."""
        before = None
        while True:
            now = await self.standing()
            failure = now.info.failure
            news = (now.sent, now.received, now.info.quarantine, failure and failure.message)
            if news != before:
                told(now)
            before = news
            await asyncio.sleep(WATCH_EVERY_S)

    async def seen(self) -> None:
        """Note that somebody has read which spaces have left."""
        await self._call("POST", "/daemon/sync/seen")

    async def _call(self, method: str, path: str) -> dict[str, Any]:
        try:
            reply: Reply = await asyncio.to_thread(request, self._record, method, path)
            said = reply.json()
        except (NotSent, OutcomeUnknown, ValueError) as error:
            raise self._unreachable(error) from error
        if reply.status != HTTPStatus.OK:
            raise self._unreachable(f"it answers {reply.status}")
        return said

    def _unreachable(self, why: object) -> DaemonUnreachable:
        return DaemonUnreachable(
            f"The daemon at {self._record.url} did not answer: {why}.", "Run `shoal doctor`, then try again."
        )
