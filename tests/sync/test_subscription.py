"""Which spaces a device pulls, and how far it has come in each."""

from typing import Any

import pytest
from tests.core.rig import Rig

from shoal.schema.wire import SPACES_MAX, Head
from shoal.sync import subscription
from shoal.sync.subscription import Change, Cursor

BATCH = "0" * 16


async def moved(rig: Rig, spaces: Any, seq: int, batch: str = BATCH) -> None:
    await rig.database.batch([subscription.moved(spaces, seq, batch)])


async def test_there_is_no_cursor_before_the_first_subscription(rig: Rig):
    assert await subscription.cursors(rig.database) == []
    assert await subscription.compare(rig.database, ["main"]) == Change(["main"], [])
    assert await subscription.compare(rig.database, "*") == Change(["*"], [])


async def test_new_spaces_begin_at_the_start_together(rig: Rig):
    await subscription.adopt(rig.database, ["team", "main"])
    assert await subscription.cursors(rig.database) == [Cursor(["main", "team"], 0, None)]
    assert await subscription.compare(rig.database, ["main", "team"]) == Change([], [])


async def test_a_space_that_comes_later_is_behind_until_it_has_caught_up(rig: Rig):
    await subscription.adopt(rig.database, ["main"])
    await moved(rig, ["main"], 7)
    await subscription.adopt(rig.database, ["main", "team"])
    assert await subscription.cursors(rig.database) == [Cursor(["team"], 0, None), Cursor(["main"], 7, BATCH)]
    await moved(rig, ["team"], 7)
    assert await subscription.cursors(rig.database) == [Cursor(["main", "team"], 7, BATCH)]


async def test_equally_far_in_different_batches_is_not_together(rig: Rig):
    await subscription.adopt(rig.database, ["main", "team"])
    await moved(rig, ["main"], 7)
    await moved(rig, ["team"], 7, "f" * 16)
    assert [cursor.spaces for cursor in await subscription.cursors(rig.database)] == [["main"], ["team"]]


async def test_a_space_that_was_pulled_as_one_of_all_goes_on_from_there(rig: Rig):
    await subscription.adopt(rig.database, "*")
    await moved(rig, "*", 9)
    assert await subscription.cursors(rig.database) == [Cursor("*", 9, BATCH)]
    await subscription.adopt(rig.database, ["main"])
    assert await subscription.cursors(rig.database) == [Cursor(["main"], 9, BATCH)]


async def test_all_spaces_after_some_are_pulled_from_the_start(rig: Rig):
    await subscription.adopt(rig.database, ["main"])
    await moved(rig, ["main"], 9)
    assert await subscription.compare(rig.database, "*") == Change(["*"], [])
    await subscription.adopt(rig.database, "*")
    assert await subscription.cursors(rig.database) == [Cursor("*", 0, None)]


async def test_of_all_spaces_those_are_lost_that_are_here_and_not_allowed(rig: Rig):
    await rig.store("one", space="main")
    await rig.store("two", space="team")
    await subscription.adopt(rig.database, "*")
    assert await subscription.compare(rig.database, ["main", "new"]) == Change(["main", "new"], ["team"])


async def test_a_space_counts_as_here_whatever_is_left_of_it(rig: Rig):
    stored = await rig.store("one", space="team")
    await rig.purge(stored.id)
    rig.connection.execute("update record set class = null")
    await subscription.adopt(rig.database, "*")
    assert await subscription.compare(rig.database, ["main"]) == Change(["main"], ["team"])


async def test_a_space_of_this_device_alone_is_not_lost(rig: Rig):
    await rig.store("one", space="attic")
    await subscription.adopt(rig.database, ["main", "team"])
    assert await subscription.compare(rig.database, ["main"]) == Change([], ["team"])


async def test_what_is_about_to_leave_counts_as_lost_until_it_has(rig: Rig):
    await rig.store("one", space="team")
    await subscription.adopt(rig.database, "*")
    await moved(rig, "*", 9)
    await subscription.part(rig.database, ["main"], ["team"])
    rig.connection.execute("delete from record")
    assert await subscription.compare(rig.database, ["main"]) == Change([], ["team"])
    assert await subscription.cursors(rig.database) == [Cursor(["team"], 0, None), Cursor(["main"], 9, BATCH)]
    await subscription.adopt(rig.database, ["main"])
    assert await subscription.cursors(rig.database) == [Cursor(["main"], 9, BATCH)]


async def test_what_was_about_to_leave_and_comes_back_is_pulled_from_the_start(rig: Rig):
    await subscription.adopt(rig.database, ["main", "team"])
    await moved(rig, ["main", "team"], 9)
    await subscription.part(rig.database, ["main"], ["team"])
    await subscription.adopt(rig.database, ["main", "team"])
    assert await subscription.cursors(rig.database) == [Cursor(["team"], 0, None), Cursor(["main"], 9, BATCH)]


async def test_no_request_names_more_spaces_than_it_may(rig: Rig):
    names = [f"space {number:04d}" for number in range(SPACES_MAX + 3)]
    await subscription.adopt(rig.database, names)
    found = await subscription.cursors(rig.database)
    assert [len(cursor.spaces) for cursor in found] == [SPACES_MAX, 3]
    assert subscription.spaces_of(found) == names


async def test_the_newest_batch_of_the_edge_is_kept_until_all_is_pulled_anew(rig: Rig):
    assert await subscription.head(rig.database) is None
    for seq in (4, 5):
        await rig.database.batch([subscription.told(Head(seq=seq, batch=BATCH))])
        assert await subscription.head(rig.database) == Head(seq=seq, batch=BATCH)
    await subscription.adopt(rig.database, ["main"])
    await moved(rig, ["main"], 5)
    await rig.database.batch(subscription.reset())
    assert await subscription.head(rig.database) is None
    assert await subscription.cursors(rig.database) == [Cursor(["main"], 0, None)]


@pytest.mark.parametrize("allowed", ["*", ["main"], []])
async def test_to_subscribe_again_changes_nothing(rig: Rig, allowed: Any):
    await subscription.adopt(rig.database, allowed)
    written = rig.written()
    await subscription.adopt(rig.database, allowed)
    assert rig.written() == written
