"""What the indexes know of a query: words and vectors, filtered inside, in one query each, then one for the rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from shoal.core.times import TimeRange

from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.filters import condition
from shoal.core.protocols import Filter, SqlValue, Vector
from shoal.core.ranking import LABEL_HITS, REACH, TERM_HITS, VECTOR_HITS, Candidate
from shoal.core.rows import cell_value
from shoal.schema.limits import PASSAGES_MAX

TIME_HITS: Final = 50
"""Newest memories to fetch from the time that a query names."""


@dataclass(slots=True)
class Hits:
    """What the channels found of one memory."""

    terms: dict[int, float] = field(default_factory=dict[int, float])
    labels: dict[int, float] = field(default_factory=dict[int, float])
    similarity: float | None = None
    passage: int = 0
    """The passage that says most: the best by words, else the nearest."""


def _term_hits(table: str, rid: str, key: str, condition_sql: str, limit: int) -> str:
    """Return SQL for a term's best rows as JSON [[key, bm25], ...]; FTS5 sorts, so the filter runs until full."""
    return (
        f"(select json_group_array(json_array(x.key, x.score)) from ("
        f"select {key} as key, -f.rank as score from {table} f cross join record r on r.rid = {rid}"
        f" where f.{table} match t.value and {condition_sql} order by f.rank limit {limit}) x)"
    )


async def by_words(
    context: Context, terms: Sequence[str], where: Filter, mentioned: TimeRange | None
) -> dict[int, Hits]:
    """Return hits by rid for each term, and the newest memories of the time that the query names."""
    sql, params = condition(where, "r")
    content = _term_hits("content_fts", f"f.rowid / {PASSAGES_MAX}", "f.rowid", sql, TERM_HITS)
    labels = _term_hits("label_fts", "f.rowid", "f.rowid", sql, LABEL_HITS)
    query = f"select t.key as term, {content} as content, {labels} as labels from json_each(?) t"
    values: list[SqlValue] = [*params, *params, compact_json([f'"{term}"' for term in terms])]
    if mentioned is not None:
        query += (
            " union all select -1, (select json_group_array(json_array(x.rid, 0)) from (select r.rid from record r"
            f" where {sql} and r.occurred_at >= ? and r.occurred_at < ? order by r.occurred_at desc"
            f" limit {TIME_HITS}) x), '[]'"
        )
        values += [*params, mentioned.since_ms, mentioned.until_ms]
    hits: dict[int, Hits] = {}
    best: dict[int, float] = {}
    for row in await context.database.query(query, values):
        term = cast("int", row["term"])
        for key, score in _pairs(row["content"]):
            rid, passage = (key, 0) if term < 0 else divmod(key, PASSAGES_MAX)
            hit = hits.setdefault(rid, Hits())
            if term >= 0:
                hit.terms[term] = max(score, hit.terms.get(term, 0.0))
            if score > best.get(rid, 0.0):
                best[rid], hit.passage = score, passage
        for rid, score in _pairs(row["labels"]):
            hits.setdefault(rid, Hits()).labels[term] = score
    return hits


def _pairs(value: object) -> list[tuple[int, float]]:
    return [(int(key), float(score)) for key, score in json.loads(cast("str", value))]


async def by_vectors(context: Context, vectors: Sequence[Vector], where: Filter, hits: dict[int, Hits]) -> None:
    """Add to `hits` the passages nearest to any of the query's vectors."""
    if context.index is None:
        return
    for vector in vectors:
        for key, similarity in await context.index.search(vector, VECTOR_HITS, where):
            rid, passage = divmod(key, PASSAGES_MAX)
            hit = hits.setdefault(rid, Hits())
            if hit.similarity is None or similarity > hit.similarity:
                hit.similarity = similarity
                if not hit.terms:
                    hit.passage = passage


_ROWS: Final = f"""
select r.rid, r.occurred_at, r.space || char(0) || r.conversation_id as conversation, r.position,
  {cell_value("superseded")} as superseded
from (
  select value as rid from json_each(?)
  union
  select n.rid from json_each(?) j
    cross join record m on m.rid = j.value and m.conversation_id is not null
    cross join record n on n.space = m.space and n.conversation_id = m.conversation_id
      and n.position between m.position - {REACH} and m.position + {REACH}) x
  cross join record r on r.rid = x.rid
where """


async def rows_of(context: Context, hits: Mapping[int, Hits], where: Filter) -> list[Candidate]:
    """Return the hits, and their neighbours in the conversation, that pass the filter, ready to rank."""
    sql, params = condition(where, "r")
    rids = compact_json(list(hits))
    nothing = Hits()
    candidates: list[Candidate] = []
    for row in await context.database.query(_ROWS + sql, (rids, rids, *params)):
        rid = cast("int", row["rid"])
        hit = hits.get(rid, nothing)
        candidates.append(
            Candidate(
                rid=rid,
                occurred_ms=cast("int", row["occurred_at"]),
                terms=hit.terms,
                labels=hit.labels,
                similarity=hit.similarity,
                conversation=cast("str | None", row["conversation"]),
                position=cast("int | None", row["position"]),
                superseded=row["superseded"] is not None,
            )
        )
    return candidates
