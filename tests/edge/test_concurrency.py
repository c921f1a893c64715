"""Twenty at once, of one isolate: no request waits for another for ever, and each is right."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from tests.edge.agreement import reconciled
from tests.edge.edge import COFFEE, ESPRESSO, OFTEN, PLAIN, Edge

AT_ONCE = 20
ACCEPT = {"accept": "application/json, text/event-stream"}

Ask = Callable[[httpx.AsyncClient, int], Any]


def together(edge: Edge, *asks: Ask) -> list[Any]:
    """Make AT_ONCE requests at once, of each kind in turn, and return what came of them."""

    async def gathered() -> list[Any]:
        headers = {"authorization": edge.http.headers["authorization"], **ACCEPT}
        async with httpx.AsyncClient(base_url=edge.rig.url, headers=headers, **PLAIN) as client:
            return await asyncio.gather(*(asks[n % len(asks)](client, n) for n in range(AT_ONCE)))

    return asyncio.run(gathered())


async def tool(client: httpx.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    answer = await client.post("/mcp", json=call)
    result = answer.json()["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]


async def store(client: httpx.AsyncClient, n: int) -> str:
    answer = await client.post("/api/v1/memories", json={"content": f"{COFFEE} Number {n}."})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def store_by_mcp(client: httpx.AsyncClient, n: int) -> str:
    return (await tool(client, "memory_store", content=f"{COFFEE} Number {n}."))["id"]


async def find(client: httpx.AsyncClient, n: int) -> list[str]:
    answer = await client.post("/api/v1/search", json={"query": ESPRESSO if n % 2 else "coffee", "n_results": 50})
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["results"]]


async def find_by_mcp(client: httpx.AsyncClient, n: int) -> list[str]:
    return [row["id"] for row in (await tool(client, "memory_find", query="coffee", n_results=50))["results"]]


async def health(client: httpx.AsyncClient, n: int) -> str:
    return (await client.get("/healthz")).json()["status"]


def test_requests_of_every_kind_at_once_are_each_answered_right(edge: Edge):
    known = [edge.store(COFFEE), edge.store(f"{COFFEE} It is old.")]
    edge.rig.drain()
    answers = together(edge, store, find, store_by_mcp, find_by_mcp, health)
    stored = answers[0::5] + answers[2::5]
    assert len(set(stored)) == 8
    for found in answers[1::5] + answers[3::5]:
        assert set(known) <= set(found) <= {*known, *stored}
    assert set(answers[4::5]) <= {"ok", "degraded"}
    numbers = {edge.get(one)["content"].rpartition(" ")[2] for one in stored}
    assert numbers == {f"{n}." for n in range(AT_ONCE) if n % 5 in (0, 2)}
    reconciled(edge)
    assert set(edge.meant(n_results=50)) == {*known, *stored}


def test_one_text_stored_twenty_times_at_once_is_one_memory_that_one_of_them_created(edge: Edge):
    async def same(client: httpx.AsyncClient, n: int) -> dict[str, Any]:
        answer = await client.post("/api/v1/memories", json={"content": COFFEE, "tags": [f"t{n}"]})
        return answer.json()

    answers = together(edge, same)
    assert sorted(answer["status"] for answer in answers) == ["created"] + ["merged"] * (AT_ONCE - 1)
    (one,) = {answer["id"] for answer in answers}
    assert edge.get(one)["tags"] == sorted(f"t{n}" for n in range(AT_ONCE))
    reconciled(edge)


def test_changes_of_one_memory_at_once_all_count(edge: Edge):
    one = edge.store(COFFEE)

    async def change(client: httpx.AsyncClient, n: int) -> int:
        changes = {"tags": {"add": [f"t{n}"]}, "metadata": {f"k{n}": n}, "type": "decision" if n % 2 else "note"}
        return (await client.patch(f"/api/v1/memories/{one}", json=changes)).status_code

    assert together(edge, change) == [200] * AT_ONCE
    memory = edge.get(one)
    assert memory["tags"] == sorted(f"t{n}" for n in range(AT_ONCE))
    assert memory["metadata"] == {f"k{n}": n for n in range(AT_ONCE)}
    reconciled(edge)


def test_a_memory_stored_deleted_and_revived_at_once_ends_as_one_of_these_and_agrees(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()

    async def again(client: httpx.AsyncClient, n: int) -> int:
        return (await client.post("/api/v1/memories", json={"content": COFFEE, "revive": True})).status_code

    async def delete(client: httpx.AsyncClient, n: int) -> int:
        purge = "&purge=true" if n % 4 == 1 else ""
        return (await client.delete(f"/api/v1/memories/{one}?confirm=true{purge}")).status_code

    async def revive(client: httpx.AsyncClient, n: int) -> int:
        return (await client.post(f"/api/v1/memories/{one}/revive")).status_code

    assert set(together(edge, again, delete, revive)) <= {200, 201, 404}
    reconciled(edge)


def test_crons_and_queues_at_once_make_each_vector_that_is_wanted(edge: Edge):
    async def cron(client: httpx.AsyncClient, n: int) -> str:
        return (await client.get("/cdn-cgi/local/scheduled", params={"cron": OFTEN, "time": "1900000000000"})).text

    async def change(client: httpx.AsyncClient, n: int) -> str:
        return await store(client, n)

    assert together(edge, change, cron)[1::2] == ["ok"] * (AT_ONCE // 2)
    reconciled(edge)
    assert edge.stats()["total"] == AT_ONCE // 2


def test_a_request_that_hangs_at_the_model_holds_nobody_else_up(edge: Edge):
    edge.store(COFFEE)
    edge.rig.drain()
    edge.order("ai", "timeout")
    headers = {"authorization": edge.http.headers["authorization"], **ACCEPT}

    async def one_hangs() -> None:
        async with httpx.AsyncClient(base_url=edge.rig.url, headers=headers, **PLAIN) as client:
            hanging = asyncio.create_task(find(client, 0))
            await asyncio.to_thread(edge.await_hang)
            await asyncio.gather(*(ask(client, n) for n in range(4) for ask in (find, find_by_mcp, store, health)))
            assert not hanging.done()
            edge.standin.control(release=True)
            assert len(await hanging) >= 1

    asyncio.run(one_hangs())


def test_clients_that_leave_before_the_answer_disturb_nobody(edge: Edge):
    async def leave(client: httpx.AsyncClient, n: int) -> str:
        try:
            await client.post("/api/v1/memories", json={"content": f"{COFFEE} Number {n}."}, timeout=0.02)
        except httpx.TimeoutException:
            return "left"
        return "answered"

    answers = together(edge, leave, store)
    assert len(set(answers[1::2])) == AT_ONCE // 2
    edge.rig.drain()
    assert edge.stats()["total"] >= AT_ONCE // 2
    reconciled(edge)
