"""One memory service on the fakes, with a clock that the test moves and every statement on record."""

import asyncio
from collections.abc import Sequence
from typing import Any

import apsw

from shoal.core.apply import Replica, apply
from shoal.core.caller import Caller
from shoal.core.cells import Cell
from shoal.core.context import LAPTOP, Policy
from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.journal import Action, Author
from shoal.core.protocols import (
    Calibration,
    Database,
    Embedder,
    ModelState,
    Phase,
    Role,
    Row,
    SqlValue,
    Statement,
    Vector,
)
from shoal.core.service import Memory, open_memory
from shoal.schema.errors import ModelUnavailable
from shoal.schema.models import (
    DeleteRequest,
    FindRequest,
    Found,
    GetRequest,
    MemoryOut,
    StoreAnswer,
    StoreBatchAnswer,
    StoreItem,
    StoreRequest,
    UpdateRequest,
)

NOW = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""
DAY = 86_400_000
ALL = Caller()
REMOTE = Replica("laptop", dirty=True)
ELSEWHERE = Author(Action.STORE, "sync", "", "other")


class Clock:
    """Milliseconds that stand still until a test moves them."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Recorder:
    """A database that remembers what it was asked, and can be told to fail."""

    def __init__(self, database: Database) -> None:
        self.inner = database
        self.batches: list[Sequence[Statement]] = []
        self.queries: list[Statement] = []
        self.fail_batches_with: Exception | None = None

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        self.queries.append(Statement(sql, tuple(params)))
        return await self.inner.query(sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self.fail_batches_with is not None:
            raise self.fail_batches_with
        self.batches.append(statements)
        return await self.inner.batch(statements)

    async def size_bytes(self) -> int:
        return await self.inner.size_bytes()


class Embeddings(FakeEmbedder):
    """The hashing embedder, which can be held back, be broken, and remembers its texts."""

    def __init__(self, name: str = "hashed-words@1") -> None:
        super().__init__(fingerprint=name)
        self.texts: list[str] = []
        self.broken = False
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()

    @property
    def calibration(self) -> Calibration:
        """As real models have: without it the farthest of two near equals would count as far."""
        return Calibration(unrelated=0.25, related=0.7)

    @property
    def state(self) -> ModelState:
        return ModelState(Phase.UNAVAILABLE, "it is broken.") if self.broken else ModelState(Phase.READY)

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        if role is Role.PASSAGE:
            self.asked.set()
            await self.open.wait()
            self.texts += texts
        if self.broken:
            raise ModelUnavailable("The model is broken.", "Mend it.")
        return await super().embed(texts, role)


class Rig:
    """A memory with all its parts at hand."""

    def __init__(
        self,
        connection: apsw.Connection,
        database: Recorder,
        index: FakeVectorIndex | None,
        embedder: Embedder | None,
        clock: Clock,
        memory: Memory,
    ) -> None:
        self.connection = connection
        self.database = database
        self.index = index
        self.embedder = embedder
        self.clock = clock
        self.memory = memory

    async def store(self, content: str, caller: Caller = ALL, **fields: Any) -> StoreAnswer:
        answer = await self.memory.store(StoreRequest(content=content, **fields), caller)
        assert isinstance(answer, StoreAnswer)
        return answer

    async def store_all(self, items: Sequence[StoreItem], caller: Caller = ALL, **fields: Any) -> StoreBatchAnswer:
        answer = await self.memory.store(StoreRequest(items=list(items), **fields), caller)
        assert isinstance(answer, StoreBatchAnswer)
        return answer

    async def find(self, query: str = "", caller: Caller = ALL, **fields: Any) -> list[Found]:
        return (await self.memory.find(FindRequest(query=query, **fields), caller)).results

    async def by_words(self, query: str, **fields: Any) -> list[str]:
        """Return the ids of what is found by words, best first."""
        return [found.id for found in await self.find(query, **fields) if "words" in found.why]

    async def get(self, *ids: str, caller: Caller = ALL, **fields: Any) -> list[MemoryOut]:
        return (await self.memory.get(GetRequest(ids=list(ids), **fields), caller)).memories

    async def one(self, memory_id: str, **fields: Any) -> MemoryOut:
        (memory,) = await self.get(memory_id, **fields)
        return memory

    async def update(self, memory_id: str, caller: Caller = ALL, **fields: Any) -> Any:
        return await self.memory.update(UpdateRequest(id=memory_id, **fields), caller)

    async def delete(self, *ids: str, caller: Caller = ALL, **fields: Any) -> Any:
        request = DeleteRequest(**({"ids": list(ids)} if ids else {}), **{"confirm": True, **fields})
        return await self.memory.delete(request, caller)

    async def purge(self, *ids: str, **fields: Any) -> Any:
        return await self.delete(*ids, purge=True, **fields)

    async def embed_all(self) -> None:
        while await self.memory.embed_pending():
            pass

    async def apply(self, *cells: Cell, dirty: bool = False) -> None:
        await apply(self.database, cells, Replica("other", dirty), self.clock(), ELSEWHERE)

    def rows(self, sql: str, *params: SqlValue) -> list[tuple[Any, ...]]:
        return list(self.connection.execute(sql, params))

    def value(self, sql: str, *params: SqlValue) -> Any:
        return self.rows(sql, *params)[0][0]

    def written(self) -> int:
        """Return rows written so far, FTS5's own tables included."""
        return self.connection.total_changes()


async def opened(
    *,
    connection: apsw.Connection | None = None,
    database: Database | None = None,
    embedder: Embedder | str | None = "hashed-words@1",
    index: FakeVectorIndex | None = None,
    clock: Clock | None = None,
    device: str = "0a0b0c0d",
    policy: Policy = LAPTOP,
    **more: Any,
) -> Rig:
    """Return a memory on a new database in memory, on a connection that has one already, or on another database."""
    connection = connection or apsw.Connection(":memory:")
    recorder = Recorder(database or FakeDatabase(connection))
    model = Embeddings(embedder) if isinstance(embedder, str) else embedder
    vectors = index or (None if model is None else FakeVectorIndex(recorder))
    clock = clock or Clock()
    memory = await open_memory(recorder, vectors, model, clock=clock, new_device=device, policy=policy, **more)
    return Rig(connection, recorder, vectors, model, clock, memory)


def cell(
    record: str, field: str, rank: int, stamp: int, value: Any, space: str = "main", device: str = "other"
) -> Cell:
    """Return a cell of another replica; `stamp` is its clock in milliseconds."""
    return Cell(record, space, field, rank, f"{stamp * 65536:019d}-{device}", value, None)
