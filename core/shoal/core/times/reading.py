"""Reads an expression: one time, a time of a day, a span between two, or everything since, until or before one."""

import re
from enum import Enum, auto
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from shoal.core.characters import lower_in_place
from shoal.core.times import chinese, clock, english, iso8601
from shoal.core.times.calendar import END_MS, MIN_MS, Calendar, TimeRange
from shoal.core.times.grammar import Inside, Rule
from shoal.schema.errors import InvalidTime
from shoal.schema.limits import QUERY_MAX_CHARS

EXPRESSION_MAX_CHARS: Final = 100
"""No expression of time is longer."""

EXAMPLES: Final = "2026-03-05, 2026-03-05T10:00+08:00, 2026-W12, yesterday, last monday, 3 days ago, 上周三, 两周前"

_RULES: Final[tuple[Rule, ...]] = (*iso8601.RULES, *english.RULES, *chinese.RULES)
_RULES_INSIDE: Final = tuple(rule for rule in _RULES if rule.inside is not Inside.NEVER)


_QUOTES: Final = str.maketrans({"’": "'", "–": "-", "—": "-", "−": "-"})


class TimeMention(NamedTuple):
    """A time inside of a query: `text == query[start:end]`, prepositions included."""

    range: TimeRange
    start: int
    end: int
    text: str
    rest: str
    """The query without the mention, for the search by words."""


class _Bound(Enum):
    """What a preposition makes of a range."""

    WITHIN = auto()
    SINCE = auto()
    AFTER = auto()
    UNTIL = auto()
    BEFORE = auto()


_PREPOSITIONS: Final = {
    "in": _Bound.WITHIN, "on": _Bound.WITHIN, "during": _Bound.WITHIN, "over": _Bound.WITHIN,
    "within": _Bound.WITHIN, "throughout": _Bound.WITHIN, "from": _Bound.WITHIN, "between": _Bound.WITHIN,
    "of": _Bound.WITHIN, "since": _Bound.SINCE, "after": _Bound.AFTER, "until": _Bound.UNTIL,
    "till": _Bound.UNTIL, "before": _Bound.BEFORE,
    "在": _Bound.WITHIN, "从": _Bound.WITHIN, "自从": _Bound.SINCE, "自": _Bound.SINCE,
    "截至": _Bound.UNTIL, "截止": _Bound.UNTIL, "直到": _Bound.UNTIL,
}  # fmt: skip
_POSTPOSITIONS: Final = {
    "onwards": _Bound.SINCE, "onward": _Bound.SINCE, "以来": _Bound.SINCE, "至今": _Bound.SINCE,
    "开始": _Bound.SINCE, "之后": _Bound.AFTER, "以后": _Bound.AFTER, "后": _Bound.AFTER, "之前": _Bound.BEFORE,
    "以前": _Bound.BEFORE, "前": _Bound.BEFORE, "期间": _Bound.WITHIN,
}  # fmt: skip
_ENGLISH_PREPOSITIONS: Final = "|".join(word for word in _PREPOSITIONS if word.isascii())
_PREPOSITION: Final = re.compile(
    rf"(?:(?<![a-z0-9_\-.])(?P<english>{_ENGLISH_PREPOSITIONS})\s+(?:the\s+)?"
    r"|(?P<chinese>自从|截至|截止|直到|(?<![存现实所正])在|从|(?<!来)自)\s*)"
)
_PREPOSITION_BEFORE: Final = re.compile(_PREPOSITION.pattern + r"\Z")
_PREPOSITION_REACH: Final = 24
"""Characters before a time in which its preposition stands."""
_POSTPOSITION: Final = re.compile(
    r"\s*(?P<word>onwards?|以来|至今|开始|之后|以后|后(?![端面台续天])|之前|以前|前(?![端面后台者提往途景])|期间)"
)
_CONNECTOR: Final = re.compile(
    r"\s+(?:to|until|till|through)\s+(?:the\s+)?|\s+-\s+|\s*(?:~|到|至(?!今))\s*|(?<=\d)/(?=\d{4}-)"
)
_CONNECTOR_OF_BETWEEN: Final = re.compile(r"\s+and\s+(?:the\s+)?|\s*[和与]\s*")
_BETWEEN: Final = re.compile(r"\s*(?:之间|期间)")
_PAIRING: Final = frozenset(("between", "从", "在"))

_PART_OF_DAY: Final = re.compile(
    r"\s+(?:in the |at )?(?P<english>" + "|".join(english.PARTS_OF_DAY) + r")(?![a-z0-9_])"
    r"|\s*的?(?P<chinese>" + "|".join(sorted(chinese.PARTS_OF_DAY, key=len, reverse=True)) + ")" + chinese.NOT_A_MEAL
)
_AMBIGUOUS_MONTHS: Final = frozenset(("may", "march", "mar"))


def parse(expression: str, now_ms: int, zone: str) -> TimeRange:
    """Return the range that an expression means in the time zone (an IANA name), as half-open UTC milliseconds.

    'since X' has no end, 'before X' no beginning, 'until X' includes X. Raises InvalidTime.
    """
    calendar = _calendar(now_ms, zone)
    text = expression.strip()
    found = _Reader(text, calendar).whole() if len(text) <= EXPRESSION_MAX_CHARS else None
    if found is None:
        raise InvalidTime(
            f"{text[:EXPRESSION_MAX_CHARS]!r} is no time that we know.", f"Write it like one of: {EXAMPLES}."
        )
    return found


def to_ms(value: str, now_ms: int, zone: str) -> int:
    """Return the instant at which a time begins ('yesterday': its first millisecond).

    Raises InvalidTime, also for what begins with the year 1 or not at all ('before March'), or after the year 9999.
    """
    since_ms, _ = parse(value, now_ms, zone)
    if since_ms <= MIN_MS:
        raise InvalidTime(f"{value!r} has no beginning.", f"Name a time, like one of: {EXAMPLES}.")
    if since_ms >= END_MS:
        raise InvalidTime(f"{value!r} lies after the year 9999.", f"Name a time, like one of: {EXAMPLES}.")
    return since_ms


def find(text: str, now_ms: int, zone: str) -> TimeMention | None:
    """Return the first time that stands in the first QUERY_MAX_CHARS of a query, or None.

    Words that may have another sense don't count. Raises InvalidTime for an unknown zone only.
    """
    found = _Reader(text[:QUERY_MAX_CHARS], _calendar(now_ms, zone)).mention()
    if found is None:
        return None
    rest = " ".join(f"{text[: found.start]} {text[found.end :]}".split())
    return TimeMention(found.range, found.start, found.end, text[found.start : found.end], rest)


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name. Raises InvalidTime."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # zoneinfo's answers to names that are no zone
        raise InvalidTime(
            f"{name[:EXPRESSION_MAX_CHARS]!r} is no time zone.",
            "Use an IANA name such as Europe/London or Asia/Shanghai.",
        ) from error


def _calendar(now_ms: int, zone: str) -> Calendar:
    known_zone = zone_named(zone)
    try:
        return Calendar(now_ms, known_zone)
    except (OverflowError, ValueError) as error:
        raise InvalidTime(f"{now_ms} ms lie outside of the years 1 to 9999.", "Set the clock.") from error


class _Reading(NamedTuple):
    range: TimeRange
    start: int
    end: int


class _Reader:
    """Applies the rules to one text."""

    def __init__(self, original: str, calendar: Calendar) -> None:
        self._original = original
        self._text = lower_in_place(original.translate(_QUOTES))
        self._calendar = calendar

    def whole(self) -> TimeRange | None:
        """Read the whole text as [preposition] time [connector time] [postposition]."""
        openings = [(0, "")]
        if preposition := _PREPOSITION.match(self._text):
            openings.append((preposition.end(), preposition["english"] or preposition["chinese"]))
        for start, word in openings:
            for time in self._times(start, self._calendar):
                found = self._extended(time, word)
                if found.end == len(self._text):
                    return found.range
        return None

    def mention(self) -> _Reading | None:
        """Return the time that begins first, the longest of those, with its preposition."""
        found = [
            self._in_full(rule, match, self._calendar)
            for rule in _RULES_INSIDE
            for match in rule.pattern.finditer(self._text)
            if self._is_believable(rule, match)
        ]
        times = [time for time in found if time is not None]
        if not times:
            return None
        time = min(times, key=lambda time: (time.start, -time.end))
        preposition = self._preposition_before(time.start)
        if preposition is None:
            return self._extended(time, "")
        word = preposition["english"] or preposition["chinese"]
        extended = self._extended(time, word)
        return extended._replace(start=extended.start - (preposition.end() - preposition.start()))

    def _is_believable(self, rule: Rule, match: re.Match[str]) -> bool:
        if rule.inside is Inside.ALWAYS:
            return True
        if rule.inside is Inside.AFTER_PREPOSITION:
            return self._preposition_before(match.start()) is not None
        named = match.groupdict()
        if named["month"] not in _AMBIGUOUS_MONTHS or self._original[match.start("month")].isupper():
            return True
        if rule.inside is Inside.IF_CAPITAL:
            return False
        return bool(named["ordinal"] or named["year"] or self._preposition_before(match.start()))

    def _preposition_before(self, place: int) -> re.Match[str] | None:
        return _PREPOSITION_BEFORE.search(self._text[max(0, place - _PREPOSITION_REACH) : place])

    def _times(self, start: int, calendar: Calendar) -> list[_Reading]:
        """Return what can be read at a place, the longest first."""
        matches = ((rule, rule.pattern.match(self._text, start)) for rule in _RULES)
        found = [self._in_full(rule, match, calendar) for rule, match in matches if match]
        return sorted((time for time in found if time is not None), key=lambda time: -time.end)

    def _in_full(self, rule: Rule, match: re.Match[str], calendar: Calendar) -> _Reading | None:
        """Return the range of a match with the part of the day that follows; None when there is no such time."""
        try:
            time = _Reading(rule.resolve(match, calendar), match.start(), match.end())
            return self._within_day(time, calendar) if rule.is_day else time
        except (OverflowError, ValueError):  # 30 February, or outside of the years 1 to 9999
            return None

    def _within_day(self, time: _Reading, calendar: Calendar) -> _Reading:
        day = calendar.date_of(time.range)
        if part := _PART_OF_DAY.match(self._text, time.end):
            hours = english.PARTS_OF_DAY.get(part["english"]) or chinese.PARTS_OF_DAY[part["chinese"]]
            time = _Reading(calendar.hours(day, *hours), time.start, part.end())
        if found := clock.read(self._text, time.end):
            time = _Reading(calendar.hours(day, *found.hours), time.start, found.end)
        return time

    def _extended(self, time: _Reading, preposition: str) -> _Reading:
        """Return the time with what follows it: a connector and another time, or a postposition."""
        if span := self._span(time, preposition):
            return span
        bound = _PREPOSITIONS.get(preposition, _Bound.WITHIN)
        end = time.end
        if postposition := _POSTPOSITION.match(self._text, time.end):
            bound, end = _POSTPOSITIONS[postposition["word"]], postposition.end()
        return _Reading(_bounded(time.range, bound), time.start, end)

    def _span(self, first: _Reading, preposition: str) -> _Reading | None:
        """Return 'X to Y', 'between X and Y', X到Y or X和Y之间."""
        connector = _CONNECTOR.match(self._text, first.end)
        pair = connector or _CONNECTOR_OF_BETWEEN.match(self._text, first.end)
        span = self._joined(first, pair.end()) if pair else None
        if span is None:
            return None
        if between := _BETWEEN.match(self._text, span.end):
            return span._replace(end=between.end())
        return span if connector or preposition in _PAIRING else None

    def _joined(self, first: _Reading, start: int) -> _Reading | None:
        """Return the span to the time at `start`; 'from Monday to Wednesday' on a Tuesday is one of last week."""
        second = next(iter(self._times(start, self._calendar)), None)
        if second is None:
            return None
        since_ms = first.range.since_ms
        if since_ms > second.range.since_ms:
            earlier = self._calendar.at(second.range.until_ms - 1)
            again = (time for time in self._times(first.start, earlier) if time.end == first.end)
            since_ms = next((time.range.since_ms for time in again), since_ms)
        if since_ms >= second.range.until_ms:
            return None
        return _Reading(TimeRange(since_ms, second.range.until_ms), first.start, second.end)


def _bounded(time: TimeRange, bound: _Bound) -> TimeRange:
    match bound:
        case _Bound.WITHIN:
            return time
        case _Bound.SINCE:
            return TimeRange(time.since_ms, END_MS)
        case _Bound.AFTER:
            return TimeRange(time.until_ms, END_MS)
        case _Bound.UNTIL:
            return TimeRange(MIN_MS, time.until_ms)
        case _Bound.BEFORE:
            return TimeRange(MIN_MS, time.since_ms)
