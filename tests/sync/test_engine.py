"""A device's round: push, pull, and what it does when the edge, the clock or the token is not as it was."""

import asyncio
from typing import Any

import pytest
from tests.core.rig import NOW, Clock, Rig, cell
from tests.sync.pair import Laptop, laptop, opened_edge

from shoal.core import replication
from shoal.core.apply import apply
from shoal.core.caller import Caller, Scope
from shoal.core.cells import INIT
from shoal.core.ids import memory_id
from shoal.schema.errors import EdgeBusy, EdgeRefused, EdgeRestored, EdgeUnreachable, LinkBroken, SyncError
from shoal.schema.wire import Refusal, RefusalCode
from shoal.sync import engine, queue

MINUTE = 60_000
MAIN = Caller(spaces=("main",))
BOTH = Caller(spaces=("main", "team"))


@pytest.fixture
async def edge() -> Rig:
    """An edge."""
    return await opened_edge()


@pytest.fixture
async def one(edge: Rig) -> Laptop:
    """A device of it."""
    return await laptop(edge, "one")


@pytest.fixture
async def two(edge: Rig) -> Laptop:
    """Another."""
    return await laptop(edge, "two")


async def contents(rig: Rig, *ids: str) -> list[str]:
    return [memory.content for memory in await rig.get(*ids)]


def failing(error: Exception, times: int = 1, name: str = "push") -> Any:
    """Return a `before` or `after` that fails so often."""

    def act(asked: str, _request: Any) -> None:
        nonlocal times
        if asked == name and times:
            times -= 1
            raise error

    return act


async def test_what_one_device_wrote_the_other_has_after_both_rounds(edge: Rig, one: Laptop, two: Laptop):
    stored = await one.rig.store("from one", tags=["a"], metadata={"k": [1]})
    first = await one.engine.round()
    second = await two.engine.round()
    assert (first.pushed, first.pulled, second.pushed, second.pulled) == (3, 3, 0, 3)
    assert (first.gained, second.lost) == (["*"], None)
    assert await two.rig.one(stored.id) == await one.rig.one(stored.id) == await edge.one(stored.id)
    assert one.dirty() == two.dirty() == []


async def test_a_round_with_nothing_to_do_is_one_request_and_writes_nothing(edge: Rig, one: Laptop):
    await one.rig.store("a memory")
    await one.engine.round()
    written = one.rig.written(), edge.written()
    one.transport.pulls.clear()
    one.transport.pushes.clear()
    await one.engine.round()
    assert (len(one.transport.pulls), len(one.transport.pushes), one.transport.asked) == (1, 0, 1)
    assert (one.rig.written(), edge.written()) == written


async def test_what_was_pulled_is_logged_and_announced(one: Laptop, two: Laptop):
    stored = await one.rig.store("from one")
    await one.engine.round()
    told: list[Any] = []
    object.__setattr__(two.rig.memory.context, "announce", told.append)
    await two.engine.round()
    assert told == [[stored.id]]
    assert two.rig.rows("select action, client from write_log") == [("sync", "edge")]


async def test_it_tells_of_each_page(edge: Rig, one: Laptop):
    for number in range(5):
        await one.rig.store(f"memory {number}")
        await edge.store(f"memory of the edge {number}")
    heard: list[tuple[str, int, int]] = []
    report = await one.engine.round(lambda phase, now: heard.append((phase, now.pushed, now.pulled)), limit=3)
    assert heard[:2] == [("push", 3, 0), ("push", 5, 0)]
    assert heard[-1] == ("pull", 5, 10)
    assert (report.pushed, report.pulled) == (5, 10)


async def test_the_same_text_on_two_devices_becomes_one_memory_with_both_sets_of_tags(one: Laptop, two: Laptop):
    stored = await one.rig.store("same", tags=["a"])
    await two.rig.store("same", tags=["b"])
    for device in (one, two, one):
        await device.engine.round()
    assert (await one.rig.one(stored.id)).tags == (await two.rig.one(stored.id)).tags == ["a", "b"]


async def test_a_delete_beats_an_edit_that_did_not_know_of_it(one: Laptop, two: Laptop):
    stored = await one.rig.store("memory")
    await one.engine.round()
    await two.engine.round()
    await one.rig.delete(stored.id)
    two.rig.clock.now += MINUTE
    await two.rig.update(stored.id, tags=["later"])
    for device in (one, two, one):
        await device.engine.round()
    assert [(await device.rig.one(stored.id)).state for device in (one, two)] == ["trashed", "trashed"]


async def test_a_purge_takes_everything_of_that_life_with_it_and_a_revive_is_explicit(one: Laptop, two: Laptop):
    stored = await one.rig.store("memory", tags=["old"])
    await one.engine.round()
    await two.engine.round()
    await one.rig.purge(stored.id)
    await two.rig.update(stored.id, tags=["later"])
    for device in (one, two, one):
        await device.engine.round()
    assert await contents(two.rig, stored.id) == []
    assert two.rig.rows("select * from cell") == []
    await two.rig.store("memory", tags=["new"], revive=True)
    for device in (two, one):
        await device.engine.round()
    assert (await one.rig.one(stored.id)).tags == ["new"]


async def test_a_push_whose_answer_was_lost_is_done_again_and_changes_nothing(edge: Rig, one: Laptop):
    await one.rig.store("memory", tags=["a"])
    one.transport.after = failing(EdgeUnreachable("No answer.", "Wait."))
    with pytest.raises(EdgeUnreachable):
        await one.engine.round()
    assert len(one.dirty()) == 2
    before = edge.rows("select hlc from record union all select hlc from cell")
    report = await one.engine.round()
    assert (report.pushed, one.dirty()) == (2, [])
    assert edge.rows("select hlc from record union all select hlc from cell") == before


async def test_a_pull_whose_answer_was_lost_is_done_again(edge: Rig, one: Laptop):
    stored = await edge.store("memory")
    one.transport.after = failing(EdgeUnreachable("No answer.", "Wait."), name="pull")
    with pytest.raises(EdgeUnreachable):
        await one.engine.round()
    await one.engine.round()
    assert await contents(one.rig, stored.id) == ["memory"]


@pytest.mark.parametrize("error", [EdgeBusy("Busy.", "Wait.", retry_after_s=3.0), LinkBroken("No.", "Link.")])
async def test_what_cannot_be_done_now_is_raised_and_waits(one: Laptop, error: SyncError):
    await one.rig.store("memory")
    one.transport.before = failing(error)
    with pytest.raises(type(error)):
        await one.engine.round()
    assert one.dirty() == [("init", 1)]
    assert (await one.engine.round()).pushed == 1


async def test_a_write_while_a_push_is_under_way_is_pushed_next(edge: Rig, one: Laptop):
    stored = await one.rig.store("memory", metadata={"k": 1})

    async def written() -> None:
        await one.rig.update(stored.id, metadata={"k": 2})

    writing: list[Any] = []
    one.transport.before = lambda name, _request: (
        writing.append(asyncio.ensure_future(written())) if name == "push" and not writing else None
    )
    await one.engine.round()
    await writing[0]
    await one.engine.round()
    assert (await edge.one(stored.id)).metadata == {"k": 2}


async def test_a_round_that_is_cut_off_anywhere_is_finished_by_the_next(edge: Rig):
    await edge.store("of the edge", tags=["x"])
    whole = 0
    for steps in range(1, 400, 7):
        device = await laptop(edge, f"d{steps}")
        stored = await device.rig.store(f"memory {steps}", tags=["a"])
        round_ = device.engine.round(limit=2)
        try:
            for _ in range(steps):
                round_.send(None)
        except StopIteration:
            whole += 1
        round_.close()
        await device.new_engine().round()
        assert device.dirty() == []
        assert (await edge.one(stored.id)).tags == ["a"]
        assert await contents(device.rig, memory_id("main", "of the edge")) == ["of the edge"]
        if whole:
            return
    raise AssertionError("no round came to its end")


async def test_a_cell_that_the_edge_refuses_is_laid_aside_and_the_rest_goes_on(edge: Rig, one: Laptop):
    stored = await one.rig.store("memory", tags=["a"], importance=0.5)
    one.rig.connection.execute("update cell set value = 7 where field = 'importance'")
    report = await one.engine.round()
    assert (report.pushed, report.refused) == (2, 1)
    assert one.dirty() == [("importance", 2)]
    assert one.rig.rows("select field, code from sync_refused") == [("importance", "malformed")]
    assert (await edge.one(stored.id)).tags == ["a"]
    assert (await one.engine.round()).refused == 0
    await one.rig.update(stored.id, importance=1.5)
    await one.engine.round()
    assert one.dirty() == one.rig.rows("select * from sync_refused") == []


async def test_a_request_that_is_refused_is_halved_until_the_cell_to_blame_stands_alone(edge: Rig, one: Laptop):
    for number in range(8):
        await one.rig.store(f"memory {number}", tags=["poison"] if number == 5 else None)

    def refusing(name: str, request: Any) -> None:
        if name == "push" and any(sent[2] == "tag:poison" for sent in request.cells):
            raise EdgeRefused("Bad request.", "None.", refused_status=400)

    one.transport.before = refusing
    report = await one.engine.round()
    assert (report.pushed, report.refused) == (8, 1)
    assert one.rig.rows("select field, code, message from sync_refused") == [("tag:poison", "refused", "Bad request.")]
    assert edge.value("select count(*) from record") == 8
    assert len(one.transport.pushes) <= 9
    one.transport.before = lambda _name, _request: None
    await queue.again(one.rig.database)
    assert (await one.engine.round()).pushed == 1
    assert one.dirty() == []


@pytest.mark.parametrize("index", [-1, 2, 10**9])
async def test_a_refusal_of_what_was_not_sent_is_passed_over(one: Laptop, index: int):
    await one.rig.store("memory", tags=["a"])

    def nonsense(name: str, answer: Any) -> None:
        if name == "push":
            answer.refused.append(Refusal(index=index, code=RefusalCode.MALFORMED, message="What?"))

    one.transport.after = nonsense
    report = await one.engine.round()
    assert (report.pushed, report.refused, one.dirty()) == (2, 0, [])


async def test_a_device_whose_clock_is_ahead_is_set_right_and_loses_nothing(edge: Rig):
    device = await laptop(edge, "ahead", clock=Clock(NOW + 60 * MINUTE))
    stored = await device.rig.store("memory", tags=["a"])
    device.rig.clock.now += 1
    await device.rig.update(stored.id, metadata={"k": 1})
    report = await device.engine.round()
    assert (report.restamped, report.refused, device.dirty()) == (True, 0, [])
    assert (await edge.one(stored.id)).tags == ["a"]
    assert device.rig.value("select v from meta where k = 'sync_offset_ms'") == -60 * MINUTE - 1
    await device.rig.update(stored.id, metadata={"k": 2})
    assert not (await device.engine.round()).restamped
    newest = edge.value("select max(hlc) from cell")
    assert int(newest[:19]) // 65536 == NOW
    assert (await edge.one(stored.id)).metadata == {"k": 2}


async def test_a_device_whose_clock_is_behind_learns_the_time_before_it_writes_again(edge: Rig):
    device = await laptop(edge, "behind", clock=Clock(NOW - 60 * MINUTE))
    await device.engine.round()
    await device.rig.store("memory")
    assert int(device.rig.value("select hlc from record")[:19]) == NOW * 65536


@pytest.mark.parametrize("slept", [60 * MINUTE, -60 * MINUTE])
async def test_an_answer_during_which_the_device_slept_or_its_clock_was_set_tells_no_time(edge: Rig, slept: int):
    device = await laptop(edge, "one", clock=Clock())

    def sleep(_name: str, _answer: Any) -> None:
        device.rig.clock.now += slept

    device.transport.after = sleep
    await device.engine.round()
    assert device.rig.rows("select v from meta where k = 'sync_offset_ms'") == []


async def test_an_edge_that_finds_its_own_time_ahead_is_not_asked_for_ever(one: Laptop):
    await one.rig.store("memory")

    def ahead(name: str, answer: Any) -> None:
        if name == "push":
            answer.refused.append(Refusal(index=0, code=RefusalCode.CLOCK_AHEAD, message="Ahead."))

    one.transport.after = ahead
    with pytest.raises(SyncError, match="ahead"):
        await one.engine.round()
    assert len(one.transport.pushes) == 1 + engine.RESTAMPS_MAX
    assert one.dirty() == [("init", 1)]


async def test_a_restored_edge_gets_back_what_its_devices_have(edge: Rig, one: Laptop, two: Laptop):
    await one.engine.round()
    before = edge.connection.serialize("main")
    stored = await one.rig.store("memory", tags=["a"])
    kept = await edge.store("of the edge")
    await one.engine.round()
    await two.engine.round()
    edge.connection.deserialize("main", before)
    later = await edge.store("later")
    report = await one.engine.round()
    assert (report.restored, one.dirty()) == (True, [])
    assert sorted(await contents(edge, stored.id, kept.id, later.id)) == ["later", "memory", "of the edge"]
    await two.engine.round()
    assert await contents(two.rig, later.id) == ["later"]


async def test_an_edge_that_was_restored_between_a_push_and_the_pull_is_noticed(edge: Rig, one: Laptop):
    await one.engine.round()
    before = edge.connection.serialize("main")
    stored = await one.rig.store("memory")
    one.transport.before = failing(EdgeUnreachable("No answer.", "Wait."), name="pull")
    with pytest.raises(EdgeUnreachable):
        await one.engine.round()
    assert one.dirty() == []
    edge.connection.deserialize("main", before)
    assert (await one.new_engine().round()).restored
    assert await contents(edge, stored.id) == ["memory"]


async def test_a_restored_edge_is_noticed_by_a_push_before_it_judges_by_its_clock(edge: Rig, one: Laptop):
    await one.rig.store("memory")
    before = edge.connection.serialize("main")
    await one.engine.round()
    edge.connection.deserialize("main", before)
    await one.rig.store("another")
    report = await one.engine.round()
    assert (report.restored, report.pushed) == (True, 2)


async def test_an_edge_that_is_restored_again_meanwhile_is_left_to_the_next_round(one: Laptop):
    await one.rig.store("memory")
    one.transport.before = failing(EdgeRestored("Restored.", "Again."), times=2, name="pull")
    with pytest.raises(EdgeRestored):
        await one.engine.round()
    assert (await one.engine.round()).pulled == 1


async def test_a_device_that_is_linked_with_another_edge_brings_everything(edge: Rig, one: Laptop):
    stored = await one.rig.store("memory", tags=["a"])
    await one.engine.round()
    await one.rig.database.batch(list(replication.unlinked()))
    other = await opened_edge()
    one.transport.edge = other
    report = await one.new_engine().round()
    assert report.pushed == 2
    assert (await other.one(stored.id)).tags == ["a"]


async def test_a_device_has_the_spaces_of_its_token_and_no_others(edge: Rig):
    await edge.store("ours", space="main")
    theirs = await edge.store("theirs", space="team")
    device = await laptop(edge, "one", MAIN)
    report = await device.engine.round()
    assert (report.gained, report.pulled) == (["main"], 1)
    attic = await device.rig.store("mine alone", space="attic")
    await device.engine.round()
    assert device.dirty() == [("init", 1)]
    assert await contents(edge, attic.id) == []
    device.transport.caller = BOTH
    assert (await device.engine.round()).gained == ["team"]
    assert await contents(device.rig, theirs.id) == ["theirs"]


@pytest.mark.parametrize("everything", [BOTH, Caller()])
async def test_a_space_that_is_lost_leaves_after_a_copy_was_made_and_comes_back_whole(edge: Rig, everything: Caller):
    theirs = await edge.store("theirs", space="team", tags=["a"])
    device = await laptop(edge, "one", everything)
    await device.engine.round()
    unsent = await device.rig.store("not sent yet", space="team")
    device.transport.caller = MAIN
    report = await device.engine.round()
    assert (report.lost, device.copied) == (["team"], [["team"]])
    assert await contents(device.rig, theirs.id, unsent.id) == []
    assert device.dirty() == []
    assert (await device.engine.round()).lost is None
    device.transport.caller = everything
    await device.engine.round()
    assert (await device.rig.one(theirs.id)).tags == ["a"]


async def test_what_is_written_while_a_space_is_being_copied_gets_a_copy_too(edge: Rig):
    device = await laptop(edge, "one", BOTH)
    await device.rig.store("early", space="team")
    await device.engine.round()
    copies: list[list[tuple[Any, ...]]] = []

    async def copy_slowly(_spaces: list[str]) -> None:
        copies.append(device.rig.rows("select init->>'content' from record where init is not null order by 1"))
        if len(copies) == 1:
            await device.rig.store("late", space="team")

    device.engine._keep_copy = copy_slowly
    device.transport.caller = MAIN
    assert (await device.engine.round()).lost == ["team"]
    assert copies == [[("early",)], [("late",)]]
    assert device.rig.value("select count(*) from record where rank > 0") == 0


async def test_a_space_stays_until_its_copy_was_made(edge: Rig):
    theirs = await edge.store("theirs", space="team")
    device = await laptop(edge, "one", BOTH)
    await device.engine.round()

    async def failing_copy(_spaces: list[str]) -> None:
        raise OSError

    device.engine._keep_copy = failing_copy
    device.transport.caller = MAIN
    for _ in range(2):
        with pytest.raises(OSError):
            await device.engine.round()
    assert await contents(device.rig, theirs.id) == ["theirs"]
    await device.new_engine().round()
    assert (device.copied, await contents(device.rig, theirs.id)) == ([["team"]], [])


async def test_what_may_only_be_read_is_pulled_and_writes_wait_until_they_may_be_sent(edge: Rig):
    theirs = await edge.store("theirs")
    device = await laptop(edge, "one", Caller(scopes=frozenset({Scope.SYNC, Scope.READ})))
    await device.rig.store("mine")
    report = await device.engine.round()
    assert (report.pushed, report.pulled, device.transport.pushes) == (0, 1, [])
    assert await contents(device.rig, theirs.id) == ["theirs"]
    device.transport.caller = Caller()
    await device.engine.round()
    assert (await device.engine.round()).pushed + device.dirty().count(("init", 1)) <= 1
    assert device.dirty() == []


async def test_a_purge_that_is_not_the_devices_to_make_is_laid_aside(edge: Rig):
    stored = await edge.store("memory")
    device = await laptop(edge, "one", Caller(scopes=frozenset(Scope) - {Scope.ADMIN}))
    await device.engine.round()
    await device.rig.purge(stored.id)
    assert (await device.engine.round()).refused == 1
    assert device.rig.rows("select field, code from sync_refused") == [("", "not_allowed")]
    assert await contents(edge, stored.id) == ["memory"]


async def test_what_a_newer_version_wrote_is_kept_and_passed_on(edge: Rig, one: Laptop, two: Laptop):
    stored = await one.rig.store("memory")
    strange = memory_id("main", "strange")
    newer = [
        cell(stored.id, "zz:new", 1, NOW, "x"),
        cell(strange, INIT, 1, NOW + 1, {"v": 9, "class": "widget", "space": "main", "more": [1]}),
    ]
    context = one.rig.memory.context
    await apply(context.database, newer, context.replica, NOW, engine.EDGE)
    await one.engine.round()
    await two.engine.round()
    for rig in (edge, two.rig):
        assert rig.rows("select value from cell where field = 'zz:new'") == [("x",)]
        assert rig.rows("select class from record where class = 'widget'") == [("widget",)]
        assert await contents(rig, stored.id, strange) == ["memory"]


async def test_a_cell_of_the_edge_that_cannot_be_read_here_is_passed_over(edge: Rig, one: Laptop):
    stored = await edge.store("memory", tags=["a"])
    edge.connection.execute("update cell set value = 'seven' where field = 'tag:a'")
    report = await one.engine.round()
    assert (report.skipped, report.pulled) == (1, 1)
    assert (await one.rig.one(stored.id)).tags == []
    assert (await one.engine.round()).skipped == 0


async def test_a_fresh_device_gets_the_living_state_in_pages(edge: Rig, one: Laptop):
    for number in range(20):
        await edge.store(f"memory {number}", tags=["a"], metadata={"k": number})
    gone = memory_id("main", "memory 7")
    await edge.purge(gone)
    report = await one.engine.round(limit=7)
    assert report.pulled == 19 * 3 + 1
    assert one.rig.value("select count(*) from record where state = 1") == 19
