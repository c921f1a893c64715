"""The order of search results: words, vectors, the conversation around a memory, and gentle priors, as one score.

    said      = sum of weight(t) * share(t) over the query's terms / sum of weight(t) over those that anybody says
    lexical   = said * sqrt(weight of the terms that anybody says / weight of all)
    vector    = cosine / the cosine of a typical answer
    own       = LEXICAL * lexical + VECTOR * vector
    relevance = (own + CONVERSATION * best own of the conversation) / (1 + CONVERSATION)
    result    = (relevance + TIME in the time that the query names + VERBATIM for the query's own text) * priors
    score     = result / best result * how surely anything here answers the query, 0..1

`weight(t)` is the best bm25 that any memory has for the term, `share(t)` the root of the memory's bm25 beside it. A
neighbour in the conversation lends its share, halved a position, and a term counts once: so a turn that answers `and
where was that?` is found by the words around it, and no turn is lifted by hearing one word five times. Measured in
docs/ranking.md. Pure: the clock comes with the query.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from math import fsum, sqrt
from typing import Final, NamedTuple

from shoal.core.protocols import Calibration
from shoal.core.times import MS_PER_DAY
from shoal.core.weights import DEFAULT_WEIGHTS, REACH, SHORTLIST, TIME_ANSWER, UNCALIBRATED_ANSWER, Weights


@dataclass(frozen=True, slots=True)
class Query:
    """What is known about a query once its candidates are fetched."""

    terms_n: int
    """Terms asked for, with those that no memory says. Candidates number them from 0."""

    now_ms: int
    calibration: Calibration | None = None
    """Of the model that made the similarities; without it they count relative to one another."""

    since_ms: int | None = None
    """The time that the query's words name ('yesterday'): inclusive. Not the filter."""

    until_ms: int | None = None
    """Exclusive."""

    only_time: bool = False
    """Whether the query names a time and no subject."""


class TermHit(NamedTuple):
    """A passage in which a term stands; `term` is its number in the query, `bm25` is positive (FTS5's sign turned)."""

    term: int
    rid: int
    bm25: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the channels found of one memory; empty for a neighbour that none found."""

    terms: Mapping[int, float] = field(default_factory=dict[int, float])
    """Term number -> bm25, as `term_evidence` gives it."""

    labels: Mapping[int, float] = field(default_factory=dict[int, float])
    """The same from type, tags and entities."""

    similarity: float | None = None
    """Best cosine of a passage with one of the query's vectors; None when the vector search didn't return it."""


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory of the shortlist, or a neighbour (within REACH) of one in its conversation."""

    rid: int
    evidence: Evidence
    occurred_ms: int
    conversation: str | None = None
    position: int | None = None
    verbatim: bool = False
    """Whether the content is the query's text, case and white space aside."""

    strength: float = 0.0
    """0..1, of the life cycle."""

    superseded: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every component of a result, by the name that `explain` shows."""

    words: float
    """What the memory itself says of the query, 0..1; the whole query at 1."""

    lexical: float
    """The same with what its neighbours lend, 0..1."""

    similarity: float | None
    vector: float
    """The similarity in units of a typical answer's."""

    own: float
    relevance: float
    """`own` with the conversation's part, and with `time` and `verbatim` where they apply."""

    in_time: bool
    verbatim: bool
    strength: float
    """Factor of the prior, as the next two."""

    recency: float
    superseded: float
    answered: float
    """How surely anything here answers the query, 0..1; the same for all results."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One result. `score` is 0..1 and means about the same for every query."""

    rid: int
    score: float
    explanation: Explanation


def term_evidence(hits: Iterable[TermHit], limit: int) -> dict[int, dict[int, float]]:
    """Return rid -> term number -> bm25 of the memory's best passage.

    `limit` is how many passages were asked for of each term. Where a list is that long, more memories say the term
    than it holds, so only what a hit has above (nearly) the last one tells it from them.
    """
    lists: defaultdict[int, list[TermHit]] = defaultdict(list)
    for hit in hits:
        lists[hit.term].append(hit)
    evidence: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for term, found in lists.items():
        cut = _CUT_SHARE * min(hit.bm25 for hit in found) if len(found) >= limit else 0.0
        for hit in found:
            by_term = evidence[hit.rid]
            by_term[term] = max(hit.bm25 - cut, by_term.get(term, 0.0))
    return dict(evidence)


_CUT_SHARE: Final = 0.9
"""Below 1, so that a list of equals is still evidence."""


def shortlist(
    found: Mapping[int, Evidence], query: Query, keep: int = SHORTLIST, weights: Weights = DEFAULT_WEIGHTS
) -> list[int]:
    """Return the rids of the `keep` memories that are most relevant by themselves, best first.

    So only their rows, and their neighbours', need fetching: nothing that ranks well with its conversation's help
    is far down without it.
    """
    evidence = list(found.values())
    terms = _weigh_terms(evidence, query.terms_n)
    words = [terms.said_by(_shares(one, terms, weights.label)) for one in evidence]
    vector = _vector_scores(evidence, query.calibration, weights.uncalibrated)
    own = [weights.lexical * said + weights.vector * near for said, near in zip(words, vector, strict=True)]
    best = nsmallest(keep, zip((-value for value in own), found, strict=True))
    return [rid for _, rid in best]


def rank(candidates: Sequence[Candidate], query: Query, weights: Weights = DEFAULT_WEIGHTS) -> list[Ranked]:
    """Return all candidates, the best first; of equals the newest, then the smallest rid. `rid`s are distinct."""
    if not candidates:
        return []
    found = [candidate.evidence for candidate in candidates]
    terms = _weigh_terms(found, query.terms_n)
    shares = [_shares(evidence, terms, weights.label) for evidence in found]
    words = [terms.said_by(share) for share in shares]
    lexical = [terms.said_by(share) for share in _with_neighbours(candidates, shares, weights.step)]
    vector = _vector_scores(found, query.calibration, weights.uncalibrated)
    own = [weights.lexical * said + weights.vector * near for said, near in zip(lexical, vector, strict=True)]
    relevance = _with_conversation(candidates, own, weights.conversation)
    in_time = [_in_time(candidate, query) for candidate in candidates]
    time = weights.only_time if query.only_time else weights.time
    answered = max(
        terms.trust * max(lexical),
        _vector_answer(found, query.calibration, weights.vector_span),
        (1.0 if query.only_time else TIME_ANSWER) * any(in_time),
        float(any(candidate.verbatim for candidate in candidates)),
    )
    answered = min(1.0, answered)  # shares add up to 1 give or take a rounding

    results: list[tuple[float, Candidate, Explanation]] = []
    for i, candidate in enumerate(candidates):
        explanation = Explanation(
            words=words[i],
            lexical=lexical[i],
            similarity=candidate.evidence.similarity,
            vector=vector[i],
            own=own[i],
            relevance=relevance[i] + time * in_time[i] + weights.verbatim * candidate.verbatim,
            in_time=in_time[i],
            verbatim=candidate.verbatim,
            strength=1 + weights.strength * candidate.strength,
            recency=1 + weights.recency * _freshness(candidate, query, weights.recency_days),
            superseded=1 - weights.superseded * candidate.superseded,
            answered=answered,
        )
        results.append((_result(explanation), candidate, explanation))
    results.sort(key=lambda result: (-result[0], -result[1].occurred_ms, result[1].rid))
    best = results[0][0]
    return [
        Ranked(candidate.rid, answered * (value / best if best > 0 else 0.0), explanation)
        for value, candidate, explanation in results
    ]


def _result(explanation: Explanation) -> float:
    return explanation.relevance * explanation.strength * explanation.recency * explanation.superseded


@dataclass(frozen=True, slots=True)
class _Terms:
    """The query's terms as the candidates know them."""

    weights: Mapping[int, float]
    """Term number -> how telling it is: the best bm25 that a memory has for it."""

    content_best: Mapping[int, float]
    label_best: Mapping[int, float]
    known: float
    """Sum of the weights."""

    trust: float
    """Square root of `known` beside the weight of all terms, those that nobody says being as telling as the rarest
    known: saying a tenth of a query better than others tells little. (The whole share in place of its root lost
    .03 R@10 on long queries.)"""

    def said_by(self, shares: Mapping[int, float]) -> float:
        """Return the weighted share, 0..1, of the known terms, as far as they are to be trusted."""
        if not shares:
            return 0.0
        return self.trust * fsum(self.weights[t] * share for t, share in shares.items()) / self.known


def _weigh_terms(found: Sequence[Evidence], terms_n: int) -> _Terms:
    content_best = _best_by_term(evidence.terms for evidence in found)
    label_best = _best_by_term(evidence.labels for evidence in found)
    rarest = max(content_best.values(), default=1.0)
    weights = dict.fromkeys(label_best, rarest) | content_best
    known = fsum(weights.values())
    unknown = rarest * max(0, terms_n - len(weights))
    trust = sqrt(known / (known + unknown)) if weights else 0.0
    return _Terms(weights, content_best, label_best, known, trust)


def _best_by_term(scores: Iterable[Mapping[int, float]]) -> dict[int, float]:
    best: dict[int, float] = {}
    for by_term in scores:
        _raise(best, by_term, 1.0)
    return best


def _raise(best: dict[int, float], by_term: Mapping[int, float], factor: float) -> None:
    """Raise each value of `best` to `factor` times the other's where that is more."""
    for term, value in by_term.items():
        if factor * value > best.get(term, 0.0):
            best[term] = factor * value


def _shares(evidence: Evidence, terms: _Terms, label: float) -> dict[int, float]:
    """Return term -> share, 0..1: 1 for the memory that says the term best.

    The root of the bm25s' ratio, since bm25 favours short texts more than answers are short.
    """
    shares = {t: sqrt(score / terms.content_best[t]) for t, score in evidence.terms.items()}
    if evidence.labels:
        _raise(shares, {t: sqrt(score / terms.label_best[t]) for t, score in evidence.labels.items()}, label)
    return shares


_Place = tuple[str, int]
"""Conversation and position."""


def _place(candidate: Candidate) -> _Place | None:
    if candidate.conversation is None or candidate.position is None:
        return None
    return candidate.conversation, candidate.position


def _with_neighbours(
    candidates: Sequence[Candidate], shares: Sequence[dict[int, float]], step: float
) -> list[dict[int, float]]:
    """Return each memory's shares, raised to what neighbours within REACH lend: their share * step ** distance."""
    at: defaultdict[_Place, dict[int, float]] = defaultdict(dict)
    for candidate, share in zip(candidates, shares, strict=True):
        if (place := _place(candidate)) and share:
            _raise(at[place], share, 1.0)
    lent: list[dict[int, float]] = []
    for candidate, share in zip(candidates, shares, strict=True):
        raised = share
        if candidate.conversation is not None and candidate.position is not None:
            raised = dict(share)
            for offset in _OFFSETS:
                near = at.get((candidate.conversation, candidate.position + offset))
                if near:
                    _raise(raised, near, step ** abs(offset))
        lent.append(raised)
    return lent


_OFFSETS: Final = tuple(offset for offset in range(-REACH, REACH + 1) if offset)


def _vector_scores(found: Sequence[Evidence], calibration: Calibration | None, uncalibrated: float) -> list[float]:
    """Return 0 and above: 1 for the cosine of a typical answer.

    A memory that the search didn't return is taken for an unrelated one, or for the farthest in the list where
    even that is less.
    """
    known = [e.similarity for e in found if e.similarity is not None]
    if not known:
        return [0.0] * len(found)
    least, most = min(known), max(known)
    if calibration is None:
        span = (most - least) or 1.0
        return [0.0 if e.similarity is None else uncalibrated * (1 - (most - e.similarity) / span) for e in found]
    missing = min(least, calibration.unrelated)
    return [max(0.0, missing if e.similarity is None else e.similarity) / calibration.related for e in found]


def _with_conversation(candidates: Sequence[Candidate], own: Sequence[float], part: float) -> list[float]:
    """Return (own + part * best of the conversation) / (1 + part)."""
    best: dict[str, float] = {}
    for candidate, value in zip(candidates, own, strict=True):
        if candidate.conversation is not None:
            best[candidate.conversation] = max(value, best.get(candidate.conversation, 0.0))
    return [
        value if c.conversation is None else (value + part * best[c.conversation]) / (1 + part)
        for c, value in zip(candidates, own, strict=True)
    ]


def _vector_answer(found: Sequence[Evidence], calibration: Calibration | None, span: float) -> float:
    nearest = max((e.similarity for e in found if e.similarity is not None), default=None)
    if nearest is None:
        return 0.0
    if calibration is None:
        return UNCALIBRATED_ANSWER
    reach = span * (calibration.related - calibration.unrelated)
    return min(1.0, max(0.0, (nearest - calibration.unrelated) / reach))


def _in_time(candidate: Candidate, query: Query) -> bool:
    if query.since_ms is None and query.until_ms is None:
        return False
    after = query.since_ms is None or candidate.occurred_ms >= query.since_ms
    return after and (query.until_ms is None or candidate.occurred_ms < query.until_ms)


def _freshness(candidate: Candidate, query: Query, half_life_days: float) -> float:
    """Return 1 for now (and for the future), .5 a half-life ago."""
    age_days = max(0, query.now_ms - candidate.occurred_ms) / MS_PER_DAY
    return 0.5 ** (age_days / half_life_days)
