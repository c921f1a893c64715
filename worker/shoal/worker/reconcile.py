"""Holds the index against the database, some memories at a time: what is missing, stale or nobody's.

Each call goes on where the last one ended (meta 'audit', a rid), within what is left of its invocation's budget:

    confirm   what the index says it has applied needs no further look
    audit     the next memories, and versions long unconfirmed: are their vectors there, with what the index should
              know of them? Else they are wanted anew
    sweep     versions noted as gone whose memory nobody is working on
    ghosts    at the end of a round: when the index holds more than the database knows, look around for them
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from shoal.core.protocols import Row, Statement, VectorHit
from shoal.schema import sql
from shoal.schema.sql import State
from shoal.worker.edge import Edge
from shoal.worker.vector_ids import Version, metadata, parts, vector_id
from shoal.worker.vectorize import read_versions
from shoal.worker.vectorize_client import GET_MAX, HITS_MAX, IndexInfo

AUDIT_MEMORIES: Final = 300
AUDIT_VECTORS: Final = 300
"""Looked at in one call: 15 look-ups of 20."""
SUSPECTS: Final = 40
SWEEP_VECTORS: Final = 500
UNCONFIRMED_MAX_MS: Final = 600_000
"""Changes are usually applied within seconds; after so long one counts as lost."""
CLOCKS_APART_MS: Final = 1_000
"""How far the index's clock may be from ours. Where it is farther, some vectors are made once more than needed."""
GHOST_LOOKS: Final = 8
"""Searches for vectors that nobody knows, a hundred of them each."""
CALLS_KEPT: Final = 16
"""Calls that are left for the work that this finds."""

_CONFIRM: Final = """
update vector_state set mutation = null
where mutation is not null
  and made_at < max(?1, coalesce((select max(made_at) + 1 from vector_state where mutation = ?2), 0))
"""
_COLUMNS: Final = """
  r.rid, lower(hex(r.id)) as id, r.space, r.type, r.occurred_at, r.state,
  r.want <= 0 and r.rid >= coalesce((select v from meta where k = 'reembed'), 0) as settled,
  s.mark, s.passages, s.model, s.mutation is not null and s.made_at > ?1 as fresh,
  exists (select 1 from unembedded u where u.rid = r.rid) as refused
"""
_SUSPECTS: Final = f"""
select {_COLUMNS} from vector_state s cross join record r on r.rid = s.rid
where s.mutation is not null and s.made_at <= ?1 order by s.made_at limit {SUSPECTS}
"""
_PAGE: Final = f"""
select {_COLUMNS} from record r left join vector_state s on s.rid = r.rid
where r.class = 'memory' and r.rid > coalesce((select v from meta where k = 'audit'), 0)
order by r.rid limit {AUDIT_MEMORIES}
"""
_FOUND: Final = """
update vector_state set mutation = null where mutation is not null and rid in (select value from json_each(?1))
"""
_MOVE_ON: Final = """
insert into meta (k, v) values ('audit', cast(?1 as integer)) on conflict (k) do update set v = excluded.v
where v is not excluded.v
"""
_LEFT_OVER: Final = f"""
select g.rid, g.mark, g.passages from vector_gone g
where not exists (select 1 from vector_state s where s.rid = g.rid and s.mark = g.mark)
  and not exists (select 1 from record r where r.rid = g.rid and r.want > 0)
limit {SWEEP_VECTORS}
"""
_KNOWN: Final = """
select (select coalesce(sum(passages), 0) from vector_state) as vectors,
  (select count(*) from vector_gone) as gone,
  (select count(*) from record indexed by record_want where want > 0) as wanted
"""


@dataclass(slots=True)
class Report:
    """What one call did."""

    audited: int = 0
    """Memories looked at."""
    wanted: list[str] = field(default_factory=list[str])
    """Ids of memories whose vectors were missing or wrong, and are wanted anew."""
    swept: int = 0
    """Versions removed that were noted as gone."""
    ghosts: int = 0
    """Versions removed that nobody knew."""
    round_ended: bool = False
    """Whether the last memory was looked at; the next call begins with the first."""

    def told(self) -> dict[str, object]:
        """Return it for the log."""
        return {
            "audited": self.audited,
            "wanted": len(self.wanted),
            "swept": self.swept,
            "ghosts": self.ghosts,
            "round_ended": self.round_ended,
        }


async def reconcile(edge: Edge) -> Report:
    """Do the next part of the round and return what was found. Raises VectorIndexError, StorageError."""
    work = _Reconciliation(edge)
    info = await edge.index.client.describe()
    await work.confirm(info)
    await work.audit()
    await work.sweep()
    if work.report.round_ended:
        await work.look_for_ghosts(info)
    return work.report


class _Reconciliation:
    """One call."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._database = edge.context.database
        self._client = edge.index.client
        self._right: list[Version] = []
        """What was looked at and is as it should be."""
        self.report = Report()

    async def confirm(self, info: IndexInfo) -> None:
        """Take what the index has applied as there."""
        applied = (info.processed_ms - CLOCKS_APART_MS, info.processed_mutation)
        await self._database.batch([Statement(_CONFIRM, applied)])

    async def audit(self) -> None:
        """Look at the next memories, and at those whose change the index has long not confirmed."""
        room = min(AUDIT_VECTORS, (self._edge.budget.calls_left - CALLS_KEPT) * GET_MAX)
        if room <= 0:
            return
        old = (self._edge.context.clock() - UNCONFIRMED_MAX_MS,)
        suspects = _within(await self._database.query(_SUSPECTS, old), room // 2)
        page = await self._database.query(_PAGE, old)
        left = room - sum(map(_passages, suspects))
        part = _within(page, left) if left > 0 else []
        ended = len(page) < AUDIT_MEMORIES and len(part) == len(page)
        rows = {row["rid"]: row for row in (*suspects, *part) if row["settled"]}
        wrong, right = await self._sorted(list(rows.values()), room)
        batch = [
            Statement(sql.WANT_ANEW, (json.dumps([row["rid"] for row in wrong]),)),
            Statement(_FOUND, (json.dumps(right),)),
        ]
        if ended or part:
            batch.append(Statement(_MOVE_ON, (0 if ended else part[-1]["rid"],)))
        await self._database.batch(batch)
        self.report.audited = len(rows)
        self.report.wanted = [cast("str", row["id"]) for row in wrong]
        self.report.round_ended = ended

    async def _sorted(self, rows: Sequence[Row], room: int) -> tuple[list[Row], list[int]]:
        """Part memories into those to make anew and, by rid, those whose vectors are there as they should be."""
        wrong = [row for row in rows if self._differs(row)]
        apart = {row["rid"] for row in wrong}
        rest = [row for row in rows if _should_be_there(row) and row["mark"] and row["rid"] not in apart]
        looked_up = {_version(row): row for row in rest if not row["fresh"]}
        # Only the longest memory alone can have more vectors than there is room for.
        there = await self._client.metadata([one for version in looked_up for one in version.ids][:room])
        for version, row in looked_up.items():
            expected = self._metadata(row)
            if any(there.get(one) != expected for one in version.ids[:room]):
                wrong.append(row)
            else:
                self._right.append(version)
        return wrong, [version.rid for version in self._right]

    def _differs(self, row: Row) -> bool:
        """Whether the database alone tells that a memory's vectors are not what they should be."""
        if not _should_be_there(row):
            return row["mark"] is not None
        if row["mark"] is None:
            return not row["refused"]
        return row["model"] != self._fingerprint

    @property
    def _fingerprint(self) -> str:
        return self._edge.index.fingerprint

    def _metadata(self, row: Row) -> dict[str, Any]:
        type_name = cast("str", row["type"])
        return metadata(
            space=cast("str", row["space"]),
            type_name=type_name,
            kind=self._edge.context.ontology.info(type_name).kind,
            occurred_ms=cast("int", row["occurred_at"]),
            archived=row["state"] == State.ARCHIVED,
        )

    async def sweep(self) -> None:
        """Remove what was noted as gone and is still there."""
        noted = read_versions(await self._database.query(_LEFT_OVER))
        left_over = next(parts(noted, SWEEP_VECTORS), None)
        if left_over and self._edge.budget.allows(2, CALLS_KEPT):
            await self._edge.index.sweep(left_over)
            self.report.swept = len(left_over)

    async def look_for_ghosts(self, info: IndexInfo) -> None:
        """Remove vectors that nobody knows, when there must be some. What a search can't meet is no harm to one."""
        known = (await self._database.query(_KNOWN))[0]
        surplus = info.vectors - cast("int", known["vectors"])
        if surplus <= 0 or known["gone"] or known["wanted"] or self.report.wanted:
            return
        for look in range(GHOST_LOOKS):
            if self.report.ghosts >= surplus or not self._edge.budget.allows(4, CALLS_KEPT):
                return
            hits = await self._look(look, info)
            self.report.ghosts += await self._edge.index.discard(
                [vector_id(hit.key, hit.mark) for hit in hits if hit.mark is not None]
            )

    async def _look(self, number: int, info: IndexInfo) -> list[VectorHit]:
        """Return what lies around one of the memories looked at, another each time; around anything without them."""
        if not self._right:
            return await self._client.query([1.0] + [0.0] * (info.dim - 1), HITS_MAX, {})
        one = self._right[number * len(self._right) // GHOST_LOOKS]
        return await self._client.query_by_id(one.ids[0], HITS_MAX, {})


def _should_be_there(row: Row) -> bool:
    """Whether a memory's vectors belong into the index."""
    return row["state"] in (State.LIVE, State.ARCHIVED)


def _version(row: Row) -> Version:
    return Version(cast("int", row["rid"]), cast("str", row["mark"]), cast("int", row["passages"]))


def _passages(row: Row) -> int:
    return cast("int", row["passages"] or 0)


def _within(rows: Sequence[Row], vectors: int) -> list[Row]:
    """Return the first rows that have so many vectors together; at least one row."""
    taken: list[Row] = []
    for row in rows:
        vectors -= _passages(row)
        if taken and vectors < 0:
            break
        taken.append(row)
    return taken
