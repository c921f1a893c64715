"""Vectorize, as faithful as it can be had without an account: one index, cosine, in memory or in a file.

What matters of the original: mutations are acknowledged at once, become visible later and in their order; scores are
approximate unless values are asked for; every limit is enforced with production's errors (vectorize_rules.py).
"""

import asyncio
import math
import time
import uuid
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from tests.edge.doubles import vectorize_rules as rules
from tests.edge.doubles.faults import Faults
from tests.edge.doubles.invocation import subrequest
from tests.edge.doubles.sdk import JsError, JsValue, call
from tests.edge.doubles.vectorize_rules import Query, Scalar, Stored
from tests.edge.doubles.vectorize_store import Mutation, VectorizeStore

FOREVER: Final = math.inf
"""A lag at which nothing new becomes visible."""
NOISE: Final = 0.005
"""How far an approximate score may be from the cosine."""
METADATA_TYPES: Final = ("string", "number", "boolean")
_SCORE_DIGITS: Final = 9
_INITIAL_ROWS: Final = 64

_OPERATIONS: Final = {
    "describe": "INDEX_GET",
    "query": "VECTOR_QUERY",
    "queryById": "VECTOR_QUERY",
    "insert": "VECTOR_INSERT",
    "upsert": "VECTOR_UPSERT",
    "deleteByIds": "VECTOR_DELETE",
    "getByIds": "VECTOR_GET",
}
_EMPTY_ANSWERS: Final[dict[str, JsValue]] = {
    "query": {"count": 0, "matches": []},
    "queryById": {"count": 0, "matches": []},
    "getByIds": [],
}


class VectorizeFault(StrEnum):
    """How a call can be made to fail."""

    RATE_LIMITED = "rate_limited"
    REFUSED = "refused"
    """An internal error, which comes without a body."""
    TIMEOUT = "timeout"
    """The call hangs until `faults.release()` and then fails."""
    EMPTY = "empty"
    """A query or get finds nothing; other calls do their work."""


class VectorizeEngine:
    """One index. `lag_s`, `noise` and `missing` may be changed at any time.

    `missing` is the share of vectors beyond the nearer half of topK that an approximate query doesn't see, 0 to 1.
    """

    def __init__(
        self,
        dimensions: int,
        *,
        lag_s: float = 0.0,
        noise: float = NOISE,
        missing: float = 0.0,
        clock: Callable[[], float] = time.time,
        store: VectorizeStore | None = None,
    ) -> None:
        if not 1 <= dimensions <= rules.DIMENSIONS_MAX:
            raise ValueError(f"1 to {rules.DIMENSIONS_MAX} dimensions, not {dimensions}")
        self.dimensions = dimensions
        self.lag_s = lag_s
        self.noise = noise
        self.missing = missing
        self.faults = Faults(VectorizeFault)
        self._clock = clock
        self._store = store
        self._indexes = store.metadata_indexes() if store else {}
        self._processed = store.processed if store else None
        self._waiting = deque(store.waiting() if store else ())
        self._vectors = _Vectors(dimensions)
        for vector in store.vectors() if store else ():
            self._vectors.put(vector)

    @property
    def metadata_indexes(self) -> dict[str, str]:
        """The indexed properties with their types."""
        return dict(self._indexes)

    @property
    def waiting(self) -> int:
        """How many mutations are acknowledged and not yet visible."""
        self._process()
        return len(self._waiting)

    def create_metadata_index(self, name: str, type_: str) -> None:
        """Index a property of the vectors that are sent from now on. Raises ValueError."""
        if type_ not in METADATA_TYPES:
            raise ValueError(f"a metadata index is of {', '.join(METADATA_TYPES)}, not {type_}")
        if name in self._indexes:
            raise ValueError(f"there is a metadata index on {name}")
        if len(self._indexes) >= rules.METADATA_INDEXES_MAX:
            raise ValueError(f"at most {rules.METADATA_INDEXES_MAX} metadata indexes")
        if self._store:
            self._store.add_metadata_index(name, type_)
        self._indexes[name] = type_

    def settle(self) -> None:
        """Make everything that was acknowledged visible now, whatever the lag."""
        while self._waiting:
            self._apply(self._waiting.popleft())

    def ids(self) -> list[str]:
        """Return the ids of all visible vectors, sorted; for tests, the binding has nothing like it."""
        self._process()
        return sorted(self._vectors.by_id)

    async def call(self, method: str, *args: JsValue) -> JsValue:
        """Run a method of the binding. Raises JsError."""
        if method not in _OPERATIONS:
            raise JsError(f"{method} is not a function", "TypeError")
        fault = self.faults.take(method)
        if fault is None:
            return self._run(method, args)
        if fault.kind == VectorizeFault.EMPTY:
            return _EMPTY_ANSWERS[method] if method in _EMPTY_ANSWERS else self._run(method, args)
        if fault.applied:
            self._run(method, args)
        operation = _OPERATIONS[method]
        if fault.kind == VectorizeFault.RATE_LIMITED:
            rules.fail(operation, 40041, "Too Many Requests")
        if fault.kind == VectorizeFault.TIMEOUT:
            await self.faults.hang()
            raise JsError(f"{operation}_ERROR: Status + 504")
        raise JsError(f"{operation}_ERROR: Status + 500")

    def close(self) -> None:
        """Close the file, if there is one; what waits in it is taken up again when it is next opened."""
        if self._store:
            self._store.close()

    def _run(self, method: str, args: Sequence[JsValue]) -> JsValue:
        self._process()
        first: JsValue = args[0] if args else None
        options: JsValue = args[1] if len(args) > 1 else None
        match method:
            case "describe":
                return self._describe()
            case "query":
                return self._query(rules.check_query_vector(first, self.dimensions), rules.check_query(options))
            case "queryById":
                return self._query_by_id(first, rules.check_query(options))
            case "getByIds":
                return self._get(rules.check_ids("VECTOR_GET", first, rules.GET_MAX_IDS))
            case "deleteByIds":
                ids = rules.check_ids("VECTOR_DELETE", first, rules.DELETE_MAX_IDS)
                return self._accept(Mutation(_uuid(), "delete", self._clock(), ids=tuple(ids)))
            case _:
                vectors = rules.check_vectors(_OPERATIONS[method], first, self.dimensions, self._indexes)
                return self._accept(Mutation(_uuid(), method, self._clock(), tuple(vectors)))

    def _accept(self, mutation: Mutation) -> JsValue:
        if self._store:
            self._store.accept(mutation)
        self._waiting.append(mutation)
        return {"mutationId": mutation.id}

    def _process(self) -> None:
        """Make visible what has waited long enough, in order."""
        now = self._clock()
        while self._waiting and self._waiting[0].accepted_s + self.lag_s <= now:
            self._apply(self._waiting.popleft())

    def _apply(self, mutation: Mutation) -> None:
        put: dict[str, Stored] = {}
        for vector in mutation.vectors:
            # An insert passes over an id that is there, silently; the first of two in one call counts.
            if mutation.kind == "upsert" or (vector.id not in put and vector.id not in self._vectors.by_id):
                put[vector.id] = vector
        for vector in put.values():
            self._vectors.put(vector)
        for id_ in mutation.ids:
            self._vectors.remove(id_)
        if self._store:
            self._store.apply(mutation, list(put.values()), mutation.ids)
        self._processed = (mutation.id, mutation.accepted_s)

    def _describe(self) -> JsValue:
        id_, at = self._processed or (None, None)
        return {
            "dimensions": self.dimensions,
            "vectorCount": len(self._vectors.by_id),
            # The binding's types say number; what production sends is a date in ISO 8601.
            "processedUpToDatetime": None if at is None else _iso(at),
            "processedUpToMutation": id_,
        }

    def _get(self, ids: Sequence[str]) -> JsValue:
        found = [self._vectors.by_id[id_] for id_ in dict.fromkeys(ids) if id_ in self._vectors.by_id]
        # No order is promised: this one is nobody's.
        return [_vector_out(vector) for vector in sorted(found, key=lambda vector: _unit_hash(vector.id))]

    def _query_by_id(self, id_: JsValue, query: Query) -> JsValue:
        stored = self._vectors.by_id.get(id_) if isinstance(id_, str) else None
        if stored is None:
            # What production answers isn't documented; a caller that can't bear an error should learn of it here.
            rules.fail("VECTOR_QUERY", 40004, f'vector with id="{id_}" not found')
        return self._query(stored.values, query)

    def _query(self, vector: "array[float]", query: Query) -> JsValue:
        seed = blake2b(vector.tobytes(), digest_size=8).digest()
        scored = self._vectors.scores(vector)
        if not query.values:
            scored = {id_: score + self.noise * (2 * _unit_hash(id_, seed) - 1) for id_, score in scored.items()}
        found: list[tuple[float, Stored]] = []
        for id_ in sorted(scored, key=lambda id_: (-scored[id_], id_)):
            stored = self._vectors.by_id[id_]
            if len(found) == query.top_k:
                break
            if query.namespace is not None and stored.namespace != query.namespace:
                continue
            if not rules.matches(stored, query.conditions, self._indexes):
                continue
            far = not query.values and len(found) >= query.top_k / 2
            if not (far and _unit_hash(id_, seed, b"missing") < self.missing):
                found.append((scored[id_], stored))
        matches = [self._match(score, stored, query) for score, stored in found]
        return {"count": len(matches), "matches": matches}

    def _match(self, score: float, stored: Stored, query: Query) -> JsValue:
        match: dict[str, JsValue] = {"id": stored.id, "score": round(score, _SCORE_DIGITS)}
        if stored.namespace is not None:
            match["namespace"] = stored.namespace
        if query.values:
            match["values"] = stored.values.tolist()
        if query.metadata == "all" and stored.metadata is not None:
            match["metadata"] = stored.metadata
        elif query.metadata == "indexed":
            match["metadata"] = _nested(stored.indexed)
        return match


class VectorizeBinding:
    """What a Worker's Python has as `env.VECTORIZE`: the SDK's wrapper around the binding."""

    def __init__(self, engine: VectorizeEngine) -> None:
        self._engine = engine

    def describe(self) -> Awaitable[Any]:
        """See the binding's documentation, also for the methods below. All raise JsError or TypeError."""
        return self._call("describe")

    def query(self, vector: object, *args: object, **options: object) -> Awaitable[Any]:
        """Find the vectors nearest to one."""
        return self._call("query", vector, *args, **options)

    def queryById(self, vector_id: object, *args: object, **options: object) -> Awaitable[Any]:
        """Find the vectors nearest to a stored one."""
        return self._call("queryById", vector_id, *args, **options)

    def insert(self, vectors: object) -> Awaitable[Any]:
        """Add vectors, passing over ids that are there."""
        return self._call("insert", vectors)

    def upsert(self, vectors: object) -> Awaitable[Any]:
        """Add or replace vectors."""
        return self._call("upsert", vectors)

    def deleteByIds(self, ids: object) -> Awaitable[Any]:
        """Remove vectors."""
        return self._call("deleteByIds", ids)

    def getByIds(self, ids: object) -> Awaitable[Any]:
        """Return stored vectors."""
        return self._call("getByIds", ids)

    def _call(self, method: str, *args: object, **options: object) -> Awaitable[Any]:
        async def run(*converted: JsValue) -> JsValue:
            async with subrequest(f"vectorize.{method}"):
                # The index is elsewhere in production: others run now, and what depends on the gap should show.
                await asyncio.sleep(0)
                return await self._engine.call(method, *converted)

        return call(run, args, options)


class _Vectors:
    """The visible vectors, their directions in one matrix. A removed row is used again."""

    def __init__(self, dimensions: int) -> None:
        self.by_id: dict[str, Stored] = {}
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._matrix = np.zeros((_INITIAL_ROWS, dimensions), np.float32)

    def put(self, vector: Stored) -> None:
        row = self._rows.get(vector.id)
        if row is None:
            row = self._free.pop() if self._free else len(self._rows)
            if row == len(self._matrix):
                self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
        self._matrix[row] = _direction(vector.values)
        self._rows[vector.id] = row
        self.by_id[vector.id] = vector

    def remove(self, id_: str) -> None:
        if id_ in self._rows:
            self._free.append(self._rows.pop(id_))
            del self.by_id[id_]

    def scores(self, vector: "array[float]") -> dict[str, float]:
        """Return each vector's cosine to one."""
        products = (self._matrix @ _direction(vector)).tolist()
        return {id_: products[row] for id_, row in self._rows.items()}


def _direction(values: "array[float]") -> "np.ndarray[Any, np.dtype[np.float32]]":
    vector = np.frombuffer(values, np.float32)
    length = float(np.linalg.norm(vector))
    # A vector of zeros has no direction; its cosine to anything is taken as 0.
    return vector / np.float32(length) if length else vector


def _vector_out(vector: Stored) -> JsValue:
    given = {"id": vector.id, "values": vector.values.tolist(), "namespace": vector.namespace}
    out = {name: value for name, value in given.items() if value is not None}
    return out if vector.metadata is None else {**out, "metadata": vector.metadata}


def _nested(indexed: dict[str, Scalar]) -> JsValue:
    """Return indexed metadata in the shape that it was sent in: `a.b` is b inside a."""
    out: dict[str, JsValue] = {}
    for path, value in indexed.items():
        *parents, name = path.split(".")
        place = out
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return out


def _unit_hash(id_: str, *seeds: bytes) -> float:
    """Return a number from 0 to 1 that is always the same for the same input."""
    digest = blake2b(id_.encode(), digest_size=8)
    for seed in seeds:
        digest.update(seed)
    return int.from_bytes(digest.digest()) / 2**64


def _uuid() -> str:
    return str(uuid.uuid4())


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
