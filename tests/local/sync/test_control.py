"""The daemon's routes for replication, on a real database with an edge in the same process."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from tests.local.sync.laptop import Edge, Laptop
from tests.local.sync.laptop import laptop as open_laptop

from shoal.core import replication
from shoal.local.home import Home
from shoal.local.sync.control import SyncControl
from shoal.local.sync.syncer import Signals, Syncer
from shoal.schema.errors import LinkBroken


class Stage:
    """The routes, and what is behind them."""

    def __init__(self, edge: Edge, laptop: Laptop) -> None:
        self.edge = edge
        self.laptop = laptop
        context = laptop.memory.context
        self.syncer = Syncer(context, laptop.rounds, laptop.files, Signals(), 15.0, lambda: 0.0)
        self.control = SyncControl(context, self.syncer)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.control), base_url="http://localhost")

    async def state(self) -> Any:
        return (await self.client.get("/daemon/sync")).json()

    async def exchange(self, path: str = "/daemon/sync") -> list[Any]:
        """Return the lines of an exchange."""
        answer = await self.client.post(path)
        return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
async def stage(home: Home) -> AsyncGenerator[Stage]:
    """A laptop that is linked and has exchanged nothing yet."""
    edge = await Edge.opened()
    async with open_laptop(home, edge) as laptop:
        stage = Stage(edge, laptop)
        yield stage
        await stage.control.aclose()


async def test_it_is_told_how_replication_stands(stage: Stage):
    await stage.laptop.store("one thing")
    state = await stage.state()
    assert state["sync"] == (await stage.laptop.info()).model_dump(mode="json")
    assert state["sync"]["queue"] >= 1
    assert (state["working"], state["next_s"], state["sent"], state["received"]) == (False, None, 0, 0)


async def test_an_exchange_tells_each_step_and_what_came_of_it(stage: Stage):
    await stage.laptop.store("one thing")
    *steps, last = await stage.exchange()
    assert {step["phase"] for step in steps} == {"push", "pull"}
    assert (steps[0]["share"], steps[-1]["share"]) == (0.0, 1.0)
    assert last["report"]["pushed"] >= 1
    state = await stage.state()
    assert state["sent"] == last["report"]["pushed"]
    assert state["sync"]["queue"] == 0


async def test_a_failure_is_the_last_line(stage: Stage):
    stage.edge.failures = [LinkBroken("Unknown token.", "Link again.")]
    (last,) = await stage.exchange()
    assert last["error"] == {"code": "link_broken", "message": "Unknown token.", "mend": "Link again."}


async def test_what_was_refused_is_sent_again_only_when_asked(stage: Stage):
    await stage.laptop.store("one thing")
    stage.edge.refuses_pushes = True
    refused = (await stage.exchange())[-1]["report"]["refused"]
    stage.edge.refuses_pushes = False
    assert (await stage.exchange())[-1]["report"]["pushed"] == 0
    assert (await stage.exchange("/daemon/sync?retry"))[-1]["report"]["pushed"] == refused
    assert (await stage.state())["sync"]["quarantine"] == 0


async def test_what_has_been_seen_is_not_told_again(stage: Stage):
    await stage.laptop.database.batch([replication.left(["team"], "/backups/copy.db", 0)])
    assert len((await stage.state())["sync"]["left"]) == 1
    assert (await stage.client.post("/daemon/sync/seen")).json() == {"seen": True}
    assert (await stage.state())["sync"]["left"] == []


async def held_up(stage: Stage) -> "tuple[asyncio.Event, asyncio.Task[Any]]":
    """Begin an exchange that waits in the edge; return what lets it go on, and who reads its lines."""
    asked, go_on, status = asyncio.Event(), asyncio.Event(), stage.edge.status

    async def slowly() -> Any:
        asked.set()
        await go_on.wait()
        return await status()

    stage.edge.status = slowly  # type: ignore[method-assign]
    lines = stage.control._exchange(retry=False)
    reading = asyncio.ensure_future(anext(lines))
    await asyncio.wait_for(asked.wait(), 5)
    return go_on, reading


async def test_an_exchange_goes_on_when_the_one_who_asked_has_gone(stage: Stage):
    await stage.laptop.store("one thing")
    go_on, reading = await held_up(stage)
    reading.cancel()
    go_on.set()
    async with asyncio.timeout(5):
        while stage.syncer.sent == 0:  # noqa: ASYNC110 - nobody is told of it any more
            await asyncio.sleep(0.005)


async def test_at_the_end_of_the_daemon_an_exchange_is_broken_off(stage: Stage):
    await stage.laptop.store("one thing")
    _, reading = await held_up(stage)
    await asyncio.wait_for(stage.control.aclose(), 5)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 5)
    assert stage.syncer.sent == 0
