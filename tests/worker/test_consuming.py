"""The queue and what reads it: messages twice, late, unknown or poisoned, and services that fail or rest."""

import json
import logging

import pytest
from tests.edge.doubles.ai import AiFault
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.queue import QueueFault
from tests.edge.doubles.vectorize import VectorizeFault
from tests.worker.test_vectorize import LONG
from tests.worker.world import ALL, MINUTE, World

from shoal.core.indexing import ATTEMPTS_MAX
from shoal.worker.budget import Budget
from shoal.worker.consuming import RETRY_FIRST_S, RETRY_MAX_S, pause_s
from shoal.worker.queue import IDS_MAX, announce, read

ID = "0123456789abcdef" * 2
DAY = 24 * 60 * MINUTE
UNTIL = "2026-09-22T00:00:00Z"


def pause(world: World) -> dict[str, object] | None:
    found = world.rows("select v from meta where k = 'paused'")
    return json.loads(found[0][0]) if found else None


# Messages


async def test_a_store_sends_one_message_with_its_ids(world: World):
    one = await world.store("a memory")
    several = await world.store_all([f"memory {n}" for n in range(300)])
    assert world.queue.bodies == [{"v": 1, "ids": [one]}, {"v": 1, "ids": several}]


async def test_what_was_forgotten_is_not_announced_for_nothing(world: World):
    one = await world.store("a memory")
    await world.delete(one)
    await world.revive(one)
    await world.update(one, tags="a")
    assert [body["ids"] for body in world.queue.bodies] == [[one]] * 4


async def test_many_ids_go_in_messages_and_calls_of_bounded_size(world: World):
    budget = Budget()
    ids = [f"{n:032x}" for n in range(12 * IDS_MAX + 1)]
    assert await announce(world.queue, ids, budget)  # type: ignore[arg-type]  # a double
    assert [one for body in world.queue.bodies for one in body["ids"]] == ids
    assert max(len(body["ids"]) for body in world.queue.bodies) == IDS_MAX
    assert budget.calls == {"queue": 2}
    assert all(read(body) == body["ids"] for body in world.queue.bodies)


@pytest.mark.parametrize("fault", QueueFault)
async def test_a_queue_that_refuses_costs_no_memory(world: World, fault: QueueFault, caplog: pytest.LogCaptureFixture):
    world.fail_queue(fault)
    memory_id = await world.store("Staging listens on port 8443")
    assert world.queue.bodies == []
    assert "did not take 1 memories" in caplog.text
    assert [one.id for one in (await world.find("staging")).results] == [memory_id]
    await world.settle()
    world.assert_in_step()


async def test_without_a_call_to_spare_nothing_is_sent(world: World, caplog: pytest.LogCaptureFixture):
    assert not await announce(world.queue, [ID], Budget(calls_max=0))  # type: ignore[arg-type]  # a double
    assert "no call is left" in caplog.text


async def test_a_value_that_the_runtime_cant_pass_on_is_a_fault_of_ours(world: World):
    with pytest.raises(TypeError):
        await announce(world.queue, [("no", "id")], Budget())  # type: ignore[arg-type, list-item]  # wrong on purpose


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        [ID],
        {},
        {"v": 2, "ids": [ID]},
        {"v": 1},
        {"v": 1, "ids": ID},
        {"v": 1, "ids": [5]},
        {"v": 1, "ids": ["x" * 32]},
        {"v": 1, "ids": [ID.upper()]},
        {"v": 1, "ids": [ID] * (IDS_MAX + 1)},
    ],
    ids=str,
)
async def test_a_message_that_we_never_sent_is_counted_and_never_comes_again(world: World, body: object):
    assert read(body) is None
    await world.queue.send(body)
    [delivery] = await world.deliver()
    assert (len(delivery.acked), delivery.error) == (1, None)
    assert world.value("select v from meta where k = 'dead_letters'") == 1


async def test_an_unknown_message_does_not_hold_up_the_others(world: World):
    await world.queue.send({"v": 9})
    await world.store("a memory")
    await world.deliver()
    world.assert_in_step()


# Delivery


async def test_a_message_that_comes_twice_or_backwards_changes_nothing(world: World):
    first = await world.store("What comes before", conversation_id="c", position=1)
    await world.store("What comes after", conversation_id="c", position=2)
    world.queue.duplicate_next = 2
    world.queue.backwards = True
    await world.deliver()
    world.assert_in_step()
    indexed = world.indexed()
    await world.queue.send({"v": 1, "ids": [first, ID]})
    await world.deliver()
    assert world.indexed() == indexed


async def test_the_turn_after_a_new_turn_is_made_anew_with_it(world: World):
    await world.store("What comes after", conversation_id="c", position=2)
    await world.deliver()
    before = world.indexed()
    await world.store("What comes before", conversation_id="c", position=1)
    await world.deliver()
    world.assert_in_step()
    assert len(world.indexed()) == 2
    assert not set(before) & set(world.indexed())


async def test_more_than_one_invocation_may_do_is_sent_again(world: World):
    ids = await world.store_all([f"memory number {n}" for n in range(500)])
    assert len(ids) == 500
    deliveries = await world.deliver()
    assert len(deliveries) > 1
    world.assert_in_step()


async def test_a_batch_of_many_full_messages_is_worked_off(world: World):
    for start in range(4):
        await world.store_all([f"memory number {start * 300 + n}" for n in range(300)])
    await world.deliver()
    world.assert_in_step()
    assert len(world.indexed()) == 1_200


def test_pauses_double_up_to_a_bound():
    assert [pause_s(attempts) for attempts in (1, 2, 3, 4)] == [RETRY_FIRST_S * 2**n for n in range(4)]
    assert pause_s(100) == RETRY_MAX_S


FAILURES = [
    ("ai", AiFault.RATE_LIMITED),
    ("ai", AiFault.CAPACITY),
    ("ai", AiFault.INTERNAL),
    ("vectorize", VectorizeFault.RATE_LIMITED),
    ("vectorize", VectorizeFault.REFUSED),
    ("d1", D1Fault.NETWORK_LOST),
    ("d1", D1Fault.OUT_OF_CPU),
]


def fail(world: World, service: str, kind: str, times: int | None) -> None:
    if service == "ai":
        world.fail_ai(kind, times=times)
    elif service == "vectorize":
        world.fail_vectorize(kind, times=times)
    else:
        world.fail_d1(kind, "batch", times=times)


@pytest.mark.parametrize(("service", "kind"), FAILURES)
async def test_a_passing_failure_is_tried_again_later(world: World, service: str, kind: str):
    await world.store("a memory")
    fail(world, service, kind, None)
    [delivery] = await world.deliver()
    assert (len(delivery.retried), delivery.error) == (1, None)
    for faults in (world.ai.faults, world.vectorize.faults, world.d1.faults):
        faults.clear()
    assert await world.deliver() == []
    world.now_ms += RETRY_FIRST_S * 1000
    await world.deliver()
    world.assert_in_step()
    assert world.rows("select * from unembedded") == []


@pytest.mark.parametrize(("service", "kind"), FAILURES[:5])
async def test_an_outage_ends_in_the_dead_letter_queue_where_it_is_seen_and_costs_no_memory(
    world: World, service: str, kind: str
):
    memory_id = await world.store("Staging listens on port 8443")
    fail(world, service, kind, None)
    for _ in range(10):
        await world.deliver()
        world.now_ms += RETRY_MAX_S * 1000
    await world.deliver(world.dead)
    assert world.queue.bodies == world.dead.bodies == []
    assert world.value("select v from meta where k = 'dead_letters'") == 1
    async with world.woken() as edge:
        stats = await edge.memory.stats(ALL)
    assert stats.dead_letters == 1
    assert "undelivered" in [note.code for note in stats.degraded]
    world.ai.faults.clear()
    world.vectorize.faults.clear()
    await world.settle()
    world.assert_in_step()
    assert [one.id for one in (await world.find("staging")).results] == [memory_id]


async def test_dead_letters_add_up_and_requeueing_begins_anew(world: World):
    await world.store("a memory")
    world.queue._waiting.clear()
    for _ in range(3):
        await world.dead.send({"v": 1, "ids": [ID]})
    await world.deliver(world.dead)
    assert world.value("select v from meta where k = 'dead_letters'") == 3
    async with world.woken() as edge:
        assert (await edge.memory.requeue(ALL)).requeued == 1
    assert world.value("select v from meta where k = 'dead_letters'") == 0
    await world.deliver()
    world.assert_in_step()


async def test_dead_letters_that_cant_be_counted_come_again(world: World):
    await world.dead.send({"v": 1, "ids": [ID]})
    world.fail_d1(D1Fault.OUT_OF_CPU)
    [delivery] = await world.deliver(world.dead)
    assert len(delivery.retried) == 1


async def test_a_text_that_the_model_refuses_holds_up_no_other_and_is_given_up_in_the_end(world: World):
    world.ai.poison = "POISON"
    ids = await world.store_all([f"memory number {n}" for n in range(20)] + ["a text with POISON in it"])
    await world.deliver()
    assert len(world.indexed()) == 20
    assert world.value("select attempts from unembedded") < ATTEMPTS_MAX
    for _ in range(ATTEMPTS_MAX):
        await world.settle()
    assert world.value("select count(*) from record where want > 0") == 0
    async with world.woken() as edge:
        assert (await edge.memory.stats(ALL)).failed_embeddings == 1
    world.ai.poison = None
    async with world.woken() as edge:
        await edge.memory.requeue(ALL)
    await world.deliver()
    world.assert_in_step()
    assert len(world.indexed()) == len(ids)


async def test_many_refused_texts_are_each_tried_once_a_delivery_and_hold_up_no_other(world: World):
    world.ai.poison = "POISON"
    await world.store_all([f"{'POISON' if n % 3 == 0 else 'memory'} number {n}" for n in range(90)])
    for attempts in range(1, ATTEMPTS_MAX + 1):
        deliveries = await world.deliver()
        assert all(not delivery.retried for delivery in deliveries)
        assert world.rows("select attempts, count(*) from unembedded group by attempts") == [(attempts, 30)]
        assert len(world.indexed()) == 60
        world.now_ms += 5 * MINUTE
        await world.cron()
    assert world.value("select count(*) from record where want > 0") == 0


async def test_a_purge_of_many_long_memories_is_worked_off_within_what_each_invocation_may_do(world: World):
    ids = [await world.store(f"{n} {LONG * 40}") for n in range(30)]
    await world.deliver()
    assert len(world.indexed()) > 3_000
    await world.delete(*ids, purge=True)
    deliveries = await world.deliver()
    assert all(not delivery.retried for delivery in deliveries)
    assert world.indexed() == []
    world.assert_in_step()


# Quotas


@pytest.mark.parametrize("kind", [AiFault.DAILY, AiFault.ACCOUNT_LIMITED])
async def test_a_used_up_quota_of_the_model_is_a_pause_that_shows_and_ends_by_itself(world: World, kind: AiFault):
    memory_id = await world.store("Staging listens on port 8443")
    world.fail_ai(kind, times=None)
    [delivery] = await world.deliver()
    assert len(delivery.acked) == 1
    assert pause(world) == {"service": "Workers AI", "until": world.now_ms // DAY * DAY + DAY}
    async with world.woken() as edge:
        stats = await edge.memory.stats(ALL)
    assert stats.paused is not None
    assert (stats.paused.service, stats.paused.until) == ("Workers AI", UNTIL)
    assert "over_quota" in [note.code for note in stats.degraded]
    assert [one.id for one in (await world.find("staging")).results] == [memory_id]

    world.ai.faults.clear()
    await world.settle()
    assert world.indexed() == []
    world.now_ms += DAY
    await world.settle()
    world.assert_in_step()


async def test_while_the_model_rests_nobody_asks_it_and_what_goes_still_goes(world: World):
    ids = await world.store_all(["one memory", "another memory"])
    await world.deliver()
    world.fail_ai(AiFault.DAILY)
    await world.store("a third memory")
    await world.deliver()
    calls: list[object] = []
    world.env.AI.run = lambda *asked: calls.append(asked)
    await world.delete(ids[0], purge=True)
    await world.deliver()
    await world.cron()
    assert len(world.indexed()) == 1
    assert calls == []


async def test_a_used_up_quota_of_the_database_is_a_pause_too(world: World, caplog: pytest.LogCaptureFixture):
    await world.store("a memory")
    world.fail_d1(D1Fault.DAILY_WRITES, "write")
    [delivery] = await world.deliver()
    assert len(delivery.acked) == 1
    assert pause(world) == {"service": "D1", "until": world.now_ms // DAY * DAY + DAY}
    with caplog.at_level(logging.INFO):
        await world.cron()
    assert "the database rests" in caplog.text
    await world.queue.send({"v": 1, "ids": [ID]})
    await world.deliver()
    assert world.indexed() == []
    world.now_ms += DAY
    await world.settle()
    world.assert_in_step()


async def test_a_pause_that_cant_be_noted_is_only_logged(world: World, caplog: pytest.LogCaptureFixture):
    await world.store("a memory")
    world.fail_d1(D1Fault.DAILY_WRITES, "write", times=None)
    [delivery] = await world.deliver()
    assert (len(delivery.acked), delivery.error) == (1, None)
    assert "could not be noted" in caplog.text
    assert pause(world) is None
    world.d1.faults.clear()
    await world.settle()
    world.assert_in_step()


async def test_an_outage_that_looks_like_refused_texts_stays_within_what_an_invocation_may_do(world: World):
    await world.store_all([f"memory number {n}" for n in range(200)])
    world.fail_ai(AiFault.INTERNAL, times=None)
    [delivery] = await world.deliver()
    assert (len(delivery.retried), delivery.error) == (1, None)
    assert world.rows("select * from unembedded") == []
