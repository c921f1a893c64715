"""A space leaves this device: its token reaches it no more.

What is left of a record is its id in an empty row, so that its vectors are known for what they are until the indexer
has removed them, also where no model is loaded now. If the space comes back, it is pulled as if it were new.
"""

from collections.abc import Sequence
from typing import Final, cast

from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.protocols import Database, Statement

AT_ONCE: Final = 500
"""Records emptied in one batch."""
_FOUND: Final = """
select rid from record where rid > ?1 and space in (select value from json_each(?2))
  and (rank > 0 or exists (select 1 from cell where cell.rid = record.rid)) order by rid limit ?3
"""
# Asked anew by each statement of the batch: what was written after the copy may have come just before it.
_GONE: Final = """in (select r.rid from json_each(?1) j cross join record r on r.rid = j.value
  where r.seq <= ?2 and not exists (select 1 from cell c where c.rid = r.rid and c.seq > ?2))"""
_LAST: Final = "select v from meta where k = 'seq'"
_EMPTY: Final = (
    "delete from content_fts where rowid in (select f.rowid from record m"
    " cross join content_fts f on f.rowid between m.rid * 1024 and m.rid * 1024 + 1023"
    f" where m.rid {_GONE})",
    f"delete from label_fts where rowid {_GONE}",
    f"delete from sync_refused where rid {_GONE}",
    f"delete from unembedded where rid {_GONE}",
    f"delete from cell where rid {_GONE}",
    "update record set rank = 0, hlc = '', seq = 0, dirty = 0, init = null, life = 1, state = 0, type = null,"
    " occurred_at = null, created_at = null, updated_at = null, conversation_id = null, position = null,"
    " src = null, dst = null, want = case when class = 'memory' then abs(want) + 1 else want end"
    f" where rid {_GONE}",
)
_LABELS: Final = """
delete from label where not exists (select 1 from cell c indexed by cell_set
  where c.value = 1 and c.field in ('tag:' || label.text, 'entity:' || label.text))
"""
_WORDS: Final = """
insert into meta (k, v) values ('erase_words', 1)
on conflict (k) do update set v = case v when 0 then 1 else 3 end where v in (0, 2)
"""
_SEQ: Final = "update meta set v = v + 1 where k = 'seq'"
"""Answers that searches remember are of the time before."""


async def last_write(database: Database) -> int:
    """Return the sequence number of the last write on this device."""
    return cast("int", (await database.query(_LAST))[0]["v"])


async def anything(database: Database, spaces: Sequence[str]) -> bool:
    """Say whether these spaces have anything on this device."""
    return bool(await database.query(_FOUND, (0, compact_json(list(spaces)), 1)))


async def leave(context: Context, spaces: Sequence[str], up_to: int) -> None:
    """Remove what these spaces have on this device, but records that were written to after the write `up_to`.

    May break off and be called again. The words leave the file, and the vectors the index, when the indexer next runs.
    """
    database, names = context.database, compact_json(list(spaces))
    last = 0
    while rows := await database.query(_FOUND, (last, names, AT_ONCE)):
        rids = [cast("int", row["rid"]) for row in rows]
        gone = (compact_json(rids), up_to)
        await database.batch([*(Statement(text, gone) for text in _EMPTY), Statement(_SEQ)])
        last = rids[-1]
    await database.batch([Statement(_LABELS), Statement(_WORDS)])
