"""Replication with the real Worker: what devices push is merged and found, and everyone pulls the same."""

import asyncio
import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import apsw
import httpx
import pytest
from tests.api.devices import GZIPPED, Device, packed
from tests.edge.agreement import reconciled
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.queue import QueueFault
from tests.edge.edge import COFFEE, ESPRESSO, PLAIN, Edge

from shoal.core.caller import Caller
from shoal.core.fakes import FakeDatabase
from shoal.core.service import open_memory
from shoal.local.sync.credentials import OneToken
from shoal.local.sync.transport import HttpTransport
from shoal.schema.limits import INFLATED_MAX_BYTES
from shoal.schema.models import GetRequest, StoreRequest
from shoal.schema.wire import CELLS_MAX, PAGE_BYTES
from shoal.sync.engine import Engine
from shoal.sync.queue import CELL_BYTES

EVERYTHING = {"*": ["read", "write", "admin"]}
METADATA = "/.well-known/oauth-protected-resource/mcp"
ALL_SCOPES = "memory:read memory:write memory:admin sync"
AT_ONCE = 12
IDLE_ROWS = 25
"""Read by a request that brings nothing: who asks, and where the history ends."""


class Link:
    """A device's way to the edge, by a token of its own."""

    def __init__(self, edge: Edge, **fields: Any) -> None:
        self.token = edge.token(**{"spaces": EVERYTHING, "sync": True, **fields})
        self.http = edge.client(self.token)

    def send(self, what: str, request: dict[str, Any]) -> httpx.Response:
        return self.http.post(f"/sync/{what}", content=packed(request), headers=GZIPPED)

    def push(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.send("push", request)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pull(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.send("pull", request)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def all_of(self, device: Device, spaces: object = "*") -> list[Any]:
        """Return all cells that can be pulled, in their order."""
        cells: list[Any] = []
        page: dict[str, Any] = {"cursor": 0, "batch": None, "more": True}
        while page["more"]:
            page = self.pull(device.pulls(spaces, page["cursor"], page["batch"]))
            cells += page["cells"]
        return cells


Linked = Callable[..., Link]


@pytest.fixture
def device() -> Device:
    return Device(time.time_ns() // 1_000_000)


@pytest.fixture
def linked(edge: Edge) -> Iterator[Linked]:
    """Links devices to the edge, by tokens for everything unless told otherwise."""
    with ExitStack() as stack:

        def link(**fields: Any) -> Link:
            made = Link(edge, **fields)
            stack.callback(made.http.close)
            return made

        yield link


def code_of(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["code"]


def chinese_page(device: Device) -> list[list[Any]]:
    """Return as many cells, and as much Chinese text, as one page may have."""
    cells: list[list[Any]] = []
    for number in range(CELLS_MAX // 5):
        words = "".join(chr(0x4E00 + (number * 37 + place * 11) % 0x5000) for place in range(1_360))
        cells += [one for one in device.memory(words, tags=[f"标签{number}", "共用", "x"]) if one[2] != "archived"]
        cells.append(device.cell(cells[-1][0], "md:k", f'"{number}"'))
    return cells


# What travels


def test_the_largest_page_of_chinese_is_merged_and_comes_back_within_the_limits(
    edge: Edge, linked: Linked, device: Device
):
    edge.rig.fail("queue", QueueFault.DAILY, times=10)
    link, cells = linked(), chinese_page(device)
    assert len(cells) == CELLS_MAX
    # Less by no more than what a device reckons for a cell's brackets and stamps, and these do not take.
    assert PAGE_BYTES - CELL_BYTES * CELLS_MAX < len(gzip.decompress(packed(cells))) < PAGE_BYTES
    pushed = edge.cost(lambda: link.push(device.pushes(cells)))
    assert pushed.d1.round_trips <= 3
    assert pushed.d1.statements <= 25
    pulled: list[Any] = []
    cost = edge.cost(lambda: pulled.extend(link.pull(device.pulls())["cells"]))
    assert (cost.d1.statements, cost.d1.rows_written) == (2, 0)
    assert sorted(pulled) == sorted(cells)
    assert {row["id"] for row in edge.find(cells[0][5]["content"][:4])} == {cells[0][0]}


def test_what_was_pushed_is_found_at_once_by_its_words_and_soon_by_its_meaning(
    edge: Edge, linked: Linked, device: Device
):
    link = linked()
    cells = device.memory(COFFEE, tags=["place"])
    link.push(device.pushes(cells))
    assert [row["id"] for row in edge.find("coffee machine", tags="place")] == [cells[0][0]]
    reconciled(edge)
    assert edge.meant(ESPRESSO) == [cells[0][0]]
    link.push(device.pushes([device.cell(cells[0][0], "init", None, rank=2)]))
    assert edge.find("coffee machine") == []
    reconciled(edge)
    assert edge.vector_ids() == []


def test_what_is_stored_at_the_edge_is_pulled_from_where_the_last_page_ended(
    edge: Edge, linked: Linked, device: Device
):
    link = linked()
    edge.store(COFFEE)
    page = link.pull(device.pulls())
    one = edge.store("Staging listens on port 8443.", tags="ops")
    later = link.pull(device.pulls(cursor=page["cursor"], batch=page["batch"], head=page["head"]))
    assert {cell[0] for cell in later["cells"]} == {one}
    assert {cell[2] for cell in later["cells"]} >= {"init", "tag:ops"}
    assert later["more"] is False


def test_asking_for_news_where_there_are_none_reads_little_and_writes_nothing(
    edge: Edge, linked: Linked, device: Device
):
    edge.rig.fail("queue", QueueFault.DAILY, times=10)
    edge.store_all([{"content": f"{COFFEE} Number {n}."} for n in range(200)])
    link = linked()
    page = link.pull(device.pulls())
    known = {"cursor": page["cursor"], "batch": page["batch"], "head": page["head"]}
    cost = edge.cost(lambda: link.pull(device.pulls(**known)))
    assert (cost.d1.statements, cost.d1.rows_written, cost.queue_sends) == (2, 0, 0)
    assert cost.d1.rows_read <= IDLE_ROWS


def test_a_push_that_is_sent_again_changes_nothing(edge: Edge, linked: Linked, device: Device):
    link = linked()
    cells = device.memory(COFFEE, tags=["a", "b"])
    first = link.push(device.pushes(cells))
    edge.delete(cells[0][0])
    before = edge.rows("select rid, rank, hlc, state from record"), edge.rows("select rid, field, hlc, seq from cell")
    again = link.push(device.pushes(cells, head=first["head"]))
    assert again["refused"] == []
    after = edge.rows("select rid, rank, hlc, state from record"), edge.rows("select rid, field, hlc, seq from cell")
    assert after == before


def test_a_push_whose_answer_was_lost_is_sent_again_and_merged_once(edge: Edge, linked: Linked, device: Device):
    link, cells = linked(), device.memory(COFFEE, tags=["a"])
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, on="insert into record", applied=True)
    assert code_of(link.send("push", device.pushes(cells)), 503) == "storage_busy"
    assert link.push(device.pushes(cells))["refused"] == []
    assert sorted(link.all_of(device)) == sorted(cells)
    reconciled(edge)


def test_pushes_at_once_are_all_merged_and_none_is_passed_over_by_a_cursor(edge: Edge, linked: Linked, device: Device):
    link = linked()
    now = time.time_ns() // 1_000_000
    devices = [Device(now, f"device{number}") for number in range(AT_ONCE)]
    sent = [one.memory(f"{COFFEE} Number {n}.", tags=["shared"]) for n, one in enumerate(devices)]
    shared = [one.cell(sent[0][0][0], f"tag:of{n}", 1) for n, one in enumerate(devices)]

    async def all_at_once() -> list[Any]:
        seen: list[Any] = []
        headers = {**GZIPPED, "authorization": f"Bearer {link.token}"}
        async with httpx.AsyncClient(base_url=edge.rig.url, headers=headers, **PLAIN) as http:

            async def follow() -> None:
                page: dict[str, Any] = {"cursor": 0, "batch": None}
                while not done.is_set() or page["more"]:
                    request = device.pulls("*", page["cursor"], page["batch"])
                    page = (await http.post("/sync/pull", content=packed(request))).json()
                    seen.extend(page["cells"])

            done = asyncio.Event()
            following = asyncio.create_task(follow())
            pushes = [
                http.post("/sync/push", content=packed(one.pushes([*cells, tag])))
                for one, cells, tag in zip(devices, sent, shared, strict=True)
            ]
            for answer in await asyncio.gather(*pushes):
                assert (answer.status_code, answer.json()["refused"]) == (200, [])
            done.set()
            await following
            return seen

    followed = asyncio.run(all_at_once())
    everything = [*(cell for cells in sent for cell in cells), *shared]
    # The last page was asked for after `done`, or had been under way: what came later is one more pull away.
    rest = link.all_of(device)
    assert sorted(rest) == sorted(everything)
    assert all(cell in rest for cell in followed)
    assert edge.get(sent[0][0][0])["tags"] == sorted(["shared", *(f"of{n}" for n in range(AT_ONCE))])
    reconciled(edge)


def test_two_devices_and_the_edge_end_with_the_same_also_after_the_edge_was_taken_back(edge: Edge):
    edge.rig.fail("queue", QueueFault.DAILY, times=50)

    async def exchange() -> None:
        token = edge.token(spaces=EVERYTHING, sync=True)
        transports = [HttpTransport(edge.rig.url, OneToken(edge.rig.url, token)) for _ in range(2)]
        memories = [
            await open_memory(
                FakeDatabase(apsw.Connection(":memory:")),
                None,
                None,
                clock=lambda: time.time_ns() // 1_000_000,
                new_device=f"device{number}",
            )
            for number in range(2)
        ]

        async def keep_copy(spaces: list[str]) -> None:
            raise AssertionError(f"nobody took {spaces} away")

        first, second = (
            Engine(memory.context, transport, keep_copy) for memory, transport in zip(memories, transports, strict=True)
        )

        async def contents() -> list[set[str]]:
            told = [await memory.get(GetRequest(page_size=100), Caller()) for memory in memories]
            return [{one.content for one in answer.memories} for answer in told]

        await memories[0].store(StoreRequest(content="from the first"), Caller())
        await memories[1].store(StoreRequest(content="from the second"), Caller())
        await first.round()
        earlier = await asyncio.to_thread(edge.database.copy)
        edge.store("from the edge")
        await second.round()
        await first.round()
        assert await contents() == [{"from the first", "from the second", "from the edge"}] * 2
        edge.database.put_back(earlier)
        edge.store("from the edge, later")
        assert (await second.round()).restored
        assert (await first.round()).restored
        await second.round()
        everything = {"from the first", "from the second", "from the edge", "from the edge, later"}
        assert await contents() == [everything] * 2
        assert {one["content"] for one in edge.ask("GET", "/memories")["memories"]} == everything
        for transport in transports:
            await transport.aclose()

    asyncio.run(exchange())


# What is refused


def test_a_cell_that_is_refused_keeps_no_other_back(edge: Edge, linked: Linked, device: Device):
    link = linked(spaces={"main": ["read", "write"], "team": ["read"]})
    good, ahead, wrong = (device.memory(text) for text in ("good", "ahead", "wrong"))
    ahead[0][4] = device.stamp(ahead_ms=10 * 60_000)
    wrong[0][5]["content"] = "another"
    theirs = device.memory("theirs", space="team")
    purge = device.cell(good[0][0], "init", None, rank=2)
    answer = link.push(device.pushes([good[0], ahead[0], wrong[0], theirs[0], purge, ["what", "is", "this"]]))
    codes = {one["index"]: one["code"] for one in answer["refused"]}
    assert codes == {1: "clock_ahead", 2: "wrong_id", 3: "not_allowed", 4: "not_allowed", 5: "malformed"}
    assert (answer["spaces"], answer["writable"]) == (["main", "team"], ["main"])
    assert [one["content"] for one in edge.ask("GET", "/memories", params={"space": "*"})["memories"]] == ["good"]


def test_a_token_gets_its_own_spaces_and_no_others(edge: Edge, linked: Linked, device: Device):
    edge.store("for everyone")
    hidden = edge.store("for the team", space="team")
    link = linked(spaces={"main": ["read"]})
    assert link.http.get("/sync/status").json()["spaces"] == ["main"]
    assert hidden not in {cell[0] for cell in link.all_of(device, ["main"])}
    for spaces in (["team"], ["main", "team"], "*"):
        assert code_of(link.send("pull", device.pulls(spaces)), 403) == "not_allowed"
    assert code_of(link.send("push", device.pushes(device.memory("mine"))), 403) == "insufficient_scope"


def test_a_token_that_is_revoked_or_may_not_sync_is_told_what_to_ask_for(edge: Edge, linked: Linked, device: Device):
    link, plain = linked(), linked(sync=False)
    refused = plain.http.get("/sync/status")
    assert code_of(refused, 403) == "insufficient_scope"
    assert f'scope="{ALL_SCOPES}"' in refused.headers["www-authenticate"]
    (token_id,) = [one["id"] for one in edge.ask("GET", "/admin/tokens")["tokens"] if one["sync"]]
    link.push(device.pushes(device.memory("before")))
    edge.ask("DELETE", f"/admin/tokens/{token_id}")
    refused = link.send("push", device.pushes(device.memory("after")))
    assert code_of(refused, 401) == "unauthorized"
    challenge = refused.headers["www-authenticate"]
    assert f'resource_metadata="{edge.rig.url}{METADATA}"' in challenge
    assert f'scope="{ALL_SCOPES}"' in challenge


def test_a_database_taken_back_to_an_earlier_time_is_noticed_by_pull_and_push(
    edge: Edge, linked: Linked, device: Device
):
    link = linked()
    link.push(device.pushes(device.memory("kept")))
    earlier = edge.database.copy()
    link.push(device.pushes(device.memory("lost")))
    page = link.pull(device.pulls())
    edge.database.put_back(earlier)
    # As many others, so that the numbers have been given out a second time.
    link.push(device.pushes([*device.memory("other"), *device.memory("more")]))
    stale = {"cursor": page["cursor"], "batch": page["batch"], "head": page["head"]}
    assert code_of(link.send("pull", device.pulls(**stale)), 409) == "edge_restored"
    assert code_of(link.send("push", device.pushes([], head=page["head"])), 409) == "edge_restored"
    contents = {cell[5]["content"] for cell in link.all_of(device) if cell[2] == "init"}
    assert contents == {"kept", "other", "more"}


def test_bodies_that_are_bombs_broken_or_packed_otherwise_are_refused_by_name(
    edge: Edge, linked: Linked, device: Device
):
    link = linked()

    def sent(body: bytes, coding: str = "gzip") -> httpx.Response:
        return link.http.post("/sync/push", content=body, headers={**GZIPPED, "content-encoding": coding})

    good = packed(device.pushes(device.memory("good")))
    bomb = gzip.compress(b" " * 10_000_000)
    assert code_of(sent(bomb), 413) == "body_too_large"
    assert code_of(sent(gzip.compress(b" " * (INFLATED_MAX_BYTES + 1))), 413) == "body_too_large"
    assert code_of(sent(gzip.compress(b" " * INFLATED_MAX_BYTES)), 400) == "malformed_body"
    for broken in (good[:-1], good[:-8] + bytes(8), good + good, b"{}", gzip.compress(b"\xff")):
        assert code_of(sent(broken), 400) == "malformed_body"
    refused = sent(good, "br")
    assert code_of(refused, 415) == "unsupported_media_type"
    assert refused.headers["accept-encoding"] == "gzip, identity"
    nested = b'{"cells": ' + b"[" * 100_000
    assert code_of(sent(gzip.compress(nested)), 400) == "malformed_body"
    assert sent(good).json()["refused"] == []


# What it leaves


def test_the_log_of_writes_names_the_device(edge: Edge, linked: Linked, device: Device):
    link = linked(name="laptop token", device="the blue laptop")
    cells = device.memory(COFFEE)
    link.push(device.pushes(cells))
    (entry,) = edge.ask("GET", "/admin/log")["entries"]
    told = {name: entry[name] for name in ("action", "space", "client", "device", "ids")}
    assert told == {
        "action": "sync",
        "space": "main",
        "client": "laptop token",
        "device": "the blue laptop",
        "ids": [cells[0][0]],
    }
