"""Exchange with the edge in a command's own process: implements access.Access where no daemon runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from shoal.core import replication
from shoal.core.context import Context
from shoal.core.service import open_memory
from shoal.local.database import ApswDatabase
from shoal.local.runtime import clock_ms, new_device, ontology_of, open_database
from shoal.local.settings import Loaded
from shoal.local.sync.access import Standing, Watch
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.rounds import Rounds
from shoal.local.sync.steps import Hear
from shoal.local.sync.syncer import Signals, Syncer
from shoal.schema.errors import ShoalError
from shoal.sync import queue
from shoal.sync.engine import Report

LOCK_WAIT_S: Final = 120.0
"""How long another process may be at it before that is said."""


@asynccontextmanager
async def open_here(loaded: Loaded) -> AsyncGenerator["Here"]:
    """Open the database, without its model. Raises StorageError."""
    async with open_database(loaded) as database:
        memory = await open_memory(
            database,
            None,
            None,
            clock=clock_ms,
            new_device=new_device(),
            ontology=ontology_of(loaded),
            trash_days=loaded.settings.trash_days,
        )
        files = SyncFiles.of(loaded.home, loaded.database)
        rounds = Rounds(memory.context, database, files, loaded.home.backups)
        try:
            yield Here(memory.context, database, rounds, files, loaded.settings.sync_interval_s)
        finally:
            await rounds.close()


class Here:
    """In this process. Vectors are made by whoever searches next."""

    def __init__(
        self, context: Context, database: ApswDatabase, rounds: Rounds, files: SyncFiles, interval_s: float
    ) -> None:
        self._context = context
        self._database = database
        self._rounds = rounds
        self._files = files
        self._interval_s = interval_s

    async def standing(self) -> Standing:
        """Say how it stands."""
        info = await replication.info(self._database, self._context.clock(), self._rounds.exchanged_ms)
        return Standing(info, daemon=False)

    async def exchange(self, hear: Hear, *, retry: bool) -> Report:
        """Exchange all that there is, after whoever is at it now."""
        if retry:
            await queue.again(self._database)
        return await self._rounds.round(hear, LOCK_WAIT_S)

    async def watch(self, told: Watch) -> None:
        """Exchange for ever; other processes' writes are looked for."""
        news: asyncio.Queue[Report | ShoalError] = asyncio.Queue()
        syncer = Syncer(
            self._context,
            self._rounds,
            self._files,
            Signals(),
            self._interval_s,
            quiet_s=lambda: float("inf"),
            told=news.put_nowait,
        )
        running = asyncio.create_task(syncer.run())
        try:
            while True:
                hearing = asyncio.create_task(news.get())
                await asyncio.wait({running, hearing}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    hearing.cancel()
                    running.result()
                info = (await self.standing()).info
                told(Standing(info, daemon=False, sent=syncer.sent, received=syncer.received))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def seen(self) -> None:
        """Note that somebody has read which spaces have left."""
        await self._database.batch([replication.seen()])
