from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from shoal.core.times import TimeRange, parse
from shoal.core.times.calendar import END_MS, MIN_MS

ZONE = "Asia/Shanghai"
NOW_MS = int(datetime(2026, 11, 25, 15, 30, tzinfo=ZoneInfo(ZONE)).timestamp() * 1000)  # a Wednesday


def _written(ms: int) -> str:
    if ms in (MIN_MS, END_MS):
        return "-"
    local = datetime.fromtimestamp(ms / 1000, ZoneInfo(ZONE))
    return local.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")


@pytest.fixture(scope="session")
def shown() -> Callable[[TimeRange], str]:
    """A range in Shanghai's time, midnights without their hour, open ends as '-'."""
    return lambda found: f"{_written(found.since_ms)} / {_written(found.until_ms)}"


@pytest.fixture(scope="session")
def read(shown: Callable[[TimeRange], str]) -> Callable[[str], str]:
    """What an expression means on Wednesday, 25 November 2026, 15:30 in Shanghai."""
    return lambda expression: shown(parse(expression, NOW_MS, ZONE))


@pytest.fixture(scope="session")
def now_ms() -> int:
    return NOW_MS
