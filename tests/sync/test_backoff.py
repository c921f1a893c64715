"""How long a device waits after failures."""

import pytest

from shoal.sync.backoff import BASE_S, CAP_S, wait_s


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, CAP_S), (10_000, CAP_S)]
)
def test_the_longest_wait_doubles_with_each_failure_up_to_the_cap(failures: int, longest: float):
    assert wait_s(failures, 1.0) == longest * BASE_S


def test_chance_decides_between_nothing_and_the_longest():
    assert wait_s(5, 0.0) == 0
    assert wait_s(5, 0.25) == 4


def test_it_is_never_shorter_than_the_edge_has_asked_for():
    assert wait_s(1, 0.5, retry_after_s=30) == 30
    assert wait_s(9, 0.5, retry_after_s=30) == 128
    assert wait_s(1, 0.5, retry_after_s=3_600) == 3_600
