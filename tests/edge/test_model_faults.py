"""Workers AI busy, broken, used up for the day, or unable to take one text: nothing is lost, and everybody is told."""

import time
from datetime import UTC, datetime

import pytest
from tests.edge.agreement import reconciled
from tests.edge.edge import COFFEE, ESPRESSO, HOURLY, OFTEN, Edge, codes

from shoal.core.indexing import ATTEMPTS_MAX
from shoal.worker.workers_ai import WAIT_S

DAY_S = 86_400
POISON = "mumble jumble"


def midnight() -> str:
    """Return the next one (UTC) as answers show it."""
    days = int(time.time()) // DAY_S + 1
    return datetime.fromtimestamp(days * DAY_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def asked(edge: Edge, since: int) -> int:
    """Return how often the model was asked since then."""
    return sum(each.ai for each in edge.rig.invocations(since))


# Busy or broken


@pytest.mark.parametrize("kind", ["rate_limited", "capacity", "internal"])
def test_a_search_that_the_model_refuses_is_answered_by_words_and_says_so(edge: Edge, kind: str):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("ai", kind)
    answer = edge.search("coffee machine")
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert codes(answer) == ["lexical_only"]
    assert codes(edge.search("coffee machine")) == []


@pytest.mark.parametrize("kind", ["rate_limited", "capacity"])
def test_a_busy_model_is_asked_again_later_for_the_same_memories(edge: Edge, kind: str):
    edge.order("ai", kind, times=2)
    since = edge.rig.mark()
    one = edge.store(COFFEE)
    edge.rig.drain()
    runs = [each for each in edge.rig.invocations(since) if each.kind == "queue"]
    assert [(each.ai, each.retries) for each in runs] == [(1, (10,)), (1, (20,)), (1, ())]
    assert edge.meant() == [one]
    reconciled(edge)


def test_a_model_that_breaks_once_does_not_cost_a_memory(edge: Edge):
    edge.order("ai", "internal", times=2)
    ids = edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(5)])
    reconciled(edge)
    assert sorted(edge.meant()) == sorted(ids)
    assert edge.stats()["failed_embeddings"] == 0


def test_a_model_that_stays_down_is_an_outage_for_which_no_memory_is_given_up(edge: Edge):
    edge.order("ai", "internal", times=None)
    one = edge.store(COFFEE)
    edge.rig.drain()
    for _ in range(ATTEMPTS_MAX + 1):
        edge.rig.cron(OFTEN, int((time.time() + 300) * 1000))
    stats = edge.stats()
    assert (stats["pending_embeddings"], stats["failed_embeddings"], stats["dead_letters"]) == (1, 0, 1)
    assert set(codes({"notes": stats["degraded"]})) == {"pending", "undelivered"}
    edge.heal()
    reconciled(edge)
    assert edge.meant() == [one]


@pytest.mark.long
def test_a_search_waits_for_the_model_only_so_long(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("ai", "timeout")
    began = time.monotonic()
    answer = edge.search("coffee machine")
    assert time.monotonic() - began < 10
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert codes(answer) == ["lexical_only"]


@pytest.mark.long
def test_a_queue_waits_for_the_model_only_so_long(edge: Edge):
    edge.order("ai", "timeout")
    one = edge.store(COFFEE)
    time.sleep(WAIT_S)
    edge.rig.drain()
    assert edge.meant() == [one]
    reconciled(edge)


# Used up


@pytest.mark.parametrize("kind", ["daily", "account_limited"])
def test_a_used_up_quota_is_a_visible_pause_that_ends_by_itself(edge: Edge, kind: str):
    edge.order("ai", kind, times=None)
    one = edge.store(COFFEE)
    edge.rig.drain()

    stats = edge.stats()
    assert stats["paused"] == {"service": "Workers AI", "until": midnight()}
    assert (stats["pending_embeddings"], stats["failed_embeddings"], stats["dead_letters"]) == (1, 0, 0)
    health = edge.health()
    assert (health["status"], codes({"notes": health["degraded"]})) == ("degraded", ["pending", "over_quota"])
    assert any(midnight() in note["message"] for note in health["degraded"])
    answer = edge.search("coffee machine")
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert set(codes(answer)) == {"over_quota", "pending"}

    # Nothing asks the model in vain until then: not the next stores, not cron.
    since = edge.rig.mark()
    other = edge.store(f"{COFFEE} It is old.")
    edge.rig.drain()
    edge.rig.cron(OFTEN)
    edge.rig.cron(HOURLY)
    edge.rig.drain()
    assert asked(edge, since) == 0

    edge.heal()
    edge.rig.set_clock(DAY_S)
    edge.catch_up()
    assert edge.stats()["paused"] is None
    assert sorted(edge.meant()) == sorted([one, other])
    edge.rig.set_clock(0)
    reconciled(edge)


def test_what_is_purged_while_the_quota_is_used_up_leaves_the_index_all_the_same(edge: Edge):
    gone, kept = edge.store(COFFEE), edge.store(f"{COFFEE} It is old.")
    edge.rig.drain()
    edge.order("ai", "daily", times=None)
    edge.store("one more")
    edge.rig.drain()
    assert edge.stats()["paused"] is not None
    edge.delete(gone, purge=True)
    edge.rig.drain()
    assert len(edge.vector_ids()) == 1
    edge.heal()
    assert edge.meant() == [kept]


# A text that it can't take


def test_a_text_that_the_model_never_takes_is_given_up_and_harms_no_other(edge: Edge):
    edge.standin.control(poison=POISON)
    ids = edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(4)])
    bad = edge.store(POISON)
    edge.rig.drain()
    for _ in range(ATTEMPTS_MAX):
        edge.rig.cron(OFTEN, int((time.time() + 300) * 1000))
        edge.rig.drain()
    assert sorted(edge.meant()) == sorted(ids)
    reconciled(edge)

    stats = edge.stats()
    assert (stats["failed_embeddings"], stats["pending_embeddings"], stats["dead_letters"]) == (1, 0, 0)
    assert codes({"notes": stats["degraded"]}) == ["not_embedded"]
    assert edge.health()["status"] == "degraded"
    answer = edge.search(POISON)
    assert [row["why"] for row in answer["results"] if row["id"] == bad] == [["words"]]
    assert "not_embedded" in codes(answer)

    # It is let be from now on.
    since = edge.rig.mark()
    edge.catch_up()
    assert asked(edge, since) == 0

    edge.standin.control(poison="")
    assert edge.ask("POST", "/admin/requeue") == {"requeued": 1}
    reconciled(edge)
    assert edge.health()["status"] == "ok"


def test_a_requeue_of_what_the_model_still_refuses_gives_it_up_again(edge: Edge):
    edge.standin.control(poison=POISON)
    edge.store_all([{"content": POISON}, {"content": COFFEE}])
    for _ in range(2):
        edge.rig.drain()
        for _ in range(ATTEMPTS_MAX):
            edge.rig.cron(OFTEN, int((time.time() + 300) * 1000))
            edge.rig.drain()
        assert edge.stats()["failed_embeddings"] == 1
        assert edge.ask("POST", "/admin/requeue") == {"requeued": 1}
    assert edge.meant(ESPRESSO) != []


def test_who_waits_for_a_vector_is_told_when_the_model_makes_none(edge: Edge):
    edge.order("ai", "rate_limited")
    answer = edge.ask("POST", "/memories", json={"content": COFFEE, "wait": True})
    assert (answer["status"], set(codes(answer))) == ("created", {"lexical_only", "pending"})
    reconciled(edge)
