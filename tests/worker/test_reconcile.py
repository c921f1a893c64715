"""The index is held against the database: what is missing, wrong or nobody's is found and mended."""

import math

import pytest
from tests.edge.doubles.vectorize import FOREVER, VectorizeFault
from tests.worker.test_vectorize import LONG, unit
from tests.worker.world import MINUTE, World

from shoal.worker import reconcile as reconciling
from shoal.worker.reconcile import Report, reconcile


async def stored(world: World, count: int) -> list[str]:
    ids = await world.store_all([f"memory number {n} about topic {n * 7}" for n in range(count)])
    await world.deliver()
    return ids


async def once(world: World) -> Report:
    async with world.woken() as edge:
        return await reconcile(edge)


async def lose(world: World, *vector_ids: str) -> None:
    """Take vectors out of the index behind the database's back, a moment later."""
    world.now_ms += 2_000
    await world.env.VECTORIZE.deleteByIds(list(vector_ids))


# Confirming


async def test_what_the_index_has_applied_is_confirmed_at_once(world: World):
    await stored(world, 3)
    assert world.value("select count(*) from vector_state where mutation is not null") == 3
    await once(world)
    assert world.value("select count(*) from vector_state where mutation is not null") == 0


async def test_a_later_change_of_the_index_confirms_the_earlier_ones(world: World):
    await stored(world, 3)
    world.now_ms += 5 * MINUTE
    await lose(world, "77.0123456789abcdef")
    await once(world)
    assert world.value("select count(*) from vector_state where mutation is not null") == 0


async def test_what_the_index_has_not_applied_yet_is_neither_confirmed_nor_missed(world: World):
    world.vectorize.lag_s = FOREVER
    await stored(world, 3)
    report = await once(world)
    assert report.wanted == []
    assert world.value("select count(*) from vector_state where mutation is not null") == 3


async def test_what_the_index_took_and_lost_is_wanted_anew_after_a_while(world: World):
    world.vectorize.lag_s = FOREVER
    ids = await stored(world, 3)
    world.now_ms += reconciling.UNCONFIRMED_MAX_MS + 1
    assert sorted((await once(world)).wanted) == sorted(ids)
    world.vectorize.lag_s = 0
    await world.settle()
    world.assert_in_step()


async def test_what_is_long_unconfirmed_and_there_is_confirmed_by_a_look(world: World):
    await stored(world, 2)
    world.rows("update vector_state set mutation = 'another'")
    world.now_ms += reconciling.UNCONFIRMED_MAX_MS + 1
    report = await once(world)
    assert report.wanted == []
    assert world.value("select count(*) from vector_state where mutation is not null") == 0


# Missing and wrong


async def test_missing_vectors_are_made_anew(world: World):
    await stored(world, 30)
    await lose(world, *world.indexed()[::2])
    report = await once(world)
    assert (report.audited, len(report.wanted)) == (30, 15)
    await world.settle()
    world.assert_in_step()


async def test_one_missing_passage_is_enough(world: World):
    memory_id = await world.store(LONG)
    await world.deliver()
    await lose(world, world.indexed()[1])
    assert (await once(world)).wanted == [memory_id]


async def test_an_index_that_was_emptied_is_filled_again(world: World):
    await stored(world, 60)
    for start in range(0, 60, 20):
        await lose(world, *world.indexed()[:20])
        assert start < 60
    assert world.indexed() == []
    await world.settle()
    world.assert_in_step()
    assert len(world.indexed()) == 60


@pytest.mark.parametrize(
    ("name", "value"),
    [("space", "other"), ("type", "bug"), ("kind", "episodic"), ("occurred_at", 5), ("state", 2)],
)
async def test_what_the_index_was_told_wrong_is_told_anew(world: World, name: str, value: object):
    [memory_id] = await stored(world, 1)
    [vector_id] = world.indexed()
    [there] = await world.env.VECTORIZE.getByIds([vector_id])
    world.now_ms += 2_000
    await world.env.VECTORIZE.upsert([{**there, "metadata": {**there["metadata"], name: value}}])
    assert (await once(world)).wanted == [memory_id]
    await world.settle()
    [there] = await world.env.VECTORIZE.getByIds([vector_id])
    assert there["metadata"][name] != value
    assert (await once(world)).wanted == []


async def test_a_memory_without_any_record_of_its_vectors_is_wanted(world: World):
    [memory_id, _] = await stored(world, 2)
    world.rows("delete from vector_state where rid = ?", world.rid(memory_id))
    assert (await once(world)).wanted == [memory_id]


async def test_a_memory_that_was_given_up_is_left_alone(world: World):
    world.ai.poison = "POISON"
    await world.store("a text with POISON in it")
    for _ in range(5):
        await world.settle()
    assert world.value("select want <= 0 from record")
    assert (await once(world)).wanted == []


async def test_vectors_of_a_deleted_memory_are_removed(world: World):
    [memory_id, purged, _] = await stored(world, 3)
    await world.delete(memory_id)
    await world.delete(purged, purge=True)
    world.rows("update record set want = 0")
    assert sorted((await once(world)).wanted) == sorted([memory_id, purged])
    await world.settle()
    world.assert_in_step()
    assert len(world.indexed()) == 1


async def test_vectors_of_another_model_are_wanted_anew_unless_that_is_under_way(world: World):
    await stored(world, 3)
    world.rows("update vector_state set model = 'another'")
    world.rows("insert into meta (k, v) values ('reembed', 3)")
    assert len((await once(world)).wanted) == 1
    world.rows("update meta set v = 0 where k = 'reembed'")
    assert len((await once(world)).wanted) == 2


async def test_what_is_being_worked_on_is_not_looked_at(world: World):
    [memory_id] = await stored(world, 1)
    await world.update(memory_id, type="bug")
    await lose(world, *world.indexed())
    assert (await once(world)).audited == 0


# Bounds


async def test_a_round_is_made_in_parts_that_go_on_where_the_last_one_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reconciling, "AUDIT_VECTORS", 10)
    await stored(world, 25)
    reports = [await once(world) for _ in range(4)]
    assert [report.audited for report in reports] == [10, 10, 5, 10]
    assert [report.round_ended for report in reports] == [False, False, True, False]


async def test_a_memory_with_more_vectors_than_a_part_does_not_stop_the_round(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reconciling, "AUDIT_VECTORS", 2)
    await world.store(LONG)
    await world.deliver()
    assert len(world.indexed()) > 2
    await stored(world, 1)
    reports = [await once(world) for _ in range(2)]
    assert [(report.audited, report.round_ended) for report in reports] == [(1, False), (1, True)]
    assert reports[0].wanted == []


async def test_a_long_unconfirmed_memory_that_takes_all_room_leaves_the_round_where_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reconciling, "AUDIT_VECTORS", 4)
    others = await stored(world, 6)
    assert (await once(world)).audited == 4
    long = await world.store(LONG * 3)
    await world.deliver()
    world.rows("update vector_state set mutation = 'another' where rid = ?", world.rid(long))
    assert world.value("select passages from vector_state where rid = ?", world.rid(long)) > 4
    world.now_ms += reconciling.UNCONFIRMED_MAX_MS + 1
    report = await once(world)
    assert (report.audited, report.wanted, report.round_ended) == (1, [], False)
    assert world.value("select v from meta where k = 'audit'") == world.rid(others[3])
    assert (await once(world)).audited == 2


async def test_a_part_stays_within_what_an_invocation_may_do(world: World):
    ids = await stored(world, 400)
    await lose(world, *world.indexed()[:20])
    await world.cron()
    await world.deliver()
    await world.settle()
    world.assert_in_step()
    assert len(world.indexed()) == len(ids)


async def test_without_calls_to_spare_nothing_is_looked_at(world: World):
    await stored(world, 2)
    async with world.woken() as edge:
        edge.budget.calls_max = reconciling.CALLS_KEPT + 2
        assert (await reconcile(edge)).audited == 0


# Left over, and nobody's


async def test_what_was_noted_as_gone_and_is_still_there_is_removed(world: World):
    [memory_id] = await stored(world, 1)
    await world.delete(memory_id)
    world.fail_vectorize(VectorizeFault.REFUSED, "deleteByIds", times=None)
    await world.deliver()
    assert len(world.indexed()) == 1
    world.vectorize.faults.clear()
    world.rows("update record set want = 0")
    assert (await once(world)).swept == 1
    world.assert_in_step()


async def test_what_is_noted_for_a_memory_that_is_being_worked_on_stays(world: World):
    await world.store("a memory that is wanted")
    world.rows("insert into vector_gone values (1, '0123456789abcdef', 1)")
    assert (await once(world)).swept == 0
    assert len(world.rows("select * from vector_gone")) == 1


async def test_ghosts_among_memories_are_found_and_removed(world: World):
    await stored(world, 20)
    ghosts = [f"{1024 * n}.{'0' * 16}" for n in (3, 7, 999)]
    await world.env.VECTORIZE.upsert([{"id": one, "values": unit(*map(math.sin, range(9)))} for one in ghosts])
    report = await once(world)
    assert report.ghosts == 3
    world.assert_in_step()


async def test_ghosts_are_found_where_there_is_no_memory(world: World):
    await world.env.VECTORIZE.upsert([{"id": f"1024.{'0' * 16}", "values": unit(1)}])
    assert (await once(world)).ghosts == 1
    assert world.indexed() == []


async def test_nobody_looks_for_ghosts_while_there_is_a_reason_for_more_vectors(world: World):
    await stored(world, 2)
    await world.env.VECTORIZE.upsert([{"id": f"999424.{'0' * 16}", "values": unit(1)}])
    await world.store("one that is wanted")
    assert (await once(world)).ghosts == 0


async def test_vectors_that_are_none_of_ours_are_left_alone(world: World):
    await stored(world, 2)
    await world.env.VECTORIZE.upsert([{"id": "somebody-elses", "values": unit(1)}])
    assert (await once(world)).ghosts == 0
    assert "somebody-elses" in world.indexed()


async def test_an_empty_edge_has_nothing_to_do(world: World):
    assert await once(world) == Report(round_ended=True)
    assert Report().told() == {"audited": 0, "wanted": 0, "swept": 0, "ghosts": 0, "round_ended": False}
