"""What a rule of the grammar is: a pattern over lower-case text and the range that a match means."""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from shoal.core.times.calendar import FEW, HALVES, JUST_NOW_HOURS, RECENT_DAYS, Calendar, TimeRange, Unit

Resolve = Callable[[re.Match[str], Calendar], TimeRange]


class Inside(Enum):
    """Whether `find` believes the words inside of a longer text."""

    ALWAYS = auto()
    AFTER_PREPOSITION = auto()
    """'in March', 'since Monday', 'during 2025': without the preposition the words may mean something else."""
    IF_NAMED = auto()
    """'May 5' and 'on may 5', but not 'may 5 people': a capital, a preposition, an ordinal or a year."""
    IF_CAPITAL = auto()
    """'this May', but not 'this may be'."""
    NEVER = auto()


class Rule(NamedTuple):
    """One row of the grammar."""

    pattern: re.Pattern[str]
    resolve: Resolve
    inside: Inside = Inside.ALWAYS
    is_day: bool = False
    """Whether it means one local day, so that a part of the day or a time may follow ('yesterday evening')."""


class Amount(NamedTuple):
    """How many units, from `least` to `most`: 'a few' is FEW, everything else is one number."""

    least: int
    most: int


A_FEW = Amount(*FEW)


def ago(amount: Amount, unit: Unit, calendar: Calendar) -> TimeRange:
    """Return the calendar unit that many units back; the precision is that of the unit (two weeks ago: a week)."""
    return TimeRange(calendar.unit(unit, -amount.most).since_ms, calendar.unit(unit, -amount.least).until_ms)


def ahead(amount: Amount, unit: Unit, calendar: Calendar) -> TimeRange:
    """Return the calendar unit that many units on."""
    return TimeRange(calendar.unit(unit, amount.least).since_ms, calendar.unit(unit, amount.most).until_ms)


def half(unit: Unit) -> tuple[Amount, Unit]:
    """Return half a unit in smaller ones; ValueError where there are none."""
    if unit not in HALVES:
        raise ValueError(f"no half of a {unit}")
    count, smaller = HALVES[unit]
    return Amount(count, count), smaller


def now(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return this very millisecond."""
    return TimeRange(calendar.now_ms, calendar.now_ms + 1)


def just_now(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return the last JUST_NOW_HOURS."""
    return calendar.past(Unit.HOUR, JUST_NOW_HOURS)


def recently(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return the last RECENT_DAYS."""
    return calendar.past(Unit.DAY, RECENT_DAYS)


def a_few_days_ago(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return what 'the other day' and 前几天 mean."""
    return ago(A_FEW, Unit.DAY, calendar)


def a_few_weeks_ago(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return what 前阵子 means."""
    return ago(A_FEW, Unit.WEEK, calendar)


def latest_weekend(_: re.Match[str], calendar: Calendar) -> TimeRange:
    """Return the last weekend that has begun."""
    return calendar.latest_weekend()
