"""What a device knows of its replication, and what health and the trash make of it."""

from typing import Any

import pytest
from tests.core.rig import ALL, DAY, NOW, Rig, opened

from shoal.core import replication
from shoal.core.caller import Caller
from shoal.core.context import EDGE
from shoal.core.protocols import Statement
from shoal.core.times import iso
from shoal.schema.errors import EdgeUnreachable, LinkBroken, ShoalError
from shoal.schema.models import SyncInfo

URL = "https://edge.example"
HOUR = 3_600_000
UNREACHABLE = EdgeUnreachable("No answer.", "Wait.")


async def link(rig: Rig, *, worked_at: int = NOW, spaces: tuple[str, ...] = ("*",)) -> None:
    subscribed = [Statement("insert into sync_space (space) values (?1)", (space,)) for space in spaces]
    await rig.database.batch([replication.linked(URL), *replication.succeeded(worked_at, 0, "*"), *subscribed])


async def info(rig: Rig) -> SyncInfo:
    return await replication.info(rig.database, rig.clock.now)


async def codes(rig: Rig) -> list[str]:
    """Return what health says of replication."""
    return [note.code for note in await rig.memory.health() if note.code == "sync"]


async def test_without_a_link_there_is_nothing_to_say(rig: Rig):
    await rig.store("a fact")
    rig.clock.now += 9 * DAY
    found = await info(rig)
    assert (found.linked, found.url, found.lag_s, found.last_success) == (False, None, None, None)
    assert found.queue >= 1
    assert await codes(rig) == []


async def test_what_waits_is_counted_with_the_age_of_the_oldest(rig: Rig):
    await link(rig)
    await rig.store("a fact")
    rig.clock.now += 5_000
    found = await info(rig)
    assert found.queue >= 1
    assert found.lag_s == pytest.approx(5.0, abs=0.01)


async def test_laptops_tell_it_in_stats_and_the_edge_has_none():
    laptop, edge = await opened(), await opened(policy=EDGE)
    await link(laptop)
    sync = (await laptop.memory.stats(ALL)).sync
    assert sync is not None
    assert (sync.linked, sync.url, sync.last_success) == (True, URL, iso(NOW))
    assert (await edge.memory.stats(ALL)).sync is None


async def test_who_may_not_read_every_space_is_not_told(rig: Rig):
    await link(rig, worked_at=NOW - DAY)
    stats = await rig.memory.stats(Caller(spaces=("main",)))
    assert stats.sync is None
    assert "sync" not in [note.code for note in stats.degraded]
    assert "sync" in [note.code for note in (await rig.memory.stats(ALL)).degraded]


async def test_the_process_that_exchanges_knows_better_than_the_database_when_it_last_did():
    rig = await opened()
    await link(rig, worked_at=NOW - 2 * HOUR)
    assert (await info(rig)).last_success == iso(NOW - 2 * HOUR)
    better = await replication.info(rig.database, NOW, exchanged_ms=NOW - 5_000)
    assert better.last_success == iso(NOW - 5_000)
    assert replication.troubles(better, NOW) == []
    await rig.database.batch([*replication.unlinked()])
    assert (await replication.info(rig.database, NOW, exchanged_ms=NOW - 5_000)).last_success is None


async def test_a_short_failure_is_no_trouble_and_a_long_one_is(rig: Rig):
    await link(rig)
    await rig.database.batch([replication.failed(UNREACHABLE, NOW)])
    rig.clock.now += replication.FAILING_MS
    assert await codes(rig) == []
    # Another reason, but still no success since.
    await rig.database.batch([replication.failed(ShoalError("Odd.", "None."), rig.clock.now)])
    rig.clock.now += 1
    (note,) = [note for note in await rig.memory.health() if note.code == "sync"]
    assert "Odd. None." in note.message
    assert iso(NOW) in note.message


async def test_a_broken_link_is_a_trouble_at_once(rig: Rig):
    await link(rig)
    await rig.database.batch([replication.failed(LinkBroken("Unknown token.", "Link again."), NOW)])
    (note,) = [note for note in await rig.memory.health() if note.code == "sync"]
    assert note.message.endswith("Unknown token. Link again.")


async def test_a_success_ends_the_trouble_and_counts_what_could_not_be_read(rig: Rig):
    await link(rig)
    await rig.database.batch([replication.failed(LinkBroken("Unknown token.", "Link again."), NOW)])
    for _ in range(2):
        await rig.database.batch([*replication.succeeded(NOW, 3, ["main"])])
    found = await info(rig)
    assert (found.failure, found.skipped) == (None, 6)
    assert await codes(rig) == []


@pytest.mark.parametrize(("quiet_ms", "said"), [(replication.STANDING_MS, []), (replication.STANDING_MS + 1, ["sync"])])
async def test_a_link_that_nobody_uses_for_an_hour_is_a_trouble(rig: Rig, quiet_ms: int, said: list[str]):
    await link(rig)
    rig.clock.now += quiet_ms
    assert await codes(rig) == said


async def test_what_waits_for_an_hour_is_a_trouble_though_rounds_go_well(rig: Rig):
    await link(rig)
    await rig.store("a fact")
    rig.clock.now += replication.STANDING_MS + 1_000
    await rig.database.batch([*replication.succeeded(rig.clock.now, 0, "*")])
    (note,) = [note for note in await rig.memory.health() if note.code == "sync"]
    assert note.n is not None
    assert "wait" in note.message
    # Unless it may not be sent at all: that is no failure, and told apart.
    await rig.database.batch([*replication.succeeded(rig.clock.now, 0, ["another"])])
    assert await codes(rig) == []
    assert (await info(rig)).not_shared == note.n


async def test_what_the_edge_has_refused_is_a_trouble_and_told_by_its_reason(rig: Rig):
    await link(rig)
    refused = "insert into sync_refused values (?1, ?2, 1, '', ?3, '', 0)"
    for rid, code in ((1, "malformed"), (2, "refused"), (3, "refused")):
        await rig.database.batch([Statement(refused, (rid, "tag:x", code))])
    found = await info(rig)
    assert (found.quarantine, found.refused) == (3, {"malformed": 1, "refused": 2})
    assert await codes(rig) == ["sync"]


async def test_spaces_that_have_left_are_told_until_somebody_has_seen_it(rig: Rig):
    await rig.database.batch([replication.left(["team"], "/backups/one.db", NOW)])
    await rig.database.batch([replication.left(["a", "b"], "/backups/two.db", NOW)])
    assert [(one.spaces, one.backup) for one in (await info(rig)).left] == [
        (["team"], "/backups/one.db"),
        (["a", "b"], "/backups/two.db"),
    ]
    await rig.database.batch([replication.seen()])
    assert (await info(rig)).left == []


async def test_without_the_link_what_was_known_of_it_is_forgotten_and_what_waits_stays(rig: Rig):
    await link(rig)
    await rig.store("a fact")
    before = await info(rig)
    await rig.database.batch([replication.failed(UNREACHABLE, NOW), *replication.unlinked()])
    after = await info(rig)
    assert (after.linked, after.last_success, after.failure, after.skipped) == (False, None, None, 0)
    assert after.queue == before.queue


# The trash


async def expired(rig: Rig, *spaces: str) -> None:
    """Put a memory of each space into the trash, long ago."""
    for space in spaces:
        one = await rig.store(f"in {space}", space=space)
        await rig.delete(one.id)
    rig.clock.now += 31 * DAY


async def trashed(rig: Rig) -> list[str]:
    rows = await rig.database.query("select space from record where state = 3 order by space")
    return [str(row["space"]) for row in rows]


@pytest.mark.parametrize(
    ("spaces", "left"),
    [(("*",), ["main", "team"]), (("team",), ["team"]), ((), [])],
)
async def test_the_trash_of_linked_spaces_is_the_edges_to_empty(rig: Rig, spaces: tuple[str, ...], left: list[str]):
    await expired(rig, "main", "team")
    await link(rig, worked_at=rig.clock.now - DAY, spaces=spaces)
    assert await rig.memory.empty_trash() == 2 - len(left)
    assert await trashed(rig) == left


async def test_a_link_that_has_not_worked_for_a_week_leaves_it_to_the_laptop(rig: Rig):
    await expired(rig, "main", "team")
    await link(rig, worked_at=rig.clock.now - replication.WORKS_MS)
    assert await rig.memory.empty_trash() == 2
    assert await trashed(rig) == []


async def test_the_edge_empties_its_trash_itself():
    edge: Any = await opened(policy=EDGE)
    await expired(edge, "main", "team")
    assert await edge.memory.empty_trash() == 2
