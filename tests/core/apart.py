"""A vector index that lies apart from the database, as the edge's does: it filters by what it was told of a memory,
shows changes when it gets to them, and names with each hit the version of the memory's vectors.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from operator import mul

from shoal.core.cells import compact_json
from shoal.core.filters import condition
from shoal.core.hydration import STATE_OF, Standing, sift, standing_of
from shoal.core.protocols import Database, Filter, Statement, Vector, VectorHit, VectorIndex, VectorRow
from shoal.core.vectors import check_vector
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State

_KEEP = """insert or replace into vector_state (rid, model, mark, passages, made_at)
  select value->>0, ?2, value->>1, value->>2, 0 from json_each(?1)"""
_FORGET = "delete from vector_state where rid in (select value from json_each(?1))"


class ApartIndex:
    """VectorIndex over a dict. While `behind`, searches see what there was when that began."""

    def __init__(self, database: Database, model: str) -> None:
        self._database = database
        self._model = model
        self._vectors: dict[str, VectorRow] = {}
        self._seen: dict[str, VectorRow] | None = None
        self.searches = 0

    @property
    def behind(self) -> bool:
        return self._seen is not None

    @behind.setter
    def behind(self, value: bool) -> None:
        self._seen = dict(self._vectors) if value else None

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        await self.upload(rows)
        await self.note(rows)

    async def upload(self, rows: Sequence[VectorRow]) -> None:
        """Do the first half of an upsert: the vectors are there, and nothing says yet that they count."""
        for row in rows:
            self._check(row.vector)
        marks = _marks(rows)
        self._vectors |= {f"{row.key}.{marks[_rid(row)]}": row for row in rows}

    async def note(self, rows: Sequence[VectorRow]) -> None:
        """Do the second half."""
        marks = _marks(rows)
        passages = Counter(map(_rid, rows))
        kept = [[rid, mark, passages[rid]] for rid, mark in marks.items()]
        await self._database.batch([Statement(_KEEP, (compact_json(kept), self._model))])
        mine = {f"{row.key}.{marks[_rid(row)]}" for row in rows}
        self._vectors = {one: row for one, row in self._vectors.items() if one in mine or _rid(row) not in marks}

    async def delete(self, rids: Sequence[int]) -> None:
        self._vectors = {one: row for one, row in self._vectors.items() if _rid(row) not in rids}
        await self._database.batch([Statement(_FORGET, (compact_json(list(rids)),))])

    def discard(self, ids: Sequence[str]) -> None:
        for one in ids:
            del self._vectors[one]

    def applies(self, where: Filter) -> bool:
        if where.by_created and (where.since_ms is not None or where.until_ms is not None):
            return False
        return not where.tags and where.entity is None and where.conversation_id is None

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        self.searches += 1
        self._check(vector)
        seen = self._vectors if self._seen is None else self._seen
        hits = [
            VectorHit(row.key, sum(map(mul, vector, row.vector)), one.split(".")[1])
            for one, row in seen.items()
            if _passes(row, where)
        ]
        return sorted(hits, key=lambda hit: (-hit.similarity, hit.key))[:k]

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        vector = next((row.vector for row in self._vectors.values() if row.key == key), None)
        if vector is None:
            return []
        return [hit for hit in await self.search(vector, k + 1, where) if hit.key != key][:k]

    def ids(self) -> set[str]:
        return set(self._vectors)

    def _check(self, vector: Vector) -> None:
        check_vector(vector, next((len(row.vector) for row in self._vectors.values()), len(vector)))


def _rid(row: VectorRow) -> int:
    return row.key // PASSAGES_MAX


def _marks(rows: Sequence[VectorRow]) -> dict[int, str]:
    """Return the name of each memory's vectors, made of what was embedded."""
    embedded: dict[int, bytes] = {}
    for row in rows:
        embedded[_rid(row)] = embedded.get(_rid(row), b"") + row.text_hash
    return {rid: blake2b(hashes, digest_size=8).hexdigest() for rid, hashes in embedded.items()}


def _passes(row: VectorRow, where: Filter) -> bool:
    if where.spaces is not None and row.space not in where.spaces:
        return False
    if where.types is not None and (row.type in where.types) is where.types_left_out:
        return False
    if (State.ARCHIVED if row.archived else State.LIVE) not in where.states:
        return False
    if where.by_created:
        return True
    after = where.since_ms is None or row.occurred_ms >= where.since_ms
    return after and (where.until_ms is None or row.occurred_ms < where.until_ms)


class Hydrated:
    """An index that lies apart, its hits held against the database as a search holds them: what is left is as right
    as of an index that lies in the database, but fewer than `k` where some did not count.
    """

    def __init__(self, index: VectorIndex, database: Database, model: str) -> None:
        self._index = index
        self._database = database
        self._model = model

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        await self._index.upsert(rows)

    async def delete(self, rids: Sequence[int]) -> None:
        await self._index.delete(rids)

    def applies(self, where: Filter) -> bool:
        return True

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        return await self._counting(await self._index.search(vector, k, where), where)

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        return await self._counting(await self._index.neighbours(key, k, where), where)

    async def _counting(self, hits: list[VectorHit], where: Filter) -> list[VectorHit]:
        passing, params = condition(where, "r")
        rows = await self._database.query(
            f"select r.rid, {standing_of(passing)} from json_each(?) j"
            f" cross join record r on r.rid = j.value {STATE_OF}",
            (*params, compact_json([hit.key // PASSAGES_MAX for hit in hits]), self._model),
        )
        return sift(hits, {int(row["rid"] or 0): Standing.read(row) for row in rows}).hits
