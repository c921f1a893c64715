"""A copy of a live database."""

import glob
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from shoal.local.home import alive

STEP_PAGES: Final = 2_048
"""Pages (8 MB) copied between two reports."""
PART: Final = ".part"
"""Ends the name of a copy that is being made; SQLite adds that of its journal."""


def copy(source: apsw.Connection, target: Path, progress: Callable[[float], object] | None) -> None:
    """Copy the database of `source` into `target` through a file beside it; blocks.

    One reading transaction spans the copy, so that others' writes neither enter it nor start it again.
    Raises apsw.Error, OSError.
    """
    _remove_left(target)
    partial = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        _copy_pages(source, partial, progress)
        _flush(partial)
        partial.replace(target)
        _flush(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _remove_left(target: Path) -> None:
    """Remove what processes that were killed have left of copies to this target: each is a whole memory's size."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.*-*{PART}*"):
        pid = left.name.removeprefix(f"{target.name}.").partition("-")[0]
        if pid.isdecimal() and not alive(int(pid)):
            left.unlink(missing_ok=True)


def _copy_pages(source: apsw.Connection, target: Path, progress: Callable[[float], object] | None) -> None:
    connection = apsw.Connection(str(target))
    try:
        # Flushed once at the end instead of page by page; nobody reads it before.
        connection.pragma("synchronous", "off")
        source.execute("begin")
        source.execute("select count(*) from sqlite_schema").fetchall()
        try:
            with connection.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(STEP_PAGES)
                    if progress is not None and backup.page_count:
                        progress(1 - backup.remaining / backup.page_count)
        finally:
            source.execute("commit")
    finally:
        connection.close()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
