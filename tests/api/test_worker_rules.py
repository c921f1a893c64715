"""What the edge demands: built at global scope without entropy, served without threads, apps shared by requests."""

import asyncio
import os
import random
import secrets
import threading
import uuid
from typing import Any

import pytest
from tests.api.conftest import made_memory
from tests.api.faces import LOOPBACK, client_of, mcp_client, told

from shoal.api.context import MemoryProvider, one_memory
from shoal.api.gate import OpenGate
from shoal.api.mcp import mcp_app
from shoal.api.rest import rest_app
from shoal.core.caller import Caller
from shoal.core.service import Memory

GATE = OpenGate(Caller())


def faces(provider: MemoryProvider) -> tuple[Any, Any]:
    return rest_app(provider, GATE, LOOPBACK, version="0.1.0"), mcp_app(provider, GATE, LOOPBACK, version="0.1.0")


def forbidden(*_: Any, **__: Any) -> Any:
    raise AssertionError("not at global scope, not here")


def test_the_faces_are_built_without_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_memory(_scope: Any) -> Memory:
        return forbidden()

    for module, name in [(os, "urandom"), (secrets, "token_hex"), (uuid, "uuid4"), (random, "random")]:
        monkeypatch.setattr(module, name, forbidden)
    faces(no_memory)


async def test_requests_are_served_without_threads(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    rest, mcp = faces(one_memory(memory))
    monkeypatch.setattr(threading.Thread, "start", forbidden)
    async with client_of(rest) as client:
        assert (await client.post("/api/v1/memories", json={"content": "x"})).status_code == 201
        for path in ("/api/v1/search?q=x", "/api/v1/stats", "/healthz", "/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
    for mode in ("auto", "legacy"):
        async with mcp_client(mcp, mode) as client:
            told(await client.call_tool("memory_find", {"query": "x"}))
            await client.read_resource("memory://recent")


async def test_each_request_is_served_by_the_memory_of_its_own_scope() -> None:
    """The edge binds a database to a request, so one app serves many memories, also at the same time."""
    memories = {str(n): await made_memory() for n in range(5)}

    async def by_header(scope: Any) -> Memory:
        await asyncio.sleep(0)
        return memories[dict(scope["headers"])[b"x-tenant"].decode()]

    rest, mcp = faces(by_header)

    async def totals(tenant: str) -> tuple[int, int]:
        async with client_of(rest, **{"x-tenant": tenant}) as client:
            for n in range(int(tenant)):
                await client.post("/api/v1/memories", json={"content": f"{tenant} {n}"})
            by_rest = (await client.get("/api/v1/stats")).json()["total"]
        async with mcp_client(mcp, x_tenant=tenant) as client:
            return by_rest, told(await client.call_tool("memory_stats"))["total"]

    assert await asyncio.gather(*map(totals, memories)) == [(n, n) for n in range(5)]


def test_the_apps_outlive_an_event_loop() -> None:
    """The laptop's loop may end and begin again; nothing of the first is kept."""
    apps: dict[str, Any] = {}

    async def provide(_scope: Any) -> Memory:
        return apps["memory"]

    rest, mcp = faces(provide)

    async def use() -> None:
        apps["memory"] = await made_memory()
        async with client_of(rest) as client:
            assert (await client.get("/api/v1/stats")).status_code == 200
        async with mcp_client(mcp) as client:
            told(await client.call_tool("memory_stats"))

    for _ in range(2):
        asyncio.run(use())
