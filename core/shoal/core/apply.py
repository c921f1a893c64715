"""The one way to write: every cell, local, pushed or pulled, goes through `apply`, one atomic batch."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from shoal.core.cells import INIT, Cell, cells_json, compact_json
from shoal.core.journal import Author, entries
from shoal.core.passages import passage_words
from shoal.core.protocols import Database, Row, Statement
from shoal.core.statements import VALUE_MAX_BYTES
from shoal.core.text import prepare
from shoal.schema import sql
from shoal.schema.errors import BodyTooLarge
from shoal.schema.sql import Mode, State

CLOCK_MAX_MS: Final = 2**46
"""A stamp is milliseconds * 65536 in 63 bits. A clock beyond this (the year 4199) is broken; past 2^47 the stamps
would overflow to inexact numbers, equal ones among them, and later writes would be lost for ever."""
STATEMENT_MAX_BYTES: Final = 1_000_000
"""JSON of one statement's text: D1 takes values of 2 MB, and prepared Chinese text is about 3.7 times its length."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What a record was before the batch."""

    rid: int
    rank: int
    life: int
    state: int
    type: str | None
    tags: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether it could be read: living or archived."""
        return self.state in (State.LIVE, State.ARCHIVED)

    @property
    def forgotten(self) -> bool:
        """Whether it lies in the trash or was purged."""
        return self.state == State.TRASHED or (self.rank > 0 and self.rank % 2 == 0 and self.rank == self.life)


@dataclass(frozen=True, slots=True)
class Replica:
    """Whose writes these are. `dirty` marks them for a push; the edge, which orders everything, has none.

    `index_apart` says that the vectors lie in an index apart from the database, which filters by what it was told: a
    change of type, time or state makes a memory's vectors wanted anew. `name_batch` gives each batch an unguessable
    name where a history is kept, as devices need of the replica that they pull from.
    """

    device: str
    dirty: bool
    index_apart: bool = False
    name_batch: Callable[[], str] | None = None


async def apply(
    database: Database,
    cells: Sequence[Cell],
    replica: Replica,
    now_ms: int,
    by: Author,
    also: Sequence[Statement] = (),
) -> Mapping[tuple[str, str], Prior]:
    """Write cells in one batch and return what their records, by (id, space), were before it.

    The same batch logs that `by` has changed them, and ends with what else must be written with them or not at all.
    At most 50 statements for 500 cells or 512 KiB of JSON, the bounds of one page.
    """
    rows = await database.batch([*await statements(cells, replica, now_ms, by), *also])
    return {(cast("str", row["id"]), cast("str", row["space"])): _prior(row) for row in rows[0]}


def _prior(row: Row) -> Prior:
    return Prior(
        rid=cast("int", row["rid"]),
        rank=cast("int", row["rank"]),
        life=cast("int", row["life"]),
        state=cast("int", row["state"]),
        type=cast("str | None", row["type"]),
        tags=tuple(json.loads(cast("str", row["tags"]))),
    )


async def statements(cells: Sequence[Cell], replica: Replica, now_ms: int, by: Author) -> list[Statement]:
    """Return the batch: only the statements that these cells can need.

    Raises BodyTooLarge for cells that no database here takes at once: who sends them may split them.
    """
    body = _bounded(cells_json(cells))
    now_ms = min(now_ms, CLOCK_MAX_MS)
    writing = (body, now_ms, replica.device, int(replica.dirty))
    inits = [cell for cell in cells if cell.field == INIT]
    merged = any(cell.rank is not None for cell in cells)
    purging = any(cell.value is None for cell in inits)
    erasing = merged or purging or any(cell.mode is Mode.REVIVE for cell in inits)

    batch = [Statement(sql.PRIOR, (body,))]
    if purging:
        batch.append(Statement(sql.WANT_AFTER_PURGED, (body,)))
    if inits:
        batch.append(Statement(sql.MERGE_INIT, writing))
    if merged:
        batch.append(Statement(sql.STUB, (body,)))
    if len(inits) < len(cells):
        batch.append(Statement(sql.MERGE_CELLS, writing))
    if erasing:
        batch.append(Statement(sql.ERASE_LABEL_TEXTS))
    if inits or merged:
        batch.append(Statement(sql.ERASE_CELLS))
    if erasing:
        batch.append(Statement(sql.ERASE_CONTENT))
    batch.append(Statement(sql.MODEL_WANTING if replica.index_apart else sql.MODEL))
    batch += [Statement(sql.INDEX_CONTENT, (page,)) for page in json_pages(await _contents(inits))]
    batch += [Statement(sql.PREPARE_LABELS, (page,)) for page in json_pages(_labels(cells))]
    if any(_is_label(cell.field) for cell in cells):
        batch.append(Statement(sql.INDEX_LABELS))
    if erasing:
        batch.append(Statement(sql.ERASE_LABELS))
    if _moves_turns(cells):
        batch.append(Statement(sql.WANT_NEXT_TURN))
    if purging:
        batch.append(Statement(sql.MARK_WORDS))
    batch.append(entries(by, now_ms))
    batch.append(Statement(sql.BUMP, (body, now_ms)))
    if replica.name_batch is not None:
        batch.append(Statement(sql.NAME_BATCH, (replica.name_batch(),)))
    return batch


def _bounded(body: str) -> str:
    if len(body.encode()) > VALUE_MAX_BYTES:
        raise BodyTooLarge(
            "These cells are too large to be written at once.", "Send fewer at once.", limit=VALUE_MAX_BYTES
        )
    return body


def _moves_turns(cells: Sequence[Cell]) -> bool:
    """Whether a conversation may gain or lose a turn."""
    return any(
        cell.rank is not None
        or cell.field == "trash"
        or (cell.field == INIT and (not isinstance(cell.value, Mapping) or "conversation_id" in cell.value))
        for cell in cells
    )


def _is_label(field: str) -> bool:
    """Whether a cell can change the row of `label_fts`. Only an `init` makes a hidden memory seen."""
    return field in (INIT, "type") or field.startswith(("tag:", "entity:"))


async def _contents(inits: Sequence[Cell]) -> list[list[str | int]]:
    """Return [id, space, passage, words] of each record's winning `init`: one page may hold several of one record."""
    winners: dict[tuple[str, str], Cell] = {}
    for cell in sorted(inits, key=lambda cell: (cell.rank or 0, cell.hlc or "")):
        winners[cell.id, cell.space] = cell
    rows: list[list[str | int]] = []
    for cell in winners.values():
        if rows:
            await asyncio.sleep(0)  # as between passages
        if isinstance(cell.value, Mapping) and cell.value.get("class") == "memory":
            content = cast("str", cell.value["content"])
            rows += [[cell.id, cell.space, number, words] async for number, words in passage_words(content)]
    return rows


def _labels(cells: Sequence[Cell]) -> Iterator[list[str]]:
    """Yield [text, prepared] of the tags and entities whose words can't be read off the text itself."""
    for cell in cells:
        prefix, _, text = cell.field.partition(":")
        if prefix in ("tag", "entity") and cell.value == 1:
            prepared = prepare(text)
            if prepared != text:
                yield [text, prepared]


def json_pages(items: Iterable[list[str | int]] | Iterable[list[str]]) -> Iterator[str]:
    """Yield JSON lists of the items, each at most STATEMENT_MAX_BYTES long."""
    page: list[str] = []
    size = 2
    for item in items:
        text = compact_json(item)
        length = len(text.encode()) + 1
        if page and size + length > STATEMENT_MAX_BYTES:
            yield f"[{','.join(page)}]"
            page, size = [], 2
        page.append(text)
        size += length
    if page:
        yield f"[{','.join(page)}]"
