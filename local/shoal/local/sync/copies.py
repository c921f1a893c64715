"""A copy of the whole database, made before a space leaves this device."""

import asyncio
import logging
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from shoal.core import replication
from shoal.core.context import Context
from shoal.local.database import ApswDatabase
from shoal.local.home import PRIVATE_DIR
from shoal.local.keeping import check_backup, free
from shoal.schema.errors import DatabaseReadOnly

log = logging.getLogger("shoal.sync")

NAMED_CHARS: Final = 40
"""Of the first space's name, in the file's."""
_UNSAFE: Final = re.compile(r"[^\w.-]+")


async def keep_copy(context: Context, database: ApswDatabase, folder: Path, spaces: Sequence[str]) -> Path:
    """Copy the database into a folder of backups, check the copy, note it for `shoal status`, and return its path.

    The copy holds what had not been sent too. Raises StorageError; then nothing may leave.
    """
    moment = datetime.fromtimestamp(context.clock() / 1000).astimezone()
    target = free(folder / f"shoal-{moment:%Y%m%d-%H%M%S}-before-losing-{_name(spaces)}.db")
    try:
        await asyncio.to_thread(folder.mkdir, PRIVATE_DIR, True, True)
    except OSError as error:
        raise DatabaseReadOnly(
            f"The folder {folder} can't be made: {error.strerror or error}.",
            "Make room there, or let your user write to it.",
        ) from error
    await database.backup(target)
    await check_backup(target)
    await context.database.batch([replication.left(spaces, str(target), context.clock())])
    log.warning(
        "the edge lets this device have no more: %s. It leaves this device; %s keeps it, with what was not sent",
        ", ".join(spaces), target,
    )  # fmt: skip
    return target


def _name(spaces: Sequence[str]) -> str:
    """Return what a file may be called by them."""
    first = _UNSAFE.sub("_", spaces[0])[:NAMED_CHARS]
    return first if len(spaces) == 1 else f"{first}-and-{len(spaces) - 1}-more"
