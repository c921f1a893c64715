"""Every order in which the calls of two workers can reach the database and the index."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from shoal.core.protocols import Database, Row, SqlValue, Statement

Worker = Callable[["Gate"], Awaitable[object]]
SPINS_MAX = 1_000


class Gate:
    """Lets one worker's calls through one at a time, when it is told to."""

    def __init__(self) -> None:
        self.arrived: asyncio.Future[None] | None = None

    async def pass_through(self) -> None:
        self.arrived = asyncio.get_running_loop().create_future()
        await self.arrived

    def open(self) -> None:
        assert self.arrived is not None
        self.arrived.set_result(None)
        self.arrived = None


class GatedDatabase:
    def __init__(self, database: Database, gate: Gate) -> None:
        self._database = database
        self._gate = gate

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        await self._gate.pass_through()
        return await self._database.query(sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        await self._gate.pass_through()
        return await self._database.batch(statements)

    async def size_bytes(self) -> int:
        return await self._database.size_bytes()


class GatedBinding:
    """Any binding: each of its calls waits at the gate."""

    def __init__(self, binding: Any, gate: Gate) -> None:
        self._binding = binding
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            await self._gate.pass_through()
            return await getattr(self._binding, name)(*arguments)

        return call


async def run(workers: Mapping[str, Worker], choose: Callable[[list[str]], str]) -> None:
    """Run workers side by side; whenever all wait, `choose` says whose call goes through."""
    gates = {name: Gate() for name in workers}
    tasks = {name: asyncio.ensure_future(worker(gates[name])) for name, worker in workers.items()}
    try:
        while True:
            waiting = await _settled(tasks, gates)
            if not waiting:
                break
            gates[choose(waiting)].open()
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()


async def _settled(tasks: Mapping[str, "asyncio.Future[object]"], gates: Mapping[str, Gate]) -> list[str]:
    for _ in range(SPINS_MAX):
        waiting = [name for name in tasks if gates[name].arrived is not None]
        if all(task.done() or name in waiting for name, task in tasks.items()):
            return waiting
        await asyncio.sleep(0)
    raise AssertionError("a worker waits for something else than the gate")


async def every_schedule(once: Callable[[Callable[[list[str]], str]], Awaitable[None]]) -> int:
    """Call `once` with a chooser for each order that there is; return how many there were."""
    path: list[tuple[int, int]] = []
    count = 0
    while True:
        step = 0

        def choose(waiting: list[str]) -> str:
            nonlocal step
            if step == len(path):
                path.append((0, len(waiting)))
            choice, _ = path[step]
            step += 1
            return sorted(waiting)[choice]

        await once(choose)
        count += 1
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return count
        choice, of = path.pop()
        path.append((choice + 1, of))
