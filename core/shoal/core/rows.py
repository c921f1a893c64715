"""Memories as rows: the columns that answers need, read in one query whatever the number of memories."""

import json
from typing import Final, cast

from shoal.core.cells import compact_json
from shoal.core.filters import SPACES, condition
from shoal.core.protocols import Filter, Row, Statement
from shoal.core.times import MS_PER_DAY, iso
from shoal.schema.models import Edge, MemoryOut, StateName
from shoal.schema.ontology import Ontology
from shoal.schema.sql import State, set_fields

STATE_NAMES: Final = {
    State.LIVE: StateName.LIVE,
    State.ARCHIVED: StateName.ARCHIVED,
    State.TRASHED: StateName.TRASHED,
}
_METADATA: Final = (
    "(select json_group_object(substr(c.field, 4), json(c.value)) from cell c"
    " where c.rid = r.rid and c.field >= 'md:' and c.field < 'md;' and c.value is not null)"
)


def cell_value(field: str, rid: str = "r.rid") -> str:
    """Return SQL for the value of a record's cell, null when it has none."""
    return f"(select c.value from cell c where c.rid = {rid} and c.field = '{field}')"


SUPERSEDED: Final = (
    "(select c.value from cell c"
    " cross join record s on s.id = unhex(c.value) and s.space = r.space and s.state in (1, 2)"
    " where c.rid = r.rid and c.field = 'superseded')"
)
"""SQL for the id of what superseded `r`; null when that can't be seen: a version whose successor went is the latest."""

NAMES: Final = "r.rid, lower(hex(r.id)) as id, r.space"
"""Columns that name a memory `r`."""

WHOLE: Final = (
    "r.rid, lower(hex(r.id)) as id, r.space, r.type, r.state, r.occurred_at, r.created_at, r.updated_at,"
    " r.conversation_id, r.position, r.init->>'content' as content,"
    f" {set_fields('tag', 'r.rid')} as tags, {set_fields('entity', 'r.rid')} as entities,"
    f" {set_fields('source', 'r.rid')} as sources, {_METADATA} as metadata,"
    f" {cell_value('importance')} as importance, {SUPERSEDED} as superseded,"
    f" {cell_value('trash')} as trash, {cell_value('reason')} as reason"
)
"""All columns of a memory `r`."""

HISTORY_MAX: Final = 100
"""Versions before, and after, one memory that an answer names."""

_EDGES: Final = """(select json_group_array(json_object('id', lower(hex(e.id)), 'relation', e.init->>'relation',
    'source', lower(hex(e.src)), 'target', lower(hex(e.dst))))
  from (select rid from record where src = r.id union select rid from record where dst = r.id) x
    cross join record e on e.rid = x.rid and e.space = r.space and e.state = 1
    cross join record s on s.id = e.src and s.space = e.space and s.state in (1, 2)
    cross join record d on d.id = e.dst and d.space = e.space and d.state in (1, 2))"""
"""SQL for the edges from and to `r` as JSON; hidden unless both ends can be seen."""

# A version that became the latest again (text changed to and fro) isn't older than what it once gave way to.
_SUPERSEDES: Final = """e.space = r.space and e.state = 1 and e.init->>'relation' = 'supersedes' and exists (
      select 1 from record d cross join cell c on c.rid = d.rid and c.field = 'superseded' and c.value is not null
      where d.id = e.dst and d.space = e.space)"""
_HISTORY: Final = f"""(with recursive
    older (id, depth) as (
      select r.id, 0 union
      select e.dst, o.depth - 1 from older o cross join record e on e.src = o.id
      where o.depth > -{HISTORY_MAX} and {_SUPERSEDES}),
    newer (id, depth) as (
      select r.id, 0 union
      select e.src, n.depth + 1 from newer n cross join record e on e.dst = n.id
      where n.depth < {HISTORY_MAX} and {_SUPERSEDES})
  select json_group_array(lower(hex(x.id))) from (
    select v.id from (select * from older union select * from newer) v
      cross join record m on m.id = v.id and m.space = r.space and m.state in (1, 2)
    group by v.id order by min(v.depth), v.id) x)"""
"""SQL for the ids of the versions of `r` that can be seen as JSON, the oldest first."""


def whole(*, edges: bool = False, history: bool = False) -> str:
    """Return WHOLE with what else is asked for, so that a page takes one query whatever it shows."""
    return WHOLE + (f", {_EDGES} as edges" if edges else "") + (f", {_HISTORY} as history" if history else "")


_NAMED_SPACES: Final = "select value as space from json_each(?)"


NEWEST: Final = "r.occurred_at desc, r.rid desc"
"""Order of the newest first."""


def first_rows(
    where: Filter, order: str, limit: int, offset: int = 0, *, between: tuple[int, int] | None = None
) -> Statement:
    """Return the query for the rids of the first memories `r` that pass, in an order; `limit` from `offset` on.

    `between` narrows occurred_at (ms, the end exclusive) beside the filter's own times. Of several spaces each gives
    its own first rows, by the index of the order: sorting all of them together would read every memory.
    """
    during = "" if between is None else " and r.occurred_at >= ? and r.occurred_at < ?"
    if where.spaces is not None and len(where.spaces) == 1:
        passing, params = condition(where, "r")
        return Statement(
            f"select r.rid from record r where {passing}{during} order by {order} limit ? offset ?",
            (*params, *(between or ()), limit, offset),
        )
    passing, params = condition(where, "r", space="s.space")
    spaces, named = (SPACES, ()) if where.spaces is None else (_NAMED_SPACES, (compact_json(where.spaces),))
    return Statement(
        f"select r.rid from ({spaces}) s cross join json_each((select json_group_array(x.rid) from"
        f" (select r.rid from record r where {passing}{during} order by {order} limit ?) x)) j"
        f" cross join record r on r.rid = j.value order by {order} limit ? offset ?",
        (*named, *params, *(between or ()), limit + offset, limit, offset),
    )


def page_of_rows(where: Filter, order: str, limit: int, offset: int, columns: str) -> Statement:
    """Return the query for a page of the memories `r` that pass, in an order; `limit` rows from `offset` on.

    The texts are read of that page alone.
    """
    found, params = first_rows(where, order, limit, offset)
    return Statement(f"select {columns} from ({found}) x cross join record r on r.rid = x.rid order by {order}", params)


def first_bytes(found: str, order: str, columns: str) -> str:
    """Return the query for the columns of the memories `r` that the SQL `found` tells by their rids, in an order.

    `?`, its last parameter, says how many bytes of them are read: whole memories, at least one. `total` is in each row
    how many were found. `order` may name columns of `found`, which is `f`.
    """
    return (
        f"select {columns}, x.total from (select r.rid, row_number() over (order by {order}) as number,"
        f" octet_length(r.init) as size, count(*) over () as total,"
        f" sum(octet_length(r.init)) over (order by {order} rows unbounded preceding) as up_to"
        f" from ({found}) f cross join record r on r.rid = f.rid) x"
        " cross join record r on r.rid = x.rid where x.up_to <= ? or x.number = 1 order by x.number"
    )


def memory_out(row: Row, ontology: Ontology, trash_days: int) -> MemoryOut:
    """Return a row of `whole` as an answer."""
    trash = cast("int | None", row["trash"])
    type_name = cast("str", row["type"])
    return MemoryOut(
        id=cast("str", row["id"]),
        content=cast("str", row["content"]),
        type=type_name,
        kind=ontology.info(type_name).kind,
        tags=json_list(row["tags"]),
        metadata=json.loads(cast("str", row["metadata"])),
        sources=json_list(row["sources"]),
        entities=json_list(row["entities"]),
        importance=1.0 if row["importance"] is None else float(row["importance"]),
        conversation_id=cast("str | None", row["conversation_id"]),
        position=cast("int | None", row["position"]),
        occurred_at=iso(cast("int", row["occurred_at"])),
        created_at=iso(cast("int", row["created_at"])),
        updated_at=iso(cast("int", row["updated_at"])),
        state=STATE_NAMES[cast("int", row["state"])],
        space=cast("str", row["space"]),
        superseded_by=cast("str | None", row["superseded"]),
        restorable_until=None if trash is None else iso(trash + trash_days * MS_PER_DAY),
        reason=None if trash is None else cast("str | None", row["reason"]),
        edges=edges_of(row),
        history=json_list(row["history"]) if "history" in row else None,
    )


def edges_of(row: Row) -> list[Edge] | None:
    """Return the edges of a row of `whole`, None where they were not asked for."""
    if "edges" not in row:
        return None
    return [Edge.model_validate(edge) for edge in json.loads(cast("str", row["edges"]))]


def json_list(value: object) -> list[str]:
    """Return a JSON list of strings that SQL has made."""
    return json.loads(cast("str", value))
