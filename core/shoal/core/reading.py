"""Get and list: memories whole, in the order asked for."""

import json
from collections.abc import Sequence
from typing import Final, cast

from shoal.core.caller import Caller, Scope
from shoal.core.cells import compact_json
from shoal.core.context import Context, bounded, ids_of
from shoal.core.criteria import filter_of, refuse_with_ids
from shoal.core.ids import parse_id
from shoal.core.protocols import Row, Statement
from shoal.core.rows import NEWEST, first_bytes, first_rows, memory_out, whole
from shoal.schema.limits import PAGE_MAX
from shoal.schema.models import GetAnswer, GetRequest, MemoryOut, Note, NoteCode
from shoal.schema.sql import State

PAGES_MAX: Final = 10_000
ANSWER_MAX_BYTES: Final = 8_000_000
"""Memories in one answer, as they are stored: 30 of the greatest length. More are not even read."""
TOOL_ANSWER_MAX_BYTES: Final = 60_000
"""The same for a tool: Claude Code takes 25,000 tokens, of about three bytes."""
VISIBLE: Final = (State.LIVE, State.ARCHIVED)
ANY_STATE: Final = (*VISIBLE, State.TRASHED)

_ORDERS: Final = {
    "newest": NEWEST,
    "oldest": "r.occurred_at, r.rid",
    "updated": "r.updated_at desc, r.rid desc",
}


async def get(context: Context, request: GetRequest, caller: Caller) -> GetAnswer:
    """Return memories by id, or a page of those that the criteria select. Raises InvalidInput, NotAllowed."""
    ids = ids_of(request.id, request.ids)
    notes: list[Note] = []
    if ids:
        refuse_with_ids(request)
        found = _found_by_ids(ids, caller.within_by_id(request.space, Scope.READ), ANY_STATE)
        rows, total = await _first(context, found, "f.key, r.rid", request, caller)
        missing = len(ids) - total
        if missing > 0:  # One id may be in several spaces.
            notes.append(Note(code=NoteCode.MISSING, message=f"{missing} of {len(ids)} were not found.", n=missing))
        _note_left(total - len(rows), "ask for their ids", notes)
        return GetAnswer(memories=_shown(context, rows), notes=notes)
    size = bounded("page_size", request.page_size, 1, PAGE_MAX, caller, notes)
    page = bounded("page", request.page, 1, PAGES_MAX, caller, notes)
    where = filter_of(context, request, caller, _states(request), Scope.READ)
    order = _ORDERS[request.order]
    # One more than the page, where there is one: counting would read every memory.
    found = first_rows(where, order, size + 1, (page - 1) * size)
    rows, total = await _first(context, found, order, request, caller)
    memories = _shown(context, rows[:size])
    _note_left(min(total, size) - len(memories), "ask for smaller pages", notes)
    return GetAnswer(memories=memories, page=page, page_size=size, more=total > len(memories), notes=notes)


async def _first(
    context: Context, found: Statement, order: str, request: GetRequest, caller: Caller
) -> tuple[list[Row], int]:
    """Return the first rows of what `found` tells that fit into an answer, at least one, and how many there are."""
    most = TOOL_ANSWER_MAX_BYTES if caller.clamps else ANSWER_MAX_BYTES
    columns = whole(edges=request.with_edges, history=request.with_history)
    rows = await context.database.query(first_bytes(found.sql, order, columns), (*found.params, most))
    return rows, cast("int", rows[0]["total"]) if rows else 0


def _note_left(left: int, mend: str, notes: list[Note]) -> None:
    if left > 0:
        message = f"{left} more would make the answer too long; {mend}."
        notes.append(Note(code=NoteCode.TRUNCATED, message=message, n=left))


async def by_ids(
    context: Context, ids: Sequence[str], spaces: tuple[str, ...] | None, states: tuple[int, ...], columns: str
) -> list[Row]:
    """Return columns of the memories `r` of these ids that exist in the spaces (None = all), in the order of the ids.

    Raises InvalidId.
    """
    found, params = _found_by_ids(ids, spaces, states)
    sql = f"select {columns} from ({found}) f cross join record r on r.rid = f.rid order by f.key"
    return await context.database.query(sql, params)


def _found_by_ids(ids: Sequence[str], spaces: tuple[str, ...] | None, states: tuple[int, ...]) -> Statement:
    """Return the query for the rids of these memories, and as `key` their places among the ids. Raises InvalidId."""
    for one in ids:
        parse_id(one)
    within = "" if spaces is None else "and r.space in (select value from json_each(?2))"
    params = (json.dumps(ids),) if spaces is None else (json.dumps(ids), compact_json(spaces))
    return Statement(
        f"select j.key, r.rid from json_each(?1) j cross join record r on r.id = unhex(j.value) {within}"
        f" where r.class = 'memory' and r.state in ({', '.join(map(str, states))})",
        params,
    )


def _states(request: GetRequest) -> tuple[int, ...]:
    if request.trash:
        return (State.TRASHED,)
    return VISIBLE if request.include_archived else (State.LIVE,)


def _shown(context: Context, rows: Sequence[Row]) -> list[MemoryOut]:
    return [memory_out(row, context.ontology, context.trash_days) for row in rows]
