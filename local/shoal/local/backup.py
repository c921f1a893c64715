"""A copy of a live database."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

STEP_PAGES: Final = 2_048
"""Pages (8 MB) copied between two reports."""


def copy(source: apsw.Connection, target: Path, progress: Callable[[float], object] | None) -> None:
    """Copy the database of `source` into `target` through a file beside it; blocks.

    One reading transaction spans the copy, so that others' writes neither enter it nor start it again.
    Raises apsw.Error, OSError.
    """
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        _copy_pages(source, partial, progress)
        _flush(partial)
        partial.replace(target)
        _flush(target.parent)
    finally:
        partial.unlink(missing_ok=True)


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
