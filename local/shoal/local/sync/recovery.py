"""Bring a lost or damaged database back from the edge: what was sent there comes again, as to a new device.

The old file need not be readable: which edge it was linked to is known from the link, which lies outside of it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from shoal.core import replication
from shoal.core.service import open_memory
from shoal.local.database import ApswDatabase
from shoal.local.keeping import SIDE_FILES, Report, set_aside
from shoal.local.runtime import clock_ms, new_device, restoring
from shoal.local.settings import Loaded
from shoal.local.sync import vault
from shoal.local.sync.exchange import Exchange
from shoal.local.sync.files import SyncFiles, held
from shoal.local.sync.linking import ROUND_WAIT_S
from shoal.local.sync.steps import Step
from shoal.schema.errors import EdgeBusy, EdgeUnreachable, NotLinked, SyncError
from shoal.sync import backoff
from shoal.sync.engine import Report as Done

TRIES: Final = 6
"""About half a minute of failures ends it."""
WAIT_MAX_S: Final = 60.0
"""Nobody sits in front of a terminal for longer."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What has come back."""

    url: str
    memories: int
    aside: Path | None
    """Where the old database is now; None if there was none."""


async def from_edge(loaded: Loaded, now: datetime, report: Report) -> Recovered:
    """Make a new database of what the edge has and put it in the old one's place, which is kept beside it.

    The caller holds the daemon's lock. Until everything has come, the old file stays where it is. `report` hears the
    share that has come, 0..1. Raises NotLinked, LinkBroken, SyncError, StorageError.
    """
    files, database = SyncFiles.of(loaded.home, loaded.database), loaded.database
    kept = await asyncio.to_thread(vault.read, files)
    if kept is None:
        raise NotLinked(
            "It is not known which edge this memory was linked to.", "Link it, and it comes by itself: shoal link URL"
        )
    url = kept[0].url
    draft = restoring(database)
    async with held(files.round_lock, ROUND_WAIT_S, "exchanging memories with the edge"):
        try:
            _remove(draft)
            memories = await _fetch(draft, files, url, report)
            aside = set_aside(database, now)
            draft.replace(database)
        finally:
            _remove(draft)
    return Recovered(url, memories, aside)


async def _fetch(target: Path, files: SyncFiles, url: str, report: Report) -> int:
    """Make a database at `target` with all that the token allows, linked; return how many memories it has."""

    def hear(step: Step) -> None:
        report(step.share)

    async with await ApswDatabase.open(target) as database:
        memory = await open_memory(database, None, None, clock=clock_ms, new_device=new_device())
        exchange = Exchange.over_http(memory.context, files, url, _keep_nothing)
        try:
            done = await _patiently(lambda: exchange.round(hear))
        finally:
            await exchange.aclose()
        noted = replication.succeeded(clock_ms(), done.skipped, exchange.writable)
        await database.batch([replication.linked(url), *noted])
        rows = await database.query("select count(*) as n from record where class = 'memory' and state > 0")
    return int(rows[0]["n"] or 0)


async def _patiently(fetch: Callable[[], Awaitable[Done]], chance: Callable[[], float] = random.random) -> Done:
    """Go on after failures that pass: what has come is kept, and would else have to come again."""
    failures = 0
    while True:
        try:
            return await fetch()
        except (EdgeUnreachable, EdgeBusy) as error:
            failures += 1
            wait = backoff.wait_s(failures, chance(), float(error.details.get("retry_after_s", 0.0)))
            if failures == TRIES or wait > WAIT_MAX_S:
                raise
        await asyncio.sleep(wait)


async def _keep_nothing(spaces: list[str]) -> None:
    """Refuse to go on: a new database has no space that it could lose, unless the token changes meanwhile."""
    raise SyncError(f"The edge has just taken away: {', '.join(spaces)}.", "Run it again.")


def _remove(draft: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
