"""Messages twice, out of order, broken, or not taken at all: they only remind of what the database knows."""

from typing import Any

import pytest
from tests.edge.agreement import reconciled
from tests.edge.doubles.queue import QueueFault
from tests.edge.edge import COFFEE, HOURLY, OFTEN, Edge, codes

QUEUE = "QUEUE"
UNKNOWN = "ab" * 16


def message(*ids: str) -> dict[str, Any]:
    return {"v": 1, "ids": list(ids)}


def asked(edge: Edge, since: int) -> int:
    """Return how often the model was asked since then."""
    return sum(each.ai for each in edge.rig.invocations(since))


@pytest.mark.parametrize("fault", QueueFault)
def test_a_store_is_acknowledged_though_no_queue_takes_it_and_cron_makes_up_for_it(edge: Edge, fault: QueueFault):
    edge.rig.fail("queue", fault)
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert edge.stats()["pending_embeddings"] == 1
    reconciled(edge)
    assert edge.meant() == [one]


def test_a_message_whose_acknowledgement_was_lost_is_no_second_message(edge: Edge):
    edge.rig.fail("queue", QueueFault.INTERNAL, applied=True)
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert edge.meant() == [one]
    reconciled(edge)


def test_messages_that_come_again_or_for_others_or_for_nobody_change_nothing(edge: Edge):
    one, two = edge.store(COFFEE), edge.store(f"{COFFEE} It is old.")
    edge.rig.drain()
    before = edge.rows("select * from vector_state")
    since = edge.rig.mark()
    for body in (message(one), message(two, one), message(one, one), message(UNKNOWN), message()):
        edge.rig.send(QUEUE, body)
    edge.rig.drain()
    assert asked(edge, since) == 0
    assert edge.rows("select * from vector_state") == before
    assert edge.stats()["dead_letters"] == 0
    reconciled(edge)


def test_messages_of_a_memory_may_come_in_any_order(edge: Edge):
    edge.rig.fail("queue", QueueFault.DAILY, times=10)
    one = edge.store(COFFEE)
    edge.update(one, type="decision")
    new = edge.update(one, content=f"{COFFEE} It is new.")["superseded_by"]
    edge.delete(one)
    edge.rig.heal()
    for ids in ([new], [one, new], [one], [one]):
        edge.rig.send(QUEUE, message(*ids))
    edge.rig.drain()
    assert edge.meant() == [new]
    reconciled(edge)


@pytest.mark.parametrize(
    "body",
    [
        "text",
        7,
        [],
        {},
        {"v": 2, "ids": [UNKNOWN]},
        {"v": 1},
        {"v": 1, "ids": "abc"},
        {"v": 1, "ids": [1, None]},
        {"v": 1, "ids": ["not hexadecimal"]},
        {"v": 1, "ids": {"0": UNKNOWN}},
        {"v": 1, "ids": [UNKNOWN.upper()]},
        {"ids": [UNKNOWN]},
    ],
    ids=str,
)
def test_a_message_that_cannot_be_read_is_counted_and_harms_no_other(edge: Edge, body: Any):
    since = edge.rig.mark()
    edge.rig.send(QUEUE, body)
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert edge.meant() == [one]
    assert [each.retries for each in edge.rig.invocations(since) if each.retries] == []
    stats = edge.stats()
    assert stats["dead_letters"] == 1
    assert codes({"notes": stats["degraded"]}) == ["undelivered"]
    assert edge.health()["status"] == "degraded"
    assert edge.ask("POST", "/admin/requeue") == {"requeued": 0}
    assert edge.stats()["dead_letters"] == 0
    reconciled(edge)


def test_messages_that_fail_to_the_end_are_counted_and_sent_again_on_request(edge: Edge):
    edge.order("vectorize", "rate_limited", on="upsert", times=None)
    ids = [edge.store(f"{COFFEE} {n}") for n in range(3)]
    edge.rig.drain()
    dead = edge.stats()["dead_letters"]
    assert 1 <= dead <= 3
    edge.heal()
    assert edge.ask("POST", "/admin/requeue") == {"requeued": 3}
    assert edge.stats()["dead_letters"] == 0
    edge.rig.drain()
    assert sorted(edge.meant()) == sorted(ids)
    reconciled(edge)


def test_a_requeue_of_more_than_a_message_holds_gets_all_of_them_done_in_the_end(edge: Edge):
    edge.rig.fail("queue", QueueFault.DAILY, times=100)
    for part in range(2):
        edge.store_all([{"content": f"fact {part}.{n}"} for n in range(260)])
    edge.rig.heal()
    with edge.hashed():
        assert edge.ask("POST", "/admin/requeue")["requeued"] == 500
        edge.rig.drain()
        assert edge.stats()["pending_embeddings"] == 20
        reconciled(edge)


def test_the_crons_find_nothing_to_do_in_an_empty_memory(edge: Edge):
    since = edge.rig.mark()
    edge.rig.cron(OFTEN)
    edge.rig.cron(HOURLY)
    runs = edge.rig.invocations(since)
    assert [(each.ai, each.queue_sends, each.d1.rows_written) for each in runs] == [(0, 0, 0)] * 2
