"""The words of purged memories leave the file: the indexes of words are written anew without them, part by part.

Each part is short, so that others run in between, and the work may stop after any. What is purged meanwhile is erased
in another round (schema.sql.MARK_WORDS).
"""

from itertools import pairwise
from typing import cast

from shoal.core.protocols import Database, Statement
from shoal.schema import sql


async def erase_words(database: Database) -> bool:
    """Write one part anew, when something was purged; return whether there was one to write. Raises StorageError."""
    due = await database.query("select v from meta where k = 'erase_words' and v > 0")
    if not due:
        return False
    if due[0]["v"] == 1:
        await database.batch([Statement(text) for text in sql.BEGIN_ERASING])
        return True
    results = await database.batch([Statement(text) for text in sql.GO_ON_ERASING])
    changes = [cast("int", rows[0]["n"]) for rows in results if rows]
    if all(after - before <= 1 for before, after in pairwise(changes)):
        await database.batch([Statement(sql.END_ERASING)])
    return True


async def erase_all_words(database: Database) -> None:
    """Write all of them anew, when something was purged. Raises StorageError."""
    while await erase_words(database):
        pass
