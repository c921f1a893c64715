"""A process of its own that writes: `python writing.py PATH WRITER COUNT [GROUP]`.

Prints `ready` once open, then each batch's number after it was acknowledged; and `done` in the end.
"""

import asyncio
import itertools
import sys
from pathlib import Path

from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase

TABLE = Statement("create table if not exists written (writer integer, number integer, half integer, filler text)")
PUT = "insert into written (writer, number, half, filler) values (?1, ?2, ?3, ?4)"
FILLER = "x" * 500


async def write(database: ApswDatabase, writer: int, number: int) -> None:
    """Write both halves of one batch."""
    await database.batch([Statement(PUT, (writer, number, half, FILLER)) for half in (0, 1)])
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


async def main(path: Path, writer: int, count: int, group: int = 1) -> None:
    """Write `count` batches, `group` of them at a time; 0 = until killed."""
    async with await ApswDatabase.open(path) as database:
        await database.batch([TABLE])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        numbers = iter(range(count)) if count else itertools.count()
        while chunk := list(itertools.islice(numbers, group)):
            await asyncio.gather(*(write(database, writer, number) for number in chunk))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
