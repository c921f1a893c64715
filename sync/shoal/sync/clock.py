"""A device whose clock is wrong: it learns by how much, and stamps anew what the edge would not take."""

from typing import Final

from shoal.core.protocols import Database, Statement
from shoal.schema import sql

OFFSET_MIN_MS: Final = 60_000
"""A smaller difference is left alone: answers take their time, and stamps need no more."""
ANSWER_MAX_MS: Final = 30_000
"""An answer that took longer tells nothing: half of its time may be wrong, and the device may have slept meanwhile."""
OFFSET_STEP_MS: Final = 30_000
"""A change of the difference that is worth noting."""

_OFFSET: Final = """
insert into meta (k, v) values ('sync_offset_ms', cast(?1 as integer))
on conflict (k) do update set v = excluded.v where v is not excluded.v
"""
# Waiting cells with stamps later than the edge's clock. Whose they are doesn't matter: the edge takes none that are so
# far ahead, and none that it has is later than its clock. `:` comes after the `-` that follows a stamp's digits.
_AHEAD: Final = "hlc > ?1 || ':'"
_CELLS: Final = f"""
(select rid, field, row_number() over (order by hlc, rid, field) as n from (
  select rid, field, hlc from cell indexed by cell_dirty where dirty = 1 and {_AHEAD}
  union all select c.rid, c.field, c.hlc from sync_refused r
    cross join cell c on c.rid = r.rid and c.field = r.field where c.dirty = 2 and c.{_AHEAD}))
"""
_RECORDS: Final = f"""
(select rid, row_number() over (order by hlc, rid) as n from (
  select rid, hlc from record indexed by record_dirty where dirty = 1 and {_AHEAD}
  union all select m.rid, m.hlc from sync_refused r
    cross join record m on m.rid = r.rid where r.field = '' and m.dirty = 2 and m.{_AHEAD}))
"""
# As if this batch had written them: what is made of their stamps is settled anew.
_ANEW: Final = """
set dirty = 1, seq = (select v from meta where k = 'seq') + 1,
  hlc = printf('%019d-%s', cast(?1 as integer) + x.n, (select v from meta where k = 'device'))
"""
_RESTAMP: Final = (
    f"update cell {_ANEW} from (select rid, field, n + (select count(*) from {_RECORDS}) as n from {_CELLS}) x"
    " where cell.rid = x.rid and cell.field = x.field",
    f"update record {_ANEW} from {_RECORDS} x where record.rid = x.rid",
)
_CLOCK: Final = """
update meta set v = case k when 'seq' then v + 1 else max(cast(?1 as integer), coalesce((
    select max(cast(substr(hlc, 1, 19) as integer)) from (
      select hlc from record indexed by record_seq where seq > (select v from meta where k = 'seq')
      union all select hlc from cell indexed by cell_seq where seq > (select v from meta where k = 'seq'))), 0)) end
where k in ('seq', 'clock')
"""
_FORGET_REASONS: Final = """
delete from sync_refused where exists (
  select 1 from record m where m.rid = sync_refused.rid and sync_refused.field = '' and m.dirty = 1
  union all select 1 from cell c where c.rid = sync_refused.rid and c.field = sync_refused.field and c.dirty = 1)
"""


async def learn(database: Database, noted_ms: int, offset_ms: int) -> int:
    """Note how far the edge's clock is from this device's (theirs - ours), for the stamps to come; return it.

    `noted_ms` is what was noted before; a small change is left alone.
    """
    offset_ms = offset_ms if abs(offset_ms) >= OFFSET_MIN_MS else 0
    if abs(offset_ms - noted_ms) <= OFFSET_STEP_MS:
        return noted_ms
    await database.batch([Statement(_OFFSET, (offset_ms,))])
    return offset_ms


async def set_back(database: Database, edge_clock: str) -> None:
    """Set the clock to the edge's, 19 digits, and stamp anew all that waits with a later stamp, in one batch.

    Their order stays. What they say does too, but for when they were written.
    """
    await database.batch(
        [
            *(Statement(text, (edge_clock,)) for text in _RESTAMP),
            Statement(sql.MODEL),
            Statement(_CLOCK, (edge_clock,)),
            Statement(_FORGET_REASONS),
        ]
    )
