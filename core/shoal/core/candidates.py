"""What the indexes know of a query: words and vectors, filtered inside, in one query each, then one for the rows."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self, cast

from shoal.core.backlog import NOTHING_LEFT, Backlog, backlog_of, read
from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.filters import condition
from shoal.core.hydration import STATE_OF, Standing, sift, standing_of
from shoal.core.protocols import Filter, Row, SqlValue, Vector, VectorHit
from shoal.core.ranking import NO_EVIDENCE, Candidate, Evidence, TermHit, term_evidence
from shoal.core.rows import NEWEST, SUPERSEDED, first_rows
from shoal.core.times import TimeRange
from shoal.core.weights import LABEL_HITS, REACH, TERM_HITS, VECTOR_HITS
from shoal.schema.limits import PASSAGES_MAX

TIME_HITS: Final = 50
"""Newest memories to fetch from the time that a query names."""
_IN_TIME: Final = -1
"""Stands where a term's number does, in the row of the memories of that time, and"""
_BACKLOG: Final = -2
"""in that of the backlog."""


@dataclass(slots=True)
class WordHits:
    """What the words of a query found."""

    terms: dict[int, dict[int, float]] = field(default_factory=dict[int, dict[int, float]])
    """rid -> term number -> bm25."""
    labels: dict[int, dict[int, float]] = field(default_factory=dict[int, dict[int, float]])
    in_time: list[int] = field(default_factory=list[int])
    """Newest memories of the time that the query names."""
    passages: dict[int, int] = field(default_factory=dict[int, int])
    """rid -> the passage that says most."""
    left: Backlog = NOTHING_LEFT
    """What the indexes still have to do."""


@dataclass(slots=True)
class VectorHits:
    """What the meaning of a query found."""

    hits: list[VectorHit] = field(default_factory=list[VectorHit])
    similarities: dict[int, float] = field(default_factory=dict[int, float])
    """rid -> cosine of the nearest passage with any of the query's vectors."""
    passages: dict[int, int] = field(default_factory=dict[int, int])
    """rid -> that passage."""
    applied: bool = True
    """Whether the index filtered by all of the filter."""
    full: bool = False
    """Whether it returned as many as were asked for, so that there may be more."""

    @classmethod
    def of(cls, hits: Iterable[VectorHit]) -> Self:
        """Return what these hits say."""
        found = cls(list(hits))
        for key, similarity, _ in found.hits:
            rid, passage = divmod(key, PASSAGES_MAX)
            if similarity > found.similarities.get(rid, -2.0):
                found.similarities[rid], found.passages[rid] = similarity, passage
        return found

    @property
    def doubtful(self) -> bool:
        """Whether the database must say which hits count."""
        return not self.applied or any(hit.mark is not None for hit in self.hits)


def _best_of_term(table: str, rid: str, where: str, limit: int) -> str:
    """Return SQL for a term's best rows as JSON [[key, bm25], ...]; FTS5 sorts, so the filter runs until full."""
    return (
        "(select json_group_array(json_array(x.key, x.score)) from ("
        f"select f.rowid as key, -f.rank as score from {table} f cross join record r on r.rid = {rid}"
        f" where f.{table} match t.value and {where} order by f.rank limit {limit}) x)"
    )


async def by_words(
    context: Context,
    expressions: Sequence[str],
    where: Filter,
    mentioned: TimeRange | None,
    readable: tuple[str, ...] | None,
    left: Backlog | None = None,
) -> WordHits:
    """Return the best hits of each MATCH expression, and the newest memories of the time that the query names.

    The same statement brings the backlog of the spaces that are `readable` (None = all) along where it isn't known yet.
    """
    sql, params = condition(where, "r")
    content = _best_of_term("content_fts", f"f.rowid / {PASSAGES_MAX}", sql, TERM_HITS)
    labels = _best_of_term("label_fts", "f.rowid", sql, LABEL_HITS)
    query = f"select t.key as term, {content} as content, {labels} as labels from json_each(?) t"
    values: list[SqlValue] = [*params, *params, compact_json(expressions)]
    if mentioned is not None:
        newest = first_rows(where, NEWEST, TIME_HITS, between=(mentioned.since_ms, mentioned.until_ms))
        query += f" union all select {_IN_TIME}, (select json_group_array(x.rid) from ({newest.sql}) x), '[]'"
        values += newest.params
    if left is None:
        told = backlog_of(context, readable)
        query += f" union all select {_BACKLOG}, {told.sql}, '[]'"
        values += told.params
    by_term = {cast("int", row["term"]): row for row in await context.database.query(query, values)}
    in_time = by_term.pop(_IN_TIME)["content"] if mentioned is not None else "[]"
    known = read(context, by_term.pop(_BACKLOG)["content"]) if left is None else left
    hits = _word_hits(by_term)
    hits.in_time = json.loads(cast("str", in_time))
    hits.left = known
    return hits


def _word_hits(by_term: Mapping[int, Row]) -> WordHits:
    hits = WordHits()
    content: list[TermHit] = []
    labels: list[TermHit] = []
    said: defaultdict[int, float] = defaultdict(float)
    best: dict[int, float] = {}
    for term, row in by_term.items():
        for key, bm25 in _pairs(row["content"]):
            rid, passage = divmod(key, PASSAGES_MAX)
            content.append(TermHit(term, rid, bm25))
            said[key] += bm25
            if said[key] > best.get(rid, 0.0):
                best[rid], hits.passages[rid] = said[key], passage
        labels += [TermHit(term, rid, bm25) for rid, bm25 in _pairs(row["labels"])]
    hits.terms = term_evidence(content, TERM_HITS)
    hits.labels = term_evidence(labels, LABEL_HITS)
    return hits


def _pairs(value: object) -> list[tuple[int, float]]:
    return [(int(key), float(score)) for key, score in json.loads(cast("str", value))]


async def by_vectors(context: Context, vectors: Sequence[Vector], where: Filter) -> VectorHits:
    """Return the memories nearest to any of the query's vectors. Raises VectorIndexError."""
    if context.index is None:
        return VectorHits()
    found = [await context.index.search(vector, VECTOR_HITS, where) for vector in vectors]
    hits = VectorHits.of(hit for some in found for hit in some)
    hits.applied = context.index.applies(where)
    hits.full = any(len(some) >= VECTOR_HITS for some in found)
    return hits


class Known(NamedTuple):
    """What both say of a query."""

    words: WordHits
    vectors: VectorHits
    evidence: Mapping[int, Evidence]
    """rid -> what was found of it."""

    @classmethod
    def of(cls, words: WordHits, vectors: VectorHits) -> Self:
        """Put together what was found of each memory."""
        rids = dict.fromkeys((*words.terms, *words.labels, *vectors.similarities))
        found = {
            rid: Evidence(words.terms.get(rid, {}), words.labels.get(rid, {}), vectors.similarities.get(rid))
            for rid in rids
        }
        return cls(words, vectors, found)

    @property
    def passages(self) -> Mapping[int, int]:
        """rid -> the passage to show."""
        return self.vectors.passages | self.words.passages


_COLUMNS: Final = (
    "r.rid, r.occurred_at, r.space || char(0) || r.conversation_id as conversation, r.position,"
    f" {SUPERSEDED} as superseded, r.init->>'content' = ? as verbatim"
)
# The first list are those to look at, the second those whose neighbours come along.
_FOUND: Final = f"""(
  select value as rid from json_each(?)
  union
  select n.rid from json_each(?) j
    cross join record m on m.rid = j.value and m.conversation_id is not null
    cross join record n on n.space = m.space and n.conversation_id = m.conversation_id
      and n.position between m.position - {REACH} and m.position + {REACH}) x
  cross join record r on r.rid = x.rid"""


Best = Callable[[Known, int], list[int]]
"""Returns the rids of the best that were found, so many more than are needed."""


class Fetched(NamedTuple):
    """The memories that a query found, as far as they pass its filter."""

    candidates: list[Candidate]
    """With their neighbours in the conversation."""
    passages: Mapping[int, int]
    """rid -> the passage that was found."""
    partial: bool
    """Whether others that pass may lie beyond what the vector index returned, since it could not filter by all."""


async def rows_of(context: Context, best: Best, known: Known, where: Filter, text: str) -> Fetched:
    """Return the best memories, and their neighbours in the conversation, that pass the filter, ready to rank.

    `text` is the query, normalised: a memory that says just that is marked. Vectors that turn out not to count are
    no evidence; those of no memory are handed to the context's `discard`.
    """
    passing, params = condition(where, "r")
    if context.embedder is None or not known.vectors.doubtful:
        wanted = compact_json(best(known, 0))
        rows = await context.database.query(
            f"select {_COLUMNS} from {_FOUND} where {passing}", (text, wanted, wanted, *params)
        )
        return Fetched(_candidates(rows, known), known.passages, partial=False)
    # Any number of the vectors may not count: none of these may keep another memory from being looked at.
    rids = best(known, len(known.vectors.similarities))
    near = best(known, 0) if known.vectors.applied else rids
    rows = await context.database.query(
        f"select {_COLUMNS}, {standing_of(passing)} from {_FOUND} {STATE_OF}",
        (text, *params, compact_json(rids), compact_json(near), context.embedder.fingerprint),
    )
    standings = {cast("int", row["rid"]): Standing.read(row) for row in rows}
    looked_at = standings.keys() | set(rids)
    sifted = sift((hit for hit in known.vectors.hits if hit.key // PASSAGES_MAX in looked_at), standings)
    if sifted.ghosts and context.discard is not None:
        context.discard(sifted.ghosts)
    partial = sifted.outside > 0 and known.vectors.full and not known.vectors.applied
    known = Known.of(known.words, VectorHits.of(sifted.hits))
    candidates = _candidates([row for row in rows if row["passes"]], known)
    return Fetched(_within_reach(candidates, set(best(known, 0))), known.passages, partial)


def _candidates(rows: Sequence[Row], known: Known) -> list[Candidate]:
    return [
        Candidate(
            rid=cast("int", row["rid"]),
            evidence=known.evidence.get(cast("int", row["rid"]), NO_EVIDENCE),
            occurred_ms=cast("int", row["occurred_at"]),
            conversation=cast("str | None", row["conversation"]),
            position=cast("int | None", row["position"]),
            verbatim=bool(row["verbatim"]),
            superseded=row["superseded"] is not None,
        )
        for row in rows
    ]


def _within_reach(candidates: Sequence[Candidate], found: Set[int]) -> list[Candidate]:
    """Return those that were found and their neighbours: the others only what doesn't count has brought."""
    near = {
        (one.conversation, one.position + step)
        for one in candidates
        if one.rid in found and one.conversation is not None and one.position is not None
        for step in range(-REACH, REACH + 1)
    }
    return [one for one in candidates if one.rid in found or (one.conversation, one.position) in near]
