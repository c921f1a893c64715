"""Text as it is stored (`normalise`, `clean`) and as it is searched (`prepare`, `match_terms`, `terms`).

The tables of both ends use FTS5's `porter unicode61`, which takes a run of CJK characters for one word. So
the application writes those runs as unigrams and bigrams, in the index and in the query alike.
`characters.fold` alone decides what separates words, so that both sides agree whatever Unicode version Python
and SQLite know.
"""

import re
import unicodedata
from collections.abc import Iterator
from operator import add
from typing import Final, NamedTuple

from shoal.core.characters import CJK, NOT_CJK, fold
from shoal.core.stopwords import is_stop_word
from shoal.schema.errors import ContentTooLong, EmptyContent, InvalidInput, InvalidText
from shoal.schema.limits import CONTENT_MAX_BYTES

PREPARE_VERSION: Final = 1
"""Changes whenever `prepare` answers differently for any text; an index of another version is rebuilt."""

MATCH_TERMS_MAX: Final = 64
"""Terms of one MATCH expression: FTS5 walks a list a term, and more of them only add noise."""

CAMEL_MAX_CHARS: Final = 40
"""Longer words with inner capitals are keys and hashes, not names."""

PHRASE_MAX_WORDS: Final = 8
"""Longer joined words (paths, URLs) are searched by their words alone."""

_INVISIBLE: Final = "\u200b\u2060\ufeff"
_TRIMMED: Final = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + _INVISIBLE
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_CJK_RUN: Final = re.compile(f"[{CJK}]+")
_PIECE: Final = re.compile(f"(?P<cjk>[{CJK}]+)|(?P<word>[0-9A-Za-z{NOT_CJK}]+)")
_HUMP: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_CAMEL: Final = re.compile(
    r"(?<![0-9A-Za-z])(?=[0-9A-Za-z]*?(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2}))"
    rf"[0-9A-Za-z]{{3,{CAMEL_MAX_CHARS}}}(?![0-9A-Za-z])"
)
_CAMEL_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_JOINED: Final = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]++(?:[._\-/\\:@+]+[0-9A-Za-z]+)+")
_JOINT: Final = re.compile(r"[._\-/\\:@+]+")
_SYMBOL_NAMES: Final = {"c++": "cpp", "c#": "csharp", "f#": "fsharp", ".net": "dotnet"}
_SYMBOL_NAME: Final = re.compile(r"(?<![0-9A-Za-z])(?:c\+\+|[cf]#|\.net)(?![0-9A-Za-z])", re.IGNORECASE)


def normalise(content: str) -> str:
    """Return content as it is stored and hashed: NFC, without white space at either end.

    Raises InvalidText (NUL, lone surrogates), EmptyContent, ContentTooLong (over CONTENT_MAX_BYTES of UTF-8).
    """
    stored = unicodedata.normalize("NFC", content).strip(_TRIMMED)
    size = _utf8_bytes(stored, "Content")
    if not size:
        raise EmptyContent("The content is empty.", "Send the text to remember.")
    if size > CONTENT_MAX_BYTES:
        raise ContentTooLong(
            f"The content has {size} bytes; at most {CONTENT_MAX_BYTES} are kept.",
            "Split it into several memories.",
            bytes=size,
            limit=CONTENT_MAX_BYTES,
        )
    return stored


def clean(text: str, what: str, max_chars: int, error: type[InvalidInput] = InvalidInput) -> str:
    """Return a short field (tag, source, entity) as one line: NFC, runs of white space as one space.

    `what` names the field in errors. Raises InvalidText (control characters, lone surrogates); `error` when
    the field is empty or over `max_chars` characters.
    """
    line = " ".join(unicodedata.normalize("NFC", text).split()).strip(_TRIMMED)
    _utf8_bytes(line, f"The {what}")
    if _CONTROL.search(line):
        raise InvalidText(f"The {what} holds a control character.", "Remove it.")
    if not line:
        raise error(f"The {what} is empty.", "Leave it out or write something.")
    if len(line) > max_chars:
        raise error(
            f"The {what} has {len(line)} characters; at most {max_chars} are kept.",
            "Shorten it.",
            chars=len(line),
            limit=max_chars,
        )
    return line


def _utf8_bytes(text: str, what: str) -> int:
    if "\x00" in text:
        raise InvalidText(f"{what} holds a NUL character.", "Remove it.")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidText(f"{what} holds half of a surrogate pair.", "Send whole Unicode characters.") from error


def prepare(text: str) -> str:
    """Return text for an FTS5 table with tokenize='porter unicode61'. Lower-casing is left to FTS5.

    CJK runs become unigrams and bigrams (中文字 -> 中 中文 文 文字 字). The parts of camelCase words and the
    spelled names of C++ and the like follow at the end, so that phrases of the text itself stay whole.
    """
    folded = fold(text)
    written = folded if folded.isascii() else _CJK_RUN.sub(_spaced_grams, folded)
    return written + _extra_line(folded)


def _spaced_grams(run: re.Match[str]) -> str:
    characters = run[0]
    grams = [text for pair in zip(characters, map(add, characters, characters[1:]), strict=False) for text in pair]
    return f" {' '.join(grams)} {characters[-1]} "


def _extra_line(folded: str) -> str:
    extras = " ".join(_extra_words(folded))
    return f"\n{extras}" if extras else ""


def _extra_words(folded: str) -> Iterator[str]:
    if _HUMP.search(folded):
        for word in _CAMEL.findall(folded):
            yield from (part for part in _CAMEL_PART.findall(word) if len(part) > 1)
    if "++" in folded or "#" in folded or ".net" in folded.lower():  # far cheaper than the pattern
        yield from (_SYMBOL_NAMES[name.lower()] for name in _SYMBOL_NAME.findall(folded))


class _Term(NamedTuple):
    """What a query looks for: a word, a CJK unigram or bigram, or joined words such as foo_bar.py."""

    text: str
    weight: int
    """How telling it looks: the length in Latin letters, a CJK character counting as three."""
    is_phrase: bool = False


_CJK_WEIGHT: Final = 3


def _query_terms(text: str) -> list[_Term]:
    """Return the query's distinct terms in order of appearance, at most MATCH_TERMS_MAX.

    Of more, the most telling and of equals the latest: a dialogue asks at its end.
    """
    folded = fold(text)
    terms: dict[str, _Term] = {}
    for term in _all_terms(folded):
        terms.pop(term.text.lower(), None)
        terms[term.text.lower()] = term
    telling = [term for key, term in terms.items() if not is_stop_word(key)] or list(terms.values())
    if len(telling) <= MATCH_TERMS_MAX:
        return telling
    latest = telling[::-1]
    kept = set(sorted(latest, key=lambda term: -term.weight)[:MATCH_TERMS_MAX])
    return [term for term in telling if term in kept]


def _all_terms(folded: str) -> Iterator[_Term]:
    for piece in _PIECE.finditer(folded):
        run = piece["cjk"]
        if run is None:
            if any(map(str.isalnum, piece[0])):  # a lone mark is no word
                yield _Term(piece[0], len(piece[0]))
        elif len(run) == 1:
            yield _Term(run, _CJK_WEIGHT)
        else:
            yield from (_Term(bigram, 2 * _CJK_WEIGHT) for bigram in map(add, run, run[1:]))
    yield from (_Term(word, len(word)) for word in _extra_words(folded))
    for joined in _JOINED.findall(folded):
        if len(_JOINT.split(joined)) <= PHRASE_MAX_WORDS:
            yield _Term(joined, len(joined), is_phrase=True)


def match_terms(text: str) -> tuple[str, ...]:
    """Return MATCH expressions, one a term, that find what `prepare` wrote; none when no word is in the text.

    Each is quoted, so nothing in the text acts as FTS5 syntax. Function words are left out while others remain.
    Joined words (foo_bar.py) also count as a phrase, which ranks the exact name first.
    """
    return tuple(f'"{term.text}"' for term in _query_terms(text))


def terms(text: str) -> tuple[str, ...]:
    """Return what `match_terms` look for as lower-case words, unigrams and bigrams, without its phrases."""
    return tuple(term.text.lower() for term in _query_terms(text) if not term.is_phrase)


_ENGLISH_ENDINGS: Final = "e s es d ed r er ers ing ings ion ions or ors ment ments ly y ies ied al able ation ations"
_ENDINGS: Final = frozenset(_ENGLISH_ENDINGS.split())
_NONE_OR_ANY_ENDING: Final = _ENDINGS | {""}
_ENDINGS_OF_SHORT_WORDS: Final = frozenset(("", "s", "es", "ed", "er", "ers", "ing", "ings"))
"""Of words up to three letters, where more would take 'care' for 'car'."""
_LONGEST_ENDING: Final = max(map(len, _ENDINGS))
_ROOT_MIN_CHARS: Final = 3


def _root(word: str) -> str:
    """Return a lower-case word without an English ending, at least three letters of it.

    Only to compare words in Python (snippets), where Porter's steps would cost more than they tell.
    """
    if not word.isascii():
        return word
    for size in range(min(_LONGEST_ENDING, len(word) - _ROOT_MIN_CHARS), 0, -1):
        if word[-size:] in _ENDINGS:
            return word[:-size]
    return word


def _endings(word: str, root: str) -> frozenset[str]:
    if len(root) > _ROOT_MIN_CHARS:
        return _NONE_OR_ANY_ENDING
    return _ENDINGS_OF_SHORT_WORDS if root == word else _ENDINGS


def occurrence(term: str, lowered: str, start: int = 0) -> int:
    """Return where a term of `terms` next stands in folded lower-case text from `start` on; -1: nowhere.

    A word counts with another English ending too (deploy: deployed); CJK terms anywhere in a run.
    """
    if _CJK_RUN.match(term):
        return lowered.find(term, start)
    root = _root(term)
    endings = _endings(term, root)
    at = lowered.find(root, start)
    while at >= 0:
        if at == 0 or not _is_word_character(lowered[at - 1]):
            tail = _rest_of_word(lowered, at + len(root))
            if tail in endings or (tail[:1] == root[-1] and tail[1:] in _ENDINGS):  # planned, running
                return at
        at = lowered.find(root, at + 1)
    return -1


def _is_word_character(character: str) -> bool:
    return character.isalnum() and not _CJK_RUN.match(character)


def _rest_of_word(lowered: str, place: int) -> str:
    """Return the rest of the word from `place` on, cut where it is too long for an ending."""
    tail = lowered[place : place + _LONGEST_ENDING + 2]
    return next((tail[:i] for i, character in enumerate(tail) if not _is_word_character(character)), tail)
