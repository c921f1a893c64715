"""Find: words and vectors, the conversation around them, and the time that a query names; short rows, best first."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, cast

from shoal.core.times import TimeMention, find, iso

from shoal.core.caller import Caller, Scope
from shoal.core.candidates import Hits, by_vectors, by_words, rows_of
from shoal.core.cells import compact_json
from shoal.core.context import Context, bounded
from shoal.core.criteria import filter_of
from shoal.core.filters import condition
from shoal.core.passages import snippet, split
from shoal.core.protocols import Filter, Role, Row, Vector
from shoal.core.ranking import Query, Ranked, rank
from shoal.core.reading import edges_of
from shoal.core.rows import STATE_NAMES, WHOLE, json_list
from shoal.core.text import normalise, terms
from shoal.schema.errors import ModelError, OutOfRange
from shoal.schema.limits import FIND_MAX, QUERY_MAX_CHARS
from shoal.schema.models import FindAnswer, FindRequest, Found, Note, NoteCode
from shoal.schema.sql import State

SNIPPET_CHARS: Final = 200


class Channel(StrEnum):
    """A way to find; benchmarks switch them off one by one."""

    LEXICAL = "lexical"
    VECTOR = "vector"


ALL_CHANNELS: Final = frozenset(Channel)


@dataclass(frozen=True, slots=True)
class _Search:
    """A query as it was understood."""

    text: str
    terms: tuple[str, ...]
    mention: TimeMention | None
    where: Filter
    now_ms: int


async def search(
    context: Context, request: FindRequest, caller: Caller, channels: frozenset[Channel] = ALL_CHANNELS
) -> FindAnswer:
    """Return the memories that answer the query; without one the newest. Raises InvalidInput, NotAllowed."""
    caller.require(Scope.READ)
    notes: list[Note] = []
    limit = bounded("n_results", request.n_results, 1, FIND_MAX, caller, notes)
    if not 0 <= request.min_score <= 1:
        raise OutOfRange(f"min_score is {request.min_score}.", "Use 0 to 1.", field="min_score")
    where = await filter_of(context, request, caller, archived=request.include_archived)
    if not request.query.strip():
        return await _newest(context, request, where, limit, notes)
    found = _understand(context, request, caller, where, notes)
    hits, vectors = await asyncio.gather(
        by_words(
            context,
            found.terms if Channel.LEXICAL in channels else (),
            where,
            None if found.mention is None else found.mention.range,
        ),
        _vectors(context, found.text, notes) if Channel.VECTOR in channels else _no_vectors(),
    )
    await by_vectors(context, vectors, where, hits)
    candidates = await rows_of(context, hits, where)
    ranked = rank(candidates, _query(context, found))
    best = [one for one in ranked[:limit] if one.score >= request.min_score]
    return FindAnswer(
        results=await _rows(context, request, found, best, hits), total_considered=len(candidates), notes=notes
    )


def _understand(context: Context, request: FindRequest, caller: Caller, where: Filter, notes: list[Note]) -> _Search:
    text = normalise(request.query[:QUERY_MAX_CHARS])
    if len(request.query) > QUERY_MAX_CHARS:
        notes.append(
            Note(code=NoteCode.TRUNCATED, message=f"Only {QUERY_MAX_CHARS} characters of the query were read.")
        )
    now = context.clock()
    mention = find(text, now, request.time_zone or caller.time_zone)
    words = text
    if mention is not None:
        words = f"{text[: mention.start]} {text[mention.end :]}"
        since, until = iso(mention.range.since_ms), iso(mention.range.until_ms)
        notes.append(Note(code=NoteCode.TIME, message=f"{mention.text!r} prefers {since} to {until}."))
    return _Search(text, terms(words), mention, where, now)


def _query(context: Context, found: _Search) -> Query:
    within = None if found.mention is None else found.mention.range
    return Query(
        terms_n=len(found.terms),
        now_ms=found.now_ms,
        calibration=None if context.embedder is None else context.embedder.calibration,
        since_ms=None if within is None else within.since_ms,
        until_ms=None if within is None else within.until_ms,
    )


async def _vectors(context: Context, text: str, notes: list[Note]) -> Sequence[Vector]:
    """Return the query's vectors: of the whole, and of its last line where it has several (a dialogue so far)."""
    if context.embedder is None or context.index is None:
        return []
    last = text.rsplit("\n", 1)[-1].strip()
    try:
        return await context.embedder.embed([text] if last == text else [text, last], Role.QUERY)
    except ModelError as error:
        notes.append(Note(code=NoteCode.LEXICAL_ONLY, message=f"Only words were searched: {error}"))
        return []


async def _no_vectors() -> Sequence[Vector]:
    return []


async def _newest(context: Context, request: FindRequest, where: Filter, limit: int, notes: list[Note]) -> FindAnswer:
    sql, params = condition(where, "r")
    rows = await context.database.query(
        f"select {WHOLE} from record r where {sql} order by r.occurred_at desc, r.rid desc limit ?", (*params, limit)
    )
    results = await _with_edges(context, request, [_found(context, row, 0.0, ["newest"], "", ()) for row in rows])
    return FindAnswer(results=results, total_considered=len(rows), notes=notes)


async def _rows(
    context: Context, request: FindRequest, found: _Search, best: Sequence[Ranked], hits: dict[int, Hits]
) -> list[Found]:
    """Return results with their texts; one that went away meanwhile is left out."""
    rows = await context.database.query(
        f"select {WHOLE} from json_each(?1) j cross join record r on r.rid = j.value order by j.key",
        (compact_json([one.rid for one in best]),),
    )
    by_rid = {cast("int", row["rid"]): row for row in rows if row["state"] in STATE_NAMES}
    results: list[Found] = []
    for one in best:
        row = by_rid.get(one.rid)
        if row is not None:
            passage = _best_passage(cast("str", row["content"]), hits.get(one.rid))
            result = _found(context, row, one.score, _why(one, row, found), passage, found.terms)
            results.append(result.model_copy(update={"explain": _explain(one)}) if request.explain else result)
    return await _with_edges(context, request, results)


def _best_passage(content: str, hit: Hits | None) -> str:
    """Return the passage that was found; the whole content where it is one."""
    if hit is None or not hit.passage:
        return content
    passages = split(content)
    return passages[hit.passage].text if hit.passage < len(passages) else content


def _found(context: Context, row: Row, score: float, why: list[str], passage: str, query_terms: Sequence[str]) -> Found:
    type_name = cast("str", row["type"])
    return Found(
        id=cast("str", row["id"]),
        type=type_name,
        kind=context.ontology.info(type_name).kind,
        snippet=snippet(passage or cast("str", row["content"]), query_terms, SNIPPET_CHARS),
        tags=json_list(row["tags"]),
        score=round(score, 4),
        occurred_at=iso(cast("int", row["occurred_at"])),
        state=STATE_NAMES[cast("int", row["state"])],
        space=cast("str", row["space"]),
        why=why,
    )


def _why(one: Ranked, row: Row, found: _Search) -> list[str]:
    """Return why this memory is here, and what tells against it."""
    explanation = one.explanation
    why: list[str] = []
    if explanation.words > 0:
        why.append("words")
    elif explanation.lexical > 0:
        why.append("words nearby in the conversation")
    if explanation.similarity is not None:
        why.append("meaning")
    if explanation.in_time and found.mention is not None:
        why.append(f"time: {found.mention.text}")
    if row["superseded"] is not None:
        why.append(f"superseded by {row['superseded']}")
    if row["state"] == State.ARCHIVED:
        why.append("archived")
    return why


def _explain(one: Ranked) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in asdict(one.explanation).items() if value is not None}


async def _with_edges(context: Context, request: FindRequest, results: list[Found]) -> list[Found]:
    if not request.include_edges:
        return results
    edges = await edges_of(context, [result.id for result in results])
    return [result.model_copy(update={"edges": edges.get(result.id, [])}) for result in results]
