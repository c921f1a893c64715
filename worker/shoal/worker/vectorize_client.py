"""Vectorize's calls within its limits, with its errors in our words."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from shoal.core.protocols import Vector, VectorHit
from shoal.schema.errors import VectorIndexError
from shoal.worker.bindings import Answer, VectorizeBinding
from shoal.worker.budget import Budget
from shoal.worker.vector_ids import read_id

UPSERT_MAX: Final = 250
"""Vectors of one upsert, of the 1,000 that a Worker may send: they take 60 kB each, in Python and again in JavaScript,
and a Worker has 128 MB in all."""
DELETE_MAX: Final = 100
"""Ids of one delete, and"""
GET_MAX: Final = 20
"""of one look-up: not in the documentation's table; error 40007 names them."""
HITS_MAX: Final = 100
"""Hits of one search that asks for ids alone."""
READ_WAIT_S: Final = 5.0
WRITE_WAIT_S: Final = 30.0
CALLS_KEPT: Final = 3
"""Calls that changes leave of an invocation's, to note in the database what was done and queue what is left."""

_CODE: Final = re.compile(r"code\s*[=:]\s*(\d{4,5})")
_RATE_LIMITED: Final = re.compile(r"\b(?:40014|40041|429)\b|too many requests", re.IGNORECASE)
_UNKNOWN_ID: Final = re.compile(r"(?:vector|id)\b.*not.?found", re.IGNORECASE)

_T = TypeVar("_T")


class IndexInfo(NamedTuple):
    """How far the index is."""

    vectors: int
    dim: int
    processed_ms: int
    """All changes up to then have been applied, milliseconds since 1970; 0 before the first."""
    processed_mutation: str


class UnknownVector(VectorIndexError):
    """A vector was named that the index doesn't have, or not yet."""


class VectorizeClient:
    """Makes the calls of one invocation. Every method raises VectorIndexError."""

    def __init__(self, binding: VectorizeBinding, budget: Budget) -> None:
        self._binding = binding
        self._budget = budget

    async def describe(self) -> IndexInfo:
        """Return how large the index is and how far it has applied what it took."""
        answer = await self._call(self._binding.describe, READ_WAIT_S)
        return IndexInfo(
            vectors=int(answer.get("vectorCount", 0)),
            dim=int(answer.get("dimensions", 0)),
            processed_ms=_milliseconds(answer.get("processedUpToDatetime")),
            processed_mutation=str(answer.get("processedUpToMutation") or ""),
        )

    async def query(self, vector: Vector, k: int, conditions: Mapping[str, Any]) -> list[VectorHit]:
        """Return the k nearest vectors, at most HITS_MAX, nearest first; of equals the lower key."""
        return _hits(await self._call(lambda: self._binding.query(list(vector), _options(k, conditions)), READ_WAIT_S))

    async def query_by_id(self, vector_id: str, k: int, conditions: Mapping[str, Any]) -> list[VectorHit]:
        """As `query`, around a stored vector, itself included; empty when the index doesn't have it."""
        try:
            answer = await self._call(lambda: self._binding.queryById(vector_id, _options(k, conditions)), READ_WAIT_S)
        except UnknownVector:
            return []
        return _hits(answer)

    async def upsert(self, rows: Sequence[_T], vector: Callable[[_T], dict[str, Any]]) -> str:
        """Put the vectors that `vector` makes of rows; return the name of the last change, with which all are applied.

        They are made part by part, since they take more memory than what they are made of.
        """
        mutation = ""
        for part in _parts(rows, UPSERT_MAX):
            made = [vector(row) for row in part]
            answer = await self._call(lambda made=made: self._binding.upsert(made), WRITE_WAIT_S, CALLS_KEPT)
            mutation = str(answer.get("mutationId") or "")
        return mutation

    async def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are ignored."""
        for part in _parts(ids, DELETE_MAX):
            await self._call(lambda part=part: self._binding.deleteByIds(part), WRITE_WAIT_S, CALLS_KEPT)

    async def metadata(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return {id: metadata} of those that are there."""
        found: dict[str, Mapping[str, Any]] = {}
        for part in _parts(ids, GET_MAX):
            answer = await self._call(lambda part=part: self._binding.getByIds(part), READ_WAIT_S)
            found.update((str(one["id"]), one.get("metadata") or {}) for one in answer)
        return found

    async def _call(self, send: Callable[[], Awaitable[_T]], wait_s: float, kept: int = 0) -> _T:
        if not (self._budget.allows(0, kept + 1) and self._budget.take("vectorize")):
            raise VectorIndexError("One request may make no more calls.", "The rest is done in the next.")
        try:
            return await asyncio.wait_for(send(), wait_s)
        except TimeoutError:
            failure = VectorIndexError(f"Vectorize did not answer within {wait_s:.0f} s.", "Try again later.")
        except TypeError:
            raise  # A value that the runtime can't pass on: a fault of ours.
        except Exception as error:
            failure = translate(str(error))
        raise failure


def translate(text: str) -> VectorIndexError:
    """Return the error that a person should see, from the text of Vectorize's."""
    found = _CODE.search(text)
    code = found[1] if found else "without a code"
    if _RATE_LIMITED.search(text):
        return VectorIndexError("Vectorize takes no more requests for a moment.", "Try again in a moment.")
    if _UNKNOWN_ID.search(text):
        return UnknownVector("Vectorize has no such vector.", "It is looked for again by itself.")
    return VectorIndexError(f"Vectorize refused (error {code}).", "It is tried again by itself; see docs/deploying.md.")


def _options(k: int, conditions: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"topK": min(k, HITS_MAX), "returnValues": False, "returnMetadata": "none"}
    return {**options, "filter": dict(conditions)} if conditions else options


def _hits(answer: Answer) -> list[VectorHit]:
    """Return what was found, with ids that are ours; scores are cosines, approximate."""
    read = ((read_id(str(match["id"])), float(match["score"])) for match in answer["matches"])
    hits = [VectorHit(one[0], max(-1.0, min(1.0, score)), one[1]) for one, score in read if one is not None]
    return sorted(hits, key=lambda hit: (-hit.similarity, hit.key))


def _parts(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def _milliseconds(value: object) -> int:
    """Read a time as the service gives it: the types say a number, its documentation ISO 8601."""
    if isinstance(value, int | float):
        return int(value)
    if isinstance(value, str) and value:
        return _milliseconds(datetime.fromisoformat(value))
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    return 0
