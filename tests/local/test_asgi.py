import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from shoal.local.asgi import Front
from shoal.local.background import Activity

TOKEN = {"authorization": "Bearer secret"}


class Stage:
    """The front with two plain apps behind it."""

    def __init__(self) -> None:
        self.stopped = False
        self.built = 0
        self.activity = Activity()
        front = Front(
            PlainTextResponse("rest"), self._mcp, self.activity, "secret", {"pid": 7, "version": "1"}, self._stop,
            PlainTextResponse("sync"),
        )  # fmt: skip
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://localhost")

    async def _mcp(self) -> ASGIApp:
        self.built += 1
        return PlainTextResponse("mcp")

    def _stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("path", "answer"),
    [("/mcp", "mcp"), ("/mcp/", "mcp"), ("/mcpx", "rest"), ("/api/v1/memories", "rest"), ("/", "rest")],
)
async def test_paths_go_to_their_face(path: str, answer: str) -> None:
    stage = Stage()
    assert (await stage.client.post(path)).text == answer
    assert stage.built == (answer == "mcp")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}, {"authorization": "secret"}])
async def test_the_daemons_own_routes_need_its_token(headers: dict[str, str]) -> None:
    stage = Stage()
    assert (await stage.client.get("/daemon", headers=headers)).status_code == 401
    assert (await stage.client.post("/daemon/stop", headers=headers)).status_code == 401
    for path in ("/daemon/sync", "/daemon/sync/seen"):
        assert (await stage.client.post(path, headers=headers)).status_code == 401
    assert not stage.stopped


async def test_who_knows_the_token_learns_of_the_daemon_and_may_stop_it() -> None:
    stage = Stage()
    assert (await stage.client.get("/daemon", headers=TOKEN)).json() == {"pid": 7, "version": "1"}
    assert (await stage.client.get("/daemon/stop", headers=TOKEN)).status_code == 405
    assert not stage.stopped
    assert (await stage.client.post("/daemon/stop", headers=TOKEN)).status_code == 202
    assert stage.stopped


async def test_who_knows_the_token_reaches_replication() -> None:
    stage = Stage()
    assert (await stage.client.get("/daemon/sync", headers=TOKEN)).text == "sync"


async def test_requests_count_as_activity_and_health_checks_do_not() -> None:
    stage = Stage()
    waiting = asyncio.create_task(stage.activity.next_request(5))
    await stage.client.get("/daemon", headers=TOKEN)
    assert not waiting.done()
    await stage.client.get("/healthz")
    await asyncio.wait_for(waiting, 1)
