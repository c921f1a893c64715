"""Failures on demand."""

import asyncio
from enum import StrEnum

import pytest
from tests.edge.doubles.faults import Fault, Faults


class Kind(StrEnum):
    LOST = "lost"
    SLOW = "slow"


def taken(faults: Faults, *methods: str) -> list[str | None]:
    orders = [faults.take(method) for method in methods]
    return [order and order.kind for order in orders]


def test_an_order_fails_one_call_unless_it_says_more():
    faults = Faults(Kind)
    faults.add(Fault("lost"))
    faults.add(Fault("slow", times=2))
    assert taken(faults, "a", "a", "a", "a") == ["lost", "slow", "slow", None]
    assert faults.orders == ()


def test_an_order_for_one_method_lets_others_pass():
    faults = Faults(Kind)
    faults.add(Fault("lost", on="query"))
    assert taken(faults, "upsert", "query", "query") == [None, "lost", None]


def test_a_call_may_go_by_several_names():
    faults = Faults(Kind)
    faults.add(Fault("lost", on="write"))
    assert faults.take("batch", "read") is None
    assert faults.take("batch", "write") is not None


def test_calls_may_pass_first():
    faults = Faults(Kind)
    faults.add(Fault("lost", on="a", after=2))
    assert taken(faults, "a", "b", "a", "a", "a") == [None, None, None, "lost", None]


def test_without_an_end_it_fails_until_it_is_cleared():
    faults = Faults(Kind)
    faults.add(Fault("lost", times=None))
    assert taken(faults, *"aaaa") == ["lost"] * 4
    faults.clear()
    assert taken(faults, "a") == [None]


@pytest.mark.parametrize("order", [Fault("nothing"), Fault("lost", times=0), Fault("lost", after=-1)])
def test_an_order_that_makes_no_sense_is_refused(order: Fault):
    with pytest.raises(ValueError):
        Faults(Kind).add(order)


@pytest.mark.parametrize("end", [Faults.release, Faults.clear])
async def test_what_hangs_goes_on_when_told_and_the_next_hangs_again(end):
    faults = Faults(Kind)
    first = asyncio.ensure_future(faults.hang())
    await faults.hanging.wait()
    assert not first.done()
    end(faults)
    assert not faults.hanging.is_set()
    await first
    second = asyncio.ensure_future(faults.hang())
    await faults.hanging.wait()
    assert not second.done()
    second.cancel()
