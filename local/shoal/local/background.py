"""What the daemon does by itself: vectors, the trash and the log, and ending when nobody needs it or its file has gone.

The write-ahead log is written back by the database's own writer thread in its pauses (writer.py).
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from shoal.core.service import Memory
from shoal.local.database import ApswDatabase
from shoal.schema.errors import DatabaseCorrupt, DatabaseReplaced, ModelError, StorageError

log = logging.getLogger("shoal.daemon")

EMBED_STEP: Final = 32
"""Memories in one step: about half a second of the model's time, after which requests are looked at again."""
EMBED_POLL_S: Final = 30.0
"""How often to look for work that another process left; the daemon's own requests wake the loop at once."""
YIELD_MAX_S: Final = 1.0
"""How long a step waits for requests to finish; longer, and a busy day would leave the backlog for ever."""
RETRY_MIN_S: Final = 2.0
RETRY_MAX_S: Final = 300.0
UPKEEP_EVERY_S: Final = 3600.0
IDLE_CHECK_S: Final = 1.0
"""How often to look again when the limit is over but vectors are still being made."""
FILE_CHECK_S: Final = 2.0
"""How often to look whether the database is still where it was opened."""
RESTART_S: Final = 60.0
"""A job that failed in an unforeseen way starts again after this long."""


class Activity:
    """Which requests are under way, and when the last one ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = self._began = clock()
        self._active = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._called = asyncio.Event()

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Count a request for as long as it runs."""
        self._active += 1
        self._began = self._clock()
        self._quiet.clear()
        try:
            yield
        finally:
            self._active -= 1
            self._last = self._clock()
            self._called.set()
            if not self._active:
                self._quiet.set()

    def idle_s(self) -> float:
        """Return the seconds since the last request ended; 0 while one runs, as a client's event stream does."""
        return 0.0 if self._active else self._clock() - self._last

    def quiet_s(self) -> float:
        """Return the seconds since the last request came: an event stream that stays open is no use of the daemon."""
        return self._clock() - self._began

    def work_came(self) -> None:
        """Tell of memories that want vectors and came with no request."""
        self._called.set()

    async def quiet(self, at_most_s: float) -> None:
        """Wait until no request runs, or for at_most_s."""
        await _wait(self._quiet, at_most_s)

    async def next_request(self, at_most_s: float) -> None:
        """Wait until a request has ended or work has come since this was last called, or for at_most_s."""
        await _wait(self._called, at_most_s)
        self._called.clear()


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), at_most_s)


async def embed(
    memory: Memory, activity: Activity, tidy: Callable[[], Awaitable[None]], poll_s: float = EMBED_POLL_S
) -> None:
    """Make the vectors that are missing, for ever; a model that fails is tried again, ever more rarely.

    `tidy` is called when none is missing; `poll_s` is how often to look for work of which `activity` doesn't tell.
    """
    retry_s = RETRY_MIN_S
    while True:
        await activity.quiet(YIELD_MAX_S)
        try:
            done = await memory.embed_pending(EMBED_STEP)
            if not done:
                await tidy()
        except (ModelError, StorageError) as error:
            log.warning("no vectors were made, next try in %.0f s: %s", retry_s, error)
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_MAX_S)
            continue
        retry_s = RETRY_MIN_S
        if not done:
            await activity.next_request(poll_s)


async def reword(memory: Memory, activity: Activity) -> None:
    """Write the words of older memories anew where text preparation has changed, then end."""
    while await memory.reword():
        await activity.quiet(YIELD_MAX_S)


async def upkeep(memory: Memory) -> None:
    """Purge what has lain in the trash too long and forget the oldest writes' log, now and every hour."""
    while True:
        while purged := await memory.empty_trash():
            log.info("purged %d memories from the trash", purged)
        while await memory.expire_log():
            pass
        await asyncio.sleep(UPKEEP_EVERY_S)


async def end_when_idle(memory: Memory, activity: Activity, idle_limit_s: float, stop: Callable[[], None]) -> None:
    """Stop the daemon once it has had no request for the limit and nothing is left to embed."""
    while True:
        await asyncio.sleep(max(IDLE_CHECK_S, idle_limit_s - activity.idle_s()))
        if activity.idle_s() >= idle_limit_s and not await _can_embed(memory):
            log.info("nobody has called for %.0f s; ending", idle_limit_s)
            stop()
            return


async def end_when_replaced(database: ApswDatabase, stop: Callable[[], None], every_s: float = FILE_CHECK_S) -> None:
    """Stop the daemon once its database was moved, deleted or replaced: the next one opens what lies there."""
    while True:
        try:
            database.require_file()
        except DatabaseReplaced as error:
            log.error("ending: %s", error)
            stop()
            return
        except DatabaseCorrupt:
            pass  # Each answer says so; ending would only start a daemon that meets the same.
        await asyncio.sleep(every_s)


async def _can_embed(memory: Memory) -> bool:
    """Whether there is work that would get done: without a model the backlog must not keep the daemon alive."""
    return memory.model_status().state != "unavailable" and await memory.pending() > 0


async def keep_going(name: str, job: Callable[[], Awaitable[None]]) -> None:
    """Run a job; one that fails is logged and starts again after RESTART_S."""
    while True:
        try:
            await job()
        except Exception:
            log.exception("the background job %r failed; it starts again in %.0f s", name, RESTART_S)
            await asyncio.sleep(RESTART_S)
        else:
            return
