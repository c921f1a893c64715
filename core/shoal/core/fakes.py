"""The three protocols in memory, as strict as the real ones; they pass the same conformance suite.

For tests and for trying things out. Nothing here is kept, and the embedder understands nothing.
"""

import asyncio
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Protocol

from shoal.core import filters
from shoal.core.protocols import (
    Calibration,
    Database,
    Filter,
    ModelState,
    Phase,
    Role,
    Row,
    SqlValue,
    Statement,
    Vector,
    VectorHit,
    VectorRow,
)
from shoal.core.statements import INT_MAX, check
from shoal.core.vectors import check_vector
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import SIZE

FAKE_DIM: Final = 64
_WORD = re.compile(r"\w+")


class SqlConnection(Protocol):
    """What FakeDatabase needs of a SQLite connection without transactions of its own: apsw's has it."""

    def execute(self, statements: str, bindings: Any = ..., /) -> Any:
        """Run one statement and return a cursor: an iterator of tuples with a `description` while it has rows."""
        ...


class FakeDatabase:
    """Database over one connection, such as `apsw.Connection(":memory:")` (SQLite 3.43 or newer).

    The connection comes from outside, as the SQLite of Python 3.11's own module can be too old for the schema.
    Stricter than the laptop's, as D1 is: numbers are bound as REAL, whole ones too, which only a column's affinity or
    a cast makes whole again (`?1 * 65536` loses digits); and an integer over 2^53 in a result is refused.
    """

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """Run one reading statement."""
        check(sql, params, reads=True)
        await asyncio.sleep(0)
        self._connection.execute("pragma query_only = on")
        try:
            return self._run(sql, params)
        finally:
            self._connection.execute("pragma query_only = off")

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the statements as one transaction."""
        for sql, params in statements:
            check(sql, params)
        # Real databases let others run here; what depends on the gap should show.
        await asyncio.sleep(0)
        self._connection.execute("begin")
        try:
            results = [self._run(sql, params) for sql, params in statements]
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")
        return results

    async def size_bytes(self) -> int:
        """Return how large the database is."""
        (row,) = self._run(SIZE, ())
        return int(row["bytes"] or 0)

    def _run(self, sql: str, params: Sequence[SqlValue]) -> list[Row]:
        cursor = self._connection.execute(sql, [float(value) if isinstance(value, int) else value for value in params])
        rows: list[Row] = []
        for values in cursor:
            names = [column[0] for column in cursor.description]
            # And a whole number comes back as one: JavaScript has no other kind.
            rows.append(dict(zip(names, map(_whole, values), strict=True)))
        for row in rows:
            for name, value in row.items():
                if isinstance(value, int) and abs(value) > INT_MAX:
                    raise ValueError(f"{name} = {value} is over 2^53 - 1: select it as text")
        return rows


def _whole(value: SqlValue) -> SqlValue:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= INT_MAX else value


class FakeVectorIndex:
    """VectorIndex by comparing with every vector; `database` holds the memories that filters are about."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[int, VectorRow] = {}

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Put vectors in the place of all that their memories had."""
        # To the 32 bits that real indexes keep; all are looked at before any is taken.
        taken = [replace(row, vector=array("f", self._checked(row.vector))) for row in rows]
        self._forget({row.key // PASSAGES_MAX for row in taken})
        self._rows.update((row.key, row) for row in taken)

    async def delete(self, rids: Sequence[int]) -> None:
        """Remove all vectors of these memories; unknown ones are ignored."""
        self._forget(set(rids))

    def _forget(self, rids: set[int]) -> None:
        self._rows = {key: row for key, row in self._rows.items() if key // PASSAGES_MAX not in rids}

    def applies(self, where: Filter) -> bool:
        """Say yes: every search asks the database which memories pass."""
        return True

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages, nearest first; of equals the lower key."""
        query = self._checked(vector)
        condition, params = filters.condition(where, "r")
        passing = await self._database.query(f"select r.rid from record r where {condition}", params)
        rids = {row["rid"] for row in passing}
        hits = (
            VectorHit(row.key, _cosine(query, row.vector))
            for row in self._rows.values()
            if row.key // PASSAGES_MAX in rids
        )
        return sorted(hits, key=lambda hit: (-hit.similarity, hit.key))[:k]

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages to a stored one, itself left out; empty when the key is unknown."""
        row = self._rows.get(key)
        if row is None:
            return []
        return [hit for hit in await self.search(row.vector, k + 1, where) if hit.key != key][:k]

    def _checked(self, vector: Vector) -> Vector:
        # The first vector sets the length.
        dim = next((len(row.vector) for row in self._rows.values()), len(vector))
        check_vector(vector, dim)
        return vector


class FakeEmbedder:
    """Embedder that hashes words and pairs of characters into a vector: equal words are near, meaning is not seen.

    `fingerprint` and `calibration` can be given, to try a change of model or thresholds.
    """

    def __init__(
        self, dim: int = FAKE_DIM, fingerprint: str | None = None, calibration: Calibration | None = None
    ) -> None:
        self._dim = dim
        self._fingerprint = fingerprint or f"fake/hashed-words@1/{dim}"
        self._calibration = calibration

    @property
    def state(self) -> ModelState:
        """Always ready."""
        return ModelState(Phase.READY)

    @property
    def fingerprint(self) -> str:
        """Say that this is no model."""
        return self._fingerprint

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim

    @property
    def calibration(self) -> Calibration | None:
        """What was given."""
        return self._calibration

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """Return one unit vector a text, in order; the role changes nothing."""
        await asyncio.sleep(0)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        sums = [0.0] * self._dim
        for feature in _features(text):
            number = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest())
            sums[(number >> 1) % self._dim] += 1.0 if number & 1 else -1.0
        norm = math.hypot(*sums)
        if norm == 0:
            # No words, or all cancel out: any fixed unit vector.
            return [1.0] + [0.0] * (self._dim - 1)
        return [value / norm for value in sums]


def _features(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.lower()):
        yield word
        yield from (word[start : start + 2] for start in range(len(word) - 1))


def _cosine(a: Iterable[float], b: Iterable[float]) -> float:
    a, b = list(a), list(b)
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))
