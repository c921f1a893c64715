"""A few threads that read, each with a connection of its own: no reader waits for the writer."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import apsw

from shoal.local.opened import OpenedFile
from shoal.local.translate import translate

READERS: Final = 3
"""More than the cores that search uses at once; each may hold CACHE_KIB of pages."""

T = TypeVar("T")
Job = Callable[[apsw.Connection], T]
_Waiting = tuple[Job[Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Readers:
    """Runs reading jobs in threads. A connection is opened with its thread's first job."""

    def __init__(self, connect: Callable[[], apsw.Connection], path: Path, file: OpenedFile) -> None:
        self._connect = connect
        self._path = path
        self._file = file
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        # Daemons: a process that ends without close() must not hang on them.
        self._threads = [
            threading.Thread(target=self._work, name=f"shoal-reader-{number}", daemon=True) for number in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job[T]) -> asyncio.Future[T]:
        """Queue a job for the next free thread. Its failure comes translated."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((job, future, loop))
        return future

    def close(self) -> None:
        """End the threads after what was queued, and close their connections; blocks."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        connection: apsw.Connection | None = None
        while (waiting := self._queue.get()) is not None:
            job, future, loop = waiting
            result, error = None, None
            # A caller that was cancelled while it waited needs no answer.
            if future.cancelled():
                continue
            try:
                self._file.require()
                connection = connection or self._connect()
                result = job(connection)
            except Exception as caught:
                system_errno = connection.system_errno if connection is not None else 0
                error = translate(caught, self._path, system_errno)
                self._file.note(error)
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                if not loop.is_closed():
                    raise
        if connection is not None:
            if not self._file.is_sound:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
