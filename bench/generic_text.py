"""Generic text in several languages, written for this project: what a centring and a calibration are made from.

`generic/queries.<language>.txt` holds a question or a few search words a line. `generic/passages.<language>.txt`
holds blocks parted by blank lines: a statement, or the turns of a conversation. The pairs that core calibrates with
share no topic with these files and serve to measure. Nothing of it comes from a benchmark.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from shoal.core.calibration_pairs import PASSAGES, QUERIES

FOLDER: Final = Path(__file__).parent / "generic"
LANGUAGES: Final = ("en", "zh", "es", "fr", "de", "ja")
PAIR_LANGUAGES: Final = tuple(QUERIES)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions and answers: text i of every list means the same, in each language."""

    queries: dict[str, list[str]]
    passages: dict[str, list[str]]


def load_queries(language: str) -> list[str]:
    """Return the questions in one language."""
    return _text(f"queries.{language}.txt").splitlines()


def load_passages(language: str) -> list[str]:
    """Return the statements and turns in one language, and each turn once more after the turn before it.

    Conversation turns are embedded that way: previous turn, newline, turn.
    """
    blocks = [block.splitlines() for block in _text(f"passages.{language}.txt").strip().split("\n\n")]
    alone = [line for block in blocks for line in block]
    after_previous = [f"{before}\n{line}" for block in blocks for before, line in pairwise(block)]
    return alone + after_previous


def load_pairs() -> Pairs:
    """Return the question and answer pairs."""
    return Pairs(
        {language: list(texts) for language, texts in QUERIES.items()},
        {language: list(texts) for language, texts in PASSAGES.items()},
    )


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
