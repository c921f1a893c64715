"""What cron does: the parts of its jobs, their order, their bounds, and what they do when a service fails or rests."""

import json
import logging

import pytest
from tests.edge.doubles.ai import AiFault
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.invocation import invocation
from tests.edge.doubles.queue import QueueFault
from tests.edge.doubles.vectorize import VectorizeFault
from tests.worker.world import ALL, MINUTE, OFTEN, World

from shoal.core.text import PREPARE_VERSION
from shoal.sync.server import HISTORY_KEPT
from shoal.worker import upkeep as upkeeping
from shoal.worker.edge import Edge
from shoal.worker.models import KNOWN
from shoal.worker.upkeep import HOURLY, STALE_MS, upkeep

DAY = 24 * 60 * MINUTE


async def test_the_first_run_notes_what_is_in_use(world: World):
    await world.cron()
    meta = dict(world.rows("select k, v from meta"))
    assert meta["model"] == world.edge().index.fingerprint
    assert meta["fts"] == PREPARE_VERSION


async def test_a_new_model_is_measured_once(world: World):
    world.rows("delete from meta where k = 'calibration'")
    await world.cron()
    told = json.loads(world.value("select v from meta where k = 'calibration'"))
    assert told["fingerprint"] == world.edge().index.fingerprint
    with invocation() as run:
        await upkeep(OFTEN, world.now_ms, world.edge())
    assert "ai.run" not in run.calls


async def test_what_no_message_reminds_of_is_worked_on_after_a_while(world: World):
    world.fail_queue(QueueFault.DAILY)
    await world.store("a memory")
    await world.cron()
    assert world.indexed() == []
    world.now_ms += STALE_MS + 1
    await world.cron()
    world.assert_in_step()


async def test_the_time_that_counts_is_the_one_the_trigger_was_due_at(world: World):
    world.fail_queue(QueueFault.DAILY)
    await world.store("a memory")
    with invocation():
        await upkeep(OFTEN, world.now_ms + STALE_MS + 1, world.edge())
    world.assert_in_step()


async def test_what_is_too_much_for_one_run_is_queued(world: World):
    world.fail_queue(QueueFault.DAILY, times=None)
    await world.store_all([f"memory number {n}" for n in range(500)])
    world.queue.faults.clear()
    world.now_ms += STALE_MS + 1
    await world.cron()
    assert 0 < len(world.indexed()) < 500
    await world.deliver()
    world.assert_in_step()


async def test_a_change_of_model_makes_all_vectors_anew_in_bounded_runs(world: World):
    await world.store_all([f"memory number {n}" for n in range(300)])
    await world.deliver()
    await world.cron()
    before = world.indexed()
    world.env.MODEL = '{"name": "@cf/baai/bge-m3", "query_prefix": "query: "}'
    runs = 0
    while world.value("select count(*) from vector_state where model <> ?", world.edge().index.fingerprint):
        world.now_ms += 5 * MINUTE
        await world.cron()
        runs += 1
    assert runs > 1
    await world.settle()
    world.assert_in_step()
    assert not set(before) & set(world.indexed())


async def test_during_a_change_of_model_words_find_and_the_old_vectors_dont_count(world: World):
    memory_id = await world.store("Sharks swim in shoals")
    await world.deliver()
    world.env.MODEL = '{"name": "@cf/baai/bge-m3", "query_prefix": "query: "}'
    found = await world.find("sharks")
    assert [(one.id, one.why) for one in found.results] == [(memory_id, ["words"])]
    assert len(world.indexed()) == 1


async def test_a_change_of_text_preparation_writes_all_words_anew(world: World):
    await world.store_all([f"memory number {n}" for n in range(250)])
    await world.cron()
    world.rows("update meta set v = 0 where k = 'fts'")
    for _ in range(3):
        await world.cron()
    assert world.value("select v from meta where k = 'refts'") <= 1
    assert len((await world.find("memory 249")).results) > 0


async def test_the_trash_is_emptied_hourly_when_its_time_has_come(world: World):
    ids = await world.store_all(["one memory", "another memory", "a third"])
    await world.delete(*ids[:2])
    await world.deliver()
    await world.cron(HOURLY)
    assert world.value("select count(*) from record where state = 3") == 2
    world.now_ms += 31 * DAY
    await world.cron(HOURLY)
    assert world.value("select count(*) from record where init is null") == 2
    assert world.value("select v from meta where k = 'erase_words'") == 0
    await world.deliver()
    world.assert_in_step()
    assert len(world.indexed()) == 1


async def test_a_trash_too_full_for_one_run_is_emptied_by_the_next(world: World):
    for start in range(3):
        await world.delete(*await world.store_all([f"memory number {start * 300 + n}" for n in range(300)]))
    world.now_ms += 31 * DAY
    await world.cron(HOURLY)
    left = world.value("select count(*) from record where init is not null")
    assert left < 900
    await world.cron(HOURLY)
    assert world.value("select count(*) from record where init is not null") == 0


async def test_a_purge_erases_the_words_at_the_next_run(world: World):
    memory_id = await world.store("a secret word")
    await world.deliver()
    await world.delete(memory_id, purge=True)
    assert world.value("select v from meta where k = 'erase_words'") == 1
    await world.cron(HOURLY)
    assert world.value("select v from meta where k = 'erase_words'") == 0


async def test_the_words_of_a_large_index_are_erased_over_several_runs(world: World):
    for start in range(0, 12_000, 400):
        words = [" ".join(f"w{n * 31 + k * k * 7 % 9_973}" for k in range(300)) for n in range(start, start + 400)]
        put = "insert into content_fts (rowid, content) select ? + key, value from json_each(?)"
        world.rows(put, 1_000_000 + start, json.dumps(words))
    memory_id = await world.store("a secret word")
    await world.delete(memory_id, purge=True)
    await world.cron(HOURLY)
    assert world.value("select v from meta where k = 'erase_words'") == 2
    await world.cron(HOURLY)
    assert world.value("select v from meta where k = 'erase_words'") == 0


async def test_the_history_of_batches_is_trimmed_once_a_day(world: World):
    numbers = "with n (n) as (select 1 union all select n + 1 from n where n < ?1) select n, 'x' from n"
    world.rows(f"insert into sync_batch (seq, name) {numbers}", HISTORY_KEPT + 100)
    world.rows("update meta set v = ?1 where k = 'seq'", HISTORY_KEPT + 100)
    midnight = world.now_ms - world.now_ms % DAY + DAY
    world.now_ms = midnight + 7 * MINUTE + 60 * MINUTE
    await world.cron(HOURLY)
    assert world.value("select min(seq) from sync_batch") <= 1
    world.now_ms = midnight + 7 * MINUTE
    await world.cron(HOURLY)
    kept = world.value("select count(*) from sync_batch")
    assert HISTORY_KEPT <= kept <= HISTORY_KEPT + 1
    assert world.value("select max(seq) from sync_batch") == HISTORY_KEPT + 100
    await world.store("a memory")
    assert world.value("select name from sync_batch where seq = (select v from meta where k = 'seq')") != "x"


# When something fails


async def test_a_part_that_fails_does_not_keep_the_next_from_being_done(world: World, caplog: pytest.LogCaptureFixture):
    await world.store("a memory")
    world.fail_vectorize(VectorizeFault.REFUSED, "describe", times=None)
    await world.cron()
    assert "catch up: vector_index_error" in caplog.text
    assert world.value("select v from meta where k = 'fts'") == PREPARE_VERSION
    world.vectorize.faults.clear()
    await world.settle()
    world.assert_in_step()


async def test_a_fault_of_ours_in_one_part_is_logged_and_leaves_the_rest_to_be_done(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken(edge: Edge) -> None:
        raise ValueError("a secret text")

    monkeypatch.setattr(upkeeping, "reconcile", broken)
    await world.store("a memory")
    world.rows("update meta set v = 0 where k = 'fts'")
    await world.cron()
    assert "catch up failed" in caplog.text
    assert world.value("select v from meta where k = 'refts'") == 1


@pytest.mark.parametrize("kind", [AiFault.RATE_LIMITED, AiFault.INTERNAL])
async def test_a_model_that_fails_leaves_the_rest_to_be_done(world: World, kind: AiFault):
    await world.store("a memory")
    world.queue._waiting.clear()
    world.rows("delete from meta where k = 'calibration'")
    world.fail_ai(kind, times=None)
    world.now_ms += STALE_MS + 1
    await world.cron()
    assert world.value("select count(*) from record where want > 0") == 1
    world.ai.faults.clear()
    await world.settle()
    world.assert_in_step()


async def test_a_used_up_quota_ends_the_run_and_is_noted(world: World):
    await world.store("a memory")
    world.queue._waiting.clear()
    world.fail_ai(AiFault.DAILY)
    world.now_ms += STALE_MS + 1
    await world.cron()
    assert json.loads(world.value("select v from meta where k = 'paused'"))["service"] == "Workers AI"
    async with world.woken() as edge:
        assert (await edge.memory.stats(ALL)).paused is not None


async def test_a_database_that_fails_is_logged_and_tried_next_time(world: World, caplog: pytest.LogCaptureFixture):
    world.fail_d1(D1Fault.OUT_OF_CPU, "batch", times=None)
    with caplog.at_level(logging.WARNING):
        await world.cron()
    assert "begin: storage_busy" in caplog.text


async def test_every_run_stays_within_what_an_invocation_may_do(world: World):
    """The heaviest there is: a new model, new words, everything missing, and a backlog."""
    await world.store_all([f"memory number {n}" for n in range(400)])
    await world.deliver()
    await world.cron()
    for start in range(0, 400, 100):
        await world.env.VECTORIZE.deleteByIds(world.indexed()[:100])
        assert start < 400
    world.rows("update meta set v = 0 where k = 'fts'")
    world.rows("delete from meta where k = 'calibration'")
    world.env.MODEL = KNOWN["@cf/baai/bge-m3"].model_copy(update={"query_prefix": "q: "}).model_dump_json()
    world.queue._waiting.clear()
    for _ in range(12):
        world.now_ms += 5 * MINUTE
        await world.cron()
        await world.cron(HOURLY)
        await world.deliver()
    await world.settle()
    world.assert_in_step()
    assert len(world.indexed()) == 400
