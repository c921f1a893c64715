"""Three ways out: the trash (delete), nothing left but a hash and a rank (purge), and back (revive)."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from shoal.core import replication
from shoal.core.apply import Prior, apply
from shoal.core.caller import Caller, Scope
from shoal.core.cells import INIT, Cell, local
from shoal.core.context import Context, ids_of
from shoal.core.criteria import NARROWING, filter_of, narrowing, refuse_with_ids
from shoal.core.filters import selection
from shoal.core.journal import UPKEEP, Action, Author
from shoal.core.protocols import Filter, Row
from shoal.core.reading import ANY_STATE, VISIBLE, by_ids
from shoal.core.rows import NAMES
from shoal.core.text import clean
from shoal.core.times import MS_PER_DAY, iso
from shoal.schema.errors import InvalidInput
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import (
    DeleteAnswer,
    DeleteRequest,
    DeleteStatus,
    Note,
    NoteCode,
    ReviveAnswer,
)
from shoal.schema.sql import Mode, State

REASON_MAX_CHARS: Final = 500
_DELETING: Final = (Scope.READ, Scope.WRITE)
"""Needed in a memory's space to delete or revive it: the answers tell what is there."""
_PURGING: Final = (*_DELETING, Scope.ADMIN)


async def delete(context: Context, request: DeleteRequest, caller: Caller) -> DeleteAnswer:
    """Put memories into the trash, or purge them, once `confirm` is given; else say what would go.

    Raises InvalidInput when nothing says which memories, NotAllowed when a purge isn't the caller's to make.
    """
    needs = _PURGING if request.purge else _DELETING
    caller.require(*needs)
    reason = None if request.reason is None else clean(request.reason, "reason", REASON_MAX_CHARS)
    notes: list[Note] = []
    rows = await _selected(context, request, caller, needs, notes)
    ids = [cast("str", row["id"]) for row in rows]
    if not ids:
        return DeleteAnswer(status=DeleteStatus.NOT_FOUND, ids=[], notes=notes)
    if not request.dry_run and not request.confirm:
        notes.append(Note(code=NoteCode.CONFIRM, message="Nothing was deleted; confirm=true deletes these."))
    if request.dry_run or not request.confirm:
        return DeleteAnswer(status=DeleteStatus.CANCELLED, ids=ids, notes=notes)
    if request.purge:
        ids = await purge(context, rows, Author.of(caller, Action.PURGE))
        return DeleteAnswer(status=DeleteStatus.PURGED if ids else DeleteStatus.NOT_FOUND, ids=ids, notes=notes)
    now = context.clock()
    cells = [
        local(one, space, field, value, Mode.EDIT)
        for one, space in _keys(rows)
        for field, value in (("trash", now), ("reason", reason))
    ]
    ids = _reached(rows, await _apply_pages(context, cells, now, Author.of(caller, Action.DELETE)), VISIBLE)
    if not ids:
        return DeleteAnswer(status=DeleteStatus.NOT_FOUND, ids=[], notes=notes)
    until = iso(now + context.trash_days * MS_PER_DAY)
    return DeleteAnswer(status=DeleteStatus.DELETED, ids=ids, restorable_until=until, notes=notes)


async def _selected(
    context: Context, request: DeleteRequest, caller: Caller, needs: tuple[Scope, ...], notes: list[Note]
) -> list[Row]:
    """Return the memories that the request names; a purge also reaches what lies in the trash."""
    states = ANY_STATE if request.purge else VISIBLE
    ids = ids_of(request.id, request.ids)
    if ids:
        refuse_with_ids(request)
        rows = await by_ids(context, ids, caller.within_by_id(request.space, *needs), states, NAMES)
        if len(rows) < len(ids):
            missing = len(ids) - len(rows)
            notes.append(Note(code=NoteCode.MISSING, message=f"{missing} of {len(ids)} were not found.", n=missing))
        return rows
    if not narrowing(request):
        raise InvalidInput(
            "Nothing says which memories to delete.", f"Give `id`, `ids` or a filter ({', '.join(NARROWING)})."
        )
    return await _by_criteria(context, filter_of(context, request, caller, states, *needs), notes)


async def _by_criteria(context: Context, where: Filter, notes: list[Note]) -> list[Row]:
    sql, params = selection(where, "r")
    rows = await context.database.query(f"select {NAMES} from record r where {sql} limit ?", (*params, BATCH_MAX + 1))
    if len(rows) > BATCH_MAX:
        notes.append(Note(code=NoteCode.PARTIAL, message=f"More match: {BATCH_MAX} go a call; call again."))
    return rows[:BATCH_MAX]


async def purge(context: Context, rows: Sequence[Row], by: Author) -> list[str]:
    """Erase memories for good and return the ids of those that were there. Rows need {id, space}.

    Their vectors go when the indexer next runs (`Indexer.erase_purged`).
    """
    cells = [local(one, space, INIT, None, Mode.PURGE) for one, space in _keys(rows)]
    return _reached(rows, await _apply_pages(context, cells, context.clock(), by), ANY_STATE)


async def revive(context: Context, ids: Sequence[str], caller: Caller) -> ReviveAnswer:
    """Take memories out of the trash. Raises InvalidId, NotAllowed."""
    spaces = caller.within_by_id(None, *_DELETING)
    wanted = ids_of(None, list(ids))
    rows = await by_ids(context, wanted, spaces, (State.TRASHED,), NAMES)
    cells = [local(one, space, "trash", None, Mode.RESTORE) for one, space in _keys(rows)]
    priors = await _apply_pages(context, cells, context.clock(), Author.of(caller, Action.REVIVE))
    back = _reached(rows, priors, (State.TRASHED,))
    return ReviveAnswer(ids=back, not_found=[one for one in wanted if one not in back])


async def empty_trash(context: Context) -> list[str]:
    """Purge what has lain in the trash longer than `trash_days`, at most BATCH_MAX memories; return their ids.

    The spaces of a link that works are left to the edge, which has its own setting and knows of every revive.
    """
    now = context.clock()
    before = now - context.trash_days * MS_PER_DAY
    rows = await context.database.query(
        f"select {NAMES} from record r indexed by record_trash"
        " cross join cell c on c.rid = r.rid and c.field = 'trash'"
        # The stamp as well: it never goes back, where a clock that was years behind dated the delete.
        " where r.state = 3 and max(c.value, cast(substr(c.hlc, 1, 19) as integer) / 65536) < ?1"
        f" and not ({replication.WORKS}) limit ?2",
        (before, BATCH_MAX, now - replication.WORKS_MS),
    )
    return await purge(context, rows, UPKEEP)


def _keys(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(cast("str", row["id"]), cast("str", row["space"])) for row in rows]


async def _apply_pages(
    context: Context, cells: Sequence[Cell], now_ms: int, by: Author
) -> dict[tuple[str, str], Prior]:
    """Return what each memory was before the batch that reached it."""
    priors: dict[tuple[str, str], Prior] = {}
    size = context.policy.page_cells
    for start in range(0, len(cells), size):
        priors.update(await apply(context.database, cells[start : start + size], context.replica, now_ms, by))
    return priors


def _reached(rows: Sequence[Row], priors: Mapping[tuple[str, str], Prior], states: tuple[int, ...]) -> list[str]:
    """Return the ids of the memories that were in one of these states when the batch came, not when they were read."""
    return [key[0] for key in _keys(rows) if key in priors and priors[key].state in states]
