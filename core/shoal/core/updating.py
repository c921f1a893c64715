"""Update: a memory's changeable parts in place; new text as a new memory that supersedes it."""

import json
from dataclasses import replace
from typing import Final, cast

from shoal.core.apply import apply
from shoal.core.caller import Caller, Scope
from shoal.core.canonical import JsonValue, canonical_json
from shoal.core.cells import INIT, Cell, local, of_set
from shoal.core.context import Context
from shoal.core.drafts import FORMAT, Draft, draft, importance, metadata_cells
from shoal.core.ids import edge_id
from shoal.core.journal import Action, Author
from shoal.core.protocols import Row
from shoal.core.reading import ANY_STATE, by_ids
from shoal.core.rows import WHOLE, json_list
from shoal.core.times import to_ms
from shoal.schema import tags as tag_rules
from shoal.schema.errors import InvalidInput, NotFound, TooMany
from shoal.schema.limits import TAGS_MAX
from shoal.schema.models import StoreItem, TagChanges, UpdateAnswer, UpdateRequest
from shoal.schema.sql import Mode, State

_CHANGES: Final = ("content", "type", "tags", "metadata", "importance", "occurred_at", "archived")


async def update(context: Context, request: UpdateRequest, caller: Caller) -> UpdateAnswer:
    """Change a memory that the caller may read and write. Raises NotFound, InvalidInput, NotAllowed.

    Then nothing was written.
    """
    spaces = caller.within_by_id(request.space, Scope.READ, Scope.WRITE)
    if not request.revive and all(getattr(request, name) is None for name in _CHANGES):
        raise InvalidInput("Nothing to change was given.", f"Give one of {', '.join(_CHANGES)}.")
    row = await _current(context, request, spaces)
    now = context.clock()
    zone = caller.zone(request.time_zone)
    space = cast("str", row["space"])
    cells = [local(request.id, space, "trash", None, Mode.REVIVE)] if request.revive else []
    cells += _edits(context, request, row, now, zone)
    successor = None if request.content is None else _successor(context, request, row, now, zone)
    if successor is not None:
        cells += _superseding(successor, request.id, now, Mode.REVIVE if request.revive else Mode.EDIT)
    priors = await apply(context.database, cells, context.replica, now, Author.of(caller, Action.UPDATE))
    prior = priors.get((request.id, space))
    reached = prior is not None and (prior.alive or (request.revive and prior.state == State.TRASHED))
    if successor is None and cells and not reached:
        raise NotFound(f"The memory {request.id} was deleted meanwhile.", "Look for its id with memory_find.")
    return UpdateAnswer(success=True, id=request.id, superseded_by=None if successor is None else successor.id)


async def _current(context: Context, request: UpdateRequest, spaces: tuple[str, ...] | None) -> Row:
    rows = await by_ids(context, [request.id], spaces, ANY_STATE, WHOLE)
    if not rows:
        raise NotFound(f"There is no memory {request.id} that you may change.", "Look for its id with memory_find.")
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

    A memory whose stores have united to more than TAGS_MAX tags may lose some, but gain none.
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
    after = tuple(dict.fromkeys([*kept, *tag_rules.parse_all(change.add)]))
    if len(after) > max(TAGS_MAX, len(kept)):
        raise TooMany(f"The memory would have {len(after)} tags.", f"Use at most {TAGS_MAX}.", limit=TAGS_MAX)
    return after


def _successor(context: Context, request: UpdateRequest, row: Row, now_ms: int, zone: str) -> Draft:
    """Return the new version: the new text with what the old memory carried, changed as the request says.

    What it carries is taken as it is: several stores may have united to more than one may bring, and another
    replica's user may have added its type.
    """
    item = StoreItem(
        content=cast("str", request.content),
        type=request.type,
        metadata=request.metadata,
        importance=request.importance,
        occurred_at=request.occurred_at,
    )
    new = draft(item, cast("str", row["space"]), context.ontology, now_ms, zone)
    if new.id == request.id:
        raise InvalidInput("The new content equals the old.", "Leave `content` out to change other parts.")
    before = tuple(json_list(row["tags"]))
    kind = cast("str", row["type"]) if request.type is None else new.type
    metadata = json.loads(cast("str", row["metadata"]))
    return replace(
        new,
        named_type=kind,
        type=kind,
        tags=before if request.tags is None else changed_tags(before, request.tags),
        entities=tuple(json_list(row["entities"])),
        sources=tuple(json_list(row["sources"])),
        metadata={**{key: canonical_json(value) for key, value in metadata.items()}, **new.metadata},
        importance=cast("float | None", row["importance"]) if new.importance is None else new.importance,
    )


def _superseding(new: Draft, old_id: str, now_ms: int, mode: Mode) -> list[Cell]:
    """Return the new memory, the edge to the old one and the mark on it.

    An explicit edit brings its text back even if it was forgotten: what the user just wrote is wanted.
    """
    edge = edge_id(new.space, new.id, "supersedes", old_id, symmetric=False)
    reverse = edge_id(new.space, old_id, "supersedes", new.id, symmetric=False)
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
        local(reverse, new.space, "trash", now_ms, Mode.EDIT),
        local(new.id, new.space, "superseded", None, Mode.REVIVE),
        local(old_id, new.space, "superseded", new.id, mode),
    ]
