"""The queue of a device: its own writes that the edge doesn't have yet are its dirty marks.

A mark and the write that it belongs to stand in one row, so neither is ever there without the other. It is 1 for what
is to be pushed, 2 for what the edge refused (table sync_refused says why), and 0 once the edge has it.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from shoal.core.cells import INIT, compact_json
from shoal.core.protocols import Database, Row, Statement
from shoal.schema.wire import CELLS_MAX, PAGE_BYTES, RefusalCode, SyncSpaces

CELL_BYTES: Final = 160
"""What a cell takes in JSON besides its value and the name of its field, at most."""
MARKED_AT_ONCE: Final = 2_000
"""Records that are queued anew in one batch, with all of their cells: a store waits no longer than for that."""


class Place(NamedTuple):
    """Where a cell stands in the order of the queue: records by their number, each one's `init` first."""

    rid: int
    field: str
    """Empty for `init`."""


START: Final = Place(-1, "")


class Queued(NamedTuple):
    """One cell that waits."""

    place: Place
    cell: list[Any]
    """As it travels."""


class Refused(NamedTuple):
    """One cell of the queue that the edge would not take, and why."""

    queued: Queued
    code: RefusalCode
    message: str


# Both parts are bounded by themselves: sorting all marks would read them all.
_PAGE: Final = f"""
with waiting as (
  select * from (select rid, '' as field, octet_length(init) as size
    from record indexed by record_dirty where dirty = 1 and rid > ?1 order by rid limit ?3)
  union all
  select * from (select rid, field, octet_length(json_quote(value)) as size
    from cell indexed by cell_dirty where dirty = 1 and (rid, field) > (?1, ?2) order by rid, field limit ?3)),
  page as (select *, row_number() over (order by rid, field) as number,
    sum(coalesce(size, 0) + octet_length(field) + {CELL_BYTES}) over (order by rid, field) as up_to
    from waiting order by rid, field limit ?3)
select p.rid, p.field, lower(hex(m.id)) as id, m.space, iif(p.field = '', m.rank, c.rank) as rank,
  iif(p.field = '', m.hlc, c.hlc) as hlc, iif(p.field = '', m.init, c.value) as value
from page p cross join record m on m.rid = p.rid left join cell c on c.rid = p.rid and c.field = p.field
where p.up_to <= {PAGE_BYTES} or p.number = 1
order by p.rid, p.field
"""
"""?1, ?2 = the last place seen, ?3 = how many cells at most."""

# ?1 = [[rid, field, rank, hlc], ...]. Only what still stands as it was pushed: a later write has a mark of its own.
_AS_SENT: Final = "rank = j.value->>2 and hlc = j.value->>3 and dirty > 0"
_MARK: Final = (
    f"update record set dirty = %d from json_each(?1) j where rid = j.value->>0 and j.value->>1 = '' and {_AS_SENT}",
    f"update cell set dirty = %d from json_each(?1) j where rid = j.value->>0 and field = j.value->>1 and {_AS_SENT}",
)
_KEEP_REASON: Final = """
insert or replace into sync_refused (rid, field, rank, hlc, code, message, at)
select j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4, j.value->>5, ?2 from json_each(?1) j
"""
_FORGET_REASONS: Final = """
delete from sync_refused where (rid, field) in (select j.value->>0, j.value->>1 from json_each(?1) j)
"""
_SETTLED: Final = """
delete from sync_refused where not exists (
  select 1 from record m where m.rid = sync_refused.rid and sync_refused.field = '' and m.dirty = 2
  union all select 1 from cell c where c.rid = sync_refused.rid and c.field = sync_refused.field and c.dirty = 2)
"""
_AGAIN: Final = (
    "update record set dirty = 1 where dirty = 2 and rid in (select rid from sync_refused where field = '')",
    "update cell set dirty = 1 where dirty = 2 and (rid, field) in (select rid, field from sync_refused)",
    "delete from sync_refused",
)
_ALL: Final = (
    "update record set dirty = 1 where rid > ?1 and rid <= ?1 + ?2 and rank > 0 and dirty <> 1 and %s",
    "update cell set dirty = 1 where rid > ?1 and rid <= ?1 + ?2 and dirty <> 1"
    " and exists (select 1 from record where record.rid = cell.rid and %s)",
)
_OF_SPACES: Final = "space in (select value from json_each(?3))"


async def page(
    database: Database, spaces: SyncSpaces, after: Place, limit: int = CELLS_MAX
) -> tuple[list[Queued], Place | None]:
    """Return the next cells of these spaces that wait after a place, and the place to go on from; None at the end.

    A page may be empty and not the last: cells of other spaces are passed over.
    """
    rows = await database.query(_PAGE, (after.rid, after.field, limit))
    if not rows:
        return [], None
    allowed = None if spaces == "*" else frozenset(spaces)
    cells = [_queued(row) for row in rows if allowed is None or row["space"] in allowed]
    return cells, _place(rows[-1])


def taken(sent: Sequence[Queued]) -> list[Statement]:
    """Return the statements that take off the queue what the edge has merged."""
    keys = _keys(sent)
    return [*(Statement(text % 0, (keys,)) for text in _MARK), Statement(_FORGET_REASONS, (keys,))]


def refused(cells: Sequence[Refused], now_ms: int) -> list[Statement]:
    """Return the statements that lay aside what the edge will not take."""
    keys = _keys([one.queued for one in cells])
    reasons = compact_json([[*_key(one.queued), str(one.code), one.message] for one in cells])
    return [*(Statement(text % 2, (keys,)) for text in _MARK), Statement(_KEEP_REASON, (reasons, now_ms))]


def settled() -> Statement:
    """Return the statement that forgets why cells were refused which others' writes have replaced since."""
    return Statement(_SETTLED)


async def again(database: Database) -> None:
    """Queue anew what was laid aside: the reason may be gone."""
    await database.batch([Statement(text) for text in _AGAIN])


async def all_of(database: Database, spaces: SyncSpaces) -> None:
    """Queue everything that there is in these spaces, others' writes too.

    In parts, so that others can write in between; to be called again if it breaks off.
    """
    (row,) = await database.query("select coalesce(max(rid), 0) as last from record")
    named = "1" if spaces == "*" else _OF_SPACES
    more = () if spaces == "*" else (compact_json(spaces),)
    for first in range(0, cast("int", row["last"]), MARKED_AT_ONCE):
        await database.batch([Statement(text % named, (first, MARKED_AT_ONCE, *more)) for text in _ALL])


def _place(row: Row) -> Place:
    return Place(cast("int", row["rid"]), cast("str", row["field"]))


def _queued(row: Row) -> Queued:
    field = cast("str", row["field"]) or INIT
    value = row["value"]
    if field == INIT and value is not None:
        value = json.loads(cast("str", value))
    return Queued(_place(row), [row["id"], row["space"], field, row["rank"], row["hlc"], value])


def _key(queued: Queued) -> list[Any]:
    return [*queued.place, queued.cell[3], queued.cell[4]]


def _keys(cells: Sequence[Queued]) -> str:
    return compact_json([_key(one) for one in cells])
