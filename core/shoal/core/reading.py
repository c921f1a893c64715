"""Get and list: memories whole, in the order asked for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from shoal.core.caller import Caller, Scope
from shoal.core.context import Context, bounded, ids_of
from shoal.core.criteria import filter_of, refuse_with_ids
from shoal.core.ids import parse_id
from shoal.core.protocols import Row
from shoal.core.rows import NEWEST, WHOLE, memory_out, page_of_rows
from shoal.schema.limits import PAGE_MAX
from shoal.schema.models import Edge, GetAnswer, GetRequest, Note, NoteCode
from shoal.schema.sql import State

PAGES_MAX: Final = 10_000
ANSWER_MAX_CHARS: Final = 8_000_000
"""Content in one answer: 32 memories of the greatest length."""
TOOL_ANSWER_MAX_CHARS: Final = 60_000
"""The same for a tool: Claude Code takes 25,000 tokens, about three characters each."""
VISIBLE: Final = (State.LIVE, State.ARCHIVED)
ANY_STATE: Final = (*VISIBLE, State.TRASHED)
HISTORY_MAX: Final = 100
"""Versions of one memory that an answer names."""

_ORDERS: Final = {
    "newest": NEWEST,
    "oldest": "r.occurred_at, r.rid",
    "updated": "r.updated_at desc, r.rid desc",
}

_EDGES: Final = """
select lower(hex(e.id)) as id, e.init->>'relation' as relation, lower(hex(e.src)) as source, lower(hex(e.dst)) as target
from record e
  cross join record s on s.id = e.src and s.space = e.space and s.state in (1, 2)
  cross join record d on d.id = e.dst and d.space = e.space and d.state in (1, 2)
where e.state = 1 and e.{end} in (select unhex(value) from json_each(?1))
"""
"""Edges from or to memories (?1: ids as JSON); hidden unless both ends can be seen."""

# A version that became the latest again (text changed to and fro) isn't older than what it once gave way to.
_SUPERSEDES: Final = """e.space = ?2 and e.state = 1 and e.init->>'relation' = 'supersedes' and exists (
      select 1 from record d cross join cell c on c.rid = d.rid and c.field = 'superseded' and c.value is not null
      where d.id = e.dst and d.space = e.space)"""
_HISTORY: Final = f"""
with recursive
  older (id, depth) as (
    select unhex(?1), 0 union
    select e.dst, o.depth - 1 from older o cross join record e on e.src = o.id
    where o.depth > -{HISTORY_MAX} and {_SUPERSEDES}),
  newer (id, depth) as (
    select unhex(?1), 0 union
    select e.src, n.depth + 1 from newer n cross join record e on e.dst = n.id
    where n.depth < {HISTORY_MAX} and {_SUPERSEDES})
select lower(hex(v.id)) as id from (select * from older union select * from newer) v
  cross join record r on r.id = v.id and r.space = ?2 and r.state in (1, 2)
group by v.id order by min(v.depth), v.id
"""


async def get(context: Context, request: GetRequest, caller: Caller) -> GetAnswer:
    """Return memories by id, or a page of those that the criteria select. Raises InvalidInput, NotAllowed."""
    caller.require(Scope.READ)
    ids = ids_of(request.id, request.ids)
    notes: list[Note] = []
    if ids:
        refuse_with_ids(request)
        rows = await by_ids(context, ids, caller.readable_by_id(request.space), ANY_STATE)
        missing = len(ids) - len(rows)
        if missing:
            notes.append(Note(code=NoteCode.MISSING, message=f"{missing} of {len(ids)} were not found.", n=missing))
        memories = await _with_relations(context, _within_answer(rows, caller, "ask for their ids", notes), request)
        return GetAnswer(memories=memories, notes=notes)
    size = bounded("page_size", request.page_size, 1, PAGE_MAX, caller, notes)
    page = bounded("page", request.page, 1, PAGES_MAX, caller, notes)
    rows = await _page(context, request, caller, size, page)
    shown = _within_answer(rows[:size], caller, "ask for smaller pages", notes)
    memories = await _with_relations(context, shown, request)
    return GetAnswer(memories=memories, page=page, page_size=size, more=len(rows) > len(shown), notes=notes)


def _within_answer(rows: list[Row], caller: Caller, mend: str, notes: list[Note]) -> list[Row]:
    """Return the first rows that fit into an answer, at least one; a note says how many didn't, and `mend`."""
    most = TOOL_ANSWER_MAX_CHARS if caller.clamps else ANSWER_MAX_CHARS
    size = 0
    for number, row in enumerate(rows):
        size += len(cast("str", row["content"]))
        if number and size > most:
            left = len(rows) - number
            message = f"{left} more would make the answer too long; {mend}."
            notes.append(Note(code=NoteCode.TRUNCATED, message=message, n=left))
            return rows[:number]
    return rows


async def by_ids(
    context: Context, ids: Sequence[str], spaces: tuple[str, ...] | None, states: tuple[int, ...]
) -> list[Row]:
    """Return the memories of these ids that exist in the spaces (None = all), in the order of the ids.

    Raises InvalidId.
    """
    for one in ids:
        parse_id(one)
    within = "" if spaces is None else "and r.space in (select value from json_each(?2))"
    params = (json.dumps(ids),) if spaces is None else (json.dumps(ids), json.dumps(spaces, ensure_ascii=False))
    return await context.database.query(
        f"select {WHOLE} from json_each(?1) j cross join record r on r.id = unhex(j.value) {within}"
        f" where r.class = 'memory' and r.state in ({', '.join(map(str, states))}) order by j.key",
        params,
    )


async def _page(context: Context, request: GetRequest, caller: Caller, size: int, page: int) -> list[Row]:
    """Return the page and one row more where there is one: counting would read every memory."""
    where = filter_of(context, request, caller, _states(request))
    return await context.database.query(*page_of_rows(where, _ORDERS[request.order], size + 1, (page - 1) * size))


def _states(request: GetRequest) -> tuple[int, ...]:
    if request.trash:
        return (State.TRASHED,)
    return VISIBLE if request.include_archived else (State.LIVE,)


async def _with_relations(context: Context, rows: Sequence[Row], request: GetRequest) -> list[Any]:
    ids = [cast("str", row["id"]) for row in rows]
    edges = await edges_of(context, ids) if request.with_edges else None
    found: list[Any] = []
    for row in rows:
        one = cast("str", row["id"])
        history = await _history(context, one, cast("str", row["space"])) if request.with_history else None
        found.append(
            memory_out(
                row,
                context.ontology,
                context.trash_days,
                edges=None if edges is None else edges.get(one, []),
                history=history,
            )
        )
    return found


async def edges_of(context: Context, ids: Sequence[str]) -> Mapping[str, list[Edge]]:
    """Return the visible edges of each memory, from and to it."""
    wanted = set(ids)
    found: dict[str, dict[str, Edge]] = {one: {} for one in ids}
    for end in ("src", "dst"):
        for row in await context.database.query(_EDGES.format(end=end), (json.dumps(ids),)):
            edge = Edge.model_validate(dict(row))
            for one in {edge.source, edge.target} & wanted:
                found[one][edge.id] = edge
    return {one: list(edges.values()) for one, edges in found.items()}


async def _history(context: Context, one: str, space: str) -> list[str]:
    rows = await context.database.query(_HISTORY, (one, space))
    return [cast("str", row["id"]) for row in rows]
