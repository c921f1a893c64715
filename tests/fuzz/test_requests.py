"""Requests of our own making, mutated: no answer is a fault, hangs, or tells what the token may not see."""

import os
import secrets
from collections import Counter

import httpx
import pytest
from tests.fuzz.judging import HANG_S, Breach, send
from tests.fuzz.mutations import Mutator
from tests.fuzz.place import Place
from tests.fuzz.requests import every, valid

SEED_VARIABLE = "SHOAL_FUZZ_SEED"
SEED = 4
"""Of the short run, which is the same each time."""
COUNTED = 100
"""Requests after which those before are forgotten: of 600 a minute the Worker's rate limit would refuse the rest."""


def fuzz(place: Place, seed: int, number: int) -> Counter[int]:
    """Send so many mutated requests, and return how many were answered with which status."""
    print(f"seed {seed}: {SEED_VARIABLE}={seed} replays it")
    asked, mutator, statuses = list(every(place)), Mutator(seed, place), Counter[int]()
    with httpx.Client(base_url=place.url, timeout=HANG_S, verify=False) as http:
        for turn in range(number):
            if turn % COUNTED == 0:
                place.forget_counts()
            try:
                statuses[send(http, mutator.choose(asked)).status_code] += 1
            except Breach as breach:
                raise AssertionError(f"seed {seed}, request {turn}: {breach}") from breach
    print(dict(sorted(statuses.items())))
    return statuses


@pytest.mark.parametrize("server", ["place", "worker"])
def test_every_request_is_fine_before_it_is_mutated(request: pytest.FixtureRequest, server: str) -> None:
    place: Place = request.getfixturevalue(server)
    with httpx.Client(base_url=place.url, timeout=HANG_S, verify=False) as http:
        refused = [(asked, answer.text) for asked in valid(place) if (answer := send(http, asked)).is_error]
    # Requeueing touches every space, which the token may not; nothing is offered to listen to.
    assert [asked.target for asked, _ in refused] == [b"/api/v1/admin/requeue", b"/mcp"], refused


def test_five_hundred_mutated_requests_do_no_harm_here(place: Place) -> None:
    met_enough(fuzz(place, int(os.environ.get(SEED_VARIABLE, SEED)), 500))


def test_five_hundred_mutated_requests_do_no_harm_to_the_worker(worker: Place) -> None:
    met_enough(fuzz(worker, int(os.environ.get(SEED_VARIABLE, SEED)), 500))


def met_enough(statuses: Counter[int]) -> None:
    assert len(statuses) > 5, "they all fail at the same check"
    assert statuses[200] + statuses[201] > 50, "too few get through"


@pytest.mark.long
def test_ten_thousand_mutated_requests_do_no_harm_here(place: Place) -> None:
    fuzz(place, int(os.environ.get(SEED_VARIABLE, secrets.randbits(32))), 10_000)


@pytest.mark.long
def test_ten_thousand_mutated_requests_do_no_harm_to_the_worker(worker: Place) -> None:
    fuzz(worker, int(os.environ.get(SEED_VARIABLE, secrets.randbits(32))), 10_000)
