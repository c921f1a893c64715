"""A time of day after a day: 'at 3pm', '15:30', 下午三点半."""

import re
from typing import Final, NamedTuple

from shoal.core.times.chinese import number

_NOON: Final = 12
_MINUTES_PER_HOUR: Final = 60
_NIGHT_END: Final = 5

_ENGLISH: Final = re.compile(
    r",?\s+(?:at\s+)?(?:(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>am|pm)(?![a-z0-9_])"
    r"|(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:]))"
)
_CHINESE: Final = re.compile(
    r"\s*(?P<hour>[01]?\d|2[0-4]|二?十[一二三四]?|[零一二两三四五六七八九])\s*(?:点(?![候建意要子心])|:(?=[0-5]\d)|时(?!候))\s*"
    r"(?:(?P<half>半)|(?P<minute>[0-5]?\d|[二三四五]?十[一二三四五六七八九]?)分?)?钟?"
)
_AFTERNOON_BEFORE: Final = re.compile(r"(?:下午|傍晚|中午)\Z")
_NIGHT_BEFORE: Final = re.compile(r"(?:晚上?|夜里?)\Z")
_PART_MAX_CHARS: Final = 2


class ClockTime(NamedTuple):
    """Local hours from and to, in fractions of an hour (15.5 is half past three), and where the words end."""

    hours: tuple[float, float]
    end: int


def read(text: str, start: int) -> ClockTime | None:
    """Return the time of day that stands at `start` in lower-case text: an hour, or a minute if one is named."""
    if match := _ENGLISH.match(text, start):
        if match["half"]:
            hour = int(match["hour"]) % _NOON + _NOON * (match["half"] == "pm")
            return _clock_time(hour, match["minute"] and int(match["minute"]), match.end())
        return _clock_time(int(match["hour24"]), int(match["minute24"]), match.end())
    if match := _CHINESE.match(text, start):
        hour = _hour(number(match["hour"]), text[max(0, start - _PART_MAX_CHARS) : start])
        minute = _MINUTES_PER_HOUR // 2 if match["half"] else match["minute"] and number(match["minute"])
        return _clock_time(hour, minute, match.end())
    return None


def _hour(hour: int, before: str) -> int:
    """Return the hour of the day that an hour means after 下午 or 晚上; 晚上一点 is in the night that follows."""
    if _NIGHT_BEFORE.search(before) and (hour < _NIGHT_END or hour == _NOON):
        return hour % _NOON + 2 * _NOON
    if hour < _NOON and (_NIGHT_BEFORE.search(before) or (_AFTERNOON_BEFORE.search(before) and hour < _NOON - 1)):
        return hour + _NOON
    return hour


def _clock_time(hour: int, minute: int | str | None, end: int) -> ClockTime:
    if minute is None or minute == "":
        return ClockTime((hour, hour + 1), end)
    since = hour + int(minute) / _MINUTES_PER_HOUR
    return ClockTime((since, since + 1 / _MINUTES_PER_HOUR), end)
