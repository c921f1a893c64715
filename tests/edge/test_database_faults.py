"""D1 lost for a moment, overloaded, used up for the day, or not prepared: what was acknowledged is there, once."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.edge.agreement import reconciled
from tests.edge.doubles.d1 import D1Fault
from tests.edge.edge import COFFEE, HOURLY, OFTEN, Edge

DAY_S = 86_400
# Those that D1 documents as worth another try, by whether the statements may have run.
NEVER_BEGUN = (
    D1Fault.OVERLOADED,
    D1Fault.OVERLOADED_FOR_LONG,
    D1Fault.UNREACHABLE,
    D1Fault.RESET_AT_START,
)
OUTCOME_UNKNOWN = (D1Fault.NETWORK_LOST, D1Fault.RESET_BY_UPDATE, D1Fault.RESET_BY_ERROR)
TOO_HEAVY = (D1Fault.RESET_BY_TIMEOUT, D1Fault.OUT_OF_MEMORY, D1Fault.OUT_OF_CPU)
QUOTA = (D1Fault.DAILY_READS, D1Fault.DAILY_WRITES)
WRITE = "insert into record"
"""Is in every batch that stores."""

Call = Callable[[Edge], httpx.Response]
READS: dict[str, Call] = {
    "find": lambda edge: edge.http.get("/api/v1/search", params={"q": "coffee machine"}),
    "list": lambda edge: edge.http.get("/api/v1/memories"),
    "stats": lambda edge: edge.http.get("/api/v1/stats"),
    "health": lambda edge: edge.http.get("/healthz"),
}


def refused(answer: httpx.Response, code: str) -> dict[str, Any]:
    """Return the error of an answer that says that the database can't be had now."""
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert error["code"] == code, error
    assert error["message"] and error["mend"] and error["request_id"]
    return error


def put(edge: Edge, content: str = COFFEE, **fields: Any) -> httpx.Response:
    """Send a memory, whatever comes of it."""
    return edge.http.post("/api/v1/memories", json={"content": content, **fields})


def midnight() -> str:
    """Return the next one (UTC) as answers show it."""
    days = int(time.time()) // DAY_S + 1
    return datetime.fromtimestamp(days * DAY_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Reading


@pytest.mark.parametrize("fault", [*NEVER_BEGUN, *OUTCOME_UNKNOWN], ids=lambda fault: fault.name)
def test_a_search_asks_again_when_the_database_was_lost_for_a_moment(edge: Edge, fault: D1Fault):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.rig.fail("d1", fault, times=2)
    assert edge.meant() == [one]


@pytest.mark.parametrize("name", READS)
def test_a_database_that_stays_lost_is_told(edge: Edge, name: str):
    edge.store(COFFEE)
    edge.rig.drain()
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, times=100)
    refused(READS[name](edge), "storage_busy")
    edge.rig.heal()
    assert READS[name](edge).status_code == 200


@pytest.mark.parametrize("fault", TOO_HEAVY, ids=lambda fault: fault.name)
def test_what_was_too_heavy_is_not_tried_again(edge: Edge, fault: D1Fault):
    edge.rig.fail("d1", fault)
    since = edge.rig.mark()
    refused(READS["list"](edge), "storage_busy")
    (run,) = edge.rig.invocations(since)
    assert run.d1.round_trips == 1


@pytest.mark.parametrize("name", READS)
def test_a_used_up_quota_says_until_when(edge: Edge, name: str):
    edge.rig.fail("d1", D1Fault.DAILY_READS, times=100)
    error = refused(READS[name](edge), "storage_over_quota")
    assert error["until"] == midnight()
    assert midnight() in error["mend"]


# Writing


@pytest.mark.parametrize("fault", NEVER_BEGUN, ids=lambda fault: fault.name)
def test_a_write_that_was_never_begun_is_sent_again(edge: Edge, fault: D1Fault):
    edge.rig.fail("d1", fault, times=2, on=WRITE)
    answer = put(edge)
    assert (answer.status_code, answer.json()["status"]) == (201, "created")
    edge.rig.drain()
    reconciled(edge)


@pytest.mark.parametrize("fault", [*OUTCOME_UNKNOWN, D1Fault.RESET_BY_TIMEOUT], ids=lambda fault: fault.name)
@pytest.mark.parametrize("applied", [False, True], ids=["lost", "done"])
def test_a_write_of_unknown_outcome_is_told_and_may_be_sent_again(edge: Edge, fault: D1Fault, applied: bool):
    edge.rig.fail("d1", fault, on=WRITE, applied=applied)
    error = refused(put(edge), "storage_busy")
    assert "Send the same again" in error["mend"]
    assert edge.value("select count(*) from record") == applied
    again = put(edge)
    assert (again.status_code, again.json()["status"]) == ((200, "merged") if applied else (201, "created"))
    assert edge.value("select count(*) from record") == 1
    reconciled(edge)
    assert edge.meant() == [again.json()["id"]]


def test_a_write_whose_answer_was_lost_is_indexed_though_nobody_sends_it_again(edge: Edge):
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, on=WRITE, applied=True)
    refused(put(edge), "storage_busy")
    reconciled(edge)
    assert len(edge.meant()) == 1


@pytest.mark.parametrize("applied", [False, True], ids=["lost", "done"])
def test_every_other_write_may_be_sent_again_too(edge: Edge, applied: bool):
    one, two = edge.store(COFFEE, tags="a"), edge.store(f"{COFFEE} It is old.")
    edge.rig.drain()
    for send, settled in (
        (lambda: edge.http.patch(f"/api/v1/memories/{one}", json={"tags": {"add": ["b"]}}), {200}),
        (lambda: edge.http.patch(f"/api/v1/memories/{one}", json={"content": f"{COFFEE} Now."}), {200}),
        (lambda: edge.http.delete(f"/api/v1/memories/{two}?confirm=true"), {200, 404}),
        (lambda: edge.http.post(f"/api/v1/memories/{two}/revive"), {200, 404}),
        (lambda: edge.http.delete(f"/api/v1/memories/{two}?confirm=true&purge=true"), {200, 404}),
        (lambda: edge.http.post("/api/v1/admin/requeue"), {200}),
    ):
        since = edge.rig.mark()
        edge.rig.fail("d1", D1Fault.NETWORK_LOST, on="update meta", applied=applied)
        refused(send(), "storage_busy")
        assert send().status_code in settled
        assert len(edge.rig.invocations(since)) >= 2
    assert edge.get(one)["tags"] == ["a", "b"]
    assert edge.http.get(f"/api/v1/memories/{two}").status_code == 404
    assert len(edge.find(f"{COFFEE} Now.")) == 2
    reconciled(edge)


@pytest.mark.parametrize("fault", QUOTA, ids=lambda fault: fault.name)
def test_a_store_over_quota_says_until_when_and_is_taken_the_next_day(edge: Edge, fault: D1Fault):
    edge.rig.fail("d1", fault, times=100, on=WRITE)
    error = refused(put(edge), "storage_over_quota")
    assert error["until"] == midnight()
    assert edge.value("select count(*) from record") == 0
    edge.rig.heal()
    assert put(edge).status_code == 201
    reconciled(edge)


@pytest.mark.parametrize(
    ("fault", "code"), [(D1Fault.NETWORK_LOST, "storage_busy"), (D1Fault.DAILY_WRITES, "storage_over_quota")]
)
def test_a_tool_call_tells_the_model_what_failed_and_what_to_do(edge: Edge, fault: D1Fault, code: str):
    edge.rig.fail("d1", fault)
    params = {"name": "memory_store", "arguments": {"content": COFFEE}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = edge.http.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
    assert (answer.status_code, answer.json()["result"]["isError"]) == (200, True)
    error = json.loads(answer.json()["result"]["content"][0]["text"])
    assert error["code"] == code
    assert error["message"] and error["mend"]
    assert edge.stats()["total"] == 0


# In the background


@pytest.mark.parametrize("applied", [False, True], ids=["lost", "done"])
@pytest.mark.parametrize("statement", ["into vector_gone", "into vector_state", "set want = -want"])
def test_vectors_are_made_though_the_database_is_lost_in_between(edge: Edge, statement: str, applied: bool):
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, on=statement, applied=applied)
    since = edge.rig.mark()
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert [each.retries for each in edge.rig.invocations(since) if each.kind == "queue"] == [(10,), ()]
    assert edge.meant() == [one]
    reconciled(edge)


@pytest.mark.parametrize(("purge", "applied"), [(False, False), (True, True)], ids=["trash-lost", "purge-done"])
@pytest.mark.parametrize("statement", ["into vector_gone", "delete from vector_gone", "set want = -want"])
def test_memories_go_from_the_index_though_the_database_is_lost_in_between(
    edge: Edge, purge: bool, statement: str, applied: bool
):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, on=statement, applied=applied)
    since = edge.rig.mark()
    edge.delete(one, purge=purge)
    edge.rig.drain()
    assert any(each.retries for each in edge.rig.invocations(since))
    assert edge.vector_ids() == []
    reconciled(edge)


@pytest.mark.parametrize("fault", [D1Fault.NETWORK_LOST, D1Fault.OVERLOADED, *QUOTA], ids=lambda fault: fault.name)
def test_cron_fails_at_nothing_while_the_database_is_away(edge: Edge, fault: D1Fault):
    edge.rig.fail("queue", "Queue disabled (10252)")
    one = edge.store(COFFEE)
    edge.rig.fail("d1", fault, times=1000)
    edge.rig.cron(OFTEN, int((time.time() + 300) * 1000))
    edge.rig.cron(HOURLY)
    edge.rig.heal()
    edge.rig.set_clock(DAY_S)
    edge.catch_up()
    assert edge.meant() == [one]
    assert edge.stats()["paused"] is None
    edge.rig.set_clock(0)
    reconciled(edge)


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not-even-noted"])
def test_the_queue_rests_while_the_databases_quota_is_used_up_and_cron_goes_on_the_next_day(edge: Edge, noted: bool):
    edge.rig.fail("d1", D1Fault.DAILY_WRITES, times=100, on="into vector_gone")
    if not noted:
        edge.rig.fail("d1", D1Fault.DAILY_WRITES, times=100, on="'paused'")
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.rig.heal()
    stats = edge.stats()
    assert (stats["pending_embeddings"], stats["dead_letters"]) == (1, 0)
    assert stats["paused"] == ({"service": "D1", "until": midnight()} if noted else None)
    assert edge.health()["status"] == "degraded"
    edge.rig.set_clock(DAY_S)
    edge.catch_up()
    assert edge.meant() == [one]
    assert edge.stats()["paused"] is None
    edge.rig.set_clock(0)
    reconciled(edge)


# Not there


def test_a_database_without_tables_is_told_with_the_command_that_makes_them(edge: Edge):
    with_tables = edge.database.copy()
    for table in ("record", "cell", "meta"):
        edge.rows(f"drop table {table}")
    try:
        for answer in (put(edge), *(read(edge) for read in READS.values())):
            assert "d1 migrations apply" in refused(answer, "not_prepared")["mend"]
        edge.rig.cron(OFTEN)
    finally:
        edge.database.put_back(with_tables)
    assert put(edge).status_code == 201
