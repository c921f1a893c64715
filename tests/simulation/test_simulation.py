"""Hundreds of seeds, each a small world in which everything goes wrong: docs/sync.md has what must hold."""

import os
from typing import Final

import pytest
from tests.simulation.__main__ import replay, run_parallel

SEEDS: Final = 320
LONG_SEEDS: Final = 20_000
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


def test_hundreds_of_worlds_converge_and_lose_nothing():
    check(0, SEEDS)


@pytest.mark.long
def test_thousands_of_worlds_converge_and_lose_nothing():
    check(SEEDS, LONG_SEEDS)
