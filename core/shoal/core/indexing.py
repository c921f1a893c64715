"""From wanted vectors to vectors, in bounded steps that may stop anywhere and be done twice.

`record.want` counts the reasons that there ever were to make a memory's vectors, and stands below 0 once they are
made: a step turns it only if no reason came meanwhile, and no count comes twice for a slow step to take for its own.
After a change of model every memory is made anew from the newest to the oldest: meta 'reembed' is the rid below which
that is still to do, meta 'model' the fingerprint that it is done for.

A memory that the model refuses while it takes others is tried ATTEMPTS_MAX times and then given up, until somebody
has them tried again; a model that takes nothing is an outage, for which no memory is to blame.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, cast

from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.erasing import erase_all_words
from shoal.core.passages import split
from shoal.core.protocols import Embedder, Role, Row, SqlValue, Statement, Vector, VectorIndex, VectorRow
from shoal.schema import sql
from shoal.schema.errors import ModelBusy, ModelError, ModelOverQuota, ModelUnavailable
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State

ATTEMPTS_MAX: Final = 5
"""Times that a memory is tried while the model takes others."""
PROBE: Final = "ok"
"""What a model must take that is well."""
ERASE_LIMIT: Final = 100
"""Purged memories whose vectors go in one step."""
CONTEXT_MAX_CHARS: Final = 200
"""Characters of the previous turn that go in front of a turn: with a whole passage still inside the window."""

REMOVAL_CHARS: Final = 128
"""What a vector that must go weighs in a step, as characters of content: about a thousand fill one at the edge, where
removing them takes ten calls."""
_CHAR_MAX_BYTES: Final = 4
"""Of a character in UTF-8. The database tells a text's bytes without reading it."""


def _rows(found: str) -> str:
    """Return the query for a step's rows, the newest first, of the memories `r` that the SQL `found` tells.

    ?1 = how many at most; ?2 = how many bytes their `init` may have together before the last of them, so that there is
    always one; ?3 = [rid, ...] of those on which other steps work; ?4 = [state, ...] that they may have, null for any;
    ?5 is left to `found`.
    """
    # The turn before gives a turn its meaning ("Yes, in May"): prototype figures .39 -> .69 R@10 on LoCoMo.
    return f"""
with found as (select r.rid, coalesce(octet_length(r.init), 0) as size from {found}
    and r.rid not in (select value from json_each(?3))
    and (?4 is null or r.state in (select value from json_each(?4)))
  order by r.rid desc limit ?1),
  sized as (select rid, sum(size) over (order by rid desc) - size as before from found)
select r.rid, r.want, r.space, r.type, r.occurred_at, r.state, r.init->>'content' as content,
  (select substr(p.init->>'content', -{CONTEXT_MAX_CHARS}) from record p
    where p.space = r.space and p.conversation_id = r.conversation_id
      and p.position = r.position - 1 and p.state in (1, 2) limit 1) as previous,
  (select coalesce(sum(passages), 0) from (select passages from vector_state where rid = r.rid
    union all select passages from vector_gone where rid = r.rid)) as vectors
from sized x cross join record r on r.rid = x.rid where x.before < ?2 order by r.rid desc
"""


_WANTED: Final = _rows("record r indexed by record_want where r.want > 0")
_NAMED: Final = _rows(f"""record r where r.want > 0 and r.rid in (
    select m.rid from json_each(?5) j cross join record m on m.id = unhex(j.value)
    union select n.rid from json_each(?5) j cross join record m on m.id = unhex(j.value) {sql.NEXT_TURN})""")
_PURGED: Final = _rows("record r indexed by record_want where r.want > 0 and r.init is null")
_REEMBED: Final = _rows("""record r where r.rid < (select v from meta where k = 'reembed')
    and r.class = 'memory' and r.init is not null and r.want <= 0""")
_DONE: Final = """
update record set want = -want from json_each(?1) j
where record.rid = j.value->>0 and record.want = j.value->>1
"""
_OVERTAKEN: Final = """
update record set want = abs(want) + 1 from json_each(?1) j
where record.rid = j.value->>0 and record.want <= 0 and abs(record.want) > abs(j.value->>1)
"""
"""What another step has made meanwhile, for a later reason: this slower step has put its older state over that."""
_TAKEN: Final = "delete from unembedded where rid in (select value->>0 from json_each(?1))"
_REFUSED: Final = """
insert into unembedded (rid, attempts, code, at) select j.value->>0, 1, ?2, ?3 from json_each(?1) j where true
on conflict (rid) do update set attempts = attempts + 1, code = excluded.code, at = excluded.at
"""
_GIVE_UP: Final = f"""{_DONE}
  and exists (select 1 from unembedded u where u.rid = record.rid and u.attempts >= {ATTEMPTS_MAX})
"""
_TRY_AGAIN: Final = (
    "update record set want = abs(want) + 1 where want <= 0 and rid in (select rid from unembedded)",
    "delete from unembedded",
    "update meta set v = 0 where k = 'dead_letters' and v > 0",
    # Whoever asks may have bought a larger quota; a service that still refuses is left alone again.
    "delete from meta where k = 'paused'",
)
WAITING_MAX: Final = 500
"""Memories that wait for a vector which one call names: no more than a message of the queue takes."""
_WAITING: Final = f"""
select lower(hex(r.id)) as id from record r indexed by record_want where r.want > 0 and r.updated_at < ?1
order by r.rid desc limit {WAITING_MAX}
"""


@dataclass(slots=True)
class _Made:
    """What became of a step's rows."""

    vectors: list[VectorRow] = field(default_factory=list[VectorRow])
    taken: list[Row] = field(default_factory=list[Row])
    refused: list[Row] = field(default_factory=list[Row])
    error: ModelError | None = None
    """Why the model refused some."""
    stopped: ModelError | None = None
    """Why the model took no more: the others stay wanted."""


class Indexer:
    """Makes the vectors of one Memory service."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._in_flight: set[int] = set()
        self._running: set[asyncio.Future[None]] = set()
        self._taking = asyncio.Lock()
        self._making_anew = asyncio.Lock()

    async def begin(self) -> None:
        """Note the model in use; when it isn't the one that made the vectors, want all of them anew.

        Before the first model nothing was embedded, so all that there is is wanted already.
        """
        embedder = self._context.embedder
        if embedder is None:
            return
        await self._context.database.batch(
            [
                Statement(
                    # max(rid) in a query of its own: beside conditions SQLite reads every row for it.
                    "insert into meta (k, v) select 'reembed', r.last + 1"
                    " from (select (select max(rid) from record) as last) r"
                    " where (select v from meta where k = 'model') <> ?1 and r.last is not null"
                    " on conflict (k) do update set v = excluded.v",
                    (embedder.fingerprint,),
                ),
                Statement(
                    "insert into meta (k, v) values ('model', ?1) on conflict (k) do update set v = excluded.v"
                    " where v is not excluded.v",
                    (embedder.fingerprint,),
                ),
            ]
        )

    async def step(self, limit: int) -> int:
        """Make the vectors of at most `limit` memories, the newest first; return how many were worked on.

        Raises ModelError, VectorIndexError, StorageError; what was not finished stays wanted.
        """
        await erase_all_words(self._context.database)
        return await self.wanted(limit) or await self.anew(limit)

    async def wanted(self, limit: int) -> int:
        """Make the vectors that are new or out of date, as `step` does, without those of another model."""
        return await self._work(_WANTED, limit)

    async def named(self, ids: Sequence[str], limit: int) -> int:
        """As `wanted`, for these memories and the turns after them; the others are left to others."""
        return await self._work(_NAMED, limit, json.dumps(list(ids)))

    async def try_again(self) -> list[str]:
        """Want what was given up once more; return the ids of those that wait, WAITING_MAX at most."""
        await self._context.database.batch([Statement(text) for text in _TRY_AGAIN])
        return await self.waiting(self._context.clock() + 1)

    async def waiting(self, before_ms: int) -> list[str]:
        """Return the ids of memories that wait for vectors and were last written before then, WAITING_MAX at most."""
        return [cast("str", row["id"]) for row in await self._context.database.query(_WAITING, (before_ms,))]

    async def settle(self, limit: int, ids: Sequence[str] | None = None) -> None:
        """As `wanted`, or as `named`, and wait for the steps under way: they may have what the caller waits for."""
        running = set(self._running)
        await (self.wanted(limit) if ids is None else self.named(ids, limit))
        if running:
            await asyncio.wait(running)

    async def erase_purged(self) -> None:
        """Remove the vectors and the words of purged memories at once."""
        while await self._work(_PURGED, ERASE_LIMIT):
            pass
        await erase_all_words(self._context.database)

    async def anew(self, limit: int) -> int:
        """Make vectors anew after a change of model. One step at a time: the mark says that all above it is done."""
        if self._context.embedder is None:
            return 0
        async with self._making_anew:
            return await self._work(_REEMBED, limit, again=True)

    async def _work(self, select: str, limit: int, *params: SqlValue, again: bool = False) -> int:
        index = self._context.index
        if index is None:
            return 0
        async with self._taking:
            rows = await self._take(select, limit, params)
            rids = {_rid(row) for row in rows}
            self._in_flight |= rids
        if not rows:
            return 0
        done = asyncio.get_running_loop().create_future()
        self._running.add(done)
        try:
            made = await self._make(index, rows)
            await self._finish(made, min(rids) if again else None)
            if made.stopped is not None:
                raise made.stopped
        finally:
            self._in_flight -= rids
            self._running.discard(done)
            done.set_result(None)
        return len(rows)

    async def _take(self, select: str, limit: int, params: Sequence[SqlValue]) -> list[Row]:
        chars = self._context.policy.index_step_chars
        states = None if self._context.embedder is not None else compact_json(sorted(self._gone_states))
        bounds = (limit, chars * _CHAR_MAX_BYTES, compact_json(sorted(self._in_flight)), states)
        rows = await self._context.database.query(select, (*bounds, *params))
        return _within([(row, self._weight(row)) for row in rows], chars)

    @property
    def _gone_states(self) -> set[int]:
        """States in which a memory has no business in the index: purged, or in the trash where the index can't tell."""
        return {State.HIDDEN, State.TRASHED} if self._context.policy.index_apart else {State.HIDDEN}

    def _weight(self, row: Row) -> int:
        """Return what a row adds to a step, in characters."""
        if self._is_gone(row):
            return cast("int", row["vectors"]) * REMOVAL_CHARS
        return len(cast("str", row["content"]))

    def _is_gone(self, row: Row) -> bool:
        return row["content"] is None or row["state"] in self._gone_states

    async def _make(self, index: VectorIndex, rows: Sequence[Row]) -> _Made:
        gone = [row for row in rows if self._is_gone(row)]
        there = [row for row in rows if not self._is_gone(row)]
        made = _Made(taken=list(gone))
        if gone:
            await index.delete([_rid(row) for row in gone])
        if there and self._context.embedder is not None:
            try:
                await self._embed(self._context.embedder, there, made)
            except ModelError as error:
                made.stopped = error
        if made.vectors:
            await index.upsert(made.vectors)
        return made

    async def _embed(self, embedder: Embedder, rows: Sequence[Row], made: _Made) -> None:
        """Embed the rows together; where the model refuses, halve by halve, so that those it takes are made.

        Raises ModelError when it takes no more; `made` has what it took until then.
        """
        keyed = [(row, key, text) for row in rows for key, text in _passages(row)]
        try:
            vectors = await embedder.embed([text for _, _, text in keyed], Role.PASSAGE)
        except (ModelBusy, ModelOverQuota, ModelUnavailable):
            raise
        except ModelError as error:
            if made.error is None:
                await _require_well(embedder, error)
                made.error = error
            if len(rows) == 1:
                made.refused += rows
                return
            middle = len(rows) // 2
            await self._embed(embedder, rows[:middle], made)
            await self._embed(embedder, rows[middle:], made)
            return
        made.taken += rows
        made.vectors += [
            self._vector_row(row, key, text, vector) for (row, key, text), vector in zip(keyed, vectors, strict=True)
        ]

    def _vector_row(self, row: Row, key: int, text: str, vector: Vector) -> VectorRow:
        type_name = cast("str", row["type"])
        return VectorRow(
            key=key,
            vector=vector,
            text_hash=text_hash(text),
            space=cast("str", row["space"]),
            type=type_name,
            kind=self._context.ontology.info(type_name).kind,
            occurred_ms=cast("int", row["occurred_at"]),
            archived=row["state"] == State.ARCHIVED,
        )

    async def _finish(self, made: _Made, reembedded_to: int | None) -> None:
        """Note what became of the rows; `reembedded_to` is the lowest rid of a step after a change of model."""
        batch: list[Statement] = []
        if reembedded_to is not None and made.stopped is None:
            batch.append(Statement("update meta set v = ?1 where k = 'reembed' and v > ?1", (reembedded_to,)))
        if made.taken:
            taken = (_with_wants(made.taken),)
            batch.append(Statement(_TAKEN, taken))
            if self._context.policy.index_apart:
                batch.append(Statement(_OVERTAKEN, taken))
            if reembedded_to is None:
                batch.append(Statement(_DONE, taken))
        if made.refused and made.error is not None:
            refused = _with_wants(made.refused)
            batch.append(Statement(_REFUSED, (refused, made.error.code, self._context.clock())))
            if reembedded_to is None:
                batch.append(Statement(_GIVE_UP, (refused,)))
            else:
                batch.append(Statement(sql.WANT_ANEW, (compact_json([_rid(row) for row in made.refused]),)))
        if batch:
            await self._context.database.batch(batch)


def _with_wants(rows: Sequence[Row]) -> str:
    return compact_json([[row["rid"], row["want"]] for row in rows])


async def _require_well(embedder: Embedder, error: ModelError) -> None:
    """Raise the error unless the model takes another text: then what it refused is to blame."""
    try:
        await embedder.embed([PROBE], Role.PASSAGE)
    except ModelError:
        raise error from None


def _rid(row: Row) -> int:
    return cast("int", row["rid"])


def _within(weighed: Sequence[tuple[Row, int]], most: int) -> list[Row]:
    """Return the first rows that weigh so much together, at least one row."""
    total = accumulate(weight for _, weight in weighed)
    return [
        row
        for number, ((row, _), weight) in enumerate(zip(weighed, total, strict=True))
        if not number or weight <= most
    ]


def _passages(row: Row) -> list[tuple[int, str]]:
    """Return [key, text to embed] of a memory's passages; the previous turn goes in front of the first."""
    texts = [passage.text for passage in split(cast("str", row["content"]))]
    previous = cast("str | None", row["previous"])
    if previous is not None:
        texts[0] = f"{previous}\n{texts[0]}"
    return [(_rid(row) * PASSAGES_MAX + number, text) for number, text in enumerate(texts)]


def text_hash(text: str) -> bytes:
    """Return 16 bytes that tell whether a vector's text has changed (BLAKE2b)."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
