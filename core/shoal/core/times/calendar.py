"""The caller's calendar: local days and longer units as half-open ranges of milliseconds since 1970 (UTC).

Arithmetic is done on local dates and only its result is turned to UTC, so a day has 23 or 25 hours where the
clock changes. Weeks start on Monday (ISO 8601); seasons are the meteorological ones of the north.
"""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

MS_PER_SECOND: Final = 1_000
MS_PER_DAY: Final = 86_400_000
MIN_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z, the first instant that ISO 8601 can write here."""
END_MS: Final = 253_402_300_800_000
"""The end of the year 9999 (UTC), exclusive."""

FEW: Final = (2, 5)
"""'A few days ago' means between two and five days ago."""
RECENT_DAYS: Final = 14
"""'Recently' means the last two weeks."""
AHEAD_DAYS: Final = 31
"""How far ahead a day without a year may lie; farther, and the one that has been is more likely meant."""
JUST_NOW_HOURS: Final = 1

_EPOCH: Final = datetime(1970, 1, 1)
_DAYS_PER_WEEK: Final = 7
_MONTHS_PER_YEAR: Final = 12
_SATURDAY: Final = 5
_LEAP_CYCLE_YEARS: Final = 8
"""The longest time between two 29ths of February (1896 to 1904)."""


class TimeRange(NamedTuple):
    """From `since_ms` (inclusive) to `until_ms` (exclusive), milliseconds since 1970 in UTC."""

    since_ms: int
    until_ms: int


class Unit(StrEnum):
    """Units of time; from the day up they follow the local calendar."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


_MS: Final = {Unit.SECOND: 1_000, Unit.MINUTE: 60_000, Unit.HOUR: 3_600_000}
_DAYS: Final = {Unit.DAY: 1, Unit.WEEK: _DAYS_PER_WEEK}
_MONTHS: Final = {Unit.MONTH: 1, Unit.QUARTER: 3, Unit.YEAR: _MONTHS_PER_YEAR}

HALVES: Final = {
    Unit.MINUTE: (30, Unit.SECOND),
    Unit.HOUR: (30, Unit.MINUTE),
    Unit.DAY: (12, Unit.HOUR),
    Unit.WEEK: (3, Unit.DAY),
    Unit.MONTH: (15, Unit.DAY),
    Unit.QUARTER: (6, Unit.WEEK),
    Unit.YEAR: (6, Unit.MONTH),
}
"""Half a unit in smaller ones."""


class Season(StrEnum):
    """Meteorological seasons of the northern hemisphere; winter begins in December of the year it is named by."""

    SPRING = "spring"
    SUMMER = "summer"
    AUTUMN = "autumn"
    WINTER = "winter"


_SEASON_MONTHS: Final = 3
_FIRST_MONTH: Final = {Season.SPRING: 3, Season.SUMMER: 6, Season.AUTUMN: 9, Season.WINTER: 12}


def first_day(unit: Unit, day: date) -> date:
    """Return the first day of the unit that holds `day`."""
    if unit is Unit.WEEK:
        return day - timedelta(days=day.weekday())
    if unit in _MONTHS:
        length = _MONTHS[unit]
        return date(day.year, (day.month - 1) // length * length + 1, 1)
    return day


def add_units(unit: Unit, day: date, count: int) -> date:
    """Return `day` moved by days, weeks, months or more; the 31st becomes the last day of a shorter month.

    Raises OverflowError or ValueError outside of the years 1..9999.
    """
    if unit in _DAYS:
        return day + timedelta(days=_DAYS[unit] * count)
    months = day.year * _MONTHS_PER_YEAR + day.month - 1 + _MONTHS[unit] * count
    year, month = divmod(months, _MONTHS_PER_YEAR)
    return date(year, month + 1, min(day.day, _days_in_month(year, month + 1)))


def _days_in_month(year: int, month: int) -> int:
    if month == _MONTHS_PER_YEAR:
        return 31
    return (date(year, month + 1, 1) - date(year, month, 1)).days


class Calendar:
    """The local calendar of a zone at one moment.

    Its methods raise OverflowError or ValueError for what lies outside of the years 1..9999 or doesn't exist
    (30 February); `reading` turns both into InvalidTime.
    """

    def __init__(self, now_ms: int, zone: ZoneInfo) -> None:
        self.now_ms = now_ms
        self._zone = zone
        self.now = self._local(now_ms)
        self.today = self.now.date()

    def at(self, now_ms: int) -> "Calendar":
        """Return the same zone's calendar at another moment."""
        return Calendar(now_ms, self._zone)

    def _local(self, ms: int) -> datetime:
        moment = (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=UTC)
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def ms(self, local: datetime) -> int:
        """Return the instant of a local time: the first of two, or the end of the gap that swallowed it.

        A time that carries its own offset keeps it.
        """
        aware = local if local.tzinfo else local.replace(tzinfo=self._zone)
        offset = aware.utcoffset() or timedelta()
        elapsed = aware.replace(tzinfo=None) - _EPOCH - offset
        return min(max(elapsed // timedelta(milliseconds=1), MIN_MS), END_MS)

    def _midnight(self, day: date) -> int:
        return self.ms(datetime.combine(day, time()))

    def _midnight_after(self, day: date) -> int:
        return END_MS if day == date.max else self._midnight(day + timedelta(days=1))

    def days(self, first: date, last: date) -> TimeRange:
        """Return the local days from `first` to `last`, both included."""
        return TimeRange(self._midnight(first), self._midnight_after(last))

    def day(self, offset: int) -> TimeRange:
        """Return a local day; 0 is today."""
        return self.unit(Unit.DAY, offset)

    def period(self, unit: Unit, within: date) -> TimeRange:
        """Return the calendar unit (day or longer) that holds the date."""
        first = first_day(unit, within)
        if unit in _DAYS:
            last_ordinal = min(first.toordinal() + _DAYS[unit] - 1, date.max.toordinal())
            return self.days(first, date.fromordinal(last_ordinal))
        last_month = first.month + _MONTHS[unit] - 1
        return self.days(first, date(first.year, last_month, _days_in_month(first.year, last_month)))

    def unit(self, unit: Unit, offset: int) -> TimeRange:
        """Return the calendar unit `offset` units from now.

        From an hour down it starts exactly that long from now and lasts half as long, for such words are loose.
        """
        if unit in _MS:
            since = self.now_ms + offset * _MS[unit]
            return TimeRange(since, since + max(_MS[unit], abs(offset) * _MS[unit] // 2))
        return self.period(unit, add_units(unit, self.today, offset))

    def past(self, unit: Unit, count: int) -> TimeRange:
        """Return the last `count` units: to the end of today from a midnight, or to now exactly from an hour down."""
        if unit in _MS:
            return TimeRange(self.now_ms - count * _MS[unit], self.now_ms + 1)
        return self.days(add_units(unit, self.today, -count), self.today)

    def coming(self, unit: Unit, count: int) -> TimeRange:
        """Return the next `count` units, from now on."""
        if unit in _MS:
            return TimeRange(self.now_ms, self.now_ms + count * _MS[unit] + 1)
        return TimeRange(self.now_ms, self._midnight_after(add_units(unit, self.today, count)))

    def hours(self, day: date, first: float, last: float) -> TimeRange:
        """Return local hours of a day; 26 is two o'clock of the next."""
        start = datetime.combine(day, time())
        return TimeRange(self.ms(start + timedelta(hours=first)), self.ms(start + timedelta(hours=last)))

    def date_of(self, day: TimeRange) -> date:
        """Return the local date on which a range begins."""
        return self._local(day.since_ms).date()

    def weekday(self, weekday: int, latest: date) -> date:
        """Return the last such weekday (0 = Monday) up to `latest`."""
        return latest - timedelta(days=(latest.weekday() - weekday) % _DAYS_PER_WEEK)

    def weekday_of_week(self, weekday: int, offset: int) -> date:
        """Return a weekday of the week `offset` weeks from this one."""
        return first_day(Unit.WEEK, self.today) + timedelta(days=weekday + _DAYS_PER_WEEK * offset)

    def weekend(self, offset: int) -> TimeRange:
        """Return Saturday and Sunday of the week `offset` weeks from this one."""
        saturday = self.weekday_of_week(_SATURDAY, offset)
        return self.days(saturday, saturday + timedelta(days=1))

    def latest_weekend(self) -> TimeRange:
        """Return the last weekend that has begun."""
        return self.weekend(0 if self.today.weekday() >= _SATURDAY else -1)

    def latest_month(self, month: int) -> int:
        """Return the year of the last such month that has begun."""
        return self.today.year - (month > self.today.month)

    def month(self, year: int, month: int) -> TimeRange:
        """Return a month."""
        return self.period(Unit.MONTH, date(year, month, 1))

    def date_without_year(self, month: int, day: int) -> date:
        """Return the last such day that has begun or comes within AHEAD_DAYS: in November '5 December' is ahead.

        ValueError for one that no year has.
        """
        end = date.fromordinal(min(self.today.toordinal() + AHEAD_DAYS, date.max.toordinal()))
        for year in range(end.year, max(0, end.year - _LEAP_CYCLE_YEARS - 1), -1):
            if day <= _days_in_month(year, month) and (year, month, day) <= (end.year, end.month, end.day):
                return date(year, month, day)
        raise ValueError(f"no such day: month {month}, day {day}")

    def season(self, season: Season, year: int) -> TimeRange:
        """Return a season; the winter of 2025 ends in February 2026."""
        first = date(year, _FIRST_MONTH[season], 1)
        last = add_units(Unit.MONTH, first, _SEASON_MONTHS - 1)
        return self.days(first, last.replace(day=_days_in_month(last.year, last.month)))

    def latest_season(self, season: Season, ended: bool) -> TimeRange:
        """Return the last such season that has begun, or that has ended."""
        for year in (self.today.year, self.today.year - 1):
            found = self.season(season, year)
            if (found.until_ms if ended else found.since_ms) <= self.now_ms:
                return found
        return self.season(season, self.today.year - 2)


_ISO_MS: Final = "milliseconds"


def iso(ms: int) -> str:
    """Return an instant as ISO 8601 in UTC with 'Z'; milliseconds only when they aren't zero.

    Beyond the years 1..9999 it is the nearest one that can be written: answers are full of times that other
    replicas and other clocks have set, and none of them may keep the rest from being read.
    """
    written = min(max(ms, MIN_MS), END_MS - 1)
    moment = _EPOCH + timedelta(milliseconds=written)
    return moment.isoformat(timespec=_ISO_MS if written % MS_PER_SECOND else "seconds") + "Z"
