from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from shoal.core.times import parse
from shoal.schema.errors import InvalidTime

EXPECTED = {
    "2026": "2026-01-01 / 2027-01-01",
    "2026-03": "2026-03-01 / 2026-04-01",
    "2026-03-05": "2026-03-05 / 2026-03-06",
    "2026/3/5": "2026-03-05 / 2026-03-06",
    "20260305": "2026-03-05 / 2026-03-06",
    "2026-W12": "2026-03-16 / 2026-03-23",
    "2026-W12-3": "2026-03-18 / 2026-03-19",
    "2026-Q3": "2026-07-01 / 2026-10-01",
    "2026-03-05T10:00": "2026-03-05 10:00 / 2026-03-05 10:01",
    "2026-03-05 10:00Z": "2026-03-05 18:00 / 2026-03-05 18:01",
    "2026-03-05t10:00+0200": "2026-03-05 16:00 / 2026-03-05 16:01",
    "2026-03-01/2026-03-05": "2026-03-01 / 2026-03-06",
    "2026-03-01 to 2026-03-05": "2026-03-01 / 2026-03-06",
}


@pytest.mark.parametrize("expression", EXPECTED)
def test_a_date_in_digits_means_a_range_of_local_time(read: Callable[[str], str], expression: str):
    assert read(expression) == EXPECTED[expression]


@pytest.mark.parametrize(
    ("expression", "length_ms"),
    [("2026-03-05T10:00Z", 60_000), ("2026-03-05T10:00:00Z", 1_000), ("2026-03-05T10:00:00,250Z", 1)],
)
def test_a_time_lasts_as_long_as_it_is_written_fine(expression: str, length_ms: int):
    since_ms, until_ms = parse(expression, 0, "Asia/Shanghai")
    assert since_ms // 1000 == datetime(2026, 3, 5, 10, tzinfo=UTC).timestamp()
    assert until_ms - since_ms == length_ms


@pytest.mark.parametrize(
    "expression",
    [
        "2026-13",
        "2026-02-30",
        "0000",
        "0000-01-01",
        "2026-W54",
        "2026-03-05T25:00",
        "2026-03-05T10:00:61",
        "12026-01-01",
    ],
)
def test_a_date_that_does_not_exist_is_refused(expression: str):
    with pytest.raises(InvalidTime):
        parse(expression, 0, "UTC")
