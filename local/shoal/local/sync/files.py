"""The files that one database's replication has in SHOAL_HOME, and the locks between processes on them."""

import asyncio
import hashlib
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from shoal.local.home import PRIVATE_DIR, PRIVATE_FILE, Home, private
from shoal.schema.errors import SyncError

ASK_EVERY_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class SyncFiles:
    """Where they lie. A home may hold several databases, each linked by itself."""

    root: Path
    key: str
    """Names the database: by its place in the home, so that it is the same after the home was moved."""

    @classmethod
    def of(cls, home: Home, database: Path) -> "SyncFiles":
        """Return those of a database."""
        # However it is written: two keys of one file would each find the other's anchor missing.
        root, place = home.root.resolve(), database.resolve()
        place = place.relative_to(root) if place.is_relative_to(root) else place
        return cls(home.root, hashlib.blake2b(place.as_posix().encode(), digest_size=8).hexdigest())

    @property
    def link(self) -> Path:
        """The link: how the edge lets this device in, with its tokens where no keyring has them."""
        return self.root / "links" / f"{self.key}.json"

    @property
    def link_lock(self) -> Path:
        """Held while the link's file is changed or its token refreshed."""
        return self.root / "run" / f"{self.key}.link.lock"

    @property
    def round_lock(self) -> Path:
        """Held for the length of a round with the edge, and while it is decided with which edge."""
        return self.root / "run" / f"{self.key}.round.lock"

    @property
    def anchor(self) -> Path:
        """What is known outside the database of the device that it belongs to."""
        return self.root / "run" / f"{self.key}.anchor.json"

    @property
    def anchor_lock(self) -> Path:
        """Held while the anchor is read and written."""
        return self.root / "run" / f"{self.key}.anchor.lock"


@asynccontextmanager
async def held(path: Path, wait_s: float, doing: str) -> AsyncGenerator[None]:
    """Hold a lock, also against other tasks of this process; who waits blocks no loop.

    Raises SyncError after wait_s; `doing` says in words what its holder is at.
    """
    deadline = time.monotonic() + wait_s
    while (release := _taken(path)) is None:
        if time.monotonic() >= deadline:
            raise SyncError(f"Another process has been {doing} for {wait_s:.0f} s.", "Try again later.")
        await asyncio.sleep(ASK_EVERY_S)
    try:
        yield
    finally:
        release()


if sys.platform == "win32":  # pragma: no cover - the one system or the other

    def _taken(path: Path) -> Callable[[], None] | None:
        from filelock import FileLock, Timeout

        lock = FileLock(path, mode=PRIVATE_FILE)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock.release

else:
    import fcntl

    def _taken(path: Path) -> Callable[[], None] | None:
        """Take a lock and return what gives it back; None while another has it. Raises OSError.

        As filelock does it here, without the 10 ms that it takes to import: every command takes such a lock.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return partial(os.close, handle)


def write_private(path: Path, text: str, *, durable: bool) -> None:
    """Write a file in one step, readable by its owner only, in a folder of the same kind. Raises OSError.

    `durable`: wait until it is on the disk.
    """
    path.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(draft, "x", encoding="utf-8", opener=private) as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
