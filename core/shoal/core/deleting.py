"""Three ways out: the trash (delete), nothing left but a hash and a rank (purge), and back (revive)."""

from collections.abc import Sequence
from typing import Final, cast

from shoal.core.apply import apply
from shoal.core.caller import Caller, Scope
from shoal.core.cells import INIT, Cell, local
from shoal.core.context import Context, ids_of
from shoal.core.criteria import filter_of
from shoal.core.filters import condition
from shoal.core.protocols import Row
from shoal.core.reading import ANY_STATE, by_ids
from shoal.core.storing import PAGE_CELLS
from shoal.core.text import clean
from shoal.core.times import MS_PER_DAY, iso
from shoal.schema.errors import InvalidInput
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import (
    Criteria,
    DeleteAnswer,
    DeleteRequest,
    DeleteStatus,
    Note,
    NoteCode,
    ReviveAnswer,
)
from shoal.schema.sql import Mode, State

REASON_MAX_CHARS: Final = 500
_NARROWING: Final = ("type", "kind", "tags", "entity", "conversation_id", "since", "until", "time")
_LIVING: Final = (State.LIVE, State.ARCHIVED)


async def delete(context: Context, request: DeleteRequest, caller: Caller) -> DeleteAnswer:
    """Put memories into the trash, or purge them, once `confirm` is given; else say what would go.

    Raises InvalidInput when nothing says which memories, NotAllowed when a purge isn't the caller's to make.
    """
    caller.require(Scope.WRITE)
    if request.purge:
        caller.require(Scope.ADMIN)
    reason = None if request.reason is None else clean(request.reason, "reason", REASON_MAX_CHARS)
    notes: list[Note] = []
    rows = await _selected(context, request, caller, notes)
    ids = [cast("str", row["id"]) for row in rows]
    if not ids:
        return DeleteAnswer(status=DeleteStatus.NOT_FOUND, ids=[], notes=notes)
    if request.dry_run or not request.confirm:
        return DeleteAnswer(status=DeleteStatus.CANCELLED, ids=ids, notes=notes)
    if request.purge:
        await purge(context, rows)
        return DeleteAnswer(status=DeleteStatus.PURGED, ids=ids, notes=notes)
    now = context.clock()
    cells = [
        local(one, space, field, value, Mode.EDIT)
        for one, space in _keys(rows)
        for field, value in (("trash", now), ("reason", reason))
    ]
    await _apply_pages(context, cells, now)
    until = iso(now + context.trash_days * MS_PER_DAY)
    return DeleteAnswer(status=DeleteStatus.DELETED, ids=ids, restorable_until=until, notes=notes)


async def _selected(context: Context, request: DeleteRequest, caller: Caller, notes: list[Note]) -> list[Row]:
    """Return the memories that the request names; a purge also reaches what lies in the trash."""
    states = ANY_STATE if request.purge else _LIVING
    ids = ids_of(request.id, request.ids)
    narrowing = [name for name in _NARROWING if getattr(request, name) is not None]
    if ids:
        if narrowing:
            raise InvalidInput(
                f"Ids were given together with {', '.join(narrowing)}.", "Use either ids or filters to say what goes."
            )
        rows = await by_ids(context, ids, caller.readable_by_id(request.space), states)
        if len(rows) < len(ids):
            missing = len(ids) - len(rows)
            notes.append(Note(code=NoteCode.MISSING, message=f"{missing} of {len(ids)} were not found.", n=missing))
        return rows
    if not narrowing:
        raise InvalidInput(
            "Nothing says which memories to delete.", f"Give `id`, `ids` or a filter ({', '.join(_NARROWING)})."
        )
    return await _by_criteria(context, request, caller, request.purge, notes)


async def _by_criteria(
    context: Context, criteria: Criteria, caller: Caller, trashed: bool, notes: list[Note]
) -> list[Row]:
    sql, params = condition(await filter_of(context, criteria, caller, archived=True, trashed=trashed), "r")
    rows = await context.database.query(
        f"select r.rid, lower(hex(r.id)) as id, r.space from record r where {sql} limit ?", (*params, BATCH_MAX + 1)
    )
    if len(rows) > BATCH_MAX:
        notes.append(Note(code=NoteCode.PARTIAL, message=f"More match: {BATCH_MAX} go a call; call again."))
    return rows[:BATCH_MAX]


async def purge(context: Context, rows: Sequence[Row]) -> None:
    """Erase memories for good. Rows need {rid, id, space}; vectors of each go at once, here or at the next drain."""
    now = context.clock()
    await _apply_pages(context, [local(one, space, INIT, None, Mode.PURGE) for one, space in _keys(rows)], now)


async def revive(context: Context, ids: Sequence[str], caller: Caller) -> ReviveAnswer:
    """Take memories out of the trash. Raises InvalidId, NotAllowed."""
    caller.require(Scope.WRITE)
    wanted = ids_of(None, list(ids))
    rows = await by_ids(context, wanted, caller.readable_by_id(None), (State.TRASHED,))
    cells = [local(one, space, "trash", None, Mode.RESTORE) for one, space in _keys(rows)]
    await _apply_pages(context, cells, context.clock())
    back = [one for one, _ in _keys(rows)]
    return ReviveAnswer(ids=back, not_found=[one for one in wanted if one not in back])


async def empty_trash(context: Context) -> int:
    """Purge what has lain in the trash longer than `trash_days`, at most BATCH_MAX memories; return how many."""
    before = context.clock() - context.trash_days * MS_PER_DAY
    rows = await context.database.query(
        "select r.rid, lower(hex(r.id)) as id, r.space from record r indexed by record_trash"
        " cross join cell c on c.rid = r.rid and c.field = 'trash' where r.state = 3 and c.value < ?1 limit ?2",
        (before, BATCH_MAX),
    )
    if rows:
        await purge(context, rows)
    return len(rows)


def _keys(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(cast("str", row["id"]), cast("str", row["space"])) for row in rows]


async def _apply_pages(context: Context, cells: Sequence[Cell], now_ms: int) -> None:
    for start in range(0, len(cells), PAGE_CELLS):
        await apply(context.database, cells[start : start + PAGE_CELLS], context.replica, now_ms)
