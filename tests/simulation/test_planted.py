"""The simulator finds the bugs that are planted into the code: a test of the test."""

from typing import Final

import pytest
from tests.simulation import world
from tests.simulation.planted import PLANTED, planted

SEEDS: Final = 400
"""Tried until one finds the bug."""
KNOWN: Final = {
    "the last to arrive wins": 0,
    "an acknowledgement is by name, not by stamp": 0,
    "the head is not compared": 58,
}
"""Bugs for every run, and a seed that finds each."""


def found(name: str, seeds: range) -> int | None:
    """Return the first seed that a bug fails."""
    with planted(name):
        for seed in seeds:
            try:
                world.run(seed)
            except Exception:
                return seed
    return None


@pytest.mark.parametrize("name", KNOWN)
def test_a_bug_is_found_by_its_seed(name: str):
    seed = KNOWN[name]
    world.run(seed)
    assert found(name, range(seed, seed + 1)) == seed


def test_a_bug_is_gone_when_it_was_tried():
    with planted("the last to arrive wins"):
        pass
    world.run(KNOWN["the last to arrive wins"])


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_every_bug_is_found(name: str):
    assert found(name, range(SEEDS)) is not None
