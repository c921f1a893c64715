"""The one thread that writes: group commit, with a savepoint a request."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import apsw

from shoal.core.protocols import Row, Statement
from shoal.local.connection import run
from shoal.local.opened import OpenedFile
from shoal.local.translate import translate
from shoal.schema.errors import StorageError

GROUP_MAX: Final = 256
"""Requests in one commit: bounds what the first of them waits for."""
CHECKPOINT_IDLE_S: Final = 0.25
"""The log is written back when nobody has written for this long, so that hardly any write waits for it."""
CHECKPOINT_PAGES: Final = 4_000
"""Under constant load the log is written back between two commits each time it has grown by this (16 MB)."""
RESTART_PAGES: Final = 64_000
"""From here (256 MB) on, wait for other processes to leave the log, so that it can't grow for ever."""

_log = logging.getLogger(__name__)

Results = list[list[Row]]


@dataclass(slots=True)
class Request:
    """One batch that waits; `results` or `error` is set before its future."""

    statements: Sequence[Statement]
    future: asyncio.Future[Results]
    loop: asyncio.AbstractEventLoop
    results: Results = field(default_factory=list[list[Row]])
    error: Exception | None = None

    def settle(self) -> None:
        """Answer the caller, on its own loop. One that was cancelled no longer listens; its write stands."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.results)


class Writer:
    """Takes batches from any event loop, commits all that wait as one transaction, then answers.

    A request that fails is rolled back alone. One whose commit fails is told so, and nothing of it is kept.
    """

    def __init__(self, connection: apsw.Connection, path: Path, file: OpenedFile) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        self._wal_pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self.commits = 0
        """Transactions committed so far."""
        # The hook replaces SQLite's own checkpoints, which would make a caller wait.
        connection.set_wal_hook(self._wal_grew)
        # A daemon: what was acknowledged is on the disk, so a process that ends without close() loses nothing.
        self._thread = threading.Thread(target=self._work, name="shoal-writer", daemon=True)
        self._thread.start()

    def submit(self, statements: Sequence[Statement]) -> asyncio.Future[Results]:
        """Queue a batch; the future is done after the commit that holds it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Results] = loop.create_future()
        self._queue.put(Request(statements, future, loop))
        return future

    def close(self) -> None:
        """Write all that was queued, then end the thread and close the connection; blocks."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        ends = False
        while not ends:
            try:
                first = self._queue.get(timeout=CHECKPOINT_IDLE_S if self._wal_pages else None)
            except Empty:
                self._checkpoint()
                continue
            group, ends = self._take(first)
            if group:
                self._commit(group)
                _answer(group)
            if self._wal_pages >= self._checkpoint_at:
                self._checkpoint()
        if not self._file.is_sound:
            # The log may hold the only good copy of the last writes: it stays beside the file.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()

    def _take(self, first: Request | None) -> tuple[list[Request], bool]:
        """Return all requests that wait, and whether the end was among them."""
        group: list[Request] = []
        request = first
        while request is not None:
            group.append(request)
            if len(group) == GROUP_MAX:
                return group, False
            try:
                request = self._queue.get_nowait()
            except Empty:
                return group, False
        return group, True

    def _commit(self, group: list[Request]) -> None:
        """Set each request's results or error."""
        pending = group
        try:
            self._file.require()
        except StorageError as error:
            for request in group:
                request.error = error
            return
        while pending and not self._try_commit(pending):
            pending = [request for request in pending if request.error is None]

    def _try_commit(self, group: list[Request]) -> bool:
        """Return False when SQLite itself ended the transaction with a request, whose error is set then."""
        try:
            self._connection.execute("begin immediate")
            for request in group:
                self._run(request)
                if not self._connection.in_transaction:
                    return False
            self._connection.execute("commit")
            self.commits += 1
        except apsw.Error as error:
            for request in group:
                request.error = request.error or self._translated(error)
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        return True

    def _run(self, request: Request) -> None:
        self._connection.execute("savepoint request")
        try:
            request.results = [run(self._connection, sql, params) for sql, params in request.statements]
        except Exception as error:
            request.error = self._translated(error)
            # A full disk and the like may have undone the whole transaction already.
            if self._connection.in_transaction:
                self._connection.execute("rollback to request")
        if self._connection.in_transaction:
            self._connection.execute("release request")

    def _translated(self, error: Exception) -> Exception:
        translated = translate(error, self._path, self._connection.system_errno)
        self._file.note(translated)
        return translated

    def _wal_grew(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        # The log has started again.
        self._checkpoint_at = min(self._checkpoint_at, pages + CHECKPOINT_PAGES)
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Write the log back into the file. A failure loses nothing and is met again by the next write."""
        if not self._file.is_sound:
            self._wal_pages = 0
            return
        grown = self._wal_pages >= RESTART_PAGES
        mode = apsw.SQLITE_CHECKPOINT_RESTART if grown else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self._connection.wal_checkpoint(mode=mode)
        except apsw.BusyError:
            pass  # Another process does it at this moment, or a reader still needs the log.
        except apsw.Error as error:
            _log.warning("the write-ahead log of %s can't be written back: %s", self._path, error)
        self._checkpoint_at = self._wal_pages + CHECKPOINT_PAGES
        self._wal_pages = 0


def _answer(group: list[Request]) -> None:
    """Wake each event loop once, however many of its callers wait."""
    for loop in {request.loop for request in group}:
        requests = [request for request in group if request.loop is loop]
        try:
            loop.call_soon_threadsafe(_settle, requests)
        except RuntimeError:
            if not loop.is_closed():
                raise
            # Nobody is left to hear it; the writes stand.


def _settle(requests: list[Request]) -> None:
    for request in requests:
        request.settle()
