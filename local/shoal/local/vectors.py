"""The laptop's vector index: vectors in the database itself, compared by sqlite-vec.

Up to EXACT_MAX vectors every one is compared. Beyond, a matrix of bits in memory (matrix.py) proposes, the filter
decides inside the same reading transaction, and sqlite-vec ranks what passed by the true cosine. Two ways to the
candidates that pass: walk the proposals from the nearest on until enough pass, or, when few do, ask the filter
first and let the matrix order those that are too many to compare. The second finds whatever passes, however far.
"""

import json
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import apsw

from shoal.core import filters
from shoal.core.protocols import Filter, Statement, Vector, VectorHit, VectorRow
from shoal.core.vectors import check_vector
from shoal.local.database import ApswDatabase
from shoal.schema.limits import PASSAGES_MAX

if TYPE_CHECKING:
    from shoal.local.matrix import BitMatrix, Floats, Keys

EXACT_MAX: Final = 2_000
"""Vectors up to which all are compared, in the index or of those that pass: about 2 ms, and right by construction.
An index that small loads no numpy."""
CANDIDATES_MIN: Final = 256
CANDIDATES_PER_HIT: Final = 4
"""Vectors compared exactly for each one asked for, at least CANDIDATES_MIN; recall: tests/local/test_vectors.py."""
WALK_MAX: Final = 4_096
"""Proposals that are put to the filter one by one, about 2 us each, rather than asking it for all that pass."""
SAMPLE: Final = 2
"""Proposals for each candidate wanted that tell how many pass."""
GHOSTS_MAX: Final = 0.25
"""Share of deleted and replaced rows at which the matrix is made anew: 0.3 s for 100,000 vectors."""
GROWTH_MAX: Final = 4
"""Factor by which it may grow before it is made anew, with the mean of what there is now."""
_READ_ROWS: Final = 4_096

_TABLES: Final = (
    # `stamp` counts the vectors ever put, so that a process sees what others have added; `removed` those deleted
    # or replaced since. So `stamp - removed` is the number of vectors, and nobody need count them. Vectors are kept
    # in the order of their `put`: by key they came from the newest to the oldest and half filled the pages.
    """create table if not exists vector_model (
      id integer primary key autoincrement, fingerprint text not null unique, dim integer not null,
      stamp integer not null default 0, removed integer not null default 0)""",
    """create table if not exists vector (
      put integer primary key autoincrement, key integer not null unique, model integer not null,
      stamp integer not null, text_hash blob not null, data blob not null)""",
    "create index if not exists vector_stamp on vector (model, stamp)",
)
_REGISTER: Final = "insert or ignore into vector_model (fingerprint, dim) values (?1, ?2)"
_OF_MEMORIES: Final = f"""json_each(?1) j cross join vector v
  on v.key between j.value * {PASSAGES_MAX} and j.value * {PASSAGES_MAX} + {PASSAGES_MAX - 1}"""
_COUNT_REMOVED: Final = f"""
update vector_model set removed = removed + x.n
from (select v.model, count(*) as n from {_OF_MEMORIES} group by v.model) x
where x.model = vector_model.id
"""
_DELETE: Final = f"delete from vector where put in (select v.put from {_OF_MEMORIES})"
_STAMP: Final = "update vector_model set stamp = stamp + ?2 where fingerprint = ?1"
_PUT: Final = """
insert into vector (key, model, stamp, text_hash, data)
select ?2, id, stamp, ?3, ?4 from vector_model where fingerprint = ?1
"""
_MODEL: Final = "select id, stamp, removed from vector_model where fingerprint = ?1"


class _Model(NamedTuple):
    """A model's row in vector_model."""

    id: int
    stamp: int
    removed: int


class SqliteVecIndex:
    """Implements core's VectorIndex for one model's fingerprint. Made by `open`.

    Rows of another model stay in the table, unseen, until they are replaced or dropped. Several processes may use
    the index of one file.
    """

    def __init__(self, database: ApswDatabase, fingerprint: str, dim: int) -> None:
        """Use `open`."""
        self._database = database
        self._fingerprint = fingerprint
        self._dim = dim
        self._lock = threading.Lock()
        self._matrix: BitMatrix | None = None
        # What the matrix holds: everything up to the stamp of this row; `size` when it was made.
        self._held = _Model(0, 0, 0)
        self._made_size = 0

    @classmethod
    async def open(cls, database: ApswDatabase, fingerprint: str, dim: int) -> Self:
        """Make the tables where they are absent. `dim` is the length of the model's vectors."""
        index = cls(database, fingerprint, dim)
        await database.batch([*map(Statement, _TABLES), index._register()])
        return index

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Put vectors in the place of all that their memories had.

        Raises ValueError for one that isn't a unit vector of the model's length.
        """
        if not rows:
            return
        latest = {row.key: row for row in rows}
        puts = [
            Statement(_PUT, (self._fingerprint, row.key, row.text_hash, self._pack(row.vector)))
            for row in latest.values()
        ]
        # Registered again: another process may have dropped the model meanwhile.
        before = [self._register(), *_removing([key // PASSAGES_MAX for key in latest])]
        await self._database.batch([*before, Statement(_STAMP, (self._fingerprint, len(puts))), *puts])

    async def delete(self, rids: Sequence[int]) -> None:
        """Remove all vectors of these memories, of whatever model; unknown ones are ignored."""
        if rids:
            await self._database.batch(_removing(rids))

    def applies(self, where: Filter) -> bool:
        """Say yes: the filter is a condition of the same SQL."""
        return True

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages of memories that pass `where`, nearest first; of equals the lower key."""
        query = self._pack(vector)
        return await self._database.read(lambda connection: self._search(connection, query, k, where))

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages to a stored one, itself left out; empty when the key is unknown."""

        def job(connection: apsw.Connection) -> list[VectorHit]:
            stored = (
                "select data from vector where key = ? and model = (select id from vector_model where fingerprint = ?)"
            )
            query = connection.execute(stored, (key, self._fingerprint)).get
            if query is None:
                return []
            return [hit for hit in self._search(connection, query, k + 1, where) if hit.key != key][:k]

        return await self._database.read(job)

    async def count(self) -> int:
        """Return how many vectors of this model there are."""
        rows = await self._database.query(f"select stamp - removed as n from ({_MODEL})", (self._fingerprint,))
        return sum(int(row["n"] or 0) for row in rows)

    async def count_others(self) -> int:
        """Return how many vectors of other models wait to be replaced or dropped."""
        sql = "select sum(stamp - removed) as n from vector_model where fingerprint <> ?1"
        return int((await self._database.query(sql, (self._fingerprint,)))[0]["n"] or 0)

    async def drop_others(self) -> None:
        """Remove what is left of other models; for when every memory has a vector of this one."""
        others = "(select id from vector_model where fingerprint <> ?1)"
        await self._database.batch(
            [
                Statement(f"delete from vector where model in {others}", (self._fingerprint,)),
                Statement("delete from vector_model where fingerprint <> ?1", (self._fingerprint,)),
            ]
        )

    def _register(self) -> Statement:
        return Statement(_REGISTER, (self._fingerprint, self._dim))

    def _pack(self, vector: Vector) -> bytes:
        check_vector(vector, self._dim)
        return struct.pack(f"<{self._dim}f", *vector)

    def _search(self, connection: apsw.Connection, query: bytes, k: int, where: Filter) -> list[VectorHit]:
        row = connection.execute(_MODEL, (self._fingerprint,)).fetchone()
        if row is None or k < 1:
            return []
        model = _Model(*row)
        if model.stamp - model.removed <= EXACT_MAX:
            return _compare_all(connection, model, query, k, where)
        proposals = self._proposals(connection, model, query)
        passing = _candidates(connection, proposals, max(CANDIDATES_MIN, CANDIDATES_PER_HIT * k), where)
        return _compare(connection, model, passing, query, k)

    def _proposals(self, connection: apsw.Connection, model: _Model, query: bytes) -> "Keys":
        """Return all keys, the probably nearest first, with what any process has added by now."""
        import numpy as np

        with self._lock:
            matrix = self._refreshed(connection, model)
        return matrix.nearest(np.frombuffer(query, "<f4"))

    def _refreshed(self, connection: apsw.Connection, model: _Model) -> "BitMatrix":
        matrix = self._matrix
        if matrix is None or model.id != self._held.id or self._is_worn(matrix, model):
            matrix = self._matrix = self._made(connection, model)
            self._made_size = matrix.size
        elif model.stamp > self._held.stamp:
            for keys, vectors in self._read(connection, model.id, self._held.stamp):
                matrix.append(keys, vectors)
        else:
            # This transaction may even be older than the matrix: then some proposals don't exist in it yet.
            return matrix
        self._held = model
        return matrix

    def _made(self, connection: apsw.Connection, model: _Model) -> "BitMatrix":
        from shoal.local.matrix import BitMatrix

        parts = self._read(connection, model.id, 0)
        keys, vectors = next(parts)
        matrix = BitMatrix(vectors.mean(axis=0))
        matrix.append(keys, vectors)
        for keys, vectors in parts:
            matrix.append(keys, vectors)
        return matrix

    def _is_worn(self, matrix: "BitMatrix", model: _Model) -> bool:
        ghosts = matrix.size - (model.stamp - model.removed)
        return ghosts > GHOSTS_MAX * matrix.size or matrix.size > GROWTH_MAX * self._made_size

    def _read(self, connection: apsw.Connection, model: int, after: int) -> "Iterator[tuple[Keys, Floats]]":
        import numpy as np

        sql = "select key, data from vector where model = ? and stamp > ?"
        cursor: Any = connection.execute(sql, (model, after))
        while rows := list(_take(cursor, _READ_ROWS)):
            keys = np.fromiter((key for key, _ in rows), np.int64, len(rows))
            yield keys, np.frombuffer(b"".join(data for _, data in rows), "<f4").reshape(len(rows), self._dim)


def _take(cursor: Iterator[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        row = next(cursor, None)
        if row is None:
            return
        yield row


def _removing(rids: Sequence[int]) -> list[Statement]:
    memories = (json.dumps(sorted(set(rids))),)
    return [Statement(_COUNT_REMOVED, memories), Statement(_DELETE, memories)]


def _compare_all(connection: apsw.Connection, model: _Model, query: bytes, k: int, where: Filter) -> list[VectorHit]:
    condition, params = filters.condition(where, "r")
    sql = f"""select v.key, vec_distance_cosine(v.data, ?) as distance
      from vector v cross join record r on r.rid = v.key / {PASSAGES_MAX}
      where v.model = ? and {condition} order by distance, v.key limit ?"""
    return _hits(connection.execute(sql, (query, model.id, *params, k)))


def _candidates(connection: apsw.Connection, proposals: "Keys", wanted: int, where: Filter) -> "Keys":
    """Return at least `wanted` of the foremost proposals that pass, or all that do."""
    sample = proposals[: SAMPLE * wanted]
    passing = _walk(connection, sample, wanted, where)
    if len(passing) < wanted and len(passing) * WALK_MAX >= len(sample) * wanted:
        # Enough should pass within the walk.
        passing = _walk(connection, proposals[:WALK_MAX], wanted, where)
    if len(passing) < wanted:
        passing = _passing(connection, proposals, where)[: max(wanted, EXACT_MAX)]
    return passing


def _walk(connection: apsw.Connection, keys: "Keys", wanted: int, where: Filter) -> "Keys":
    """Return the first `wanted` of the keys whose memories pass."""
    condition, params = filters.condition(where, "r")
    sql = f"""select j.value from carray(?) j cross join record r on r.rid = j.value / {PASSAGES_MAX}
      where {condition} limit ?"""
    return _keys(connection.execute(sql, (apsw.carray(keys), *params, wanted)))


def _passing(connection: apsw.Connection, keys: "Keys", where: Filter) -> "Keys":
    """Return all of the keys whose memories pass, asking the filter first."""
    import numpy as np

    condition, params = filters.selection(where, "r")
    rids = _keys(connection.execute(f"select r.rid from record r where {condition}", params))
    return keys[np.isin(keys // PASSAGES_MAX, rids)]


def _compare(connection: apsw.Connection, model: _Model, keys: "Keys", query: bytes, k: int) -> list[VectorHit]:
    """Return the k nearest of the keys, by the true cosine."""
    import numpy as np

    if not len(keys):
        return []
    sql = """select v.key, vec_distance_cosine(v.data, ?) as distance
      from carray(?) j cross join vector v on v.key = j.value
      where v.model = ? order by distance, v.key limit ?"""
    # In the order of the file; a ghost and its successor are one key.
    return _hits(connection.execute(sql, (query, apsw.carray(np.unique(keys)), model.id, k)))


def _keys(cursor: Any) -> "Keys":
    import numpy as np

    return np.fromiter((key for (key,) in cursor), np.int64)


def _hits(cursor: Any) -> list[VectorHit]:
    # Rounding carries a cosine a little past 1.
    return [VectorHit(key, max(-1.0, min(1.0, 1.0 - distance))) for key, distance in cursor]
