"""What one run of a Worker may do."""

import asyncio

import pytest
from tests.edge.doubles import invocation as module
from tests.edge.doubles.invocation import FREE_PLAN, Limits, ProductionRuleBroken, invocation, now_ms, subrequest


async def call(name: str = "ai.run", statements: int = 0) -> None:
    async with subrequest(name, statements):
        await asyncio.sleep(0)


def test_the_limits_are_those_of_the_free_plan():
    assert (FREE_PLAN.d1_statements, FREE_PLAN.subrequests, FREE_PLAN.connections) == (50, 50, 6)


async def test_calls_are_counted_by_name():
    with invocation() as run:
        await call("d1.batch", 3)
        await call("ai.run")
        await call("ai.run")
    assert run.calls == {"d1.batch": 1, "ai.run": 2}
    assert (run.subrequests, run.d1_statements) == (3, 3)


async def test_the_fiftieth_statement_passes_and_the_next_breaks_the_rule():
    breach = "D1 statements per invocation: 51 statements, at most 50"
    with pytest.raises(ProductionRuleBroken, match=breach), invocation():
        await call("d1.batch", 50)
        await call("d1.all", 1)


async def test_too_many_calls_break_the_rule():
    with pytest.raises(ProductionRuleBroken, match="3 calls, at most 2") as broken, invocation(Limits(subrequests=2)):
        for _ in range(3):
            await call()
    assert broken.value.rule == "subrequests per invocation"


async def test_six_calls_at_once_pass_and_a_seventh_breaks_the_rule():
    with invocation() as run:
        await asyncio.gather(*(call() for _ in range(6)))
    assert run.connections_most == 6
    with pytest.raises(ProductionRuleBroken, match="simultaneous connections"), invocation():
        await asyncio.gather(*(call() for _ in range(7)))


async def test_a_breach_that_the_worker_swallows_still_fails_the_test():
    async def careless() -> None:
        try:
            await call()
        except AssertionError:
            return

    with pytest.raises(ProductionRuleBroken), invocation(Limits(subrequests=0)):
        await careless()


async def test_tasks_of_an_invocation_count_into_it_and_two_at_once_stay_apart():
    async def run(times: int) -> int:
        with invocation() as one:
            await asyncio.gather(*(asyncio.create_task(call()) for _ in range(times)))
            return one.subrequests

    assert await asyncio.gather(run(2), run(5)) == [2, 5]


async def test_outside_of_an_invocation_nothing_is_counted():
    for _ in range(100):
        await call("d1.all", 1)


async def test_an_error_inside_is_not_hidden_by_a_breach():
    with pytest.raises(ValueError, match="mine"), invocation(Limits(subrequests=0)):
        try:
            await call()
        except ProductionRuleBroken:
            raise ValueError("mine") from None


async def test_the_clock_stands_still_between_calls(monkeypatch: pytest.MonkeyPatch):
    times = iter(range(100, 200))
    monkeypatch.setattr(module, "_time_ms", lambda: next(times))
    with invocation():
        assert [now_ms(), now_ms()] == [100, 100]
        await call()
        assert [now_ms(), now_ms()] == [101, 101]
    assert [now_ms(), now_ms()] == [102, 103]
