"""Rounds with whichever edge the database is linked to: one at a time among all processes, each noted.

An idle link writes nothing: when it last worked is kept here, and written down with changes, now and then, at the end.
"""

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from shoal.core import replication
from shoal.core.context import Context
from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase
from shoal.local.sync.copies import keep_copy
from shoal.local.sync.files import SyncFiles, held
from shoal.schema.errors import NotLinked, ShoalError, StorageError, SyncError

if TYPE_CHECKING:
    from shoal.local.sync.exchange import Exchange
    from shoal.local.sync.steps import Hear
    from shoal.sync.engine import Report

log = logging.getLogger("shoal.sync")

WORKING_NOTED_EVERY_MS: Final = replication.STANDING_MS // 2
"""How old what is written down of a link that works may get: no one may take it for one that stands."""
FAILURE_NOTED_EVERY_MS: Final = 60_000
"""As often one that fails is written down again: another process may have noted a success meanwhile."""
FOREVER: Final = float("inf")
_LOOK: Final = "select k, v from meta where k in ('sync_url', 'seq')"
_WAITS: Final = (
    "select exists (select 1 from record indexed by record_dirty where dirty = 1)"
    " or exists (select 1 from cell indexed by cell_dirty where dirty = 1) as waits"
)


class Rounds:
    """Exchanges one database's memories with its edge."""

    def __init__(
        self,
        context: Context,
        database: ApswDatabase,
        files: SyncFiles,
        backups: Path,
        connect: "Callable[[str], Exchange] | None" = None,
    ) -> None:
        """Use `database`, which `context` is about; `backups` is where a copy goes before a space leaves.

        `connect` returns the exchange with the edge at a URL; over HTTP if not given.
        """
        self._context = context
        self._database = database
        self._files = files
        self._backups = backups
        self._connect = connect or self._over_http
        self._open: tuple[str, Exchange] | None = None
        self._copied: tuple[list[str], int] | None = None
        self._noted: object = None
        """What was last written down: a failure's code and message, or where the device may write; and when."""
        self._noted_ms = 0
        self.exchanged_ms: int | None = None
        """When a round with the present edge last went well; None before the first of this process."""

    async def look(self) -> tuple[str | None, int]:
        """Return the URL of the edge, None without a link, and how far the database is: each write raises it."""
        found = {row["k"]: row["v"] for row in await self._database.query(_LOOK)}
        return cast("str | None", found.get("sync_url")), cast("int", found["seq"])

    async def waits(self) -> bool:
        """Whether anything waits to be sent, be it in a space that the edge doesn't share."""
        return bool((await self._database.query(_WAITS))[0]["waits"])

    async def round(self, hear: "Hear" = lambda _step: None, wait_s: float = FOREVER) -> "Report":
        """Exchange all that there is to exchange, once no other process does.

        Raises NotLinked, SyncError (after wait_s if another process goes on for so long), StorageError; what was done
        until then stays done, and why it failed is noted.
        """
        async with held(self._files.round_lock, wait_s, "exchanging memories with the edge"):
            exchange = await self._exchange()
            try:
                report = await exchange.round(hear)
            except ShoalError as error:
                await self._note_failure(error)
                raise
            except Exception as error:
                fault = f"A fault of shoal's own broke off the exchange ({type(error).__name__})."
                await self._note_failure(SyncError(fault, "The daemon's log says more; please report it."))
                raise
            await self._note_success(report, exchange)
            return report

    async def close(self) -> None:
        """Close the connections, and write down when the link last worked."""
        if self.exchanged_ms is not None and self._noted_ms < self.exchanged_ms:
            await self._write(replication.works(self.exchanged_ms))
        await self._disconnect()

    async def _exchange(self) -> "Exchange":
        url, _ = await self.look()
        if self._open is not None and self._open[0] != url:
            await self._disconnect()
        if url is None:
            raise NotLinked("This memory is linked to no edge.", "Link it to one: shoal link URL")
        if self._open is None:
            # In a thread: httpx takes a tenth of a second, which no request should wait for.
            await asyncio.to_thread(import_module, "shoal.local.sync.exchange")
            self._open = (url, self._connect(url))
        return self._open[1]

    def _over_http(self, url: str) -> "Exchange":
        from shoal.local.sync.exchange import Exchange

        return Exchange.over_http(self._context, self._files, url, self.keep_copy)

    async def _disconnect(self) -> None:
        if self._open is not None:
            _, exchange = self._open
            self._open = self._noted = self.exchanged_ms = None
            await exchange.aclose()

    async def keep_copy(self, spaces: list[str]) -> None:
        """Copy the database before spaces leave it: once for one state of it, however often the leaving is tried."""
        _, seq = await self.look()
        if self._copied != (spaces, seq):
            await keep_copy(self._context, self._database, self._backups, spaces)
            self._copied = (spaces, seq)

    async def _note_success(self, report: "Report", exchange: "Exchange") -> None:
        now = self.exchanged_ms = self._context.clock()
        changed = report.pushed or report.pulled or report.refused or report.gained or report.lost
        if self._is_news(exchange.writable, 0 if changed else WORKING_NOTED_EVERY_MS):
            await self._write(*replication.succeeded(now, report.skipped, exchange.writable))

    async def _note_failure(self, error: ShoalError) -> None:
        if self._is_news((error.code, error.message), FAILURE_NOTED_EVERY_MS):
            await self._write(replication.failed(error, self._context.clock()))

    def _is_news(self, found: object, every_ms: int) -> bool:
        """Say whether something is to be written down: it is another than before, or that was so long ago."""
        now = self._context.clock()
        if found == self._noted and 0 <= now - self._noted_ms < every_ms:
            return False
        self._noted, self._noted_ms = found, now
        return True

    async def _write(self, *statements: Statement) -> None:
        try:
            await self._database.batch(statements)
        except StorageError as error:
            log.warning("how the exchange with the edge went could not be noted: %s", error)
            self._noted = None
