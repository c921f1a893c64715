"""The laptop's vector index: vectors in the database itself, compared by sqlite-vec."""

import json
import struct
from collections.abc import Sequence
from typing import Final, Self

import apsw

from shoal.core import filters
from shoal.core.protocols import Filter, Statement, Vector, VectorHit, VectorRow
from shoal.local.database import ApswDatabase
from shoal.schema.limits import PASSAGES_MAX

_TABLES: Final = (
    # `stamp` of a model grows with each upsert, so that a process sees what others have added.
    """create table if not exists vector_model (
      id integer primary key autoincrement, fingerprint text not null unique, dim integer not null,
      stamp integer not null default 0, removed integer not null default 0)""",
    """create table if not exists vector (
      key integer primary key, model integer not null, text_hash blob not null, stamp integer not null,
      data blob not null)""",
    "create index if not exists vector_stamp on vector (model, stamp)",
)
_MODEL: Final = "(select id from vector_model where fingerprint = ?1)"


class SqliteVecIndex:
    """Implements core's VectorIndex for one model's fingerprint. Made by `open`.

    Rows of another model stay in the table, unseen, until they are replaced or dropped.
    """

    def __init__(self, database: ApswDatabase, fingerprint: str, dim: int) -> None:
        """Use `open`."""
        self._database = database
        self._fingerprint = fingerprint
        self._dim = dim

    @classmethod
    async def open(cls, database: ApswDatabase, fingerprint: str, dim: int) -> Self:
        """Make the tables where they are absent. `dim` is the length of the model's vectors."""
        index = cls(database, fingerprint, dim)
        register = "insert or ignore into vector_model (fingerprint, dim) values (?1, ?2)"
        await database.batch([*map(Statement, _TABLES), Statement(register, (fingerprint, dim))])
        return index

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Add or replace vectors. Raises ValueError for one of another length."""
        if not rows:
            return
        model = self._fingerprint
        statements = [
            self._count_removed([row.key for row in rows]),
            Statement("update vector_model set stamp = stamp + 1 where fingerprint = ?1", (model,)),
        ]
        put = """insert or replace into vector (key, model, stamp, text_hash, data)
          select ?2, id, stamp, ?3, ?4 from vector_model where fingerprint = ?1"""
        for row in rows:
            statements.append(Statement(put, (model, row.key, row.text_hash, self._pack(row.vector))))
        await self._database.batch(statements)

    async def delete(self, keys: Sequence[int]) -> None:
        """Remove vectors of whatever model; unknown keys are ignored."""
        drop = "delete from vector where key in (select value from json_each(?1))"
        await self._database.batch([self._count_removed(keys), Statement(drop, (json.dumps(list(keys)),))])

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages of memories that pass `where`, nearest first; of equals the lower key."""
        query = self._pack(vector)
        return await self._database.read(lambda connection: self._exact(connection, query, k, where))

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages to a stored one, itself left out; empty when the key is unknown."""

        def job(connection: apsw.Connection) -> list[VectorHit]:
            stored = f"select data from vector where model = {_MODEL} and key = ?2"
            query = connection.execute(stored, (self._fingerprint, key)).get
            if query is None:
                return []
            return [hit for hit in self._exact(connection, query, k + 1, where) if hit.key != key][:k]

        return await self._database.read(job)

    async def count(self) -> int:
        """Return how many vectors of this model there are."""
        sql = f"select count(*) as n from vector where model = {_MODEL}"
        return int((await self._database.query(sql, (self._fingerprint,)))[0]["n"] or 0)

    def _exact(self, connection: apsw.Connection, query: bytes, k: int, where: Filter) -> list[VectorHit]:
        condition, params = filters.condition(where, "r")
        sql = f"""select v.key, 1 - vec_distance_cosine(v.data, ?) as similarity
          from vector v cross join record r on r.rid = v.key / {PASSAGES_MAX}
          where v.model = (select id from vector_model where fingerprint = ?) and {condition}
          order by similarity desc, v.key limit ?"""
        rows = connection.execute(sql, (query, self._fingerprint, *params, k))
        return [VectorHit(key, similarity) for key, similarity in rows]

    def _count_removed(self, keys: Sequence[int]) -> Statement:
        sql = """update vector_model set removed = removed + (
          select count(*) from json_each(?1) j cross join vector v on v.key = j.value
          where v.model = vector_model.id)"""
        return Statement(sql, (json.dumps(list(keys)),))

    def _pack(self, vector: Vector) -> bytes:
        if len(vector) != self._dim:
            raise ValueError(f"a vector of length {len(vector)}; the model's have {self._dim}")
        return struct.pack(f"<{self._dim}f", *vector)
