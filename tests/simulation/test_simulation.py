"""Hundreds of seeds, each a small world in which everything goes wrong: docs/sync.md has what must hold."""

import os
from typing import Final

import pytest
from tests.simulation import world
from tests.simulation.__main__ import replay, run, run_parallel
from tests.simulation.planted import planted

SEEDS: Final = 320
SEEDS_AT_ONCE: Final = 80
LONG_SEEDS: Final = 6_000
PROCESSES: Final = min(2, os.cpu_count() or 1)


def check(first: int, seeds: int) -> None:
    *_, total = run_parallel(first, seeds, PROCESSES)
    failures = [f"seed {seed}: {what}\n  again: {replay(seed)}" for seed, what in sorted(total.failures.items())]
    assert failures == [], "\n".join(failures[:5])
    assert total.seeds == seeds
    # What nobody wrote nobody could lose.
    assert total.acknowledged > 25 * seeds
    assert total.rounds > 5 * seeds
    print(total)


def test_a_seed_decides_everything():
    assert world.run(7) == world.run(7)
    assert world.run(7) != world.run(8)


def test_a_seed_that_fails_is_told_with_the_command_that_runs_it_again():
    with planted("a batch has one sequence number"):
        failures = run(range(3)).failures
    assert failures
    seed, what = min(failures.items())
    assert what.startswith("AssertionError: ")
    assert replay(seed) == f".venv/bin/python -m tests.simulation --first {seed} --seeds 1"
    assert run([seed]).failures == {}


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_AT_ONCE))
def test_hundreds_of_worlds_converge_and_lose_nothing(first: int):
    check(first, SEEDS_AT_ONCE)


@pytest.mark.long
def test_thousands_of_worlds_converge_and_lose_nothing():
    check(SEEDS, LONG_SEEDS)
