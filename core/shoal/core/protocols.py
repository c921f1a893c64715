"""What each end must supply: a database, a vector index, an embedder. Fakes of them: fakes.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from shoal.schema.sql import State

SqlValue = str | int | float | bytes | None
Row = Mapping[str, SqlValue]
Vector = Sequence[float]
"""A unit vector of the embedder's dimension."""


class Statement(NamedTuple):
    """One SQL statement with its positional parameters (?1, ?2, ...; at most 100, D1's limit)."""

    sql: str
    params: tuple[SqlValue, ...] = ()


class Database(Protocol):
    """SQLite as both ends offer it: no interactive transaction."""

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """Run one reading statement and return its rows."""
        ...

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the statements in order as one transaction, all or nothing, durable when this returns.

        Returns each statement's rows. Raises StorageError; then nothing was written, except that after StorageBusy
        nobody knows: the same batch may be run again.
        """
        ...

    async def size_bytes(self) -> int:
        """Return how large the database is."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Which memories a search may return. It is applied inside the index, never after it.

    Times are milliseconds since 1970 (UTC), `since_ms` inclusive, `until_ms` exclusive.
    """

    spaces: tuple[str, ...] | None = None
    """None = every space."""
    types: tuple[str, ...] | None = None
    """None = every type; a kind is given as its types."""
    types_left_out: bool = False
    """Whether `types` are those that may not be returned, so that types which nobody here knows may be."""
    tags: tuple[str, ...] = ()
    """`ns:*` stands for every tag of a namespace."""
    tags_all: bool = False
    """Whether a memory must have all the tags instead of any."""
    entity: str | None = None
    conversation_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    by_created: bool = False
    """Whether the times mean created_at instead of occurred_at."""
    states: tuple[int, ...] = (State.LIVE,)
    """Of schema.sql.State."""


@dataclass(frozen=True, slots=True)
class VectorRow:
    """One passage's vector. `key` is rid * PASSAGES_MAX + passage; `text_hash` is of the text that was embedded.

    The rest is what an index that lies apart from the memories must know of one to filter by it.
    """

    key: int
    vector: Vector
    text_hash: bytes
    space: str
    type: str
    kind: str
    occurred_ms: int
    archived: bool


class VectorHit(NamedTuple):
    """A passage near a query; `similarity` is the cosine, -1..1."""

    key: int
    similarity: float
    mark: str | None = None
    """Which version of the memory's vectors this is, from an index that lies apart from the memories and so may be
    ahead of them or behind; it counts only where `vector_state` has the same. None = it can't differ."""


class VectorIndex(Protocol):
    """Nearest neighbours by cosine, one index a model fingerprint."""

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Put vectors in the place of all that their memories had; a memory's passages come in one call."""
        ...

    async def delete(self, rids: Sequence[int]) -> None:
        """Remove all vectors of these memories; unknown ones are ignored."""
        ...

    def applies(self, where: Filter) -> bool:
        """Say whether `search` filters by all of it; else what it returns must be filtered again."""
        ...

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages of memories that pass what the index applies of `where`, nearest first."""
        ...

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages to a stored one, itself left out; empty when the key is unknown."""
        ...


class Role(StrEnum):
    """What a text is to the search; models treat the two differently (prefix, centring)."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What cosines of one model mean, measured on generic pairs; thresholds never travel between models."""

    unrelated: float
    """95th percentile of the cosine of unrelated query and passage."""
    related: float
    """Median cosine of a query and the passage that answers it."""

    def relevance(self, similarity: float) -> float:
        """Map a cosine to 0..1: 0 at `unrelated` and below, 1 at `related` and above, linear between."""
        return min(1.0, max(0.0, (similarity - self.unrelated) / (self.related - self.unrelated)))


class Phase(StrEnum):
    """How far a model is."""

    UNLOADED = "unloaded"
    """Nobody has needed it yet."""
    LOADING = "loading"
    READY = "ready"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class ModelState:
    """What doctor and stats show of a model."""

    phase: Phase
    reason: str | None = None
    """Why it is unavailable, or why it stands in for another; and what to do."""
    progress: float | None = None
    """While it is being made ready: the share that is done, 0 to 1."""


class Embedder(Protocol):
    """Texts to unit vectors. Vectors compare only under an equal fingerprint."""

    @property
    def state(self) -> ModelState:
        """Whether it can embed now."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name@revision or checksum, quantisation, dimension, pooling, normalisation, prefix, centring."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """What this model's cosines mean, or None where nobody measured."""
        ...

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """Return one unit vector a text, in order. Raises ModelError."""
        ...
