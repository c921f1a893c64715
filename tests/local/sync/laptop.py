"""A laptop with a real database, and an edge in the same process: no network, and time as the test sets it."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from shoal.core import replication
from shoal.core.caller import Caller
from shoal.core.context import EDGE
from shoal.core.fakes import FakeDatabase
from shoal.core.service import Memory, open_memory
from shoal.local.database import ApswDatabase
from shoal.local.home import Home
from shoal.local.runtime import clock_ms, open_database
from shoal.local.settings import load
from shoal.local.sync.exchange import Exchange
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.rounds import Rounds
from shoal.schema.errors import EdgeRefused
from shoal.schema.models import StoreAnswer, StoreRequest
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncStatus
from shoal.sync import server

URL = "https://edge.example"


@dataclass
class Edge:
    """Implements Transport by the edge's own half; made by `opened`."""

    memory: Memory
    now_ms: list[int]
    """The time, everywhere, which the test moves."""
    caller: Caller = field(default_factory=Caller)
    """What the token allows."""
    failures: list[Exception] = field(default_factory=list)
    """Are raised by the next requests, one each."""
    refuses_pushes: bool = False
    asked: list[str] = field(default_factory=list)
    closed: int = 0

    @classmethod
    async def opened(cls) -> "Edge":
        now_ms = [clock_ms()]
        database = FakeDatabase(apsw.Connection(":memory:"))
        memory = await open_memory(database, None, None, clock=lambda: now_ms[0], new_device="edge", policy=EDGE)
        context = memory.context
        named = replace(context.replica, name_batch=lambda: secrets.token_hex(8))
        return cls(Memory(replace(context, replica=named), "none"), now_ms)

    async def status(self) -> SyncStatus:
        return await self._asked("status", lambda: server.status(self.memory.context, self.caller))

    async def push(self, request: PushRequest) -> PushAnswer:
        sent = PushRequest.model_validate_json(request.model_dump_json())
        return await self._asked("push", lambda: server.push(self.memory.context, sent, self.caller))

    async def pull(self, request: PullRequest) -> PullAnswer:
        sent = PullRequest.model_validate_json(request.model_dump_json())
        answer = await self._asked("pull", lambda: server.pull(self.memory.context, sent, self.caller))
        return PullAnswer.model_validate_json(answer.model_dump_json())

    async def aclose(self) -> None:
        self.closed += 1

    async def _asked(self, what: str, answer: Callable[[], Awaitable[Any]]) -> Any:
        self.asked.append(what)
        if self.failures:
            raise self.failures.pop(0)
        if what == "push" and self.refuses_pushes:
            raise EdgeRefused("Too odd.", "None.", refused_status=422)
        return await answer()


@dataclass
class Laptop:
    """One device."""

    memory: Memory
    database: ApswDatabase
    rounds: Rounds
    files: SyncFiles
    now_ms: list[int]

    async def store(self, content: str, space: str = "main") -> str:
        answer = await self.memory.store(StoreRequest(content=content, space=space), Caller())
        assert isinstance(answer, StoreAnswer)
        return answer.id

    async def info(self) -> Any:
        return await replication.info(self.database, self.now_ms[0])

    async def meta(self, key: str) -> Any:
        rows = await self.database.query("select v from meta where k = ?1", (key,))
        return rows[0]["v"] if rows else None


@asynccontextmanager
async def laptop(home: Home, edge: Edge, url: str | None = URL) -> AsyncGenerator[Laptop]:
    """Open a laptop that is linked, unless `url` is None."""
    now_ms = edge.now_ms
    async with open_database(load(home)) as database:
        memory = await open_memory(database, None, None, clock=lambda: now_ms[0], new_device="aaaaaaaa")
        files = SyncFiles.of(home, home.database)

        def connect(_url: str) -> Exchange:
            return Exchange(memory.context, edge, rounds.keep_copy)

        rounds = Rounds(memory.context, database, files, home.backups, connect)
        if url is not None:
            await database.batch([replication.linked(url)])
        yield Laptop(memory, database, rounds, files, now_ms)
        await rounds.close()
