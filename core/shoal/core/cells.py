"""Cells: what everything that syncs is made of. Layout and merge rule: schema/sql.py."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.canonical import JsonValue
from shoal.schema.sql import Mode

INIT = "init"


class Cell(NamedTuple):
    """One fact about a record, as it stands in the JSON that the SQL reads.

    From another replica it has `rank` and `hlc`; a local one has neither but a `mode`, and the batch gives it both.
    """

    id: str
    space: str
    field: str
    rank: int | None
    hlc: str | None
    value: JsonValue
    mode: Mode | None


def local(record_id: str, space: str, field: str, value: JsonValue, mode: Mode) -> Cell:
    """Return a cell of this replica's own."""
    return Cell(record_id, space, field, None, None, value, mode)


def of_set(prefix: str, record_id: str, space: str, values: tuple[str, ...], present: bool, mode: Mode) -> list[Cell]:
    """Return cells that add values to a record's tags, sources or entities, or remove them."""
    return [local(record_id, space, f"{prefix}:{value}", int(present), mode) for value in values]


def compact_json(value: object) -> str:
    """Return JSON for a statement's parameter: no spaces, characters as themselves."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cells_json(cells: Sequence[Cell]) -> str:
    """Return cells as the JSON that the SQL reads."""
    return compact_json([tuple(cell) for cell in cells])
