"""What single characters are: which scripts write no spaces, and how a character looks to a search."""

import unicodedata
from collections.abc import Callable
from typing import Final

_ASCII_END: Final = 0x80

TABLE_MAX: Final = 16_384
"""Code points that one table keeps, under 2 MB; the Worker has 128 MB, and no person's texts use more."""

CJK_RANGES: Final = (
    (0x3005, 0x3007),  # iteration mark, closing mark, ideographic zero
    (0x3041, 0x3096),  # Hiragana
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # Katakana
    (0x30FC, 0x30FF),
    (0x3105, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7A3),  # Hangul syllables
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x20000, 0x323AF),  # Han, extensions B to H
)
"""First and last code points of scripts whose words no space ends (Korean ones carry their particles)."""


def _class_of_ranges(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _ranges_between() -> list[tuple[int, int]]:
    starts = [_ASCII_END, *(last + 1 for _, last in CJK_RANGES)]
    ends = [*(first - 1 for first, _ in CJK_RANGES), 0x10FFFF]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]


CJK: Final = _class_of_ranges(list(CJK_RANGES))
"""CJK_RANGES for the inside of a regular expression's [...]."""

NOT_CJK: Final = _class_of_ranges(_ranges_between())
"""Everything else above ASCII; in text that `fold` gave back, nothing but letters, digits and their marks."""


class CharacterTable(dict[int, str]):
    """A table for `str.translate` that works out each character when it first meets it."""

    def __init__(self, function: Callable[[str], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, codepoint: int) -> str:
        mapped = self._function(chr(codepoint))
        if len(self) < TABLE_MAX:
            self[codepoint] = mapped
        return mapped


_LATIN_END: Final = 0x0250
_LATIN_ADDITIONAL: Final = range(0x1E00, 0x1F00)
_VARIATION_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_WITHOUT_DECOMPOSITION: Final = {
    "Æ": "AE", "æ": "ae", "Ð": "D", "ð": "d", "Đ": "D", "đ": "d", "Ø": "O", "ø": "o", "Þ": "TH", "þ": "th",
    "ß": "ss", "ẞ": "SS", "Ł": "L", "ł": "l", "Œ": "OE", "œ": "oe", "ı": "i",
}  # fmt: skip


def _fold_character(character: str) -> str:
    codepoint = ord(character)
    category = unicodedata.category(character)
    if codepoint < _ASCII_END:
        return character
    if category == "Cf" or any(codepoint in selectors for selectors in _VARIATION_SELECTORS):
        return ""
    if category[0] not in "LNM":
        return " "
    if codepoint < _LATIN_END or codepoint in _LATIN_ADDITIONAL:
        base = unicodedata.normalize("NFD", character)[0]
        return _WITHOUT_DECOMPOSITION.get(base, base)
    return character


_FOLDED: Final = CharacterTable(_fold_character)


def fold(text: str) -> str:
    """Return text whose words are runs of ASCII letters and digits and of anything above ASCII.

    NFKC; invisible characters vanish; Latin letters lose their accents (unicode61 keeps double ones); every
    other character above ASCII that is no letter, digit or mark becomes a space. Case stays.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text).translate(_FOLDED)


def _lower_character(character: str) -> str:
    return (fold(character) or character)[0].lower()[0]


_LOWERED: Final = CharacterTable(_lower_character)


def lower_in_place(text: str) -> str:
    """Return lower-case text folded character by character, so that every place in it stays what it was."""
    return text.lower() if text.isascii() else text.translate(_LOWERED)


_JOINER: Final = "\u200d"
_SKIN_TONES: Final = ("\U0001f3fb", "\U0001f3ff")


def joins(text: str, place: int) -> bool:
    """Whether the characters on both sides of `place` make one sign for a reader (marks, emoji sequences)."""
    if not 0 < place < len(text) or text[place].isascii():
        return False
    after = text[place]
    return (
        unicodedata.category(after)[0] == "M"
        or _JOINER in (after, text[place - 1])
        or _SKIN_TONES[0] <= after <= _SKIN_TONES[1]
    )
