"""What a command sends to a daemon and makes of its answers, against the real REST face."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shoal.api.context import one_memory
from shoal.api.gate import HostRule, OpenGate
from shoal.api.rest import rest_app
from shoal.local import backend
from shoal.local.backend import Backend, InProcess, OverRest, error_from
from shoal.local.client import NotSent, Reply
from shoal.local.home import DaemonRecord, Home
from shoal.local.runtime import local_caller, open_runtime
from shoal.local.settings import load
from shoal.schema.errors import (
    DaemonUnreachable,
    InvalidTag,
    NotFound,
    ShoalError,
    UnknownType,
    WasForgotten,
)
from shoal.schema.models import (
    DeleteRequest,
    FindRequest,
    GetRequest,
    StoreAnswer,
    StoreItem,
    StoreRequest,
    TagChanges,
    UpdateRequest,
)

RECORD = DaemonRecord(1, "localhost", 80, "t", "0.1.0", "/x.db", "person")


@pytest.fixture(params=["in this process", "over REST"])
async def memory(request: pytest.FixtureRequest, home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Backend]:
    """The same memory, reached in both ways: they must not differ."""
    loaded = load(home)
    async with open_runtime(loaded) as runtime:
        caller = local_caller(loaded, "cli", clamps=False)
        if request.param == "in this process":
            yield InProcess(runtime.memory, caller, "main")
            return
        app = rest_app(one_memory(runtime.memory), OpenGate(caller), HostRule.loopback(), version="0.1.0")
        loop = asyncio.get_running_loop()

        async def send(method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                answer = await client.request(method, path, content=body, headers=headers)
                return Reply(answer.status_code, answer.headers, answer.content)

        def blocking(_: DaemonRecord, method: str, path: str, body: bytes | None, headers: Any) -> Reply:
            return asyncio.run_coroutine_threadsafe(send(method, path, body, headers), loop).result(10)

        monkeypatch.setattr(backend, "request", blocking)
        yield OverRest(RECORD, "UTC", "main")


async def test_all_that_commands_do_works_the_same_way(memory: Backend) -> None:
    stored = await memory.store(StoreRequest(content="部署 on Fridays", tags=["a b", "topic:x"], type="decision"))
    assert isinstance(stored, StoreAnswer)
    batch = await memory.store(StoreRequest(items=[StoreItem(content="two"), StoreItem(content="three")]))
    assert batch.success
    (found,) = (await memory.find(FindRequest(query="部署", type=["decision"], n_results=3))).results
    assert found.id == stored.id
    listed = await memory.get(GetRequest(tags="a b,topic:x", tags_mode="all", include_archived=True, page_size=5))
    assert [one.id for one in listed.memories] == [stored.id]
    both = await memory.get(GetRequest(ids=[stored.id, "0" * 32], with_edges=True, space="*"))
    assert [one.id for one in both.memories] == [stored.id]
    updated = await memory.update(UpdateRequest(id=stored.id, tags=TagChanges(add=["c"]), metadata={"k": None}))
    assert updated.success
    preview = await memory.delete(DeleteRequest(ids=[stored.id], dry_run=True))
    assert (preview.status, preview.ids) == ("cancelled", [stored.id])
    assert (await memory.delete(DeleteRequest(ids=[stored.id], confirm=True))).status == "deleted"
    assert (await memory.stats()).trashed == 1
    revived = await memory.revive([stored.id, "0" * 32])
    assert (revived.ids, revived.not_found) == ([stored.id], ["0" * 32])
    assert (await memory.delete(DeleteRequest(ids=["0" * 32], dry_run=True))).status == "not_found"


async def test_errors_are_the_same_too(memory: Backend) -> None:
    with pytest.raises(UnknownType):
        await memory.store(StoreRequest(content="x", type="nonsense"))
    with pytest.raises(NotFound):
        await memory.update(UpdateRequest(id="0" * 32, importance=1.0))
    stored = await memory.store(StoreRequest(content="x"))
    assert isinstance(stored, StoreAnswer)
    await memory.delete(DeleteRequest(id=stored.id, confirm=True))
    with pytest.raises(WasForgotten) as caught:
        await memory.store(StoreRequest(content="x"))
    assert caught.value.details["id"] == stored.id


def test_an_error_of_a_later_version_keeps_its_words() -> None:
    known = error_from({"code": "invalid_tag", "message": "m", "mend": "n", "field": "tags"})
    assert isinstance(known, InvalidTag)
    assert known.details == {"field": "tags"}
    unknown = error_from({"code": "of_tomorrow", "message": "m", "mend": "n"})
    assert type(unknown) is ShoalError
    assert str(unknown) == "m n"


async def test_a_daemon_that_has_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> Reply:
        raise NotSent("refused")

    monkeypatch.setattr(backend, "request", gone)
    with pytest.raises(DaemonUnreachable, match="shoal doctor"):
        await OverRest(RECORD, "UTC", "main").stats()
    monkeypatch.setattr(backend, "request", lambda *_: Reply(200, {}, json.dumps({})[:1].encode()))
    with pytest.raises(DaemonUnreachable):
        await OverRest(RECORD, "UTC", "main").stats()
