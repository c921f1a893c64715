"""Update: a memory's changeable parts in place; new text as a new memory that supersedes it."""

import json
from typing import cast

from shoal.core.times import to_ms

from shoal.core.apply import apply
from shoal.core.caller import Caller, Scope
from shoal.core.canonical import JsonValue
from shoal.core.cells import INIT, Cell, local, of_set
from shoal.core.context import Context
from shoal.core.drafts import FORMAT, Draft, draft, importance, metadata_cells
from shoal.core.ids import edge_id
from shoal.core.protocols import Row
from shoal.core.reading import ANY_STATE, by_ids
from shoal.core.rows import json_list
from shoal.schema import tags as tag_rules
from shoal.schema.errors import InvalidInput, NotFound
from shoal.schema.models import StoreItem, TagChanges, UpdateAnswer, UpdateRequest
from shoal.schema.sql import Mode, State


async def update(context: Context, request: UpdateRequest, caller: Caller) -> UpdateAnswer:
    """Change a memory. Raises NotFound, InvalidInput, NotAllowed; then nothing was written."""
    caller.require(Scope.WRITE)
    row = await _current(context, request, caller)
    now = context.clock()
    zone = request.time_zone or caller.time_zone
    space = cast("str", row["space"])
    cells = [local(request.id, space, "trash", None, Mode.REVIVE)] if request.revive else []
    cells += _edits(context, request, row, now, zone)
    successor = None if request.content is None else _successor(context, request, row, now, zone)
    if successor is not None:
        cells += _superseding(successor, request.id, now, Mode.REVIVE if request.revive else Mode.EDIT)
    if not cells:
        raise InvalidInput("Nothing to change was given.", "Give content, type, tags, metadata, importance, ...")
    await apply(context.database, cells, context.replica, now)
    return UpdateAnswer(success=True, id=request.id, superseded_by=None if successor is None else successor.id)


async def _current(context: Context, request: UpdateRequest, caller: Caller) -> Row:
    rows = await by_ids(context, [request.id], caller.readable(request.space or "*"), ANY_STATE)
    if not rows:
        raise NotFound(f"There is no memory {request.id}.", "Look for its id with memory_find.")
    caller.space(cast("str", rows[0]["space"]))
    if rows[0]["state"] == State.TRASHED and not request.revive:
        raise NotFound(f"The memory {request.id} is in the trash.", "Update it with revive=true to bring it back.")
    return rows[0]


def _edits(context: Context, request: UpdateRequest, row: Row, now_ms: int, zone: str) -> list[Cell]:
    """Return cells for the changeable parts; on a memory that gets a successor they go to the successor instead."""
    mode = Mode.REVIVE if request.revive else Mode.EDIT
    space = cast("str", row["space"])
    cells: list[Cell] = []
    if request.archived is not None:
        cells.append(local(request.id, space, "archived", int(request.archived), mode))
    if request.content is not None:
        return cells
    if request.type is not None:
        cells.append(local(request.id, space, "type", context.ontology.resolve(request.type).name, mode))
    if request.importance is not None:
        cells.append(local(request.id, space, "importance", importance(request.importance), mode))
    if request.occurred_at is not None:
        cells.append(local(request.id, space, "occurred_at", to_ms(request.occurred_at, now_ms, zone), mode))
    for key, value in metadata_cells(request.metadata).items():
        cells.append(local(request.id, space, f"md:{key}", value, mode))
    if request.tags is not None:
        before = tuple(json_list(row["tags"]))
        after = changed_tags(before, request.tags)
        added = tuple(tag for tag in after if tag not in before)
        removed = tuple(tag for tag in before if tag not in after)
        cells += of_set("tag", request.id, space, added, True, mode)
        cells += of_set("tag", request.id, space, removed, False, mode)
    return cells


def changed_tags(before: tuple[str, ...], change: TagChanges | list[str] | str) -> tuple[str, ...]:
    """Return the tags after a change: exactly a given list, or some added and some removed.

    Raises InvalidTag, TooMany, InvalidInput (`set` together with `add` or `remove`).
    """
    if not isinstance(change, TagChanges):
        return tag_rules.parse_all(change)
    if change.set is not None:
        if change.add is not None or change.remove is not None:
            raise InvalidInput("tags.set was given with add or remove.", "Use set alone, or add and remove.")
        return tag_rules.parse_all(change.set)
    removed = tag_rules.parse_all(change.remove)
    kept = [tag for tag in before if tag not in removed]
    return tag_rules.parse_all([*kept, *tag_rules.parse_all(change.add)])


def _successor(context: Context, request: UpdateRequest, row: Row, now_ms: int, zone: str) -> Draft:
    """Return the new version: the new text with what the old memory carried, changed as the request says."""
    before = tuple(json_list(row["tags"]))
    item = StoreItem(
        content=cast("str", request.content),
        type=request.type or cast("str", row["type"]),
        tags=list(before if request.tags is None else changed_tags(before, request.tags)),
        entities=json_list(row["entities"]),
        metadata={**json.loads(cast("str", row["metadata"])), **(request.metadata or {})},
        importance=cast("float | None", row["importance"]) if request.importance is None else request.importance,
        occurred_at=request.occurred_at,
    )
    new = draft(item, cast("str", row["space"]), context.ontology, now_ms, zone)
    if new.id == request.id:
        raise InvalidInput("The new content equals the old.", "Leave `content` out to change other parts.")
    return new


def _superseding(new: Draft, old_id: str, now_ms: int, mode: Mode) -> list[Cell]:
    """Return the new memory, the edge to the old one and the mark on it.

    An explicit edit brings its text back even if it was forgotten: what the user just wrote is wanted.
    """
    edge = edge_id(new.space, new.id, "supersedes", old_id, symmetric=False)
    init: dict[str, JsonValue] = {
        "v": FORMAT,
        "class": "edge",
        "space": new.space,
        "src": new.id,
        "relation": "supersedes",
        "dst": old_id,
        "created_at": now_ms,
    }
    return [
        *new.cells(Mode.REVIVE),
        local(edge, new.space, INIT, init, Mode.REVIVE),
        local(edge, new.space, "trash", None, Mode.REVIVE),
        local(new.id, new.space, "superseded", None, Mode.REVIVE),
        local(old_id, new.space, "superseded", new.id, mode),
    ]
