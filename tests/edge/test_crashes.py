"""workerd killed at any moment: what was acknowledged is there, and what was half done is done by the next cron."""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from tests.edge.agreement import reconciled
from tests.edge.edge import COFFEE, PLAIN, Edge

KILLS = 6


@pytest.fixture
def edge(opened: Edge) -> Iterator[Edge]:
    """The Worker with an empty memory. Its records don't outlive a crash, so what comes after one is watched alone."""
    opened.empty()
    yield opened
    opened.heal()
    opened.rig.drain()


def twenty_at_once(edge: Edge) -> list[int]:
    """Return the statuses of requests of every kind, all of them the first of their isolate."""
    headers = {"authorization": edge.http.headers["authorization"], "accept": "application/json, text/event-stream"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_stats", "arguments": {}}}

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=edge.rig.url, headers=headers, **PLAIN) as client:
            return await asyncio.gather(
                *(client.post("/mcp", json=call) for _ in range(7)),
                *(client.get("/api/v1/search", params={"q": "coffee"}) for _ in range(7)),
                *(client.post("/api/v1/memories", json={"content": f"fact {n}", "space": "crowd"}) for n in range(6)),
            )

    return [answer.status_code for answer in asyncio.run(ask())]


@pytest.mark.parametrize("applied", [True, pytest.param(False, marks=pytest.mark.long)], ids=["put", "not-put"])
def test_a_crash_before_and_in_the_middle_of_indexing_costs_nothing_and_the_next_isolate_serves_at_once(
    edge: Edge, applied: bool
):
    # The queue gets as far as the model, and a request that waits for its vector as far as the index, which may have it
    # then though nobody has noted it.
    edge.order("ai", "timeout")
    queued = edge.store(COFFEE)
    edge.await_hang()
    edge.order("vectorize", "timeout", on="upsert", applied=applied)
    waiting = threading.Thread(target=store_and_wait, args=(edge.client(), f"{COFFEE} It is old."))
    waiting.start()
    edge.await_hang()
    edge.crash()
    waiting.join()
    with edge.rig.watched():
        assert twenty_at_once(edge) == [200] * 14 + [201] * 6
        found = [row["id"] for row in edge.find("coffee machine")]
        assert (len(found), queued in found) == (2, True)
        reconciled(edge)
        assert sorted(edge.meant()) == sorted(found)


def store_and_wait(client: httpx.Client, content: str) -> None:
    """Store a memory and wait for its vector, of which no answer comes."""
    with client, contextlib.suppress(httpx.HTTPError):
        client.post("/api/v1/memories", json={"content": content, "wait": True})


@pytest.mark.long
@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_in_the_middle_of_a_removal_leaves_nothing_behind(edge: Edge, applied: bool):
    one = edge.store(COFFEE)
    edge.settle()
    edge.order("vectorize", "timeout", on="deleteByIds", applied=applied)
    edge.delete(one, purge=True)
    edge.await_hang()
    edge.crash()
    with edge.rig.watched():
        reconciled(edge)
    assert edge.vector_ids() == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_kills_at_random_moments_lose_nothing_that_was_acknowledged(edge: Edge):
    acknowledged: dict[str, str] = {}
    ended = threading.Event()

    def write() -> None:
        number = 0
        with edge.client() as client:
            while not ended.is_set():
                number += 1
                content = f"{COFFEE} Number {number}."
                try:
                    answer = client.post("/api/v1/memories", json={"content": content})
                except httpx.HTTPError:
                    time.sleep(0.1)  # until the next start
                    continue
                if answer.is_success:
                    acknowledged[answer.json()["id"]] = content

    writer = threading.Thread(target=write)
    moments = random.Random(8378)
    with edge.hashed():
        writer.start()
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.2, 2))
            edge.crash()
        ended.set()
        writer.join()
        with edge.rig.watched():
            there = dict(edge.rows("select lower(hex(id)), init->>'content' from record"))
            assert acknowledged.items() <= there.items()
            for _ in range(len(there) // 300 + 1):
                edge.catch_up()
            reconciled(edge)
