"""Rules for English. A space in a pattern stands for any white space."""

import re
from datetime import timedelta
from typing import Final

from shoal.core.times.calendar import Calendar, Season, TimeRange, Unit
from shoal.core.times.grammar import (
    A_FEW,
    Amount,
    Inside,
    Resolve,
    Rule,
    a_few_days_ago,
    ago,
    ahead,
    half,
    just_now,
    latest_weekend,
    now,
    recently,
)

_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
}  # fmt: skip
_UNITS: Final = {
    "second": Unit.SECOND, "sec": Unit.SECOND, "minute": Unit.MINUTE, "min": Unit.MINUTE, "hour": Unit.HOUR,
    "hr": Unit.HOUR, "day": Unit.DAY, "week": Unit.WEEK, "month": Unit.MONTH, "quarter": Unit.QUARTER,
    "year": Unit.YEAR, "yr": Unit.YEAR,
}  # fmt: skip
_MONTHS: Final = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8,
    "september": 9, "october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4,
    "jun": 6, "jul": 7, "aug": 8, "sept": 9, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
_WEEKDAYS: Final = {
    "monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6,
}  # fmt: skip
_WEEKDAY_SHORT: Final = {"mon": 0, "tue": 1, "tues": 1, "wed": 2, "thu": 3, "thurs": 3, "fri": 4, "sat": 5, "sun": 6}
_ALL_WEEKDAYS: Final = _WEEKDAYS | _WEEKDAY_SHORT
_WHICH: Final = {"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}
_SEASONS: Final = {
    "spring": Season.SPRING, "summer": Season.SUMMER, "autumn": Season.AUTUMN, "fall": Season.AUTUMN,
    "winter": Season.WINTER,
}  # fmt: skip
_QUARTERS: Final = {"q1": 1, "q2": 2, "q3": 3, "q4": 4, "first": 1, "second": 2, "third": 3, "fourth": 4}
_DAYS: Final = {
    "today": 0, "yesterday": -1, "tomorrow": 1, "day before yesterday": -2, "day after tomorrow": 2,
}  # fmt: skip

PARTS_OF_DAY: Final = {
    "morning": (5, 12), "noon": (11, 14), "lunchtime": (11, 14), "afternoon": (12, 18), "evening": (18, 24),
    "night": (18, 29),
}  # fmt: skip
"""Local hours, from and to; a night ends at five in the morning."""

_SHORT: Final = 3
"""Letters of a month's abbreviation; 'dec' and 'oct' inside of a text may be number formats."""

_NUMBER: Final = rf"(?:\d{{1,4}}|half an?|(?:a |the )?(?:couple(?: of)?|few)|several|{'|'.join(_NUMBERS)})"
_UNIT: Final = "(?P<unit>seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|quarters?|years?|yrs?)"
_AMOUNT: Final = f"(?P<amount>{_NUMBER}) {_UNIT}"
_MONTH: Final = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_FULL_MONTH: Final = "(?P<month>" + "|".join(month for month in _MONTHS if len(month) > _SHORT or month == "may") + ")"
_NTH_QUARTER: Final = "(?P<quarter>first|second|third|fourth) quarter"
_FULL_WEEKDAY: Final = "(?P<weekday>" + "|".join(_WEEKDAYS) + ")"
_WEEKDAY: Final = "(?P<weekday>" + "|".join(sorted(_ALL_WEEKDAYS, key=len, reverse=True)) + ")"
_WHICH_ONE: Final = "(?P<which>last|previous|this|current|next|coming)"
_SEASON: Final = "(?P<season>spring|summer|autumn|fall|winter)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_DAY_OF_MONTH: Final = r"(?P<day>\d{1,2})(?P<ordinal>st|nd|rd|th)?"
_RELATIVE_YEAR: Final = "(?P<which>last|this|next) year"
_NOT_SPRING: Final = r"(?! (?:framework|boot|cloud|data|security|mvc|batch|bean|application|version|release))"


def _number(text: str) -> Amount:
    if text.isdigit():
        return Amount(int(text), int(text))
    if "couple" in text:
        return Amount(2, 2)
    if text in _NUMBERS:
        return Amount(_NUMBERS[text], _NUMBERS[text])
    return A_FEW


def _amount(match: re.Match[str]) -> tuple[Amount, Unit]:
    unit = _UNITS[match["unit"].removesuffix("s")]
    amount = re.sub(r"\s+", " ", match["amount"])
    return half(unit) if amount.startswith("half") else (_number(amount), unit)


def _named_day(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.day(_DAYS[re.sub(r"\s+", " ", match["name"])])


def _ago(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return ago(*_amount(match), calendar)


def _ahead(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return ahead(*_amount(match), calendar)


def _past(match: re.Match[str], calendar: Calendar) -> TimeRange:
    amount, unit = _amount(match)
    return calendar.past(unit, amount.most)


def _coming(match: re.Match[str], calendar: Calendar) -> TimeRange:
    amount, unit = _amount(match)
    return calendar.coming(unit, amount.most)


def _past_one(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.past(_UNITS[match["unit"]], 1)


def _which_unit(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.unit(_UNITS[match["unit"]], _WHICH[match["which"]])


def _unit_at(offset: int) -> Resolve:
    return lambda match, calendar: calendar.unit(_UNITS[match["unit"]], offset)


def _latest_weekday(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = calendar.weekday(_ALL_WEEKDAYS[match["weekday"]], calendar.today)
    return calendar.days(day, day)


def _which_weekday(match: re.Match[str], calendar: Calendar) -> TimeRange:
    """'Last Monday' is the latest before today, 'next Monday' the first after it, 'this Monday' that of the week."""
    weekday, which = _ALL_WEEKDAYS[match["weekday"]], _WHICH.get(match["which"], -1)
    if which == 0:
        day = calendar.weekday_of_week(weekday, 0)
    elif which < 0:
        day = calendar.weekday(weekday, calendar.today - timedelta(days=1))
    else:
        day = calendar.weekday(weekday, calendar.today + timedelta(days=7))
    return calendar.days(day, day)


def _weekday_of_week(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = calendar.weekday_of_week(_ALL_WEEKDAYS[match["weekday"]], _WHICH[match["which"]])
    return calendar.days(day, day)


def _which_weekend(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.weekend(_WHICH.get(match["which"], -1))


def _latest_month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    month = _MONTHS[match["month"]]
    return calendar.month(calendar.latest_month(month), month)


def _which_month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    """'Last March' is the latest that has ended, 'next March' the first that hasn't begun."""
    month, which, year = _MONTHS[match["month"]], _WHICH[match["which"]], calendar.today.year
    if which < 0:
        year -= month >= calendar.today.month
    elif which > 0:
        year += month <= calendar.today.month
    return calendar.month(year, month)


def _month_of_year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.month(int(match["year"]), _MONTHS[match["month"]])


def _month_of_which_year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.month(calendar.today.year + _WHICH[match["which"]], _MONTHS[match["month"]])


def _date(match: re.Match[str], calendar: Calendar) -> TimeRange:
    month, number = _MONTHS[match["month"]], int(match["day"])
    if match["year"]:
        day = calendar.today.replace(int(match["year"]), month, number)
    else:
        day = calendar.date_without_year(month, number)
    return calendar.days(day, day)


def _latest_season(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.latest_season(_SEASONS[match["season"]], ended=False)


def _which_season(match: re.Match[str], calendar: Calendar) -> TimeRange:
    season, which = _SEASONS[match["season"]], _WHICH[match["which"]]
    if which < 0:
        return calendar.latest_season(season, ended=True)
    this = calendar.season(season, calendar.today.year)
    begun = which > 0 and this.since_ms <= calendar.now_ms
    return calendar.season(season, calendar.today.year + begun)


def _season_of_year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.season(_SEASONS[match["season"]], int(match["year"]))


def _quarter(match: re.Match[str], calendar: Calendar) -> TimeRange:
    first_month = _QUARTERS[match["quarter"]] * 3 - 2
    year = int(match.groupdict().get("year") or calendar.latest_month(first_month))
    return calendar.period(Unit.QUARTER, calendar.today.replace(year, first_month, 1))


def _part_today(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.hours(calendar.today, *PARTS_OF_DAY[match["part"]])


def _night(offset: int) -> Resolve:
    return lambda match, calendar: calendar.hours(calendar.today + timedelta(days=offset), *PARTS_OF_DAY["night"])


def _words(pattern: str) -> re.Pattern[str]:
    """Compile a pattern between word borders; file names, paths and longer words (to-day, today.py) don't count."""
    spaced = pattern.replace(" ", r"\s+")
    return re.compile(rf"(?<![a-z0-9_\-./@#])(?:{spaced})(?:'s)?(?![a-z0-9_]|[\-./@][a-z0-9])")


_ONE_DAY: Final = (
    Rule(_words("(?:(?:earlier|later) )?(?P<name>today|yesterday|tomorrow)"), _named_day, is_day=True),
    Rule(_words("(?:the )?(?P<name>day before yesterday|day after tomorrow)"), _named_day, is_day=True),
    Rule(_words(f"{_WHICH_ONE} {_FULL_WEEKDAY}"), _which_weekday, is_day=True),
    Rule(_words(f"{_WHICH_ONE} {_WEEKDAY}"), _which_weekday, Inside.NEVER, is_day=True),
    Rule(_words(f"{_FULL_WEEKDAY}"), _latest_weekday, Inside.AFTER_PREPOSITION, is_day=True),
    Rule(_words(f"{_WEEKDAY}"), _latest_weekday, Inside.NEVER, is_day=True),
    Rule(_words(f"{_WEEKDAY}(?: of)? {_WHICH_ONE} week"), _weekday_of_week, is_day=True),
    Rule(_words(f"{_WHICH_ONE} week(?: on)? {_WEEKDAY}"), _weekday_of_week, is_day=True),
    Rule(_words(f"{_MONTH} {_DAY_OF_MONTH}(?:,? {_YEAR})?"), _date, Inside.IF_NAMED, is_day=True),
    Rule(_words(f"(?:the )?{_DAY_OF_MONTH}(?: of)? {_MONTH}(?:,? {_YEAR})?"), _date, Inside.IF_NAMED, is_day=True),
    Rule(_words("this (?P<part>morning|noon|lunchtime|afternoon|evening)"), _part_today),
    Rule(_words("tonight"), _night(0)),
    Rule(_words("last night"), _night(-1)),
)
_CALENDAR_UNITS: Final = (
    Rule(_words(f"(?:(?:earlier|later) )?{_WHICH_ONE} (?P<unit>week|month|quarter|year)"), _which_unit),
    Rule(_words("the (?P<unit>week|month|quarter|year) before last"), _unit_at(-2)),
    Rule(_words("the (?P<unit>week|month|quarter|year) after next"), _unit_at(2)),
    Rule(_words("(?P<which>last|past|previous|this|next|coming) weekend"), _which_weekend),
    Rule(_words("weekend"), latest_weekend, Inside.AFTER_PREPOSITION),
    Rule(_words(_FULL_MONTH), _latest_month, Inside.AFTER_PREPOSITION),
    Rule(_words(_MONTH), _latest_month, Inside.NEVER),
    Rule(_words(f"{_WHICH_ONE} {_MONTH}"), _which_month, Inside.IF_CAPITAL),
    Rule(_words(f"{_MONTH}(?:,| of)? {_YEAR}"), _month_of_year),
    Rule(_words(f"{_MONTH}(?: of)? {_RELATIVE_YEAR}"), _month_of_which_year),
    Rule(_words(f"{_SEASON}"), _latest_season, Inside.NEVER),
    Rule(_words(f"{_WHICH_ONE} {_SEASON}{_NOT_SPRING}"), _which_season),
    Rule(_words(f"{_SEASON}(?:,| of)? {_YEAR}"), _season_of_year),
    Rule(_words(f"(?P<quarter>q[1-4])(?:,| of)? {_YEAR}"), _quarter),
    Rule(_words("(?P<quarter>q[1-4])"), _quarter, Inside.AFTER_PREPOSITION),
    Rule(_words(f"(?:the )?{_NTH_QUARTER}(?: of)? {_YEAR}"), _quarter),
    Rule(_words(f"(?:the )?{_NTH_QUARTER}"), _quarter, Inside.AFTER_PREPOSITION),
)
_DISTANCES: Final = (
    Rule(_words(f"{_AMOUNT} ago"), _ago, is_day=True),
    Rule(_words(f"{_AMOUNT} from now"), _ahead, is_day=True),
    Rule(_words(f"in {_AMOUNT}"), _ahead, Inside.NEVER, is_day=True),
    Rule(_words(f"(?:the )?(?:last|past|previous) {_AMOUNT}"), _past),
    Rule(_words(f"(?:the )?(?:next|coming) {_AMOUNT}"), _coming),
    Rule(_words("(?:the )?past (?P<unit>hour|day|week|month|quarter|year)"), _past_one),
    Rule(_words("(?:the )?last (?P<unit>hour)"), _past_one),
    Rule(_words("the other day"), a_few_days_ago),
    Rule(_words("recently|lately"), recently),
    Rule(
        _words("just now|(?:a )?moments? ago"),
        just_now,
    ),
    Rule(_words("(?:right )?now"), now, Inside.NEVER),
)
RULES: Final = (*_ONE_DAY, *_CALENDAR_UNITS, *_DISTANCES)
