"""Whether a database is still the one that this device has been working with: an anchor outside of it knows.

A device's own counts (`n:<device>`) have one writer. A copy or an older state of the file that goes on under the same
name would lose what the other has counted, so it gets a new one; that costs nothing but a cell for what it recalls.
What proves that it is the same: the machine, the file's inode, how often it was opened, and how far it has come. Not
told apart: a rollback of a whole disk, the anchor included, and clones of a virtual machine that share a machine id.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, cast

from shoal.core.protocols import Database, Statement
from shoal.local.sync.files import SyncFiles, held, write_private
from shoal.local.sync.machine import machine
from shoal.schema.errors import DatabaseLocked, DatabaseReadOnly, StorageError, SyncError

WAIT_S: Final = 10.0
"""Others hold the lock for about a millisecond."""
_GENERATION: Final = "anchor_generation"
_READ: Final = f"select k, v from meta where k in ('device', '{_GENERATION}', 'seq')"
_PUT: Final = "insert into meta (k, v) values (?1, ?2) on conflict (k) do update set v = excluded.v"


@dataclass(frozen=True, slots=True)
class State:
    """A database, as it is or as the anchor last knew it."""

    device: str
    generation: int
    """How often it has been opened for writing."""
    seq: int
    """How far it has come: each write raises it."""
    machine: str
    inode: int


def is_same(found: State, anchor: State | None) -> bool:
    """Say whether a database is the one of the anchor, no copy of it and not of an earlier time. Pure."""
    if anchor is None:
        return False
    # One opening more in the database: whoever opened it last ended before the anchor was written.
    opened = found.generation - anchor.generation
    place = (found.device, found.machine, found.inode) == (anchor.device, anchor.machine, anchor.inode)
    return place and opened in (0, 1) and found.seq >= anchor.seq


@asynccontextmanager
async def anchored(
    database: Database, path: Path, files: SyncFiles, new_device: Callable[[], str]
) -> AsyncGenerator[None]:
    """Give the database a new device id (`meta.device`) where it is a copy or was restored, before it is worked with.

    It lies at `path` and has its tables. At the end it is noted how far it has come. Raises StorageError.
    """
    async with _locked(files):
        found = await _state(database, path)
        kept = is_same(found, await asyncio.to_thread(_read, files.anchor))
        device, generation = (found.device, found.generation + 1) if kept else (new_device(), 1)
        # The database first: an anchor that is behind by one opening is known for what it is.
        await database.batch([Statement(_PUT, ("device", device)), Statement(_PUT, (_GENERATION, generation))])
        await asyncio.to_thread(_write, files.anchor, replace(found, device=device, generation=generation))
    try:
        yield
    finally:
        # Without it, a copy that was taken meanwhile and is put back later would pass for the same. That is no reason
        # to fail: what was written is safe.
        with suppress(StorageError):
            async with _locked(files):
                await asyncio.to_thread(_write, files.anchor, await _state(database, path))


@asynccontextmanager
async def _locked(files: SyncFiles) -> AsyncGenerator[None]:
    """Hold the anchor. Raises DatabaseLocked, DatabaseReadOnly, also for what is done meanwhile."""
    try:
        async with held(files.anchor_lock, WAIT_S, "opening the database"):
            yield
    except SyncError as error:
        raise DatabaseLocked(error.message, error.mend) from error
    except OSError as error:
        raise DatabaseReadOnly(
            f"The device's anchor {files.anchor} can't be written: {error.strerror or error}.",
            "Make room there, or let your user write to it.",
        ) from error


async def _state(database: Database, path: Path) -> State:
    """Return a database's own state; one without a name has an empty one, which no anchor has."""
    meta = {row["k"]: row["v"] for row in await database.query(_READ)}
    return State(
        device=cast("str", meta.get("device", "")),
        generation=cast("int", meta.get(_GENERATION, 0)),
        seq=cast("int", meta["seq"]),
        machine=machine(),
        inode=(await asyncio.to_thread(path.stat)).st_ino,
    )


def _read(path: Path) -> State | None:
    """Return what the anchor says; None where there is none, or one that nobody has written so."""
    try:
        return State(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, state: State) -> None:
    # Not flushed to the disk: lost with the machine's power, it is behind, and the database gets a new name.
    write_private(path, json.dumps(asdict(state)), durable=False)
