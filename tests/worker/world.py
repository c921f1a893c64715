"""The Worker's code on the doubles of tests/edge: one database, one index, one model, two queues, and a clock."""

import hashlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tests.edge.doubles.ai import AiBinding, AiEngine
from tests.edge.doubles.d1 import D1Database as D1Double
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.invocation import invocation
from tests.edge.doubles.queue import Delivery, QueueDouble
from tests.edge.doubles.queue import MessageBatch as DeliveredBatch
from tests.edge.doubles.vectorize import VectorizeBinding, VectorizeEngine

from shoal.core.caller import Caller
from shoal.core.cells import compact_json
from shoal.core.migrate import migrate
from shoal.schema.models import DeleteRequest, FindAnswer, FindRequest, StoreItem, StoreRequest, UpdateRequest
from shoal.worker import configuration
from shoal.worker.budget import Budget
from shoal.worker.consuming import consume
from shoal.worker.d1 import D1Database
from shoal.worker.edge import Edge, open_edge
from shoal.worker.upkeep import upkeep

NOW = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""
MINUTE = 60_000
ALL = Caller()
OWNER_KEY = "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43U"
OFTEN = "*/5 * * * *"
METADATA_INDEXES = {"space": "string", "kind": "string", "type": "string", "occurred_at": "number", "state": "number"}


class Limit:
    """The rate limit's binding: lets `left` requests of a key pass, and remembers the keys. With a `fault` it fails."""

    def __init__(self) -> None:
        self.left = 1_000
        self.keys: list[str] = []
        self.fault: Exception | None = None

    async def limit(self, options: dict[str, str]) -> dict[str, bool]:
        if self.fault is not None:
            raise self.fault
        self.keys.append(options["key"])
        return {"success": self.keys.count(options["key"]) <= self.left}


class World:
    """Everything that the Worker is bound to, and ways to wake it. Each waking is an invocation held to the rules."""

    def __init__(self, *, dim: int = 1024, **variables: str) -> None:
        self.now_ms = NOW
        self.d1 = D1Double()
        self.vectorize = VectorizeEngine(dim, noise=0.0, clock=self._seconds)
        for name, type_ in METADATA_INDEXES.items():
            self.vectorize.create_metadata_index(name, type_)
        self.ai = AiEngine.hashed()
        self.dead = QueueDouble("shoal-index-dead", max_batch_size=100, clock=self._seconds)
        self.queue = QueueDouble(
            "shoal-index", max_batch_size=100, max_retries=5, dead_letters=self.dead, clock=self._seconds
        )
        self.limit = Limit()
        self.env = SimpleNamespace(
            DB=self.d1,
            VECTORIZE=VectorizeBinding(self.vectorize),
            AI=AiBinding(self.ai),
            QUEUE=self.queue,
            LIMIT=self.limit,
            OWNER_KEY_SHA256=hashlib.sha256(OWNER_KEY.encode()).hexdigest(),
            **variables,
        )
        self.after: list[Coroutine[Any, Any, None]] = []
        """What was given to waitUntil and not yet run."""

    def _seconds(self) -> float:
        return self.now_ms / 1000

    def clock(self) -> int:
        return self.now_ms

    def database(self, budget: Budget | None = None) -> D1Database:
        return D1Database(self.d1, self.clock, budget or Budget(statements_max=10_000, calls_max=10_000))

    async def prepare(self) -> None:
        """Apply the migrations, as wrangler does before a deployment."""
        await migrate(self.database())
        # As if the model had been measured: 184 texts, which no test here is about but one.
        fingerprint = configuration.read(self.env).model.fingerprint
        told = compact_json({"fingerprint": fingerprint, "figures": {"unrelated": 0.25, "related": 0.7}})
        self.rows("insert into meta (k, v) values ('calibration', ?)", told)

    @asynccontextmanager
    async def woken(self) -> AsyncIterator[Edge]:
        """One invocation: what it leaves to waitUntil is done before it ends."""
        with invocation():
            yield self.edge()
            await self.finish()

    def edge(self) -> Edge:
        return open_edge(self.env, self.after.append, configuration.read(self.env), self.clock)

    async def finish(self) -> None:
        while self.after:
            await self.after.pop(0)

    # What a person does

    async def store(self, content: str, **fields: Any) -> str:
        async with self.woken() as edge:
            answer = await edge.memory.store(StoreRequest(content=content, **fields), ALL)
        return answer.id  # type: ignore[union-attr]  # one was stored

    async def store_all(self, contents: Sequence[str]) -> list[str]:
        async with self.woken() as edge:
            request = StoreRequest(items=[StoreItem(content=content) for content in contents])
            answer = await edge.memory.store(request, ALL)
        return [one.id for one in answer.results]  # type: ignore[union-attr]  # several were stored

    async def update(self, memory_id: str, **fields: Any) -> None:
        async with self.woken() as edge:
            await edge.memory.update(UpdateRequest(id=memory_id, **fields), ALL)

    async def delete(self, *ids: str, **fields: Any) -> None:
        async with self.woken() as edge:
            await edge.memory.delete(DeleteRequest(ids=list(ids), confirm=True, **fields), ALL)

    async def revive(self, *ids: str) -> None:
        async with self.woken() as edge:
            await edge.memory.revive(list(ids), ALL)

    async def find(self, query: str, **fields: Any) -> FindAnswer:
        async with self.woken() as edge:
            return await edge.memory.find(FindRequest(query=query, **fields), ALL)

    # What Cloudflare does

    async def deliver(self, queue: QueueDouble | None = None) -> list[Delivery]:
        """Deliver what is due, batch by batch, until nothing is."""
        return await (queue or self.queue).drain(self._consume)

    async def _consume(self, batch: DeliveredBatch) -> None:
        await consume(batch, self.edge())
        await self.finish()

    async def cron(self, expression: str = OFTEN) -> None:
        with invocation():
            await upkeep(expression, self.now_ms, self.edge())
            await self.finish()

    async def settle(self) -> None:
        """Let the queue run empty, an hour pass and one reconciliation be done, with what it finds."""
        await self.deliver()
        self.now_ms += 60 * MINUTE
        await self.cron()
        await self.deliver()

    # What the test looks at

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return list(self.d1.connection.execute(sql, params))

    def value(self, sql: str, *params: Any) -> Any:
        return self.rows(sql, *params)[0][0]

    def rid(self, memory_id: str) -> int:
        return self.value("select rid from record where id = unhex(?)", memory_id)

    def indexed(self) -> list[str]:
        """Return the ids of the vectors that Vectorize shows."""
        return self.vectorize.ids()

    def expected(self) -> list[str]:
        """Return the ids that it should show: those of every living memory's present version."""
        living = self.rows("select rid from record where class = 'memory' and state in (1, 2)")
        states = {rid: (mark, n) for rid, mark, n in self.rows("select rid, mark, passages from vector_state")}
        assert set(states) == {rid for (rid,) in living}
        return sorted(f"{rid * 1024 + p}.{mark}" for rid, (mark, n) in states.items() for p in range(n))

    def assert_in_step(self) -> None:
        """The index holds what the database says, nothing is wanted, nothing is left over."""
        assert self.indexed() == self.expected()
        assert self.value("select count(*) from record where want > 0") == 0
        assert self.rows("select * from vector_gone") == []

    def fail_vectorize(self, kind: str, on: str | None = None, **how: Any) -> None:
        self.vectorize.faults.add(Fault(kind, on, **how))

    def fail_ai(self, kind: str, **how: Any) -> None:
        self.ai.faults.add(Fault(kind, **how))

    def fail_d1(self, kind: str, on: str | None = None, **how: Any) -> None:
        self.d1.faults.add(Fault(kind, on, **how))

    def fail_queue(self, kind: str, **how: Any) -> None:
        self.queue.faults.add(Fault(kind, **how))

    def close(self) -> None:
        self.ai.close()
        self.d1.close()
