"""Counts and health of what a caller may read."""

from collections import Counter
from typing import Final, cast

from shoal.core.backlog import Backlog
from shoal.core.caller import Caller, Scope
from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.criteria import spaces_of
from shoal.core.protocols import Phase
from shoal.schema.models import ModelStatus, Note, NoteCode, StatsAnswer
from shoal.schema.sql import State

_COUNTS: Final = """
select space, type, state, count(*) as n from record
where class = 'memory' and state > 0 and space in (select value from json_each(?1))
group by space, type, state
"""


_BY_METADATA: Final = """
select coalesce((select c.value->>'$' from cell c where c.rid = r.rid and c.field = ?2), r.type) as value,
  count(*) as n
from record r where r.class = 'memory' and r.state in (1, 2) and r.space = ?1
group by 1 order by 2 desc, 1
"""


async def count_metadata(context: Context, key: str, caller: Caller) -> dict[str, int]:
    """Count the memories of the caller's space by a metadata value, by type where they have none. Most first.

    Raises NotAllowed.
    """
    caller.require(Scope.READ)
    rows = await context.database.query(_BY_METADATA, (caller.space(None), f"md:{key}"))
    return {str(row["value"]): cast("int", row["n"]) for row in rows}


async def stats(context: Context, caller: Caller, left: Backlog, model: ModelStatus) -> StatsAnswer:
    """Count the memories of the spaces that the caller may read. Raises NotAllowed."""
    caller.require(Scope.READ)
    spaces = await spaces_of(context, "*", caller)
    rows = await context.database.query(_COUNTS, (compact_json(spaces),))
    by_state: Counter[int] = Counter()
    by_type: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    by_space: Counter[str] = Counter()
    for row in rows:
        n, state, type_name = cast("int", row["n"]), cast("int", row["state"]), cast("str", row["type"])
        by_state[state] += n
        if state != State.TRASHED:
            by_type[type_name] += n
            by_kind[context.ontology.info(type_name).kind] += n
            by_space[cast("str", row["space"])] += n
    return StatsAnswer(
        total=by_state[State.LIVE] + by_state[State.ARCHIVED],
        by_type=dict(by_type.most_common()),
        by_kind=dict(by_kind.most_common()),
        live=by_state[State.LIVE],
        archived=by_state[State.ARCHIVED],
        trashed=by_state[State.TRASHED],
        pending_embeddings=left.vectors,
        model=model,
        database_bytes=await context.database.size_bytes() if caller.spaces is None else None,
        spaces=dict(by_space),
        degraded=degraded(model, left),
    )


def degraded(model: ModelStatus, left: Backlog) -> list[Note]:
    """Return what doesn't work as it should, as every health report and answer says it."""
    notes: list[Note] = []
    if model.state == Phase.UNAVAILABLE:
        notes.append(Note(code=NoteCode.LEXICAL_ONLY, message=f"Only words are searched: {model.reason}"))
    elif left.vectors:
        notes.append(
            Note(
                code=NoteCode.PENDING,
                message=f"{left.vectors} memories are found by their words only so far.",
                n=left.vectors,
            )
        )
    if model.state != Phase.UNAVAILABLE and model.reason is not None:
        notes.append(Note(code=NoteCode.OTHER_MODEL, message=model.reason))
    if left.words:
        notes.append(Note(code=NoteCode.PARTIAL, message="The words of older memories are being indexed anew."))
    return notes
