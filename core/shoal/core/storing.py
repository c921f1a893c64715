"""Store: validate, name, one batch, acknowledge. What became of each memory comes from the batch itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shoal.core.apply import Prior, apply
from shoal.core.caller import Caller, Scope
from shoal.core.cells import Cell, cells_json
from shoal.core.context import Context, Policy
from shoal.core.drafts import Draft, draft
from shoal.core.ids import Key
from shoal.core.journal import Action, Author
from shoal.core.statements import VALUE_MAX_BYTES
from shoal.schema.errors import InvalidInput, TooMany
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import (
    Note,
    NoteCode,
    StoreAnswer,
    StoreBatchAnswer,
    Stored,
    StoreItem,
    StoreRequest,
    StoreStatus,
)
from shoal.schema.sql import Mode, State

CELLS_OF_ONE: Final = 200
"""No single item brings more; such a memory fits into a statement for certain."""


async def store(
    context: Context, request: StoreRequest, caller: Caller, key: Key | None = None
) -> StoreAnswer | StoreBatchAnswer:
    """Store one memory or several. Raises InvalidInput before anything is written.

    Several are written page by page: after a StorageError in the middle, sending all again is safe.
    """
    space = caller.space(request.space, Scope.WRITE)
    now = context.clock()
    zone = caller.zone(request.time_zone)
    drafts: list[Draft] = []
    for number, item in enumerate(_items(request)):
        try:
            drafts.append(draft(item, space, context.ontology, now, zone, key))
        except InvalidInput as error:
            if request.items is not None:
                error.details["item"] = number
            raise
    mode = Mode.REVIVE if request.revive else Mode.STORE
    results = await write(context, drafts, mode, now, Author.of(caller, Action.STORE))
    if not caller.reaches(space, Scope.READ):
        results = [_untold(one) for one in drafts]
    if request.items is None:
        return StoreAnswer(**results[0].model_dump())
    return StoreBatchAnswer(success=all(result.success for result in results), results=results)


def _items(request: StoreRequest) -> Sequence[StoreItem]:
    if request.items is None:
        if request.content is None:
            raise InvalidInput("Neither `content` nor `items` was given.", "Send the text to remember.")
        fields = StoreItem.model_fields.keys()
        return [StoreItem(**{name: getattr(request, name) for name in fields})]
    if len(request.items) > BATCH_MAX:
        raise TooMany(f"{len(request.items)} items were given.", f"Use at most {BATCH_MAX} a call.", limit=BATCH_MAX)
    single = request.model_fields_set & StoreItem.model_fields.keys()
    if single or not request.items:
        raise InvalidInput(
            f"`items` was given {'together with ' + ', '.join(sorted(single)) if single else 'empty'}.",
            "Send either one memory or `items`, each with its own fields.",
        )
    return request.items


async def write(context: Context, drafts: Sequence[Draft], mode: Mode, now_ms: int, by: Author) -> list[Stored]:
    """Write an author's drafts and return what became of each, in order. Equal texts in one call are one memory.

    Raises TooMany, before anything is written, for what can't be written in one call.
    """
    united: dict[str, Draft] = {}
    for one in drafts:
        united[one.id] = united[one.id].united(one) if one.id in united else one
    priors: dict[tuple[str, str], Prior] = {}
    pages = list(_pages([one.cells(mode) for one in united.values()], context.policy))
    if len(pages) > context.policy.pages_max:
        raise TooMany(
            f"{len(drafts)} memories came with more tags, entities and metadata than one call can write.",
            "Send fewer at once.",
        )
    for page in pages:
        priors.update(await apply(context.database, page, context.replica, now_ms, by))
    seen: set[str] = set()
    results: list[Stored] = []
    for one in drafts:
        results.append(_outcome(united[one.id], priors, mode, one.id in seen))
        seen.add(one.id)
    return results


def _pages(memories: Sequence[list[Cell]], policy: Policy) -> Iterator[list[Cell]]:
    """Yield pages of whole memories within the policy's bounds; a larger memory goes alone. Raises TooMany."""
    page: list[Cell] = []
    size = 0
    for cells in memories:
        length = len(cells_json(cells).encode()) if len(memories) > 1 or len(cells) > CELLS_OF_ONE else 0
        if length > VALUE_MAX_BYTES:
            raise TooMany(
                f"One text came many times, with {len(cells)} tags, entities and the like together.",
                "Send it in several calls.",
            )
        if page and (len(page) + len(cells) > policy.page_cells or size + length > policy.page_bytes):
            yield page
            page, size = [], 0
        page = page + cells
        size += length
    if page:
        yield page


def _outcome(one: Draft, priors: Mapping[tuple[str, str], Prior], mode: Mode, again: bool) -> Stored:
    prior = priors.get((one.id, one.space))
    status = _status(prior, mode, again)
    before = prior.type if prior is not None and prior.state > State.HIDDEN else None
    written = status is not StoreStatus.WAS_FORGOTTEN
    type_changed = written and before is not None and one.named_type is not None and before != one.type
    notes: list[Note] = []
    if not written:
        notes.append(
            Note(
                code=NoteCode.FORGOTTEN,
                message="This text was deleted before; nothing was written. revive=true brings it back.",
            )
        )
    if type_changed:
        notes.append(Note(code=NoteCode.TYPE_CHANGED, message=f"It was stored as {before} before."))
    return Stored(
        success=written,
        id=one.id,
        content_hash=one.id,
        type=before if before is not None and one.named_type is None else one.type,
        tags=sorted({*one.tags, *(prior.tags if prior is not None else ())}),
        status=status,
        type_changed=type_changed,
        notes=notes,
    )


def _untold(one: Draft) -> Stored:
    """Return what a writer who may not read is told: the same whether the text was new, known or forgotten."""
    return Stored(
        success=True,
        id=one.id,
        content_hash=one.id,
        type=one.type,
        tags=sorted(one.tags),
        status=StoreStatus.CREATED,
    )


def _status(prior: Prior | None, mode: Mode, again: bool) -> StoreStatus:
    if prior is not None and prior.forgotten and mode is not Mode.REVIVE:
        return StoreStatus.WAS_FORGOTTEN
    if again or (prior is not None and prior.alive):
        return StoreStatus.MERGED
    if prior is not None and prior.forgotten:
        return StoreStatus.REVIVED
    return StoreStatus.CREATED
