"""Find: words and vectors, the conversation around them, and the time that a query names; short rows, best first."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Final, cast

from shoal.core.backlog import Backlog, backlog
from shoal.core.caller import ALL_SPACES, Caller, Scope
from shoal.core.candidates import Known, VectorHits, by_vectors, by_words, rows_of
from shoal.core.cells import compact_json
from shoal.core.characters import fold
from shoal.core.context import Context, bounded
from shoal.core.criteria import filter_of
from shoal.core.passages import iter_passages, snippet
from shoal.core.protocols import Calibration, Filter, Role, Row
from shoal.core.ranking import Query, Ranked, rank, shortlist
from shoal.core.reading import VISIBLE
from shoal.core.rows import NEWEST, STATE_NAMES, edges_of, json_list, page_of_rows, whole
from shoal.core.stopwords import names_nothing
from shoal.core.text import match_terms, normalise, terms
from shoal.core.times import TimeMention, TimeRange, find, iso
from shoal.core.times.calendar import END_MS, MIN_MS
from shoal.core.weights import SHORTLIST, VECTOR_HITS
from shoal.schema.errors import EmptyContent, ModelError, ModelOverQuota, OutOfRange, VectorIndexError
from shoal.schema.limits import FIND_MAX, QUERY_MAX_CHARS
from shoal.schema.models import FindAnswer, FindRequest, Found, Note, NoteCode
from shoal.schema.sql import State

MODEL_WAIT_S: Final = 5.0
"""How long a search waits for its vector; loading the default model takes about one second."""
SCORE_DIGITS: Final = 4
LEAST_SCORE: Final = 0.005
"""What shows as less than .01 is left out."""
_BEYOND: Final = (
    "Not all that fits the filters could be compared by meaning: the vector index can't filter by all of them, and"
    f" of the {VECTOR_HITS} nearest passages that it returned some don't fit. All words were searched."
)


class Channel(StrEnum):
    """A way to find; benchmarks switch them off one by one."""

    LEXICAL = "lexical"
    VECTOR = "vector"


ALL_CHANNELS: Final = frozenset(Channel)


@dataclass(frozen=True, slots=True)
class _Search:
    """A query as it was understood."""

    text: str
    words: str
    """The text without the time that it names; empty where the rest names no subject ('what did we do')."""
    mention: TimeMention | None
    now_ms: int


async def search(
    context: Context,
    request: FindRequest,
    caller: Caller,
    channels: frozenset[Channel] = ALL_CHANNELS,
    left: Backlog | None = None,
) -> tuple[FindAnswer, Backlog]:
    """Return the memories that answer the query, without one the newest; and the backlog, where it isn't given.

    At most 3 statements, whatever is asked and found. Raises InvalidInput, NotAllowed.
    """
    readable = caller.within(ALL_SPACES, Scope.READ)
    notes: list[Note] = []
    limit = bounded("n_results", request.n_results, 1, FIND_MAX, caller, notes)
    if not 0 <= request.min_score <= 1:
        raise OutOfRange(f"min_score is {request.min_score}.", "Use 0 to 1.", field="min_score")
    states = VISIBLE if request.include_archived else (State.LIVE,)
    where = filter_of(context, request, caller, states, Scope.READ)
    text = _text(request, notes)
    if not text:
        return await _newest(context, request, where, limit, notes), left or await backlog(context, readable)
    found = _understand(context, request, caller, text, notes)
    expressions = match_terms(found.words) if Channel.LEXICAL in channels else ()
    within = None if found.mention is None else found.mention.range
    words, vectors = await asyncio.gather(
        by_words(context, expressions, where, within, readable, left),
        _by_meaning(context, found.text, where, notes) if Channel.VECTOR in channels else _nothing(),
    )
    known = Known.of(words, vectors)
    query = _query(found, len(expressions), words.left.calibration)
    fetched = await rows_of(context, partial(_worth_a_look, query), known, where, found.text)
    if fetched.partial:
        notes.append(Note(code=NoteCode.PARTIAL, message=_BEYOND))
    # A score of 0 is no answer: nothing of the query is said, and nothing is nearer than chance.
    least = max(request.min_score, LEAST_SCORE)
    best = [one for one in rank(fetched.candidates, query)[:limit] if _shown(one.score) >= least]
    results = await _rows(context, request, found, best, fetched.passages)
    return FindAnswer(results=results, total_considered=len(known.evidence), notes=notes), words.left


def _text(request: FindRequest, notes: list[Note]) -> str:
    """Return the query as texts are stored, empty when nothing in it can be seen. Raises InvalidText."""
    try:
        text = normalise(request.query[:QUERY_MAX_CHARS])
    except EmptyContent:
        return ""
    if len(request.query) > QUERY_MAX_CHARS:
        notes.append(
            Note(code=NoteCode.TRUNCATED, message=f"Only {QUERY_MAX_CHARS} characters of the query were read.")
        )
    return text


def _understand(context: Context, request: FindRequest, caller: Caller, text: str, notes: list[Note]) -> _Search:
    now = context.clock()
    mention = find(text, now, caller.zone(request.time_zone))
    if mention is not None:
        notes.append(Note(code=NoteCode.TIME, message=f"{mention.text!r} prefers {_span(mention.range)}."))
    if mention is None:
        return _Search(text, text, None, now)
    return _Search(text, "" if names_nothing(fold(mention.rest).lower()) else mention.rest, mention, now)


def _span(span: TimeRange) -> str:
    """Return a range in words: 'since 2020' has no end to name, 'before 2020' no beginning."""
    if span.until_ms >= END_MS:
        return f"{iso(span.since_ms)} and later"
    if span.since_ms <= MIN_MS:
        return f"what was before {iso(span.until_ms)}"
    return f"{iso(span.since_ms)} to {iso(span.until_ms)}"


def _query(found: _Search, terms_n: int, calibration: Calibration | None) -> Query:
    within = None if found.mention is None else found.mention.range
    return Query(
        terms_n=terms_n,
        now_ms=found.now_ms,
        calibration=calibration,
        since_ms=None if within is None else within.since_ms,
        until_ms=None if within is None else within.until_ms,
        only_time=not found.words,
    )


def _worth_a_look(query: Query, known: Known, spare: int) -> list[int]:
    """Return the rids of the best memories that were found, `spare` more than are needed."""
    return list(dict.fromkeys((*shortlist(known.evidence, query, SHORTLIST + spare), *known.words.in_time)))


async def _by_meaning(context: Context, text: str, where: Filter, notes: list[Note]) -> VectorHits:
    """Search with the query's vector, and where the policy allows it with its last line's (of a dialogue so far)."""
    if context.embedder is None or context.index is None:
        return VectorHits()
    last = text.rsplit("\n", 1)[-1].strip()
    texts = list(dict.fromkeys((text, last)))[: context.policy.query_vectors]
    try:
        # A model that is still being fetched must not hold up what the words find.
        vectors = await asyncio.wait_for(context.embedder.embed(texts, Role.QUERY), MODEL_WAIT_S)
        return await by_vectors(context, vectors, where)
    except TimeoutError:
        message = f"Only words were searched: the model did not answer within {MODEL_WAIT_S:.0f} s."
        notes.append(Note(code=NoteCode.LEXICAL_ONLY, message=message))
    except ModelOverQuota as error:
        notes.append(Note(code=NoteCode.OVER_QUOTA, message=f"Only words were searched: {error}"))
    except (ModelError, VectorIndexError) as error:
        notes.append(Note(code=NoteCode.LEXICAL_ONLY, message=f"Only words were searched: {error}"))
    return VectorHits()


async def _nothing() -> VectorHits:
    return VectorHits()


async def _newest(context: Context, request: FindRequest, where: Filter, limit: int, notes: list[Note]) -> FindAnswer:
    columns = whole(edges=request.include_edges)
    rows = await context.database.query(*page_of_rows(where, NEWEST, limit, 0, columns))
    results = [_found(context, row, 0.0, ["newest"], "", ()) for row in rows]
    return FindAnswer(results=results, total_considered=len(rows), notes=notes)


async def _rows(
    context: Context, request: FindRequest, found: _Search, best: Sequence[Ranked], passages: Mapping[int, int]
) -> list[Found]:
    """Return results with their texts; one that went away meanwhile is left out."""
    rows = await context.database.query(
        f"select {whole(edges=request.include_edges)} from json_each(?1) j"
        " cross join record r on r.rid = j.value order by j.key",
        (compact_json([one.rid for one in best]),),
    )
    by_rid = {cast("int", row["rid"]): row for row in rows if row["state"] in STATE_NAMES}
    looked_for = terms(found.words)
    results: list[Found] = []
    for one in best:
        row = by_rid.get(one.rid)
        if row is not None:
            await asyncio.sleep(0)  # The snippet of the longest content takes 30 ms: others run between two.
            passage = _best_passage(cast("str", row["content"]), passages.get(one.rid, 0))
            result = _found(context, row, one.score, _why(one, row, found), passage, looked_for)
            results.append(result.model_copy(update={"explain": _explain(one)}) if request.explain else result)
    return results


def _shown(score: float) -> float:
    """Return a score as answers show it; `min_score` is compared with that, so that a shown score can be given back."""
    return round(score, SCORE_DIGITS)


def _best_passage(content: str, number: int) -> str:
    """Return the passage that was found; short content is one."""
    if not number:
        return content
    passage = next(islice(iter_passages(content), number, None), None)
    return content if passage is None else passage.text


def _found(context: Context, row: Row, score: float, why: list[str], passage: str, query_terms: Sequence[str]) -> Found:
    type_name = cast("str", row["type"])
    return Found(
        id=cast("str", row["id"]),
        type=type_name,
        kind=context.ontology.info(type_name).kind,
        snippet=snippet(passage or cast("str", row["content"]), query_terms),
        tags=json_list(row["tags"]),
        score=_shown(score),
        occurred_at=iso(cast("int", row["occurred_at"])),
        state=STATE_NAMES[cast("int", row["state"])],
        space=cast("str", row["space"]),
        why=why,
        edges=edges_of(row),
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
    return {
        name: round(float(value), SCORE_DIGITS) for name, value in asdict(one.explanation).items() if value is not None
    }
