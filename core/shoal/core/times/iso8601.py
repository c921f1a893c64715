"""Rules for dates in digits: ISO 8601, and its cousins with slashes."""

import re
from datetime import date, datetime
from typing import Final

from shoal.core.times.calendar import MS_PER_SECOND, Calendar, TimeRange, Unit
from shoal.core.times.grammar import Inside, Rule

_MS_PER_MINUTE: Final = 60 * MS_PER_SECOND

_BEFORE: Final = r"(?<![\w.\-])(?<!(?<!\d)/)"
_AFTER: Final = r"(?!\w|[.\-:]\w|/(?!\d{4}-))"
"""Not in a version, a path or a longer number; a slash between two dates is ISO 8601's interval."""


def _rule_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}", re.ASCII)


def _date_time(match: re.Match[str], calendar: Calendar) -> TimeRange:
    """A minute, a second or a millisecond, as fine as it is written."""
    text = f"{match['date']}T{match['time']}{(match['offset'] or '').upper()}"
    since = calendar.ms(datetime.fromisoformat(text.replace(",", ".")))
    length = _MS_PER_MINUTE
    if match["second"]:
        length = 1 if match["fraction"] else MS_PER_SECOND
    return TimeRange(since, since + length)


def _day(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = date(int(match["year"]), int(match["month"]), int(match["day"]))
    return calendar.days(day, day)


def _month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.month(int(match["year"]), int(match["month"]))


def _week(match: re.Match[str], calendar: Calendar) -> TimeRange:
    monday = date.fromisocalendar(int(match["year"]), int(match["week"]), 1)
    return calendar.period(Unit.WEEK, monday)


def _week_day(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = date.fromisocalendar(int(match["year"]), int(match["week"]), int(match["weekday"]))
    return calendar.days(day, day)


def _year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.period(Unit.YEAR, date(int(match["year"]), 1, 1))


def _quarter(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.period(Unit.QUARTER, date(int(match["year"]), int(match["quarter"]) * 3, 1))


RULES: Final = (
    Rule(
        _rule_pattern(
            r"(?P<date>\d{4}-\d\d-\d\d)(?:t|\s+)"
            r"(?P<time>\d\d:\d\d(?P<second>:\d\d(?P<fraction>[.,]\d{1,9})?)?)"
            r"\s?(?P<offset>z|[+-]\d\d(?::?\d\d)?)?"
        ),
        _date_time,
    ),
    Rule(_rule_pattern(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"), _day, is_day=True),
    Rule(_rule_pattern(r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})"), _day, is_day=True),
    Rule(_rule_pattern(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"), _day, Inside.NEVER, is_day=True),
    Rule(_rule_pattern(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})"), _month, Inside.AFTER_PREPOSITION),
    Rule(_rule_pattern(r"(?P<year>\d{4})-?w(?P<week>\d\d)"), _week),
    Rule(_rule_pattern(r"(?P<year>\d{4})-?w(?P<week>\d\d)-?(?P<weekday>[1-7])"), _week_day, is_day=True),
    Rule(_rule_pattern(r"(?P<year>\d{4})[- ]?q(?P<quarter>[1-4])"), _quarter),
    Rule(_rule_pattern(r"(?P<year>\d{4})"), _year, Inside.NEVER),
    Rule(_rule_pattern(r"(?P<year>(?:19|20)\d\d)(?!\s+[a-z]+s\b)"), _year, Inside.AFTER_PREPOSITION),
)
