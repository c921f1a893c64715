"""Rules for Chinese. An underscore in a pattern stands for optional white space (2025 年 3 月)."""

import re
from datetime import date, timedelta
from typing import Final

from shoal.core.times.calendar import Calendar, Season, TimeRange, Unit
from shoal.core.times.grammar import (
    A_FEW,
    Amount,
    Inside,
    Resolve,
    Rule,
    a_few_days_ago,
    a_few_weeks_ago,
    ago,
    ahead,
    half,
    just_now,
    latest_weekend,
    now,
    recently,
)

_DIGITS: Final = {
    "零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
}  # fmt: skip
_POWERS: Final = {"十": 10, "百": 100, "千": 1000}
_FEW: Final = "几数"
_LEAST_YEAR_LIKE: Final = 1000
"""二〇二五年前 means 'before 2025'."""
_HALF: Final = "半"

_DAYS: Final = {
    "今天": 0, "今日": 0, "昨天": -1, "昨日": -1, "前天": -2, "前日": -2, "大前天": -3, "明天": 1, "明日": 1,
    "后天": 2, "大后天": 3,
}  # fmt: skip
_SHORT_DAYS: Final = {"今": 0, "昨": -1, "前": -2, "明": 1}
_WEEKDAYS: Final = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_WHICH: Final = {"上上": -2, "上": -1, "上一": -1, "这": 0, "这一": 0, "本": 0, "下": 1, "下一": 1, "下下": 2}
_YEARS: Final = {
    "今年": 0,
    "本年": 0,
    "去年": -1,
    "前年": -2,
    "大前年": -3,
    "明年": 1,
    "后年": 2,
    "上一年": -1,
    "下一年": 1,
}
_UNITS: Final = {
    "秒": Unit.SECOND, "分": Unit.MINUTE, "小时": Unit.HOUR, "钟头": Unit.HOUR, "天": Unit.DAY, "日": Unit.DAY,
    "周": Unit.WEEK, "星期": Unit.WEEK, "礼拜": Unit.WEEK, "月": Unit.MONTH, "季度": Unit.QUARTER, "年": Unit.YEAR,
}  # fmt: skip
_SEASONS: Final = {"春": Season.SPRING, "夏": Season.SUMMER, "秋": Season.AUTUMN, "冬": Season.WINTER}
_MONTH_PARTS: Final = {"初": (1, 10), "中": (11, 20), "底": (21, 31), "末": (21, 31)}
_YEAR_PARTS: Final = {"初": (1, 2), "中": (6, 7), "底": (11, 12), "末": (11, 12)}
"""Days of a month and months of a year, both included."""

PARTS_OF_DAY: Final = {
    "凌晨": (0, 6), "清晨": (5, 8), "早晨": (5, 12), "早上": (5, 12), "早": (5, 12), "晨": (5, 12),
    "上午": (5, 12), "中午": (11, 14), "下午": (12, 18), "傍晚": (17, 20), "晚上": (18, 29), "夜里": (18, 29),
    "晚": (18, 29), "夜": (18, 29),
}  # fmt: skip
"""Local hours, from and to; a night ends at five in the morning."""

NOT_A_MEAL: Final = "(?![饭餐宴])"
"""今天晚饭 is today's dinner, not tonight."""

_N: Final = r"(?:[0-9]{1,3}|[零〇一二两三四五六七八九十百千]{1,7})"
_AMOUNT: Final = (
    rf"(?P<amount>{_N}|[几数半])_"
    r"(?P<unit>秒钟?|分钟|个?小时|个?钟头|天|日|个?星期|周|个?礼拜|个月|(?<=半)月|个?季度|年)"
)
_YEAR: Final = r"(?P<year>[0-9]{4}|[零〇一二三四五六七八九]{4})_年"
_YEAR_WORD: Final = (
    "(?P<yearword>大前年|(?<![年以之目当])前年|上一年|下一年|今年|本年|(?<!过)去年|(?<![文发说])明年|后年)"
)
_ANY_YEAR: Final = f"(?:(?:{_YEAR}|{_YEAR_WORD})_的?_)"
_NOT_NUMERAL: Final = "(?<![0-9零〇一二两三四五六七八九十百千几数半第每.])"
_MONTH: Final = r"(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])_月份?"
_DAY_OF_MONTH: Final = r"(?P<day>[0-3]?[0-9]|[一二三]?十[一二三四五六七八九]?|[一二三四五六七八九])_[日号]"
_WHICH_ONE: Final = "(?<![以网线早晚马地日版样成资基根课剧脚标])(?P<which>上上|下下|上一?|下一?|这一?|本)_个?_"
_WEEK: Final = "(?:周|星期|礼拜)"
_WEEKDAY: Final = "(?P<weekday>[一二三四五六日天])"
"""网上周边, 早上周三 and 版本周期 hold neither 上周 nor 本周."""
_NOT_OFTEN: Final = "(?![次个])"
"""一周一次 is 'once a week', no Monday."""
_NOT_AROUND: Final = "(?![边围刊密全折转知])"
"""网上周边 holds no 上周."""


def number(text: str) -> int:
    """Return a number up to 9999 in Arabic or Chinese digits: 23, 二十三, 十, 两百, 二〇二五."""
    if text.isdecimal() and text.isascii():
        return int(text)
    if not any(character in _POWERS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text))
    total, digit = 0, 0
    for character in text:
        if character in _POWERS:
            total += (digit or 1) * _POWERS[character]
            digit = 0
        else:
            digit = _DIGITS[character]
    return total + digit


def _amount(match: re.Match[str]) -> tuple[Amount, Unit]:
    written = match["amount"]
    unit = _UNITS[match["unit"].removeprefix("个").removesuffix("钟")]
    if written == _HALF:
        return half(unit)
    if written in _FEW:
        return A_FEW, unit
    count = number(written)
    if count >= _LEAST_YEAR_LIKE:
        raise ValueError(f"{written} looks like a year")
    return Amount(count, count), unit


def _named_day(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.day(_DAYS[match["name"]])


def _short_day(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = calendar.today + timedelta(days=_SHORT_DAYS[match["name"]])
    return calendar.hours(day, *PARTS_OF_DAY[match["part"]])


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


def _which(unit: Unit) -> Resolve:
    return lambda match, calendar: calendar.unit(unit, _WHICH[match["which"]])


def _weekday_of_week(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = calendar.weekday_of_week(_WEEKDAYS[match["weekday"]], _WHICH[match["which"]])
    return calendar.days(day, day)


def _latest_weekday(match: re.Match[str], calendar: Calendar) -> TimeRange:
    day = calendar.weekday(_WEEKDAYS[match["weekday"]], calendar.today)
    return calendar.days(day, day)


def _which_weekend(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.weekend(_WHICH[match["which"]])


def _day_of_which_month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    first = calendar.date_of(calendar.unit(Unit.MONTH, _WHICH[match["which"]]))
    day = first.replace(day=number(match["day"]))
    return calendar.days(day, day)


def _part_of_month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    whole = calendar.unit(Unit.MONTH, _WHICH[match["which"] or "本"])
    first_day, last_day = _MONTH_PARTS[match["part"]]
    first = calendar.date_of(whole)
    since = calendar.days(first.replace(day=first_day), first).since_ms
    if last_day > _MONTH_PARTS["中"][1]:
        return TimeRange(since, whole.until_ms)
    return calendar.days(first.replace(day=first_day), first.replace(day=last_day))


def _named_year(match: re.Match[str], calendar: Calendar) -> int | None:
    named = match.groupdict()
    if named.get("year"):
        return number(named["year"])
    if named.get("yearword"):
        return calendar.today.year + _YEARS[named["yearword"]]
    return None


def _year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    return calendar.period(Unit.YEAR, date(_named_year(match, calendar) or calendar.today.year, 1, 1))


def _part_of_year(match: re.Match[str], calendar: Calendar) -> TimeRange:
    year = _named_year(match, calendar) or calendar.today.year
    first, last = (calendar.month(year, month) for month in _YEAR_PARTS[match["part"]])
    return TimeRange(first.since_ms, last.until_ms)


def _month(match: re.Match[str], calendar: Calendar) -> TimeRange:
    month = number(match["month"])
    year = _named_year(match, calendar)
    return calendar.month(calendar.latest_month(month) if year is None else year, month)


def _date(match: re.Match[str], calendar: Calendar) -> TimeRange:
    month, number_of_day = number(match["month"]), number(match["day"])
    year = _named_year(match, calendar)
    day = calendar.date_without_year(month, number_of_day) if year is None else date(year, month, number_of_day)
    return calendar.days(day, day)


def _season(match: re.Match[str], calendar: Calendar) -> TimeRange:
    season = _SEASONS[match["season"]]
    year = _named_year(match, calendar)
    return calendar.latest_season(season, ended=False) if year is None else calendar.season(season, year)


def _quarter(match: re.Match[str], calendar: Calendar) -> TimeRange:
    first_month = number(match["quarter"]) * 3 - 2
    year = _named_year(match, calendar)
    return calendar.period(
        Unit.QUARTER, date(calendar.latest_month(first_month) if year is None else year, first_month, 1)
    )


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("_", r"\s*"))


_NOT_IN_WORD: Final = "(?<![文光说证声发透聪])"
"""明 ends words such as 说明."""
_PART: Final = "(?P<part>[初底末]|中(?![国文央间午心]))"

_ONE_DAY: Final = (
    Rule(_words("(?P<name>大前天|大后天|今天|今日|昨天|昨日|前日)"), _named_day, is_day=True),
    Rule(
        _words("(?P<name>(?<![目以之当提眼])前天(?![气空真然])|(?<![先今之以])后天(?![气空]))"), _named_day, is_day=True
    ),
    Rule(_words(f"(?P<name>{_NOT_IN_WORD}明[天日])"), _named_day, is_day=True),
    Rule(
        _words(f"(?P<name>[今昨]|{_NOT_IN_WORD}明|(?<![目以之当])前)(?P<part>早上|晚上|早|晨|晚|夜){NOT_A_MEAL}"),
        _short_day,
        is_day=True,
    ),
    Rule(_words(f"{_WHICH_ONE}{_WEEK}{_WEEKDAY}"), _weekday_of_week, is_day=True),
    Rule(_words(f"{_NOT_NUMERAL}(?:周|星期|礼拜){_WEEKDAY}{_NOT_OFTEN}"), _latest_weekday, is_day=True),
    Rule(_words(f"{_ANY_YEAR}?{_NOT_NUMERAL}{_MONTH}_{_DAY_OF_MONTH}"), _date, is_day=True),
    Rule(_words(f"{_WHICH_ONE}月_{_DAY_OF_MONTH}"), _day_of_which_month, is_day=True),
)
_CALENDAR_UNITS: Final = (
    Rule(_words(f"{_WHICH_ONE}{_WEEK}{_NOT_AROUND}"), _which(Unit.WEEK)),
    Rule(_words(f"{_WHICH_ONE}周末"), _which_weekend),
    Rule(_words("周末"), latest_weekend),
    Rule(_words(f"{_WHICH_ONE}月"), _which(Unit.MONTH)),
    Rule(_words(f"(?:{_WHICH_ONE}|(?<!个){_NOT_NUMERAL})月{_PART}"), _part_of_month),
    Rule(_words(f"{_WHICH_ONE}季度"), _which(Unit.QUARTER)),
    Rule(_words("(?P<which>[这本])_个?_年"), _which(Unit.YEAR), Inside.NEVER),
    Rule(_words(f"{_NOT_NUMERAL}{_YEAR}|{_YEAR_WORD}"), _year),
    Rule(_words(f"(?:{_ANY_YEAR}年?|{_NOT_NUMERAL}年)(?<=年){_PART}"), _part_of_year),
    Rule(_words(f"{_ANY_YEAR}?{_NOT_NUMERAL}{_MONTH}"), _month),
    Rule(_words(f"{_ANY_YEAR}(?P<season>[春夏秋冬])[天季]?"), _season),
    Rule(_words("(?P<season>[春夏秋冬])[天季]"), _season, Inside.NEVER),
    Rule(_words(f"{_ANY_YEAR}?第_(?P<quarter>[一二三四1-4])_季度"), _quarter),
)
_INSIDE: Final = "(?:[以之]?内|里(?!程))"
"""里程碑 is a milestone."""
_DISTANCES: Final = (
    Rule(_words(f"{_NOT_NUMERAL}{_AMOUNT}_[以之]?前"), _ago, is_day=True),
    Rule(_words(f"{_NOT_NUMERAL}{_AMOUNT}_[以之]?后"), _ahead, Inside.NEVER, is_day=True),
    Rule(_words(f"(?:最近|过去|(?<![附最接])近|这|(?<![以之目当提])前)的?_{_AMOUNT}(?:_{_INSIDE})?"), _past),
    Rule(_words(f"{_NOT_NUMERAL}{_AMOUNT}_[以之]?内"), _past, Inside.NEVER),
    Rule(_words(f"(?:未来|接下来)的?_{_AMOUNT}(?:_{_INSIDE})?"), _coming),
    Rule(_words("前几天|前些天|前些日子"), a_few_days_ago),
    Rule(_words("前阵子|前段时间|前一阵"), a_few_weeks_ago),
    Rule(_words("最近(?!的)|近来|近期|近日"), recently),
    Rule(_words("刚才|方才"), just_now),
    Rule(_words("刚刚"), just_now, Inside.NEVER),
    Rule(_words("现在|此刻"), now, Inside.NEVER),
)
RULES: Final = (*_ONE_DAY, *_CALENDAR_UNITS, *_DISTANCES)
