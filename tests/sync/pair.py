"""An edge and devices in one process: the real service, the real server's half, and a transport that tests can bend."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.core.rig import Clock, Rig, opened

from shoal.core.caller import Caller
from shoal.core.context import EDGE, Context
from shoal.core.service import Memory
from shoal.schema.errors import EdgeRefused, InsufficientScope, LinkBroken, ShoalError, SyncError
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncStatus
from shoal.sync import server
from shoal.sync.engine import Engine


def _names() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{number:016x}"


async def opened_edge(clock: Clock | None = None, **more: Any) -> Rig:
    """Return an edge, which names its batches."""
    rig = await opened(embedder=None, device="edge", policy=EDGE, clock=clock, **more)
    names = _names()
    context = rig.memory.context
    named = replace(context, replica=replace(context.replica, name_batch=lambda: next(names)))
    rig.memory = Memory(named, "none")
    return rig


class Direct:
    """A transport that reaches the edge at once. Tests set what happens before a request and to an answer."""

    def __init__(self, edge: Rig, caller: Caller | None = None) -> None:
        self.edge = edge
        self.caller = caller or Caller()
        self.before: Callable[[str, Any], None] = lambda _name, _request: None
        self.after: Callable[[str, Any], None] = lambda _name, _answer: None
        self.pushes: list[PushRequest] = []
        self.pulls: list[PullRequest] = []
        self.asked = 0

    @property
    def context(self) -> Context:
        return self.edge.memory.context

    async def status(self) -> SyncStatus:
        self.asked += 1
        return await self._answered("status", None, lambda: server.status(self.context, self.caller))

    async def push(self, request: PushRequest) -> PushAnswer:
        request = PushRequest.model_validate_json(request.model_dump_json())
        self.pushes.append(request)
        return await self._answered("push", request, lambda: server.push(self.context, request, self.caller))

    async def pull(self, request: PullRequest) -> PullAnswer:
        request = PullRequest.model_validate_json(request.model_dump_json())
        self.pulls.append(request)
        return await self._answered("pull", request, lambda: server.pull(self.context, request, self.caller))

    async def _answered(self, name: str, request: Any, serve: Callable[[], Any]) -> Any:
        self.before(name, request)
        try:
            answer = await serve()
        except SyncError:
            raise
        except InsufficientScope as error:
            raise LinkBroken(error.message, error.mend) from error
        except ShoalError as error:
            if error.code == "not_allowed":
                raise
            raise EdgeRefused(error.message, error.mend, refused_status=error.status) from error
        self.after(name, answer)
        return type(answer).model_validate_json(answer.model_dump_json())


class Laptop:
    """A device with its engine."""

    def __init__(self, rig: Rig, transport: Direct) -> None:
        self.rig = rig
        self.transport = transport
        self.copied: list[list[str]] = []
        self.engine = self.new_engine()

    def new_engine(self) -> Engine:
        async def keep_copy(spaces: list[str]) -> None:
            self.copied.append(spaces)

        return Engine(self.rig.memory.context, self.transport, keep_copy)

    def dirty(self) -> list[tuple[Any, ...]]:
        """Return (field, mark) of every cell that is marked."""
        return self.rig.rows(
            "select 'init', dirty from record where dirty > 0 union all select field, dirty from cell where dirty > 0"
            " order by 1"
        )


async def laptop(edge: Rig, device: str, caller: Caller | None = None, clock: Clock | None = None) -> Laptop:
    """Return a device of an edge."""
    rig = await opened(embedder=None, device=device, clock=clock or edge.clock)
    return Laptop(rig, Direct(edge, caller))
