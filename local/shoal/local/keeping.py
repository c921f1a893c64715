"""Backups that were checked, and putting one back."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

from shoal.core.migrate import migrate
from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase
from shoal.local.home import PRIVATE_DIR
from shoal.local.runtime import new_device, restoring
from shoal.schema.errors import DatabaseCorrupt, NotFound, ShoalError

SIDE_FILES: Final = ("-wal", "-shm")
"""What SQLite keeps beside a database; the log may hold the newest writes, so it moves along."""

Report = Callable[[float], None]


async def back_up(database: Path, target: Path, report: Report) -> int:
    """Copy the database while others use it, check the copy and return its bytes.

    Raises NotFound, StorageError; DatabaseCorrupt when the copy isn't sound, which is then removed.
    """
    _require(database, "There is nothing to back up")
    await asyncio.to_thread(target.parent.mkdir, PRIVATE_DIR, True, True)
    async with await ApswDatabase.open(database, read_only=True) as source:
        await source.backup(target, report)
    try:
        await check_backup(target)
    except ShoalError:
        await asyncio.to_thread(target.unlink)
        raise
    return (await asyncio.to_thread(target.stat)).st_size


async def check_backup(path: Path) -> None:
    """Check a backup from end to end. Raises NotFound, StorageError, DatabaseCorrupt."""
    _require(path, "There is no backup")
    beside = [path.with_name(path.name + suffix) for suffix in SIDE_FILES]
    ours = [file for file in beside if not file.exists()]
    try:
        async with await ApswDatabase.open(path, read_only=True) as database:
            found = await database.check(quick=False)
            if not found and not await database.query("select 1 from sqlite_schema where name = 'record'"):
                found = ["it is not a database of shoal"]
    except DatabaseCorrupt as error:
        found = [str(error.details.get("finding", error.message))]
    finally:
        # A reader may not remove what it had to make.
        for file in ours:
            file.unlink(missing_ok=True)
    if found:
        raise DatabaseCorrupt(f"{path} can't be used: {'; '.join(found[:3])}.", "Use another backup.")


async def restore(backup: Path, database: Path, now: datetime, report: Report) -> Path | None:
    """Put a backup in the database's place; return where the old one went, or None when there was none.

    The caller holds the daemon's lock. The copy gets a new device name: it is another replica than the one that
    made the backup, and two under one name would lose each other's counts. Raises NotFound, StorageError.
    """
    await check_backup(backup)
    draft = restoring(database)
    try:
        async with await ApswDatabase.open(backup, read_only=True) as source:
            await source.backup(draft, report)
        async with await ApswDatabase.open(draft) as copy:
            await migrate(copy)
            await copy.batch([Statement("update meta set v = ?1 where k = 'device'", (new_device(),))])
        aside = set_aside(database, now)
        draft.replace(database)
    finally:
        for suffix in ("", *SIDE_FILES):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    return aside


def set_aside(database: Path, now: datetime) -> Path | None:
    """Rename the database with its side files; nothing is deleted.

    The database first: its log without it is refused at the next start, it without its log would seem whole.
    """
    aside = free(database.with_name(f"{database.name}.before-{now:%Y%m%d-%H%M%S}"))
    moved = False
    for suffix in ("", *SIDE_FILES):
        old = database.with_name(database.name + suffix)
        if old.exists():
            old.replace(aside.with_name(aside.name + suffix))
            moved = True
    return aside if moved else None


def free(path: Path) -> Path:
    """Return a name that nothing has: a second restore within a second must not replace what the first put aside."""
    names = chain([path], (path.with_name(f"{path.name}-{number}") for number in count(2)))
    return next(
        name for name in names if not any(name.with_name(name.name + end).exists() for end in ("", *SIDE_FILES))
    )


def _require(path: Path, otherwise: str) -> None:
    if not path.is_file():
        raise NotFound(f"{otherwise}: {path} does not exist.", "Check the path.")


def newest_backup(folder: Path) -> Path | None:
    """Return the newest backup in a folder."""
    found = sorted(folder.glob("*.db"), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    return found[-1] if found else None
