"""Rounds of a real database with an edge in the same process, and what is noted of them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from tests.local.sync.laptop import Edge, laptop

from shoal.core import replication
from shoal.core.caller import Caller
from shoal.core.protocols import Statement
from shoal.local.home import Home
from shoal.local.sync import copies, rounds
from shoal.local.sync.files import held
from shoal.schema.errors import DatabaseCorrupt, DatabaseFull, EdgeUnreachable, LinkBroken, NotLinked, SyncError

MINUTE_MS = 60_000
UNREACHABLE = EdgeUnreachable("No answer.", "Wait.")


@pytest.fixture
async def edge() -> Edge:  # type: ignore[misc] - of another kind than conftest's, which serves over HTTP
    """An edge that lets its caller do everything."""
    return await Edge.opened()


async def test_a_round_sends_and_receives_and_says_when_it_was(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.store("from the laptop")
        report = await one.rounds.round()
        assert report.pushed >= 1
        assert (await edge.memory.stats(Caller())).total == 1
        info = await one.info()
        assert (info.queue, info.lag_s, info.failure, info.quarantine) == (0, 0.0, None, 0)
        assert info.last_success is not None
        assert one.rounds.exchanged_ms == one.now_ms[0]


async def test_without_a_link_there_is_no_round(edge: Edge, home: Home):
    async with laptop(home, edge, url=None) as one:
        with pytest.raises(NotLinked, match="shoal link URL"):
            await one.rounds.round()
        assert edge.asked == []


async def test_another_edge_is_asked_once_the_link_is_to_another(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        await one.database.batch([replication.linked("https://other.example")])
        await one.rounds.round()
        assert edge.closed == 1
        await one.database.batch(list(replication.unlinked()))
        with pytest.raises(NotLinked):
            await one.rounds.round()
        assert edge.closed == 2


async def test_an_idle_link_writes_nothing_but_now_and_then_and_at_the_end(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        begun, commits = await one.meta("sync_success_at"), one.database.commits
        for _ in range(5):
            one.now_ms[0] += MINUTE_MS
            await one.rounds.round()
        assert one.database.commits == commits
        assert one.rounds.exchanged_ms == begun + 5 * MINUTE_MS
        one.now_ms[0] += rounds.WORKING_NOTED_EVERY_MS
        await one.rounds.round()
        assert one.database.commits == commits + 1
        one.now_ms[0] += MINUTE_MS
        await one.rounds.round()
        await one.rounds.close()
        assert await one.meta("sync_success_at") == one.now_ms[0]


async def test_a_round_that_changed_something_is_noted_at_once(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        one.now_ms[0] += MINUTE_MS
        await one.store("one thing")
        await one.rounds.round()
        assert await one.meta("sync_success_at") == one.now_ms[0]


async def test_a_failure_is_noted_once_with_its_beginning_and_goes_with_the_next_success(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        edge.failures = [UNREACHABLE, UNREACHABLE, LinkBroken("Unknown token.", "Link again."), UNREACHABLE]
        started = one.now_ms[0] = one.now_ms[0] + MINUTE_MS
        commits: list[int] = []
        for expected in (EdgeUnreachable, EdgeUnreachable, LinkBroken):
            with pytest.raises(expected):
                await one.rounds.round()
            commits.append(one.database.commits)
            one.now_ms[0] += MINUTE_MS // 2
        assert commits[0] == commits[1] < commits[2]
        failure = (await one.info()).failure
        assert (failure.code, failure.mend) == ("link_broken", "Link again.")
        assert replication._ms(failure.since) == started
        assert replication._ms(failure.at) == started + MINUTE_MS
        edge.failures.clear()
        await one.rounds.round()
        assert (await one.info()).failure is None


async def test_a_failure_is_noted_again_when_another_process_has_had_a_success_meanwhile(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        edge.failures = [UNREACHABLE, UNREACHABLE]
        for _ in range(2):
            with pytest.raises(EdgeUnreachable):
                await one.rounds.round()
            assert (await one.info()).failure.code == "edge_unreachable"
            await one.database.batch([*replication.succeeded(one.now_ms[0], 0, "*")])
            one.now_ms[0] += rounds.FAILURE_NOTED_EVERY_MS


async def test_when_another_edge_last_worked_is_no_success_of_this_one(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        await one.database.batch([*replication.unlinked(), replication.linked("https://other.example")])
        edge.failures = [UNREACHABLE]
        with pytest.raises(EdgeUnreachable):
            await one.rounds.round()
        assert one.rounds.exchanged_ms is None
        assert (await one.info()).last_success is None


async def test_a_fault_of_ours_is_noted_without_its_text_and_raised(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        edge.failures = [KeyError("the content of a memory")]
        with pytest.raises(KeyError):
            await one.rounds.round()
        failure = (await one.info()).failure
        assert "KeyError" in failure.message
        assert "content" not in failure.message


async def test_a_disk_that_takes_no_note_does_not_hide_why_a_round_failed(
    edge: Edge, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async with laptop(home, edge) as one:
        batch = one.database.batch

        async def full(_statements: list[Statement]) -> None:
            raise DatabaseFull("The disk is full.", "Make room.")

        edge.failures = [UNREACHABLE, UNREACHABLE]
        monkeypatch.setattr(one.database, "batch", full)
        with pytest.raises(EdgeUnreachable):
            await one.rounds.round()
        assert "could not be noted" in caplog.text
        monkeypatch.setattr(one.database, "batch", batch)
        with pytest.raises(EdgeUnreachable):
            await one.rounds.round()
        assert (await one.info()).failure.code == "edge_unreachable"


async def test_while_another_process_exchanges_a_round_waits_or_says_so(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        async with held(one.files.round_lock, 0, "testing"):
            with pytest.raises(SyncError, match="Another process has been exchanging memories"):
                await one.rounds.round(wait_s=0)
            waiting = asyncio.create_task(one.rounds.round())
            await asyncio.sleep(0)
            assert edge.asked == []
        await asyncio.wait_for(waiting, 5)
        assert "pull" in edge.asked


async def test_what_may_not_be_written_at_the_edge_is_told_apart_from_what_waits(edge: Edge, home: Home):
    edge.caller = Caller(spaces=("main",))
    async with laptop(home, edge) as one:
        await one.store("mine alone", space="private")
        await one.rounds.round()
        info = await one.info()
        assert (info.queue, info.lag_s) == (0, 0.0)
        assert info.not_shared >= 1
        one.now_ms[0] += 2 * replication.STANDING_MS
        await one.rounds.round()
        assert replication.troubles(await one.info(), one.now_ms[0]) == []


async def test_what_the_edge_refuses_is_counted_by_its_reason(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        await one.rounds.round()
        await one.store("poison")
        edge.refuses_pushes = True
        await one.rounds.round()
        info = await one.info()
        assert info.refused == {"refused": info.quarantine}
        assert info.quarantine >= 1
        assert [note.code for note in replication.troubles(info, one.now_ms[0])] == ["sync"]


# A space leaves


async def left(edge: Edge, home: Home, *spaces: str) -> Path:
    """Let a laptop have some spaces, store in each, then take them away. Return the copy that was made."""
    async with laptop(home, edge) as one:
        for space in spaces:
            await one.store(f"in {space}", space=space)
        edge.caller = Caller(spaces=("main", *spaces))
        await one.rounds.round()
        await one.store("not sent yet", space=spaces[0])
        edge.caller = Caller(spaces=("main",))
        report = await one.rounds.round()
        assert report.lost == sorted(spaces)
        assert (await one.memory.stats(Caller())).spaces == {}
        (told,) = (await one.info()).left
        assert told.spaces == sorted(spaces)
        return Path(told.backup)


async def test_before_a_space_leaves_a_checked_copy_keeps_it_with_what_was_not_sent(
    edge: Edge, home: Home, caplog: pytest.LogCaptureFixture
):
    copy = await left(edge, home, "team")
    assert copy.parent == home.backups
    assert copy.name.endswith("-before-losing-team.db")
    assert str(copy) in caplog.text
    database = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    texts = {text for (text,) in database.execute("select init->>'content' from record where space = 'team'")}
    assert texts == {"in team", "not sent yet"}


async def test_a_copy_is_named_by_what_a_file_may_be_called(edge: Edge, home: Home):
    copy = await left(edge, home, "../team/ü", "zoo")
    assert copy.parent == home.backups
    assert copy.name.endswith("-before-losing-.._team_ü-and-1-more.db")


async def test_without_a_copy_nothing_leaves(edge: Edge, home: Home):
    home.ensure()
    home.backups.write_text("a file where the folder should be")
    async with laptop(home, edge) as one:
        await one.store("precious", space="team")
        edge.caller = Caller(spaces=("main", "team"))
        await one.rounds.round()
        edge.caller = Caller(spaces=("main",))
        with pytest.raises(Exception, match="can't be made"):
            await one.rounds.round()
        assert (await one.memory.stats(Caller())).spaces == {"team": 1}
        # Once it can be made, it leaves.
        home.backups.unlink()
        assert (await one.rounds.round()).lost == ["team"]


async def test_a_copy_that_is_not_sound_keeps_the_space_here(edge: Edge, home: Home, monkeypatch: pytest.MonkeyPatch):
    async def unsound(path: Path) -> None:
        raise DatabaseCorrupt(f"{path} can't be used.", "Use another.")

    monkeypatch.setattr(copies, "check_backup", unsound)
    async with laptop(home, edge) as one:
        await one.store("precious", space="team")
        edge.caller = Caller(spaces=("main", "team"))
        await one.rounds.round()
        edge.caller = Caller(spaces=("main",))
        with pytest.raises(DatabaseCorrupt):
            await one.rounds.round()
        assert (await one.memory.stats(Caller())).spaces == {"team": 1}
        assert (await one.info()).left == []


async def test_one_state_of_the_database_is_copied_once(edge: Edge, home: Home, monkeypatch: pytest.MonkeyPatch):
    made: list[list[str]] = []

    async def keep(_context: object, _database: object, _folder: Path, spaces: list[str]) -> None:
        made.append(spaces)

    monkeypatch.setattr(rounds, "keep_copy", keep)
    async with laptop(home, edge) as one:
        for _ in range(2):
            await one.rounds.keep_copy(["team"])
        assert made == [["team"]]
        await one.store("more", space="team")
        await one.rounds.keep_copy(["team"])
        assert len(made) == 2


async def test_two_copies_of_one_second_do_not_replace_each_other(edge: Edge, home: Home):
    async with laptop(home, edge) as one:
        still = replace(one.memory.context, clock=lambda: 1_790_000_000_000)
        names = {(await copies.keep_copy(still, one.database, home.backups, ["team"])).name for _ in range(2)}
        assert len(names) == 2
        assert [found.spaces for found in (await one.info()).left] == [["team"], ["team"]]
        await one.database.batch([replication.seen()])
        assert (await one.info()).left == []
