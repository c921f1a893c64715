"""The edge's VectorIndex: Vectorize, and the tables in D1 that say what lies there.

Vectorize and D1 share no transaction, an invocation may end anywhere, and two may work on one memory. So each change
is noted in `vector_gone` before Vectorize is asked, and settled in D1 afterwards, in one batch:

    upsert   note the new versions, put their vectors, then in one batch make them the present ones in `vector_state`,
             take them off `vector_gone`, and note there what they replace
    sweep    read `vector_gone`, delete those vectors, take them off

What ends in the middle leaves a note: the memory is still wanted and is made anew, or a later sweep removes what is
left. Whoever settles looks whether the other was there in between. A version that was swept out before it became the
present one is missing from the notes; one that became the present one while it was being swept out stands in
`vector_state`. In both cases its memory's vectors are wanted once more. What slips through all the same, the audit
finds (reconcile.py).
"""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from shoal.core.protocols import Database, Filter, Row, Statement, Vector, VectorHit, VectorRow
from shoal.core.vectors import check_vector
from shoal.schema import sql
from shoal.schema.limits import PASSAGES_MAX
from shoal.worker.bindings import VectorizeBinding
from shoal.worker.budget import Budget
from shoal.worker.configuration import Clock
from shoal.worker.vector_filter import vector_filter
from shoal.worker.vector_ids import Version, metadata, parts, vector_id, versions, versions_json
from shoal.worker.vectorize_client import DELETE_MAX, VectorizeClient

SWEEP_VECTORS: Final = 10 * DELETE_MAX
"""Removed before their notes are."""

# ?1 of all: [[rid, mark, passages], ...] or [rid, ...].
_VERSIONS: Final = "select value->>0 as rid, value->>1 as mark, value->>2 as passages from json_each(?1)"
_KEEP_LONGEST: Final = "on conflict (rid, mark) do update set passages = max(passages, excluded.passages)"
_IS_PRESENT: Final = "exists (select 1 from vector_state s where s.rid = j.rid and s.mark = j.mark)"
_IS_WANTED: Final = "exists (select 1 from record r where r.rid = j.rid and r.want > 0)"
_NOTE_NEW: Final = f"""
insert into vector_gone (rid, mark, passages) select rid, mark, passages from ({_VERSIONS}) j where not {_IS_PRESENT}
{_KEEP_LONGEST}
"""
_NOTE_REPLACED: Final = f"""
insert into vector_gone (rid, mark, passages)
select s.rid, s.mark, s.passages
from ({_VERSIONS}) j cross join vector_state s on s.rid = j.rid and s.mark <> j.mark
  cross join record r on r.rid = j.rid and r.state in (1, 2)
where true {_KEEP_LONGEST}
"""
_TAKE_OVER: Final = f"""
insert into vector_state (rid, model, mark, passages, made_at, mutation)
select j.rid, ?2, j.mark, j.passages, ?3, ?4
from ({_VERSIONS}) j cross join record r on r.rid = j.rid and r.state in (1, 2)
where true
on conflict (rid) do update set model = excluded.model, mark = excluded.mark, passages = excluded.passages,
  made_at = excluded.made_at, mutation = excluded.mutation
"""
"""A memory that went away meanwhile takes nothing over: its new version is noted again and swept out."""
_UNNOTE_PRESENT: Final = f"""
delete from vector_gone where (rid, mark) in (select j.rid, j.mark from ({_VERSIONS}) j where {_IS_PRESENT})
"""
_NOTED_OF_VERSIONS: Final = f"""
select g.rid, g.mark, g.passages from (select distinct rid from ({_VERSIONS})) j
  cross join vector_gone g on g.rid = j.rid
"""
_UNNOTE: Final = f"delete from vector_gone where (rid, mark) in (select rid, mark from ({_VERSIONS}))"
_NOTE_ALL: Final = f"""
insert into vector_gone (rid, mark, passages)
select rid, mark, passages from vector_state where rid in (select value from json_each(?1))
{_KEEP_LONGEST}
"""
_FORGET: Final = "delete from vector_state where rid in (select value from json_each(?1))"
_NOTED: Final = "select rid, mark, passages from vector_gone where rid in (select value from json_each(?1))"
_NOTE_STRAY: Final = f"""
insert into vector_gone (rid, mark, passages)
select rid, mark, passages from ({_VERSIONS}) j where not {_IS_PRESENT} and not {_IS_WANTED}
{_KEEP_LONGEST}
"""
_NOTED_STRAY: Final = f"""
select g.rid, g.mark, g.passages
from ({_VERSIONS}) j cross join vector_gone g on g.rid = j.rid and g.mark = j.mark
where not {_IS_PRESENT} and not {_IS_WANTED}
"""
_PRESENT: Final = "select mark from vector_state where rid = ?1 and passages > ?2 and model = ?3"


class VectorizeIndex:
    """Implements core's VectorIndex for one model's fingerprint. Good for one invocation, whose budget it keeps."""

    def __init__(
        self,
        binding: VectorizeBinding,
        database: Database,
        fingerprint: str,
        dim: int,
        clock: Clock,
        budget: Budget,
    ) -> None:
        self.client: Final = VectorizeClient(binding, budget)
        self.fingerprint: Final = fingerprint
        self._database = database
        self._dim = dim
        self._clock = clock

    async def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Put vectors in the place of all that their memories had. Raises VectorIndexError, StorageError.

        Raises ValueError for one that isn't a unit vector of the model's length.
        """
        if not rows:
            return
        for row in rows:
            check_vector(row.vector, self._dim)
        latest = {row.key: row for row in rows}
        ordered = [latest[key] for key in sorted(latest)]
        new = versions(ordered, self.fingerprint)
        marks = {version.rid: version.mark for version in new}
        told = (versions_json(new),)
        await self._database.batch([Statement(_NOTE_NEW, told)])
        mutation = await self.client.upsert(ordered, lambda row: _vector(row, marks[row.key // PASSAGES_MAX]))
        results = await self._database.batch(
            [
                Statement(sql.WANT_SWEPT, told),
                Statement(_NOTE_REPLACED, told),
                Statement(_TAKE_OVER, (*told, self.fingerprint, self._clock(), mutation)),
                Statement(_UNNOTE_PRESENT, told),
                Statement(_NOTE_NEW, told),
                Statement(_NOTED_OF_VERSIONS, told),
            ]
        )
        await self.sweep(read_versions(results[-1]))

    async def delete(self, rids: Sequence[int]) -> None:
        """Remove all vectors of these memories, of whatever model. Raises VectorIndexError, StorageError."""
        if not rids:
            return
        told = (json.dumps(sorted(set(rids))),)
        results = await self._database.batch(
            [
                Statement(sql.WANT_LIVING, told),
                Statement(_NOTE_ALL, told),
                Statement(_FORGET, told),
                Statement(_NOTED, told),
            ]
        )
        await self.sweep(read_versions(results[-1]))

    async def discard(self, ids: Sequence[str]) -> int:
        """Remove vectors that a search met and no memory has; return how many versions went.

        Those that became a memory's meanwhile stay, and so do those whose memory is being worked on.
        """
        strays = [version for version in map(Version.of_id, ids) if version is not None]
        if not strays:
            return 0
        told = (versions_json(strays),)
        results = await self._database.batch([Statement(_NOTE_STRAY, told), Statement(_NOTED_STRAY, told)])
        gone = read_versions(results[-1])
        await self.sweep(gone)
        return len(gone)

    async def sweep(self, gone: Sequence[Version]) -> None:
        """Delete the vectors of versions that are noted as gone, then their notes: some at a time, so that an
        invocation which can't hold all of them still gets on.
        """
        for part in parts(gone, SWEEP_VECTORS):
            await self.client.delete([one for version in part for one in version.ids])
            told = (versions_json(part),)
            await self._database.batch([Statement(sql.WANT_DROPPED, told), Statement(_UNNOTE, told)])

    def applies(self, where: Filter) -> bool:
        """Say whether Vectorize filters by all of it: not by tags, entities, conversations or times of storing."""
        found = vector_filter(where)
        return found is None or found.whole

    async def search(self, vector: Vector, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages, at most 100, nearest first. Raises VectorIndexError.

        Their memories may have changed since: a hit counts only where `vector_state` has its mark.
        """
        check_vector(vector, self._dim)
        found = vector_filter(where)
        if found is None or k < 1:
            return []
        return await self.client.query(vector, k, found.conditions)

    async def neighbours(self, key: int, k: int, where: Filter) -> list[VectorHit]:
        """Return the k nearest passages to a stored one, itself left out. Raises VectorIndexError, StorageError."""
        rid, passage = divmod(key, PASSAGES_MAX)
        found = vector_filter(where)
        rows = await self._database.query(_PRESENT, (rid, passage, self.fingerprint))
        if not rows or found is None or k < 1:
            return []
        one = vector_id(key, cast("str", rows[0]["mark"]))
        return [hit for hit in await self.client.query_by_id(one, k + 1, found.conditions) if hit.key != key][:k]


def read_versions(rows: Sequence[Row]) -> list[Version]:
    """Return rows of {rid, mark, passages} as versions."""
    return [Version(cast("int", row["rid"]), cast("str", row["mark"]), cast("int", row["passages"])) for row in rows]


def _vector(row: VectorRow, mark: str) -> dict[str, Any]:
    return {
        "id": vector_id(row.key, mark),
        "values": list(row.vector),
        "metadata": metadata(
            space=row.space,
            type_name=row.type,
            kind=row.kind,
            occurred_ms=row.occurred_ms,
            archived=row.archived,
        ),
    }
