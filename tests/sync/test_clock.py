"""A device whose clock is wrong learns it, and stamps anew what it wrote too far ahead."""

from typing import Any

import pytest
from tests.core.rig import NOW, Rig, cell

from shoal.core.ids import memory_id
from shoal.schema.wire import RefusalCode
from shoal.sync import clock, queue

MINUTE = 60_000
ONE = memory_id("main", "one")


def clock_of(rig: Rig) -> int:
    return rig.value("select v from meta where k = 'clock'")


def stamps(rig: Rig) -> dict[str, str]:
    return dict(rig.rows("select 'init', hlc from record union all select field, hlc from cell"))


def at(ms: int) -> str:
    return f"{ms * 65536:019d}"


@pytest.mark.parametrize(
    ("noted", "found", "kept"),
    [
        (0, 59_999, 0),
        (0, -59_999, 0),
        (0, 60_000, 60_000),
        (0, -3_600_000, -3_600_000),
        (60_000, 90_000, 60_000),
        (60_000, 90_001, 90_001),
        (90_000, 10_000, 0),
    ],
)
async def test_a_difference_counts_from_a_minute_and_its_changes_from_half_of_one(
    rig: Rig, noted: int, found: int, kept: int
):
    rig.database.batches.clear()
    assert await clock.learn(rig.database, noted, found) == kept
    assert len(rig.database.batches) == (kept != noted)
    if kept != noted:
        assert rig.rows("select v, typeof(v) from meta where k = 'sync_offset_ms'") == [(kept, "integer")]


async def test_what_is_written_then_bears_the_edges_time(rig: Rig):
    await clock.learn(rig.database, 0, 10 * MINUTE)
    await rig.store("one", tags=["a"])
    assert stamps(rig)["init"] == at(NOW + 10 * MINUTE) + "-0a0b0c0d"
    assert stamps(rig)["tag:a"] > stamps(rig)["init"]
    assert rig.rows("select typeof(v) from meta where k = 'clock'") == [("integer",)]


async def test_stamps_stay_unequal_when_the_clock_stands_still(rig: Rig):
    await clock.learn(rig.database, 0, -10 * MINUTE)
    for number in range(5):
        await rig.store(f"memory {number}", tags=["a", "b"])
    found = [row[0] for row in rig.rows("select hlc from record union all select hlc from cell")]
    assert len(set(found)) == len(found) == 15


async def test_what_waits_ahead_of_the_edge_is_stamped_anew_in_its_order(rig: Rig):
    await rig.store("one", tags=["a"])
    rig.clock.now += MINUTE
    await rig.update(ONE, metadata={"k": 1})
    await rig.store("two")
    await clock.set_back(rig.database, at(NOW - 10 * MINUTE))
    found = [row[0] for row in rig.rows("select hlc from record union all select hlc from cell")]
    assert all(at(NOW - 10 * MINUTE) < hlc < at(NOW - 10 * MINUTE + 1) for hlc in found)
    after = stamps(rig)
    assert after["tag:a"] < after["md:k"]
    assert clock_of(rig) == max(int(hlc[:19]) for hlc in found)
    assert {mark for (mark,) in rig.rows("select dirty from record union all select dirty from cell")} == {1}


async def test_what_is_not_ahead_stays_as_it_is(rig: Rig):
    await rig.store("one", tags=["a"])
    before = stamps(rig)
    rig.clock.now += MINUTE
    await rig.update(ONE, metadata={"k": 1})
    await clock.set_back(rig.database, at(NOW + 1))
    after = stamps(rig)
    assert {field: after[field] for field in before} == before
    assert after["md:k"] == f"{(NOW + 1) * 65536 + 1:019d}-0a0b0c0d"


async def test_what_the_edge_has_keeps_its_stamp(rig: Rig):
    await rig.apply(cell(ONE, "tag:a", 1, NOW + 60 * MINUTE, 1))
    before = stamps(rig)
    await clock.set_back(rig.database, at(NOW))
    assert stamps(rig)["tag:a"] == before["tag:a"]


async def test_what_was_laid_aside_is_stamped_anew_and_waits_again(rig: Rig):
    await rig.store("one", tags=["a"])
    cells, _ = await queue.page(rig.database, "*", queue.START)
    await rig.database.batch(queue.refused([queue.Refused(one, RefusalCode.MALFORMED, "No.") for one in cells], NOW))
    await clock.set_back(rig.database, at(NOW - MINUTE))
    assert rig.rows("select * from sync_refused") == []
    waiting, _ = await queue.page(rig.database, "*", queue.START)
    assert [one.place for one in waiting] == [one.place for one in cells]


async def test_a_write_after_it_is_later_than_what_was_stamped_anew_and_seen_at_once(rig: Rig):
    await rig.store("one", metadata={"k": 1})
    await clock.set_back(rig.database, at(NOW - 10 * MINUTE))
    rig.clock.now = NOW - 10 * MINUTE
    await rig.update(ONE, metadata={"k": 2})
    assert (await rig.one(ONE)).metadata == {"k": 2}
    assert stamps(rig)["md:k"] > at(NOW - 10 * MINUTE)


async def test_when_it_was_updated_is_told_by_the_new_stamps(rig: Rig):
    stored = await rig.store("one")
    before: Any = (await rig.one(stored.id)).updated_at
    await clock.set_back(rig.database, at(NOW - 60 * MINUTE))
    assert (await rig.one(stored.id)).updated_at < before
