import asyncio
from collections.abc import Callable

import pytest

from shoal.local import background
from shoal.local.background import Activity, embed, end_when_idle, keep_going, reword, upkeep
from shoal.schema.errors import ModelUnavailable
from shoal.schema.models import ModelStatus


class Clock:
    """Seconds that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Memory:
    """Work that is to be done, in numbers."""

    def __init__(self, waiting: int = 0, failures: int = 0, state: str = "ready", logged: int = 0) -> None:
        self.waiting = waiting
        self.failures = failures
        self.state = state
        self.logged = logged
        self.steps: list[int] = []

    async def embed_pending(self, limit: int) -> int:
        if self.failures:
            self.failures -= 1
            raise ModelUnavailable("No model.", "Get one.")
        done = min(limit, self.waiting)
        self.waiting -= done
        self.steps.append(done)
        return done

    async def pending(self) -> int:
        return self.waiting

    def model_status(self) -> ModelStatus:
        return ModelStatus(fingerprint=None, state=self.state)

    async def reword(self) -> int:
        return await self.embed_pending(10)

    async def empty_trash(self) -> int:
        return await self.embed_pending(10)

    async def expire_log(self) -> int:
        self.logged = max(self.logged - 10, 0)
        return self.logged


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the fakes are plain numbers
            await asyncio.sleep(0.005)


async def test_idle_time_counts_from_the_end_of_the_last_request() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now = 10
    assert activity.idle_s() == 10
    async with activity.request():
        clock.now = 50
        assert activity.idle_s() == 0
    clock.now = 53
    assert activity.idle_s() == 3


async def test_use_counts_from_the_beginning_of_the_last_request() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now = 10
    async with activity.request():
        clock.now = 50
        # An event stream that stays open is nobody's use of the daemon.
        assert activity.quiet_s() == 40


async def test_work_that_no_request_has_brought_wakes_too() -> None:
    activity = Activity()
    waiting = asyncio.create_task(activity.next_request(60))
    await asyncio.sleep(0)
    activity.work_came()
    await asyncio.wait_for(waiting, 1)


async def nothing() -> None:
    pass


async def test_work_waits_for_requests_but_not_without_end() -> None:
    activity = Activity()
    async with activity.request():
        loop = asyncio.get_running_loop()
        started = loop.time()
        await activity.quiet(0.05)
        assert loop.time() - started >= 0.045
    await asyncio.wait_for(activity.quiet(60), 1)


async def test_the_backlog_is_embedded_and_a_request_wakes_the_embedder() -> None:
    memory, activity = Memory(waiting=70), Activity()
    task = asyncio.create_task(embed(memory, activity, nothing))
    await until(lambda: memory.waiting == 0)
    assert memory.steps[:3] == [32, 32, 6]
    memory.waiting = 1
    async with activity.request():
        pass
    await until(lambda: memory.waiting == 0)
    task.cancel()


async def test_a_model_that_fails_is_tried_again_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RETRY_MIN_S", 0.01)
    memory = Memory(waiting=1, failures=3)
    task = asyncio.create_task(embed(memory, Activity(), nothing))
    await until(lambda: memory.waiting == 0)
    task.cancel()
    assert [record.args[0] for record in caplog.records if record.args] == [0.01, 0.02, 0.04]


async def test_words_are_rewritten_until_none_is_left() -> None:
    memory = Memory(waiting=25)
    await reword(memory, Activity())
    assert memory.steps == [10, 10, 5, 0]


async def test_the_trash_and_the_old_log_are_emptied_in_bounded_steps_and_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "UPKEEP_EVERY_S", 0.01)
    memory = Memory(waiting=15, logged=25)
    task = asyncio.create_task(upkeep(memory))
    await until(lambda: len(memory.steps) > 3)
    task.cancel()
    assert memory.steps[:3] == [10, 5, 0]
    assert memory.logged == 0


async def test_the_daemon_ends_when_nobody_calls_and_nothing_is_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "IDLE_CHECK_S", 0.01)
    memory, activity, stopped = Memory(waiting=1), Activity(), asyncio.Event()
    task = asyncio.create_task(end_when_idle(memory, activity, 0.02, stopped.set))
    await asyncio.sleep(0.1)
    assert not stopped.is_set()
    memory.waiting = 0
    async with activity.request():
        await asyncio.sleep(0.1)
        assert not stopped.is_set()
    await asyncio.wait_for(stopped.wait(), 5)
    await task


async def test_a_backlog_that_no_model_can_take_does_not_keep_the_daemon_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "IDLE_CHECK_S", 0.01)
    stopped = asyncio.Event()
    memory = Memory(waiting=1, state="unavailable")
    await asyncio.wait_for(end_when_idle(memory, Activity(), 0.02, stopped.set), 5)
    assert stopped.is_set()


async def test_a_job_that_fails_is_logged_and_starts_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RESTART_S", 0.01)
    runs: list[int] = []

    async def job() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise RuntimeError("a fault of ours")

    await keep_going("count", job)
    assert len(runs) == 2
    assert "a fault of ours" in caplog.text
