"""File locks between processes. The system frees them when their holder ends, however it ends."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from shoal.local.home import PRIVATE_FILE
from shoal.schema.errors import DaemonRunning, DaemonUnreachable

LEAVING_S: Final = 15.0
"""How long a daemon that no longer answers may hold its lock: it is draining, or it has just started."""
ASK_EVERY_S: Final = 0.1


@contextmanager
def hold_daemon_lock(path: Path, running: Callable[[], str | None]) -> Iterator[None]:
    """Be the one process that may serve or replace this home's database. Raises DaemonRunning.

    `running` returns the url of the daemon that answers, or None. One that doesn't answer is on its way in or out
    and gets a moment.
    """
    lock = FileLock(path, mode=PRIVATE_FILE)
    deadline = time.monotonic() + LEAVING_S
    while True:
        try:
            lock.acquire(timeout=ASK_EVERY_S, poll_interval=0.02)
            break
        except Timeout:
            url = running()
            if url is not None or time.monotonic() >= deadline:
                raise DaemonRunning(
                    f"A daemon already serves this home{f' at {url}' if url else ''}.",
                    "Use that one, stop it, or set SHOAL_HOME to another folder.",
                    url=url,
                ) from None
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a living process holds a lock. What a killed one left behind is held by nobody."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0, mode=PRIVATE_FILE):
            return False
    except Timeout:
        return True


@contextmanager
def hold_start_lock(path: Path, wait_s: float) -> Iterator[None]:
    """Be the one process that starts a daemon; the others wait here. Raises DaemonUnreachable after wait_s."""
    lock = FileLock(path, mode=PRIVATE_FILE)
    try:
        lock.acquire(timeout=wait_s, poll_interval=0.02)
    except Timeout:
        raise DaemonUnreachable(
            f"Another process has been starting a daemon for {wait_s:.0f} s.",
            "Look into logs/daemon.log and logs/start.log, then try again.",
        ) from None
    try:
        yield
    finally:
        lock.release()
