"""What the parts of the Memory service share: its drivers, its ontology, its clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.core.apply import Replica
from shoal.core.caller import Caller
from shoal.core.protocols import Database, Embedder, VectorIndex
from shoal.schema.errors import InvalidInput, OutOfRange, TooMany
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import Note, NoteCode
from shoal.schema.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Context:
    """The drivers and settings of one Memory service."""

    database: Database
    index: VectorIndex | None
    embedder: Embedder | None
    ontology: Ontology
    clock: Callable[[], int]
    """Milliseconds since 1970."""
    replica: Replica
    trash_days: int


def bounded(name: str, value: int, low: int, high: int, caller: Caller, notes: list[Note]) -> int:
    """Return the number within its range: clamped with a note for tools. Raises OutOfRange for others."""
    if low <= value <= high:
        return value
    if not caller.clamps:
        raise OutOfRange(f"{name} is {value}.", f"Use {low} to {high}.", field=name, low=low, high=high)
    moved = min(max(value, low), high)
    notes.append(
        Note(code=NoteCode.CLAMPED, message=f"{name} {value} was taken as {moved} ({low} to {high}).", n=moved)
    )
    return moved


def ids_of(one: str | None, several: Sequence[str] | None) -> list[str]:
    """Return the distinct ids that a request names by `id`, `ids` or both. Raises TooMany, InvalidInput."""
    named = [one, *(several or ())] if one is not None else list(several or ())
    ids = list(dict.fromkeys(named))
    if several is not None and not ids:
        raise InvalidInput("`ids` is empty.", "Name at least one id, or leave `ids` out.")
    if len(ids) > BATCH_MAX:
        raise TooMany(f"{len(ids)} ids were given.", f"Use at most {BATCH_MAX} a call.", limit=BATCH_MAX)
    return ids
