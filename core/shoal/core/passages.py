"""Long content as overlapping passages that fit a model's window, and snippets for answers."""

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Collection, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from shoal.core.characters import CJK, CharacterTable, joins, lower_in_place
from shoal.core.text import occurrence, prepare
from shoal.schema.limits import PASSAGES_MAX

PASSAGE_TOKENS: Final = 400
"""Estimated tokens of a passage. The default model's window is 512; two marks, its prefix and about 100 tokens
of the previous turn need room too."""

OVERLAP_TOKENS: Final = 50
"""Estimated tokens that a passage repeats of the one before, so that no statement is cut in both."""

SNIPPET_CHARS: Final = 200
"""A row of a search's answer: enough to judge by, and fifty of them stay short."""


class Passage(NamedTuple):
    """One piece of a content: `text == content[start:end]`."""

    start: int
    end: int
    text: str


# Estimated tokens of a character in twentieths. Measured with the tokenizer of multilingual-e5-small (XLM-R's
# 250k pieces), tokens a character that isn't white space: English .31, code .45, upper case .47, Chinese .66,
# Japanese .49, Korean .56, Russian .27, Arabic .36, Hindi .37, digits .39 to .48, UUIDs .65, base64 .76,
# symbols .95, emoji 1.0. Models with a vocabulary for fewer languages cut other scripts finer, so those are
# rounded up.
_UNITS: Final = 20
_COST_OF_CLASS: Final = {" ": 0, "a": 6, "A": 10, "0": 10, "w": 10, "x": 16, "#": 20}
_COSTS: Final = bytes(_COST_OF_CLASS.get(chr(byte), 0) for byte in range(256))
_ALPHANUMERIC_RUN: Final = re.compile(r"[aA0]{8,}")
_KEY_MIN_CHARS: Final = 24
_CJK_CHARACTER: Final = re.compile(f"[{CJK}]")


def _class_of(character: str) -> str:
    """Return the class of cost: space, lower case, upper case, digit, other letter, or a token by itself."""
    if character.isspace():
        return " "
    if character.isascii() and character.isalnum():
        return "0" if character.isdigit() else "a" if character.islower() else "A"
    return "w" if character.isalpha() and not _CJK_CHARACTER.match(character) else "#"


_CLASSES: Final = CharacterTable(_class_of)


def _mark_keys(run: re.Match[str]) -> str:
    """Long runs, and runs of digits among letters, are keys and hashes: models cut them into scraps."""
    classes = run[0]
    if len(classes) >= _KEY_MIN_CHARS or ("0" in classes and classes.strip("0")):
        return "x" * len(classes)
    return classes


def _costs_up_to(content: str) -> list[int]:
    """Return the cost of content[:i] at place i, in twentieths of a token."""
    classes = _ALPHANUMERIC_RUN.sub(_mark_keys, content.translate(_CLASSES))
    return list(accumulate(classes.encode().translate(_COSTS), initial=0))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a model makes of the text, rather too many than too few."""
    return -(-_costs_up_to(text)[-1] // _UNITS)


class _Border(NamedTuple):
    """A kind of place to cut at: the end of a match. `least` is the share of a passage that must stand before."""

    pattern: re.Pattern[str]
    least: float


_CLOSING = "[\"'”’»)\\]】）」』]*"
_SENTENCE_END: Final = re.compile(rf"(?:[.!?…]+{_CLOSING}\s+|[。！？；…]+{_CLOSING}\s*|\n+\s*)")
_WORD_END: Final = re.compile(rf"\s+|[，、,;：](?=[{CJK}])|(?<=[{CJK}])(?=[{CJK}])")
_BORDERS: Final = (
    _Border(re.compile(r"\n[^\S\n]*\n\s*"), 0.5),
    _Border(_SENTENCE_END, 0.6),
    _Border(_WORD_END, 0.8),
)
_DENSE_LEAST: Final = 0.8
"""The same for every border in text so dense that shorter passages could number more than PASSAGES_MAX."""


def iter_passages(content: str) -> Iterator[Passage]:
    """Yield passages of at most PASSAGE_TOKENS that cover the content, each overlapping the one before.

    Cut at the end of a paragraph, else of a sentence, else of a word. Deterministic; fewer than PASSAGES_MAX
    for content within CONTENT_MAX_BYTES. Short content is one passage, the content itself.
    """
    costs = _costs_up_to(content)
    shortest_step = PASSAGE_TOKENS * _UNITS * _BORDERS[0].least - OVERLAP_TOKENS * _UNITS
    dense = costs[-1] > (PASSAGES_MAX - 1) * shortest_step
    start = 0
    while True:
        limit = bisect_right(costs, costs[start] + PASSAGE_TOKENS * _UNITS) - 1
        if limit >= len(content):
            yield Passage(start, len(content), content[start:])
            return
        end = _cut(content, costs, start, limit, dense)
        yield Passage(start, end, content[start:end])
        start = _restart(content, costs, start, end)


def split(content: str) -> list[Passage]:
    """Return all of `iter_passages`."""
    return list(iter_passages(content))


async def passage_words(content: str) -> AsyncGenerator[tuple[int, str]]:
    """Yield each passage's number and its words as the index takes them (`prepare`).

    Others run between two passages: the longest content takes a tenth of a second, in which nobody else would be
    served.
    """
    for number, passage in enumerate(iter_passages(content)):
        if number:
            await asyncio.sleep(0)
        yield number, prepare(passage.text)


def _cut(content: str, costs: list[int], start: int, limit: int, dense: bool) -> int:
    for pattern, least in _BORDERS:
        share = max(least, _DENSE_LEAST) if dense else least
        earliest = bisect_left(costs, costs[start] + share * PASSAGE_TOKENS * _UNITS, start, limit)
        ends = [match.end() for match in pattern.finditer(content, earliest, limit)]
        if ends and ends[-1] > start:
            return ends[-1]
    return _before_marks(content, limit, start)


def _restart(content: str, costs: list[int], start: int, end: int) -> int:
    """Return where the next passage begins: OVERLAP_TOKENS before `end`, or at a sentence within them."""
    earliest = max(start + 1, bisect_left(costs, costs[end] - OVERLAP_TOKENS * _UNITS, start, end))
    for pattern in (_SENTENCE_END, _WORD_END):
        begins = next((match.end() for match in pattern.finditer(content, earliest, end)), end)
        if begins < end:
            return begins
    place = _before_marks(content, earliest, start)
    return place if place > start else end


_SIGN_MAX_CHARS: Final = 32
"""The longest sign that is kept whole; a flood of marks must not keep a passage from ending."""


def _before_marks(content: str, place: int, start: int) -> int:
    """Move a cut left so that a letter keeps its combining marks and an emoji its parts."""
    for moved in range(place, max(start, place - _SIGN_MAX_CHARS), -1):
        if not joins(content, moved):
            return moved
    return place


def snippet(content: str, query_terms: Collection[str], width: int = SNIPPET_CHARS) -> str:
    """Return one line of at most `width` characters, ellipses included, where most of `terms(query)` stand.

    The start of the content when none does.
    """
    line = " ".join(content.split())
    if len(line) <= width:
        return line
    places = sorted(_places(line, query_terms))
    start = _best_start(places, len(line), width)
    return _window(line, start, width)


_OCCURRENCES_MAX: Final = 200
"""Of one term; a snippet from the beginning of a long text is as good as any."""


def _places(line: str, query_terms: Collection[str]) -> list[tuple[int, str]]:
    lowered = lower_in_place(line)
    found: list[tuple[int, str]] = []
    for term in query_terms:
        at = occurrence(term, lowered)
        for _ in range(_OCCURRENCES_MAX):
            if at < 0:
                break
            found.append((at, term))
            at = occurrence(term, lowered, at + 1)
    return found


_LEAD_SHARE: Final = 0.25
"""Share of a snippet's width that stands before its first term, for context."""


def _best_start(places: list[tuple[int, str]], length: int, width: int) -> int:
    """Return where a window holds most distinct terms, then most occurrences; the earliest of equals."""
    best = (0, 0)
    best_start = 0
    room = int(width * (1 - _LEAD_SHARE))
    first = 0
    for first, (at, _) in enumerate(places):
        inside = [term for place, term in places[first : first + room] if place < at + room]
        score = (len(set(inside)), len(inside))
        if score > best:
            best, best_start = score, at
    return max(0, min(best_start - int(width * _LEAD_SHARE), length - width))


_ELLIPSIS: Final = "…"
_BORDER_REACH: Final = 20
"""Characters that a snippet gives up at each end to begin and end between words."""


def _window(line: str, start: int, width: int) -> str:
    """Return the window as text on word borders, with an ellipsis at each end that was cut."""
    begin = start
    if start:
        begin = next((m.end() for m in _WORD_END.finditer(line, start, start + _BORDER_REACH)), start)
        while joins(line, begin):
            begin += 1
    end = begin + width - (1 if begin else 0)
    if end < len(line):
        end -= 1
        cuts = [m.start() for m in _WORD_END.finditer(line, max(begin, end - _BORDER_REACH), end + 1)]
        end = cuts[-1] if cuts and cuts[-1] > begin else end
        while end > begin + 1 and joins(line, end):
            end -= 1
    return (_ELLIPSIS if begin else "") + line[begin:end].strip() + (_ELLIPSIS if end < len(line) else "")
