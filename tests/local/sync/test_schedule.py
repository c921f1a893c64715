"""When the next round is due: all of it arithmetic."""

from math import inf

import pytest

from shoal.local.sync.schedule import ACTIVE_FOR_S, ACTIVE_S, DEBOUNCE_S, JUMP_S, Clocks, Schedule
from shoal.schema.errors import EdgeBusy, EdgeUnreachable, LinkBroken, ProtocolMismatch
from shoal.sync.backoff import CAP_S

LONG_AGO = 3_600.0
UNREACHABLE = EdgeUnreachable("No answer.", "Wait.")
BROKEN = LinkBroken("Unknown token.", "Link again.")


def schedule(*chances: float, interval_s: float = 15.0) -> Schedule:
    given = iter(chances)
    return Schedule(interval_s, lambda: next(given), now=0.0)


def worked(found: Schedule, at: float) -> Schedule:
    found.began(at)
    found.succeeded()
    return found


def test_the_first_round_is_due_at_once():
    assert schedule().wait_s(0.0, LONG_AGO) == 0


def test_an_idle_laptop_polls_by_the_interval_and_one_in_use_within_two_seconds():
    found = worked(schedule(), at=100.0)
    assert found.wait_s(100.0, LONG_AGO) == 15.0
    assert found.wait_s(100.0, 0.0) == ACTIVE_S < 2
    assert found.wait_s(110.0, LONG_AGO) == 5.0
    # The first request after a pause makes a round due that the interval would have left for later.
    assert found.wait_s(110.0, 0.1) == 0
    assert found.wait_s(110.0, ACTIVE_FOR_S) == 5.0


def test_several_writes_are_sent_together_a_moment_after_the_first():
    found = worked(schedule(), at=100.0)
    for at in (101.0, 101.1, 101.15):
        found.wrote(at)
    assert found.wait_s(101.15, LONG_AGO) == pytest.approx(101 + DEBOUNCE_S - 101.15)
    assert found.is_wanted
    found.began(101.2)
    assert not found.is_wanted
    assert found.wait_s(101.2, LONG_AGO) == 15.0


def test_failures_are_waited_out_ever_longer_at_random_and_writes_do_not_hurry_them():
    found = schedule(1.0, 1.0, 1.0, 0.5)
    waits: list[float] = []
    for _ in range(4):
        found.began(0.0)
        waits.append(found.failed(UNREACHABLE, "link", 0.0))
    assert waits == [1.0, 2.0, 4.0, 4.0]
    found.wrote(0.5)
    assert found.wait_s(0.5, 0.0) == 3.5


def test_the_wait_has_an_end_and_what_the_edge_asks_for_is_kept_to():
    found = schedule(*[1.0] * 30)
    for _ in range(29):
        wait = found.failed(UNREACHABLE, "link", 0.0)
    assert wait == CAP_S
    assert found.failed(EdgeBusy("Busy.", "Wait.", retry_after_s=7_200.0), "link", 0.0) == 7_200.0


def test_a_success_ends_the_failures():
    found = schedule(1.0, 1.0, 1.0)
    found.failed(UNREACHABLE, "link", 0.0)
    found.failed(UNREACHABLE, "link", 0.0)
    worked(found, at=10.0)
    assert found.failures == 0
    assert found.wait_s(10.0, LONG_AGO) == 15.0
    assert found.failed(UNREACHABLE, "link", 20.0) == 1.0


def test_a_broken_link_is_not_asked_again_until_it_is_another():
    found = schedule()
    assert found.failed(BROKEN, ("url", 1), 0.0) == inf
    found.wrote(1.0)
    assert found.wait_s(1e6, 0.0) == inf
    found.changed(("url", 1), 1e6)
    assert found.wait_s(1e6, 0.0) == inf
    found.changed(("url", 2), 1e6)
    assert found.wait_s(1e6, 0.0) == 0


def test_another_version_of_the_protocol_is_asked_again_since_either_end_may_be_updated():
    assert schedule(0.5).failed(ProtocolMismatch("Too old.", "Update."), "link", 0.0) == 0.5


def test_after_a_sleep_or_on_another_network_nothing_is_waited_out():
    found = schedule(1.0, 1.0)
    found.failed(EdgeBusy("Busy.", "Wait.", retry_after_s=600.0), "link", 0.0)
    found.wake(5.0)
    assert (found.wait_s(5.0, LONG_AGO), found.failures) == (0, 0)


@pytest.mark.parametrize(
    ("monotonic", "wall", "jumped"),
    [
        (2.0, 2.0, False),
        (2.3, 2.1, False),
        (2.0, 2.0 + JUMP_S + 1, True),  # slept, where the monotonic clock stands still meanwhile
        (600.0, 600.0, True),  # slept, where it goes on
        (2.0, -3_000.0, True),  # somebody has set the clock
    ],
)
def test_a_sleep_and_a_clock_that_was_set_are_noticed(monotonic: float, wall: float, jumped: bool):
    clocks = Clocks(1_000.0, 1_790_000_000.0)
    assert clocks.jumped(1_000.0 + monotonic, 1_790_000_000.0 + wall, at_most_s=2.0) is jumped
    # And once only.
    assert not clocks.jumped(1_001.0 + monotonic, 1_790_000_001.0 + wall, at_most_s=2.0)
