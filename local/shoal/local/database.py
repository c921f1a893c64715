"""The laptop's database: SQLite through apsw, one writer thread with group commit, readers of their own."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import apsw

from shoal.core.protocols import Row, SqlValue, Statement
from shoal.core.statements import check
from shoal.local.backup import copy
from shoal.local.connection import BUSY_TIMEOUT_MS, connect, open_checked, problems, run
from shoal.local.opened import OpenedFile
from shoal.local.readers import Readers
from shoal.local.translate import read_only as read_only_error
from shoal.local.translate import translate
from shoal.local.writer import Writer
from shoal.schema.errors import StorageError
from shoal.schema.sql import SIZE

T = TypeVar("T")


class ApswDatabase:
    """Implements core's Database. Made by `open`; several processes may have the same file open.

    Breaches of D1's rules (core/statements.py) and wrong SQL raise TypeError, ValueError or apsw.Error: they are
    faults of the program. What a person can cause or meet is a StorageError.
    """

    def __init__(
        self, path: Path, file: OpenedFile, writer: Writer | None, readers: Readers, busy_timeout_ms: int
    ) -> None:
        """Use `open`."""
        self.path = path
        self._file = file
        self._writer = writer
        self._readers = readers
        self._busy_timeout_ms = busy_timeout_ms
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, read_only: bool = False, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> Self:
        """Open the file, made when it is absent; its folder must exist.

        Raises DatabaseCorrupt for a damaged file, of which nothing is overwritten; DatabaseReadOnly;
        DatabaseLocked; StorageError.
        """
        return await asyncio.to_thread(cls._open, path, read_only, busy_timeout_ms)

    @classmethod
    def _open(cls, path: Path, read_only: bool, busy_timeout_ms: int) -> Self:
        writes = not read_only
        try:
            connection = open_checked(path, writes=writes, busy_timeout_ms=busy_timeout_ms)
            file = OpenedFile(path)
        except (apsw.Error, OSError, UnicodeEncodeError) as error:
            raise translate(error, path) from error
        writer = Writer(connection, path, file) if writes else None
        if writer is None:
            connection.close()
        reader = partial(_connect_reader, path, writes, busy_timeout_ms)
        return cls(path, file, writer, Readers(reader, path, file), busy_timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def commits(self) -> int:
        """Transactions committed by this object: many batches may share one."""
        return self._writer.commits if self._writer is not None else 0

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """Run one reading statement and return its rows; BLOBs as bytes. Never waits for the writer."""
        check(sql, params, reads=True)
        self._require_open()
        return await self._readers.submit(lambda connection: run(connection, sql, tuple(params)))

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the statements as one transaction and return each one's rows, once they are on the disk.

        A caller that is cancelled while it waits does not undo it.
        """
        for sql, params in statements:
            check(sql, params)
        self._require_open()
        if self._writer is None:
            raise read_only_error(self.path)
        return await self._writer.submit(statements)

    async def size_bytes(self) -> int:
        """Return the size of the file with all that was written, without its log."""
        rows = await self.query(SIZE)
        return int(rows[0]["bytes"] or 0)

    async def read(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run `job` in a reader's thread, inside one reading transaction: its steps see the same moment."""
        self._require_open()

        def in_transaction(connection: apsw.Connection) -> T:
            connection.execute("begin")
            try:
                return job(connection)
            finally:
                connection.execute("rollback")

        return await self._readers.submit(in_transaction)

    def require_file(self) -> None:
        """Raise DatabaseReplaced when the file is no longer the one that was opened, DatabaseCorrupt when damaged."""
        self._file.require()

    async def check(self, *, quick: bool) -> list[str]:
        """Return what is wrong with the file, a line each; empty when it is sound.

        `quick` leaves out whether indexes agree with their tables.
        """
        return await self._aside(lambda connection: problems(connection, quick=quick))

    async def backup(self, target: Path, progress: Callable[[float], None] | None = None) -> None:
        """Copy the database as it is now into `target`, while others write.

        `target` appears whole or not at all, and replaces a file of that name. `progress` is called on the event
        loop with the share copied, 0..1. Raises StorageError.
        """
        report = progress and partial(asyncio.get_running_loop().call_soon_threadsafe, progress)

        def job(connection: apsw.Connection) -> None:
            try:
                copy(connection, target, report)
            except (apsw.FullError, apsw.IOError, apsw.CantOpenError, OSError) as error:
                # Reading seldom fails so: it is the copy's disk.
                raise translate(error, target) from error

        await self._aside(job)

    async def close(self) -> None:
        """Write all that waits, then close; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # The writer last: the last connection to go writes the log back and removes it.
        self._readers.close()
        if self._writer is not None:
            self._writer.close()

    async def _aside(self, job: Callable[[apsw.Connection], T]) -> T:
        """Run a long job on a connection of its own, so that it takes no reader away."""
        self._require_open()

        def work() -> T:
            try:
                connection = _connect_reader(self.path, self._writer is not None, self._busy_timeout_ms)
                try:
                    return job(connection)
                finally:
                    connection.close()
            except apsw.Error as error:
                raise translate(error, self.path) from error

        return await asyncio.to_thread(work)

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError(f"The database {self.path} is closed.", "Open it again.")


def _connect_reader(path: Path, writes: bool, busy_timeout_ms: int) -> apsw.Connection:
    # Opened for writing where we may: only so can it take part in the log's bookkeeping.
    connection = connect(path, writes=writes, busy_timeout_ms=busy_timeout_ms)
    connection.pragma("query_only", "on")
    return connection
