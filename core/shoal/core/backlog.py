"""What the indexes still have to do, and how far the database is, in one small query that every search asks."""

from typing import Final, NamedTuple, cast

from shoal.core.context import Context

COUNT_MAX: Final = 10_000
"""Memories without vectors are counted up to here."""

_BACKLOG: Final = f"""
select
  (select count(*) from (select 1 from record indexed by record_want where want > 0 limit {COUNT_MAX}))
  + (select count(*) from (select 1 from record where rid < (select v from meta where k = 'reembed')
    and class = 'memory' and init is not null and want = 0 limit {COUNT_MAX})) as vectors,
  exists (select 1 from record where rid < (select v from meta where k = 'refts')
    and class = 'memory' and init is not null) as words,
  (select v from meta where k = 'seq') as seq
"""


class Backlog(NamedTuple):
    """Work that the background still has to do."""

    vectors: int
    """Memories that are found by their words only so far, counted up to COUNT_MAX."""
    words: bool
    """Whether some memories' words are still those of another version of text preparation."""
    seq: int
    """Sequence number of the newest write."""


NOTHING_LEFT: Final = Backlog(0, False, 0)


async def backlog(context: Context) -> Backlog:
    """Return what is still to do."""
    row = (await context.database.query(_BACKLOG))[0]
    return Backlog(min(COUNT_MAX, cast("int", row["vectors"])), bool(row["words"]), cast("int", row["seq"]))
