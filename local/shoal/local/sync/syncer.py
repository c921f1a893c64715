"""The daemon's replication: rounds by itself, for as long as it runs, and a last one at its end.

Nothing on the way of a write but the setting of an event: the rounds run beside it on the same loop, in small parts.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shoal.core.context import Context
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.rounds import Rounds
from shoal.local.sync.schedule import Clocks, Schedule
from shoal.schema.errors import NotLinked, ShoalError, StorageError
from shoal.sync import queue

if TYPE_CHECKING:
    from shoal.local.background import Activity
    from shoal.local.runtime import Runtime
    from shoal.local.sync.steps import Hear
    from shoal.sync.engine import Report

log = logging.getLogger("shoal.sync")

WATCH_S: Final = 2.0
"""How often to look whether another process has written, or has changed the link, and whether the machine has slept."""
DRAIN_S: Final = 3.0
"""How long the end of the process may wait for the last round."""

Pause = Callable[[asyncio.Event | None, float], Awaitable[None]]
"""Waits for an event if one is given, and no longer than so many seconds."""


class Signals:
    """What the Memory service and replication tell each other; made before either."""

    def __init__(self) -> None:
        self.written = asyncio.Event()
        self.exchanged_ms: Callable[[], int | None] = lambda: None

    def announce(self, _ids: Sequence[str]) -> None:
        """Hear that something was written here: Context.announce."""
        self.written.set()

    def exchanged(self) -> int | None:
        """Say when a round last went well: Context.exchanged."""
        return self.exchanged_ms()


class Syncer:
    """Runs the rounds of one database when they are due."""

    def __init__(
        self,
        context: Context,
        rounds: Rounds,
        files: SyncFiles,
        signals: Signals,
        interval_s: float,
        quiet_s: Callable[[], float],
        *,
        told: "Callable[[Report | ShoalError], None]" = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        pause: "Pause | None" = None,
    ) -> None:
        """Use what the daemon has; `quiet_s` says how long ago the last request came.

        `told` hears how each round went. Time, chance and waiting are given by tests.
        """
        self._context = context
        self._rounds = rounds
        self._files = files
        self._signals = signals
        self._quiet_s = quiet_s
        self._told = told
        self._monotonic, self._wall = monotonic, wall
        self._pause = pause or _pause
        self._schedule = Schedule(interval_s, chance, monotonic())
        self._clocks = Clocks(monotonic(), wall())
        self._watched = float("-inf")
        self._url: str | None = None
        self._seq = 0
        self._reason = ""
        self.working = False
        """Whether a round is under way."""
        self.sent = self.received = 0
        """Cells, since the start."""
        signals.exchanged_ms = lambda: rounds.exchanged_ms

    async def run(self) -> None:
        """Exchange with the edge for ever, as long as there is a link; without one, watch for it."""
        while True:
            wait = await self._watch()
            if self._url is not None and self.next_s() <= 0:
                await self._attempt()
                continue
            # What was written before the pause has made a round due; without a link nobody needs to hear of it.
            listening = self._url is not None and not self._schedule.is_wanted
            await self._pause(self._signals.written if listening else None, wait)
            if listening and self._signals.written.is_set():
                self._signals.written.clear()
                self._schedule.wrote(self._monotonic())

    def next_s(self) -> float:
        """Return in how many seconds the next round is due, infinite if none is."""
        if self._url is None:
            return float("inf")
        return self._schedule.wait_s(self._monotonic(), self._quiet_s())

    async def exchange_now(self, hear: "Hear", *, retry: bool) -> "Report":
        """Exchange because somebody has asked for it. Raises NotLinked, SyncError, StorageError.

        `retry`: queue anew what the edge has refused.
        """
        if retry:
            await queue.again(self._context.database)
        report = await self._rounds.round(hear)
        self._schedule.wake(self._monotonic())
        self._schedule.began(self._monotonic())
        self._seq = (await self._rounds.look())[1]
        self._succeeded(report)
        return report

    async def drain(self, within_s: float = DRAIN_S) -> None:
        """Send what waits, for so long at most; what is not sent then goes at the next start. `run` has ended."""
        try:
            if self._url is not None and not self._schedule.failures and await self._rounds.waits():
                async with asyncio.timeout(within_s):
                    await self._rounds.round()
        except TimeoutError:
            log.info("the edge took longer than %.0f s; the rest is sent at the next start", within_s)
        except ShoalError as error:
            log.info("what waits is sent at the next start: %s", error)
        await self._rounds.close()

    async def _watch(self) -> float:
        """Look at what may have changed, now and then; return for how long to pause."""
        now = self._monotonic()
        if self._clocks.jumped(now, self._wall(), WATCH_S):
            log.info("the machine has slept or its clock was set")
            self._schedule.wake(now)
        if now - self._watched >= WATCH_S:
            self._watched = now
            with suppress(StorageError):  # Whatever it is, the requests and the next round meet it too.
                await self._look(now)
        return max(0.0, min(self.next_s(), self._watched + WATCH_S - now))

    async def _look(self, now: float) -> None:
        url, seq = await self._rounds.look()
        if url != self._url:
            self._url, self._reason = url, ""
            self._schedule.wake(now)
        if url is not None:
            self._schedule.changed(self._link(), now)
        if seq != self._seq:
            self._seq = seq
            self._schedule.wrote(now)

    async def _attempt(self) -> None:
        """Run a round and note how it went. Raises what is no ShoalError, which is a fault of ours."""
        link = self._link()
        self._signals.written.clear()
        self._schedule.began(self._monotonic())
        self.working = True
        try:
            report = await self._awake(self._rounds.round())
        except NotLinked:
            self._url = None
        except ShoalError as error:
            self._failed(error, link)
        else:
            if report is not None:
                self._schedule.succeeded()
                # Its own merges among them. What another process wrote meanwhile goes with the next round.
                self._seq = (await self._rounds.look())[1]
                self._succeeded(report)
        finally:
            self.working = False
            self._clocks = Clocks(self._monotonic(), self._wall())

    async def _awake(self, work: "Awaitable[Report]") -> "Report | None":
        """Wait for a round, and break it off when the machine has slept meanwhile: its connection is dead.

        Return None then; the next round is due at once.
        """
        task = asyncio.ensure_future(work)
        try:
            while True:
                clocks = Clocks(self._monotonic(), self._wall())
                await asyncio.wait({task}, timeout=WATCH_S)
                if task.done():
                    return task.result()
                if clocks.jumped(self._monotonic(), self._wall(), WATCH_S):
                    self._schedule.wake(self._monotonic())
                    return None
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _succeeded(self, report: "Report") -> None:
        self.sent += report.pushed
        self.received += report.pulled
        if self._reason:
            log.info("memories are exchanged with the edge again")
            self._reason = ""
        if report.pushed or report.pulled:
            log.debug("sent %d cells, received %d", report.pushed, report.pulled)
        if report.refused:
            log.warning("the edge has refused %d writes; `shoal status` says why", report.refused)
        if report.restored:
            log.warning("the edge's database was restored to an earlier time: all was exchanged anew")
        if report.restamped:
            log.warning("this device's clock is ahead of the edge's; what it wrote was dated anew")
        self._told(report)

    def _failed(
        self,
        error: ShoalError,
        link: object,
    ) -> None:
        wait = self._schedule.failed(error, link, self._monotonic())
        if error.message != self._reason:
            self._reason = error.message
            again = "the link has changed" if wait == float("inf") else f"{wait:.0f} s"
            log.warning("memories are not exchanged with the edge, next try after %s: %s", again, error)
        self._told(error)

    def _link(self) -> Hashable:
        """Return what changes whenever the device is linked anew, be it to the same edge."""
        try:
            found = self._files.link.stat()
        except OSError:
            return self._url
        return self._url, found.st_mtime_ns, found.st_ino, found.st_size


def syncer_of(runtime: "Runtime", signals: Signals, activity: "Activity") -> Syncer:
    """Return what exchanges a running service's memories with its edge; the service was opened with the signals."""
    loaded = runtime.loaded
    files = SyncFiles.of(loaded.home, loaded.database)
    # What is pulled wants vectors, as what was stored does; that it was pulled is no reason to push.
    context = replace(runtime.memory.context, announce=lambda _ids: activity.work_came())
    rounds = Rounds(context, runtime.database, files, loaded.home.backups)
    return Syncer(context, rounds, files, signals, loaded.settings.sync_interval_s, activity.quiet_s)


async def _pause(event: asyncio.Event | None, seconds: float) -> None:
    if event is None:
        await asyncio.sleep(seconds)
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
