"""What cron does: whatever no request and no message has done, in bounded steps, and the rest next time."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from shoal.core import calibrating, erasing, rewording
from shoal.core.times import MS_PER_DAY
from shoal.schema.errors import StorageError
from shoal.schema.limits import BATCH_MAX
from shoal.worker.edge import Edge
from shoal.worker.indexing import STEP_CALLS, STEP_MEMORIES, STEP_STATEMENTS, awake, index, kept_going
from shoal.worker.reconcile import reconcile

log: Final = logging.getLogger("shoal.edge")

HOURLY: Final = "7 * * * *"
"""The second cron of wrangler.toml; any other expression means the first, every five minutes."""
_MS_PER_HOUR: Final = 3_600_000
STALE_MS: Final = 180_000
"""After so long, no message is on its way for a memory that is still wanted."""
REWORD_STATEMENTS: Final = 9
"""A query, and a batch of a step's words."""
ERASE_STATEMENTS: Final = 7
"""A query, a batch of merging, and the note that it is done."""
EXPIRE_STATEMENTS: Final = 12
"""A batch of what OAuth keeps, and the log of writes."""
PURGE_STATEMENTS: Final = 25
"""A query, and a batch of at most 500 purged memories."""

Part = Callable[[], Awaitable[object]]


async def upkeep(cron: str, due_ms: int, edge: Edge) -> None:
    """Do what a cron trigger is for. `due_ms` is the time that it was due at, milliseconds since 1970."""
    try:
        working = await awake(edge)
    except StorageError as error:
        log.warning("upkeep: %s %s", error.code, error)
        return
    if working is None:
        log.info("the database rests")
        return
    parts = _hourly(working, due_ms) if cron == HOURLY else _often(working, due_ms)
    for name, part in parts.items():
        if not await kept_going(name, working, part):
            return


def _often(edge: Edge, due_ms: int) -> dict[str, Part]:
    """Return what is done every five minutes, in the order of its weight."""
    context, indexer = edge.context, edge.memory.indexer

    async def begin() -> None:
        await indexer.begin()
        await rewording.begin(context)

    async def catch_up() -> None:
        report = await reconcile(edge)
        log.info("reconciled", extra={"shoal": report.told()})
        left = await index(edge, [*report.wanted, *await indexer.waiting(due_ms - STALE_MS)])
        if left:
            await edge.announce(left)

    async def anew() -> None:
        while edge.budget.allows(STEP_STATEMENTS, STEP_CALLS) and await indexer.anew(STEP_MEMORIES):
            pass

    async def reword() -> None:
        while edge.budget.allows(REWORD_STATEMENTS, 2) and await edge.memory.reword():
            pass

    return {
        "begin": begin,
        "calibrate": lambda: calibrating.ensure(context),
        "catch up": catch_up,
        "model change": anew,
        "reword": reword,
    }


def _hourly(edge: Edge, due_ms: int) -> dict[str, Part]:
    async def empty_trash() -> None:
        while edge.budget.allows(PURGE_STATEMENTS, 2) and await edge.memory.empty_trash() == BATCH_MAX:
            pass

    async def erase_words() -> None:
        while edge.budget.allows(ERASE_STATEMENTS, 3) and await erasing.erase_words(edge.context.database):
            pass

    async def expire() -> None:
        # Imported here, since no request needs it.
        from shoal.api.oauth import expiring

        context, settings = edge.context, edge.configuration.oauth
        while edge.budget.allows(EXPIRE_STATEMENTS, 2):
            if await expiring.expire(context.database, context.clock(), settings) < expiring.ROWS_MAX:
                return

    async def trim_history() -> None:
        # Once a day: to find what is too old, all of it is counted.
        if due_ms % MS_PER_DAY < _MS_PER_HOUR and edge.budget.allows(1, 1):
            from shoal.sync import server

            await server.trim_history(edge.context)

    return {"trash": empty_trash, "erase words": erase_words, "expire": expire, "history": trim_history}
