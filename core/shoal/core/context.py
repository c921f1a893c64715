"""What the parts of the Memory service share: its drivers, its ontology, its clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from shoal.core.apply import Replica
from shoal.core.caller import Caller
from shoal.core.protocols import Database, Embedder, VectorIndex
from shoal.schema.errors import InvalidInput, OutOfRange, TooMany
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import Note, NoteCode
from shoal.schema.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Policy:
    """Where the ends differ."""

    dirty: bool
    """Whether writes are marked for a push: on a laptop."""
    index_apart: bool
    """Whether the vectors lie in an index apart from the database (apply.Replica)."""
    embed_before_find: int
    """Pending memories that a search embeds first, so that writers find what they wrote by meaning; 0 at the edge."""
    embed_before_find_s: float
    """How long a search waits for them."""
    answers_remembered: int
    """Searches whose answers are kept until the next write; 0 at the edge, where requests share nothing."""
    backlog_counted: int
    """Memories without vectors, and those that were given up, are counted up to here: at the edge each is a row read,
    by every search and every look at the health."""
    query_vectors: int
    """Vectors that a search may look for: 2 where a dialogue's last line is looked for as well, each a search."""
    index_step_chars: int
    """Characters of content whose vectors are made in one step, unless a single memory has more. On a laptop about 25
    passages, a few seconds of a small model's time: what a step has made is kept only at its end, so a daemon that is
    often stopped must get there, and a store that waits for its vector waits for the step under way."""
    erases_at_once: bool
    """Whether what is purged leaves the indexes before the answer, not by the background soon after."""
    page_cells: int
    """Cells written in one batch, and"""
    page_bytes: int
    """their bytes as JSON: whichever is reached first. At the edge batches are few, since their statements count."""
    pages_max: int
    """Batches of one store. At the edge each takes up to 14 of the 50 statements of a request, and one more for each
    megabyte of words; 500 memories with all the tags that they may have take two."""


LAPTOP: Final = Policy(
    dirty=True,
    index_apart=False,
    embed_before_find=8,
    embed_before_find_s=0.06,
    answers_remembered=128,
    backlog_counted=10_000,
    query_vectors=2,
    index_step_chars=32 * 1024,
    erases_at_once=True,
    page_cells=500,
    page_bytes=512 * 1024,
    pages_max=1_000,
)
EDGE: Final = Policy(
    dirty=False,
    index_apart=True,
    embed_before_find=0,
    embed_before_find_s=0.0,
    answers_remembered=0,
    backlog_counted=1_000,
    query_vectors=1,
    index_step_chars=128 * 1024,
    erases_at_once=False,
    page_cells=30_000,
    page_bytes=1_900_000,
    pages_max=3,
)


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
    policy: Policy
    announce: Callable[[Sequence[str]], None] | None = None
    """Is told the ids of memories that were written: at the edge, to queue those whose vectors may be wanted; on a
    laptop, to send them there soon."""
    discard: Callable[[Sequence[str]], None] | None = None
    """Is told of vectors `key.mark` that a search met and no memory has, to have them removed from an index apart."""
    exchanged: Callable[[], int | None] = lambda: None
    """Says when this process last exchanged everything with the edge: an idle link doesn't write that down."""


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
