"""Filters as SQL conditions on a `record` row, for use inside any index query: never after it."""

from typing import Final

from shoal.core.cells import compact_json
from shoal.core.protocols import Filter, SqlValue

SPACES: Final = """
with recursive known (space) as (
  select (select r.space from record r indexed by record_occurred
    where r.class = 'memory' and r.space >= '' order by r.space limit 1)
  union all
  select (select r.space from record r indexed by record_occurred
    where r.class = 'memory' and r.space > known.space order by r.space limit 1)
  from known where known.space is not null)
select space from known where space is not null"""
"""Every space that has memories, an index look-up each: `select distinct` would read every memory."""

# Set cells (tags, entities) between two field names; both ends equal for one tag, apart for a namespace.
_SET = (
    "select c.rid from json_each(?) w cross join cell c indexed by cell_set"
    " on c.value = 1 and c.field >= w.value->>0 and c.field <= w.value->>1"
)
_LAST = "\U0010ffff"


def condition(where: Filter, alias: str, space: str | None = None) -> tuple[str, tuple[SqlValue, ...]]:
    """Return a condition on the memory row `alias` with `?` for its parameters, and the parameters in order.

    For rows that the query has found otherwise; see `selection`. `space` is SQL for the one space to look in, in place
    of the filter's. At most 8 parameters, whatever the filter holds: lists travel as JSON.
    """
    states = sorted(where.states)
    parts = [f"{alias}.class = 'memory' and {alias}.state in ({', '.join(map(str, states))})"]
    params: list[SqlValue] = []

    def add(sql: str, value: SqlValue) -> None:
        parts.append(sql)
        params.append(value)

    if space is None and where.spaces is not None:
        add(*_one_of(f"{alias}.space", where.spaces))
    elif space is not None:
        parts.append(f"{alias}.space = {space}")
    if where.types is not None and where.types_left_out:
        add(f"{alias}.type not in (select value from json_each(?))", compact_json(where.types))
    elif where.types is not None:
        add(*_one_of(f"{alias}.type", where.types))
    if where.tags:
        every = f" group by c.rid having count(distinct w.key) = {len(where.tags)}" if where.tags_all else ""
        add(f"{alias}.rid in ({_SET}{every})", compact_json([_bounds(f"tag:{tag}") for tag in where.tags]))
    if where.entity is not None:
        add(f"{alias}.rid in ({_SET})", compact_json([_bounds(f"entity:{where.entity}")]))
    if where.conversation_id is not None:
        add(f"{alias}.conversation_id = ?", where.conversation_id)
    time = "created_at" if where.by_created else "occurred_at"
    if where.since_ms is not None:
        add(f"{alias}.{time} >= ?", where.since_ms)
    if where.until_ms is not None:
        add(f"{alias}.{time} < ?", where.until_ms)
    return " and ".join(parts), tuple(params)


def selection(where: Filter, alias: str) -> tuple[str, tuple[SqlValue, ...]]:
    """Return the condition for a query that finds its rows by it alone.

    Every space is named then: the indexes begin with it, and without it each query would read every memory.
    """
    sql, params = condition(where, alias)
    return (sql, params) if where.spaces is not None else (f"{alias}.space in ({SPACES}) and {sql}", params)


def _one_of(column: str, values: tuple[str, ...]) -> tuple[str, str]:
    """Return a condition and its parameter; for one value that by which an index keeps its order."""
    if len(values) == 1:
        return f"{column} = ?", values[0]
    return f"{column} in (select value from json_each(?))", compact_json(values)


def _bounds(field: str) -> tuple[str, str]:
    """Return the first and last field name that a tag covers: `proj:*` is the whole namespace."""
    if field.endswith(":*"):
        return field[:-1], field[:-1] + _LAST
    return field, field
