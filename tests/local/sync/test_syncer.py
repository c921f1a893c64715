"""The daemon's loop, in simulated time: nothing here waits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shoal.core.context import Context
from shoal.local.home import Home
from shoal.local.sync import syncer as module
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.rounds import Rounds
from shoal.local.sync.schedule import ACTIVE_S, DEBOUNCE_S
from shoal.local.sync.syncer import DRAIN_S, WATCH_S, Signals, Syncer
from shoal.schema.errors import DatabaseLocked, EdgeUnreachable, LinkBroken, NotLinked, ShoalError
from shoal.sync.engine import Report

URL = "https://edge.example"
IDLE_S = 3_600.0
UNREACHABLE = EdgeUnreachable("No answer.", "Wait.")
BROKEN = LinkBroken("Unknown token.", "Link again.")


class Over(Exception):
    """The simulated time is up."""


class Time:
    """Goes on only while the loop pauses, and does at its moments what the test has planned."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept = 0.0
        """Seconds that only the clock on the wall has seen."""
        self.end = 0.0
        self.plans: list[tuple[float, Callable[[], Any]]] = []

    def at(self, seconds: float, action: Callable[[], Any]) -> None:
        """Plan something for so long after now."""
        self.plans.append((self.now + seconds, action))
        self.plans.sort(key=lambda plan: plan[0])

    async def pause(self, event: asyncio.Event | None, seconds: float) -> None:
        end = self.now + seconds
        while not (event is not None and event.is_set()):
            if self.plans and self.plans[0][0] <= min(end, self.end):
                self.now, action = self.plans.pop(0)
                action()
                continue
            self.now = min(end, self.end)
            if end >= self.end:
                raise Over
            return


class FakeRounds:
    """Notes when rounds were; they go as the test says."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self.url: str | None = URL
        self.seq = 0
        self.at: list[float] = []
        self.outcomes: list[Exception | None] = []
        self.pulls = 0
        """Cells that each round merges."""
        self.looks: list[Exception] = []
        self.during: Callable[[], Awaitable[None]] | None = None
        self.report = Report()
        self.waiting = False
        self.closed = False
        self.exchanged_ms: int | None = None

    async def look(self) -> tuple[str | None, int]:
        if self.looks:
            raise self.looks.pop()
        return self.url, self.seq

    async def waits(self) -> bool:
        return self.waiting

    async def round(self, _hear: Any = None) -> Report:
        self.at.append(round(self._time.now - 1_000, 3))
        if self.url is None:
            raise NotLinked("No link.", "Link.")
        if self.during is not None:
            await self.during()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.seq += self.pulls
        return replace(self.report, pulled=self.pulls)

    async def close(self) -> None:
        self.closed = True


class Stage:
    """A syncer with all that is around it."""

    def __init__(self, files: SyncFiles) -> None:
        self.time = Time()
        self.rounds = FakeRounds(self.time)
        self.signals = Signals()
        self.quiet_s = IDLE_S
        self.chance = 1.0
        self.told: list[Report | ShoalError] = []
        self.syncer = Syncer(
            cast("Context", SimpleNamespace()),
            cast("Rounds", self.rounds),
            files,
            self.signals,
            15.0,
            lambda: self.quiet_s,
            told=self.told.append,
            monotonic=lambda: self.time.now,
            wall=lambda: self.time.now + self.time.slept,
            chance=lambda: self.chance,
            pause=self.time.pause,
        )

    async def run(self, seconds: float) -> list[float]:
        """Let so much time go by and return when the rounds were, in seconds from the beginning."""
        self.time.end = self.time.now + seconds
        with suppress(Over):
            await self.syncer.run()
        return self.rounds.at

    def write(self) -> None:
        """Store something, as the service tells of it."""
        self.rounds.seq += 1
        self.signals.announce(["an id"])

    def write_elsewhere(self) -> None:
        self.rounds.seq += 1


@pytest.fixture
def stage(files: SyncFiles) -> Stage:
    """A laptop that is linked and idle."""
    return Stage(files)


async def test_an_idle_link_makes_one_round_an_interval(stage: Stage):
    assert await stage.run(61) == [0, 15, 30, 45, 60]


async def test_a_laptop_in_use_polls_every_other_second(stage: Stage):
    stage.quiet_s = 1.0
    at = await stage.run(30)
    assert at[:3] == [0, ACTIVE_S, 2 * ACTIVE_S]


async def test_use_after_a_pause_is_noticed_within_two_seconds(stage: Stage):
    stage.time.at(7.1, lambda: setattr(stage, "quiet_s", 0.0))
    at = await stage.run(10)
    assert at[1] <= 7.1 + 2


async def test_a_write_is_sent_after_a_fifth_of_a_second_and_those_in_between_with_it(stage: Stage):
    for after in (5.0, 5.1, 5.15):
        stage.time.at(after, stage.write)
    assert await stage.run(10) == [0, pytest.approx(5 + DEBOUNCE_S)]


async def test_constant_writing_does_not_put_the_round_off(stage: Stage):
    for number in range(100):
        stage.time.at(1 + number * 0.05, stage.write)
    at = await stage.run(6)
    assert len([one for one in at if 1 < one < 6]) >= 20


async def test_a_write_during_a_round_is_sent_by_the_next(stage: Stage):
    async def during() -> None:
        stage.rounds.during = None
        stage.write()

    stage.rounds.during = during
    assert await stage.run(5) == [0, pytest.approx(DEBOUNCE_S)]


async def test_another_processs_write_is_seen_within_two_seconds_and_sent(stage: Stage):
    stage.time.at(5, stage.write_elsewhere)
    at = await stage.run(14)
    assert len(at) == 2
    assert at[1] <= 5 + WATCH_S + DEBOUNCE_S


async def test_what_a_round_has_merged_is_nobodys_write(stage: Stage):
    stage.rounds.pulls = 3
    assert await stage.run(31) == [0, 15, 30]
    assert (stage.syncer.sent, stage.syncer.received) == (0, 9)


async def test_failures_are_tried_again_ever_more_rarely_and_told_once(stage: Stage, caplog: pytest.LogCaptureFixture):
    stage.rounds.outcomes = [UNREACHABLE] * 5
    with caplog.at_level("INFO"):
        at = await stage.run(60)
    assert at == [0, 1, 3, 7, 15, 31, 46]
    assert caplog.text.count("No answer.") == 1
    assert "exchanged with the edge again" in caplog.text
    assert len([one for one in stage.told if isinstance(one, ShoalError)]) == 5


async def test_what_a_person_should_know_of_a_round_is_logged(stage: Stage, caplog: pytest.LogCaptureFixture):
    stage.rounds.report = Report(refused=3, restored=True, restamped=True)
    await stage.run(1)
    for part in ("refused 3 writes", "restored to an earlier time", "dated anew"):
        assert part in caplog.text


async def test_a_locked_database_is_waited_for_like_the_edge(stage: Stage):
    stage.rounds.outcomes = [DatabaseLocked("Locked.", "Wait.")]
    assert await stage.run(5) == [0, 1]


async def test_a_database_that_can_not_be_looked_at_ends_nothing(stage: Stage):
    stage.rounds.looks = [DatabaseLocked("Locked.", "Wait.")]
    assert await stage.run(5) == [WATCH_S]


async def test_a_broken_link_rests_until_it_is_linked_anew(stage: Stage, files: SyncFiles):
    def link_anew() -> None:
        files.link.parent.mkdir(parents=True)
        files.link.write_text("{}")

    stage.rounds.outcomes = [BROKEN]
    stage.time.at(30, stage.write)
    stage.time.at(100, link_anew)
    at = await stage.run(110)
    assert at[0] == 0
    assert 100 <= at[1] <= 100 + WATCH_S
    assert len(at) == 2


async def test_a_link_that_appears_or_goes_is_noticed_while_it_runs(stage: Stage):
    stage.rounds.url = None
    stage.time.at(9, stage.write)
    stage.time.at(10, lambda: setattr(stage.rounds, "url", URL))
    stage.time.at(40, lambda: setattr(stage.rounds, "url", None))
    at = await stage.run(100)
    assert 10 <= at[0] <= 10 + WATCH_S
    assert at[-1] <= 40 + WATCH_S
    assert stage.syncer.next_s() == float("inf")


async def test_another_edge_is_asked_within_two_seconds(stage: Stage):
    stage.time.at(5, lambda: setattr(stage.rounds, "url", "https://other.example"))
    at = await stage.run(10)
    assert len(at) == 2
    assert 5 <= at[1] <= 5 + WATCH_S


async def test_a_long_round_is_no_sleep(stage: Stage):
    async def during() -> None:
        stage.rounds.during = None
        stage.time.now += 60

    stage.rounds.during = during
    stage.rounds.outcomes = [UNREACHABLE]
    assert await stage.run(62) == [0, 61]


async def test_after_a_sleep_it_polls_at_once_whatever_failed_before(stage: Stage):
    def sleep() -> None:
        stage.time.slept += 8 * 3_600

    stage.rounds.outcomes = [UNREACHABLE] * 8
    stage.time.at(150, sleep)
    at = await stage.run(160)
    assert at[:8] == [0, 1, 3, 7, 15, 31, 63, 127]
    assert 150 <= at[8] <= 150 + WATCH_S


async def test_a_round_in_which_the_machine_has_slept_is_broken_off_and_begun_anew(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "WATCH_S", 1 / 64)
    cut = asyncio.Event()

    async def during() -> None:
        stage.rounds.during = None
        stage.time.slept += 3_600
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    stage.rounds.during = during
    at = await stage.run(1)
    assert cut.is_set()
    assert at == [0, 0]
    assert not stage.syncer.working


async def test_a_fault_of_ours_ends_the_job_which_the_daemon_starts_again(stage: Stage):
    stage.rounds.outcomes = [RuntimeError("a fault")]
    stage.time.end = 1e9
    with pytest.raises(RuntimeError):
        await stage.syncer.run()
    assert not stage.syncer.working


async def test_a_round_that_somebody_asks_for_ends_the_waiting_after_failures(stage: Stage):
    stage.chance = 100.0
    stage.rounds.outcomes = [UNREACHABLE]
    stage.time.at(5, lambda: None)
    await stage.run(5)
    assert stage.syncer.next_s() > 50
    await stage.syncer.exchange_now(lambda _: None, retry=False)
    assert stage.syncer.next_s() == 15


# The end


async def test_at_the_end_what_waits_is_sent(stage: Stage):
    await stage.run(1)
    stage.rounds.waiting = True
    await stage.syncer.drain()
    assert len(stage.rounds.at) == 2
    assert stage.rounds.closed


async def test_at_the_end_nothing_is_asked_when_nothing_waits_or_nobody_answers_or_there_is_no_link(files: SyncFiles):
    for waiting, outcome, url in [(False, None, URL), (True, UNREACHABLE, URL), (True, None, None)]:
        stage = Stage(files)
        stage.rounds.url = url
        stage.rounds.outcomes = [outcome]
        await stage.run(0.5)
        stage.rounds.waiting = waiting
        before = len(stage.rounds.at)
        await stage.syncer.drain()
        assert len(stage.rounds.at) == before
        assert stage.rounds.closed


async def test_an_edge_that_does_not_answer_holds_up_the_end_for_a_bounded_time(
    stage: Stage, caplog: pytest.LogCaptureFixture
):
    assert DRAIN_S <= 3
    await stage.run(1)
    stage.rounds.waiting = True

    async def for_ever() -> None:
        await asyncio.Event().wait()

    stage.rounds.during = for_ever
    with caplog.at_level("INFO"):
        await stage.syncer.drain(within_s=0.01)
    assert "at the next start" in caplog.text
    assert stage.rounds.closed


async def test_what_fails_at_the_end_is_no_failure_of_the_end(stage: Stage):
    await stage.run(1)
    stage.rounds.waiting = True
    stage.rounds.outcomes = [UNREACHABLE]
    await stage.syncer.drain()
    assert stage.rounds.closed


def test_the_service_hears_when_a_round_last_went_well(stage: Stage):
    assert stage.signals.exchanged() is None
    stage.rounds.exchanged_ms = 7
    assert stage.signals.exchanged() == 7


async def test_real_pauses_end_with_their_event_or_their_time(home: Home):
    event = asyncio.Event()
    event.set()
    await asyncio.wait_for(module._pause(event, 60), 1)
    await asyncio.wait_for(module._pause(asyncio.Event(), 0.01), 1)
    await asyncio.wait_for(module._pause(None, 0.01), 1)
