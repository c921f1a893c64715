"""The edge's half of replication over HTTP: who may ask, what is taken, and how everything else is refused."""

import asyncio
import gzip
import json
import logging
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.devices import GZIPPED, Device, packed
from tests.api.faces import LOOPBACK, client_of, raw
from tests.core.rig import NOW, Rig
from tests.sync.pair import opened_edge

from shoal.api.context import one_memory
from shoal.api.gate import BearerGate, token_hash
from shoal.api.shell import NESTING_MAX, Shell
from shoal.api.syncing import sync_face
from shoal.core.apply import CLOCK_MAX_MS
from shoal.core.caller import Caller, Scope
from shoal.schema.limits import INFLATED_MAX_BYTES
from shoal.schema.migrations import BREAKING_STEP, NEWEST
from shoal.schema.wire import CELLS_MAX, PROTO, SPACES_MAX, PullAnswer, PushAnswer, SyncStatus
from shoal.sync.wire_cells import wire_cell

READS = {Scope.READ, Scope.SYNC}
CALLERS = {
    "everything": Caller(client="everything"),
    "no sync": Caller(scopes=frozenset(set(Scope) - {Scope.SYNC})),
    "only sync": Caller(scopes=frozenset({Scope.SYNC})),
    "reader": Caller(scopes=frozenset(READS)),
    "team": Caller(scopes=frozenset({*READS, Scope.WRITE}), spaces=("team",)),
}
GATE = BearerGate({token_hash(name): caller for name, caller in CALLERS.items()})
PATHS = {"/sync/push": "POST", "/sync/pull": "POST", "/sync/status": "GET"}
HUGE = 2**70


@pytest.fixture
async def edge() -> Rig:
    return await opened_edge()


@pytest.fixture
def device() -> Device:
    return Device(NOW)


def face_of(edge: Rig) -> Shell:
    return Shell(sync_face, one_memory(edge.memory), GATE, LOOPBACK, inflated_max=INFLATED_MAX_BYTES)


async def asked(edge: Rig, method: str, path: str, token: str = "everything", **more: Any) -> httpx.Response:
    async with client_of(face_of(edge), authorization=f"Bearer {token}") as client:
        return await client.request(method, path, **more)


async def sent(edge: Rig, what: str, request: object, token: str = "everything") -> httpx.Response:
    return await asked(edge, "POST", f"/sync/{what}", token, content=packed(request), headers=GZIPPED)


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), error
    assert error["message"]
    assert error["mend"]
    return error


# What is taken


async def test_what_one_device_pushes_another_pulls(edge: Rig, device: Device) -> None:
    cells = device.memory("咖啡机在三楼的厨房", tags=["地点"], metadata={"k": [1, None]}, importance=1.5)
    pushed = PushAnswer.model_validate_json((await sent(edge, "push", device.pushes(cells))).content)
    assert pushed.refused == []
    assert (pushed.spaces, pushed.writable, pushed.server_time) == ("*", "*", NOW)
    pulled = PullAnswer.model_validate_json((await sent(edge, "pull", Device(NOW, "other").pulls())).content)
    assert (pulled.cells, pulled.more, pulled.head) == (cells, False, pushed.head)
    assert await edge.by_words("厨房") == [cells[0][0]]


async def test_a_body_need_not_be_packed(edge: Rig, device: Device) -> None:
    answer = await asked(edge, "POST", "/sync/push", json=device.pushes(device.memory("x")))
    assert (answer.status_code, answer.json()["refused"]) == (200, [])


async def test_what_a_newer_device_says_beside_is_passed_over(edge: Rig, device: Device) -> None:
    request = device.pushes(device.memory("x"), schema_version=NEWEST + 7, since="tomorrow")
    assert (await sent(edge, "push", request)).status_code == 200


async def test_status_tells_what_the_token_allows(edge: Rig) -> None:
    told = {}
    for token in ("everything", "reader", "team"):
        answer = await asked(edge, "GET", "/sync/status", token)
        status = SyncStatus.model_validate_json(answer.content)
        assert (status.proto, status.schema_version, status.model) == (PROTO, NEWEST, None)
        told[token] = (status.spaces, status.writable)
    assert told == {"everything": ("*", "*"), "reader": ("*", []), "team": (["team"], ["team"])}


# Paths and methods


async def test_each_path_has_its_method_and_says_which(edge: Rig) -> None:
    for path, method in PATHS.items():
        allow = "GET, HEAD" if method == "GET" else "POST"
        for wrong in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"} - set(allow.split(", ")):
            answer = await asked(edge, wrong, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, allow)
            if wrong != "HEAD":
                error_of(answer, 405, "method_not_allowed")
        answer = await asked(edge, "OPTIONS", path)
        assert (answer.status_code, answer.headers["allow"], answer.content) == (204, allow, b"")


async def test_head_of_the_status_has_its_head(edge: Rig) -> None:
    given = [("authorization", "Bearer everything"), ("x-request-id", "r1")]
    status, headers, body = await raw(face_of(edge), "GET", "/sync/status", given)
    assert int(headers["content-length"]) == len(body) > 0
    assert await raw(face_of(edge), "HEAD", "/sync/status", given) == (status, headers, b"")


@pytest.mark.parametrize(
    "path", ["/sync/", "/sync/push/", "/sync/Push", "/sync/push/x", "/sync//push", "/sync/nowhere"]
)
async def test_other_paths_are_not_found_behind_the_same_gate(edge: Rig, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert "/sync/push" in error_of(await asked(edge, method, path), 404, "not_found")["mend"]
        error_of(await asked(edge, method, path, "guessed"), 401, "unauthorized")


# Who may


@pytest.mark.parametrize(
    ("token", "path", "needed"),
    [
        ("no sync", "/sync/push", "memory:read memory:write memory:admin sync"),
        ("no sync", "/sync/pull", "memory:read memory:write memory:admin sync"),
        ("no sync", "/sync/status", "memory:read memory:write memory:admin sync"),
        ("only sync", "/sync/push", "memory:read memory:write sync"),
        ("only sync", "/sync/pull", "memory:read sync"),
        ("only sync", "/sync/status", "memory:read sync"),
        ("reader", "/sync/push", "memory:read memory:write sync"),
    ],
)
async def test_who_lacks_a_scope_is_told_all_that_are_needed_before_the_body_is_looked_at(
    edge: Rig, token: str, path: str, needed: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await asked(edge, PATHS[path], path, token, content=b"no JSON", headers=headers)
    assert error_of(answer, 403, "insufficient_scope")["scopes"] == needed.split()
    assert answer.headers["www-authenticate"] == f'Bearer error="insufficient_scope", scope="{needed}"'


async def test_a_token_for_some_spaces_pulls_those_and_pushes_to_those(edge: Rig, device: Device) -> None:
    await edge.store("for everyone")
    theirs, mine = device.memory("theirs"), device.memory("mine", space="team")
    purge = device.cell(mine[0][0], "init", None, rank=2, space="team")
    answer = (await sent(edge, "push", device.pushes([*theirs[:1], *mine[:1], purge]), "team")).json()
    assert [(one["index"], one["code"]) for one in answer["refused"]] == [(0, "not_allowed"), (2, "not_allowed")]
    page = (await sent(edge, "pull", device.pulls(["team"]), "team")).json()
    assert page["cells"] == mine[:1]
    for spaces in ("*", ["main"], ["team", "main"], ["nowhere"]):
        error_of(await sent(edge, "pull", device.pulls(spaces), "team"), 403, "not_allowed")


# What is refused


def broken_bodies() -> dict[str, bytes]:
    device = Device(NOW)
    good = json.dumps(device.pushes(device.memory("x")))
    return {
        "nothing": b"",
        "no JSON": b"{",
        "two values": b"{} {}",
        "not UTF-8": good.encode("utf-16"),
        "half a pair": good.replace('"x"', '"\\ud800"').encode(),
        "not a number": good.replace('"proto": 1', '"proto": NaN').encode(),
        "infinity": good.replace('"proto": 1', '"proto": Infinity').encode(),
        "too deep": b'{"cells": ' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        "bottomless": b"[" * 100_000,
    }


@pytest.mark.parametrize("what", ["push", "pull"])
async def test_what_is_no_json_is_malformed(edge: Rig, what: str) -> None:
    headers = {"content-type": "application/json"}
    for name, body in broken_bodies().items():
        answer = await asked(edge, "POST", f"/sync/{what}", content=body, headers=headers)
        assert answer.status_code == 400, name
        error_of(answer, 400, "malformed_body")


@pytest.mark.parametrize("what", ["push", "pull"])
async def test_what_is_no_object_is_invalid(edge: Rig, what: str) -> None:
    for request in (None, 1, "x", [], [{}]):
        error_of(await sent(edge, what, request), 422, "invalid_input")


HEAD = {"seq": 1, "batch": "0" * 16}
FAULTS: list[tuple[str, dict[str, Any], str]] = [
    *((what, {"proto": wrong}, "proto") for what in ("push", "pull") for wrong in (None, "1", 1.5, True)),
    *(("push", {"schema_version": wrong}, "schema_version") for wrong in (None, "4", [])),
    *(("push", {"device": wrong}, "device") for wrong in (None, "", "x" * 33, "a b", "A", "é", "a\n", 7)),
    *(("push", {"cells": wrong}, "cells") for wrong in (None, {}, "cells", 7)),
    *(("push", {"head": wrong}, "head") for wrong in (1, "x", [])),
    *(("pull", {"head": {**HEAD, "seq": wrong}}, "head.seq") for wrong in (-1, HUGE, "1", None, 2**53)),
    *(("pull", {"head": {**HEAD, "batch": wrong}}, "head.batch") for wrong in ("", "x" * 16, "0" * 17, None)),
    *(("pull", {"cursor": wrong}, "cursor") for wrong in (-1, HUGE, "0", None, 1.5, 2**53)),
    *(("pull", {"batch": wrong}, "batch") for wrong in ("", "G" * 16, 1, "0" * 16 + "\n")),
    *(("pull", {"limit": wrong}, "limit") for wrong in (0, -1, CELLS_MAX + 1, "5", None, HUGE)),
    *(("pull", {"spaces": wrong}, "spaces") for wrong in (None, "main", {}, ["x"] * (SPACES_MAX + 1))),
    ("pull", {"spaces": ["main", 7]}, "spaces.1"),
]


async def test_a_faulty_field_is_named(edge: Rig, device: Device) -> None:
    # One edge for all of them: nothing is written.
    for what, fault, field in FAULTS:
        good = device.pushes([]) if what == "push" else device.pulls()
        error = error_of(await sent(edge, what, {**good, **fault}), 422, "invalid_input")
        assert error["field"] == field, fault


@pytest.mark.parametrize("field", ["proto", "schema_version", "device", "cells"])
async def test_a_missing_field_is_named(edge: Rig, device: Device, field: str) -> None:
    request = device.pushes([])
    del request[field]
    assert error_of(await sent(edge, "push", request), 422, "invalid_input")["field"] == field


@pytest.mark.parametrize("spaces", [[], [""], ["x" * 65], ["*", "main"], ["\x00"]])
async def test_spaces_that_are_none_are_refused(edge: Rig, device: Device, spaces: list[str]) -> None:
    assert 400 <= (await sent(edge, "pull", device.pulls(spaces))).status_code < 500


async def test_more_cells_than_a_page_has_are_refused_together(edge: Rig, device: Device) -> None:
    cells = [device.memory(f"x{n}")[0] for n in range(CELLS_MAX + 1)]
    assert error_of(await sent(edge, "push", device.pushes(cells)), 422, "too_many")["limit"] == CELLS_MAX
    assert edge.value("select count(*) from record") == 0


async def test_cells_that_grow_too_large_in_being_written_are_refused_together(edge: Rig, device: Device) -> None:
    # Short in JSON, long as the database has it.
    numbers = "[" + ",".join(["1e15"] * 380_000) + "]"
    cell = device.cell("ab" * 16, "init", {"class": "newer", "space": "main", "x": "HERE"})
    body = json.dumps(device.pushes([cell])).replace('"HERE"', numbers).encode()
    assert len(body) < INFLATED_MAX_BYTES
    answer = await asked(edge, "POST", "/sync/push", content=gzip.compress(body), headers=GZIPPED)
    error_of(answer, 413, "body_too_large")
    assert edge.value("select count(*) from record") == 0


async def test_who_speaks_another_version_is_told_which_end_to_update(edge: Rig, device: Device) -> None:
    for what, good in (("push", device.pushes([])), ("pull", device.pulls())):
        for wrong, mend in (
            ({"proto": PROTO - 1}, "on the device"),
            ({"proto": PROTO + 1}, "to the edge"),
            ({"proto": HUGE}, "to the edge"),
            ({"schema_version": NEWEST + BREAKING_STEP}, "to the edge"),
            ({"schema_version": -HUGE}, "on the device"),
        ):
            assert mend in error_of(await sent(edge, what, {**good, **wrong}), 409, "protocol_mismatch")["mend"]


async def test_an_unknown_history_is_told_apart_from_other_refusals(edge: Rig, device: Device) -> None:
    await edge.store("x")
    for what, request in (
        ("push", device.pushes([], head=HEAD)),
        ("pull", device.pulls(head=HEAD)),
        ("pull", device.pulls(cursor=1, batch="0" * 15 + "f")),
        ("pull", device.pulls(cursor=1, batch=None)),
        ("pull", device.pulls(cursor=2**53 - 1, batch="0" * 16)),
    ):
        error_of(await sent(edge, what, request), 409, "edge_restored")


async def test_a_cell_that_breaks_a_reader_of_text_is_refused_alone(edge: Rig, device: Device) -> None:
    good = device.memory("good")
    other_digits = device.memory("other digits")[0]
    # Digits too, to Python: as text they would be later than every stamp that there will ever be.
    other_digits[4] = other_digits[4].translate({ord("0") + n: 0x660 + n for n in range(10)})
    metadata = [device.cell(good[0][0], "md:k", value) for value in ("Infinity", "NaN", "1e999", "{", '{"b":1,"a":2}')]
    answer = await sent(edge, "push", device.pushes([good[0], other_digits, *metadata]))
    assert answer.status_code == 200, answer.text
    assert [(one["index"], one["code"]) for one in answer.json()["refused"]] == [(n, "malformed") for n in range(1, 7)]


async def test_what_an_older_worker_wrote_without_naming_it_is_pulled(edge: Rig, device: Device) -> None:
    named = device.memory("named")
    await sent(edge, "push", device.pushes(named))
    unnamed = [cell for n in range(3) for cell in device.memory(f"unnamed {n}")]
    await edge.apply(*(wire_cell(cell, NOW) for cell in unnamed))
    page = {"cursor": 0, "batch": None, "more": True, "cells": []}
    cells: list[Any] = []
    while page["more"]:
        answer = await sent(edge, "pull", device.pulls("*", page["cursor"], page["batch"], limit=2))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        cells += page["cells"]
    assert cells == [*named, *unnamed]
    # Once a later one has a name, nobody knows any more whether what lies between is what it was.
    await sent(edge, "push", device.pushes(device.memory("later")))
    stale = device.pulls("*", page["cursor"], page["batch"], head=page["head"])
    error_of(await sent(edge, "pull", stale), 409, "edge_restored")


async def test_a_cursor_beyond_the_end_is_of_another_history_though_its_batch_had_no_name(
    edge: Rig, device: Device
) -> None:
    await edge.apply(*(wire_cell(cell, NOW) for cell in device.memory("unnamed")))
    page = (await sent(edge, "pull", device.pulls())).json()
    edge.connection.execute("update meta set v = v - 1 where k = 'seq'")
    error_of(await sent(edge, "pull", device.pulls("*", page["cursor"], page["batch"])), 409, "edge_restored")


# Whatever comes


def json_values() -> st.SearchStrategy[Any]:
    numbers = (
        st.integers()
        | st.sampled_from([HUGE, -HUGE, 2**53, 10**400])
        | st.floats(allow_nan=False, allow_infinity=False)
    )
    leaves = st.none() | st.booleans() | numbers | st.text(max_size=20)
    return st.recursive(leaves, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(), some, max_size=3))


@st.composite
def spoiled(draw: st.DrawFn) -> list[Any]:
    """Return a cell of some kind, one part of which was replaced."""
    device = Device(NOW)
    first = device.memory("one", tags=["x"], metadata={"k": 1}, conversation_id="c", position=1)
    edge = {"v": 1, "class": "edge", "space": "main", "src": first[0][0], "relation": "supersedes", "dst": "ab" * 16}
    event = {"v": 1, "class": "event", "space": "main", "action": "merge", "device": "a", "created_at": NOW}
    made = [
        *first,
        device.cell("ab" * 16, "init", {**edge, "created_at": NOW}),
        device.cell("ab" * 16, "init", event),
        device.cell("ab" * 16, "init", {"class": "newer", "space": "main"}),
        device.cell(first[0][0], "init", None, rank=2),
        *(
            device.cell(first[0][0], field, None)
            for field in ("n:a", "last:a", "superseded", "reason", "source:x", "new")
        ),
    ]
    cell = draw(st.sampled_from(made))
    if cell[2] == "md:k" and draw(st.booleans()):
        cell[5] = draw(
            st.text(max_size=5) | json_values().map(json.dumps) | st.sampled_from(["Infinity", "NaN", "1e999"])
        )
        return cell
    place = draw(st.integers(0, 5))
    if place == 5 and isinstance(cell[5], dict):
        cell[5] = {**cell[5], draw(st.sampled_from([*cell[5], "extra"])): draw(json_values())}
    else:
        cell[place] = draw(json_values())
    return cell


@settings(max_examples=40)
@given(st.lists(spoiled() | json_values(), max_size=6))
def test_whatever_is_pushed_each_cell_is_taken_or_refused_and_what_is_taken_can_be_pulled(cells: list[Any]) -> None:
    async def exchange() -> None:
        edge, device = await opened_edge(), Device(NOW)
        answer = await sent(edge, "push", device.pushes(cells))
        if answer.status_code != 400:  # JSON that its parser does not take: such a number, such a text.
            assert answer.status_code == 200, answer.text
        page = await sent(edge, "pull", device.pulls())
        assert page.status_code == 200, page.text
        for cell in page.json()["cells"]:
            wire_cell(cell, CLOCK_MAX_MS)
        assert await edge.find("one") is not None

    asyncio.run(exchange())


async def test_as_many_levels_as_a_body_may_have_are_kept_and_given_back(edge: Rig, device: Device) -> None:
    deep: Any = "x"
    for _ in range(NESTING_MAX - 6):
        deep = [deep]
    cell = device.cell("ab" * 16, "init", {"class": "newer", "space": "main", "deep": deep})
    assert (await sent(edge, "push", device.pushes([cell]))).json()["refused"] == []
    assert (await sent(edge, "pull", device.pulls())).json()["cells"] == [cell]


async def test_the_log_has_the_path_and_nothing_of_what_was_sent(
    edge: Rig, device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "shoal")
    await sent(edge, "push", device.pushes([*device.memory("a secret thing"), ["a secret thing"]]))
    await sent(edge, "push", {"device": "a secret thing"})
    await sent(edge, "pull", device.pulls())
    await asked(edge, "GET", "/sync/secret")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("shoal")]
    assert [line.split(" ")[:3] for line in lines] == [
        ["POST", "/sync/push", "200"],
        ["POST", "/sync/push", "422"],
        ["POST", "/sync/pull", "200"],
        ["GET", "-", "404"],
    ]
    assert "secret" not in "\n".join(lines)
