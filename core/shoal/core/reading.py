"""Get and list: memories whole, in the order asked for."""

import json
from collections.abc import Sequence
from typing import Final, cast

from shoal.core.caller import Caller, Scope
from shoal.core.context import Context, bounded, ids_of
from shoal.core.criteria import filter_of, refuse_with_ids
from shoal.core.ids import parse_id
from shoal.core.protocols import Row
from shoal.core.rows import NEWEST, WHOLE, memory_out, page_of_rows, whole
from shoal.schema.limits import PAGE_MAX
from shoal.schema.models import GetAnswer, GetRequest, MemoryOut, Note, NoteCode
from shoal.schema.sql import State

PAGES_MAX: Final = 10_000
ANSWER_MAX_CHARS: Final = 8_000_000
"""Content in one answer: 32 memories of the greatest length."""
TOOL_ANSWER_MAX_CHARS: Final = 60_000
"""The same for a tool: Claude Code takes 25,000 tokens, about three characters each."""
VISIBLE: Final = (State.LIVE, State.ARCHIVED)
ANY_STATE: Final = (*VISIBLE, State.TRASHED)

_ORDERS: Final = {
    "newest": NEWEST,
    "oldest": "r.occurred_at, r.rid",
    "updated": "r.updated_at desc, r.rid desc",
}


async def get(context: Context, request: GetRequest, caller: Caller) -> GetAnswer:
    """Return memories by id, or a page of those that the criteria select. Raises InvalidInput, NotAllowed."""
    caller.require(Scope.READ)
    ids = ids_of(request.id, request.ids)
    notes: list[Note] = []
    if ids:
        refuse_with_ids(request)
        rows = await by_ids(context, ids, caller.readable_by_id(request.space), ANY_STATE, _columns(request))
        missing = len(ids) - len(rows)
        if missing:
            notes.append(Note(code=NoteCode.MISSING, message=f"{missing} of {len(ids)} were not found.", n=missing))
        memories = _shown(context, _within_answer(rows, caller, "ask for their ids", notes))
        return GetAnswer(memories=memories, notes=notes)
    size = bounded("page_size", request.page_size, 1, PAGE_MAX, caller, notes)
    page = bounded("page", request.page, 1, PAGES_MAX, caller, notes)
    rows = await _page(context, request, caller, size, page)
    memories = _shown(context, _within_answer(rows[:size], caller, "ask for smaller pages", notes))
    return GetAnswer(memories=memories, page=page, page_size=size, more=len(rows) > len(memories), notes=notes)


def _columns(request: GetRequest) -> str:
    return whole(edges=request.with_edges, history=request.with_history)


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
    context: Context,
    ids: Sequence[str],
    spaces: tuple[str, ...] | None,
    states: tuple[int, ...],
    columns: str = WHOLE,
) -> list[Row]:
    """Return the memories of these ids that exist in the spaces (None = all), in the order of the ids.

    Raises InvalidId.
    """
    for one in ids:
        parse_id(one)
    within = "" if spaces is None else "and r.space in (select value from json_each(?2))"
    params = (json.dumps(ids),) if spaces is None else (json.dumps(ids), json.dumps(spaces, ensure_ascii=False))
    return await context.database.query(
        f"select {columns} from json_each(?1) j cross join record r on r.id = unhex(j.value) {within}"
        f" where r.class = 'memory' and r.state in ({', '.join(map(str, states))}) order by j.key",
        params,
    )


async def _page(context: Context, request: GetRequest, caller: Caller, size: int, page: int) -> list[Row]:
    """Return the page and one row more where there is one: counting would read every memory."""
    where = filter_of(context, request, caller, _states(request))
    order = _ORDERS[request.order]
    return await context.database.query(*page_of_rows(where, order, size + 1, (page - 1) * size, _columns(request)))


def _states(request: GetRequest) -> tuple[int, ...]:
    if request.trash:
        return (State.TRASHED,)
    return VISIBLE if request.include_archived else (State.LIVE,)


def _shown(context: Context, rows: Sequence[Row]) -> list[MemoryOut]:
    return [memory_out(row, context.ontology, context.trash_days) for row in rows]
