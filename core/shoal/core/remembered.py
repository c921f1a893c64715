"""Answers that were just given, for a question that comes again: agents ask the same at each session's start.

An answer holds as long as the database's sequence number, which every write moves. Only complete answers are kept:
with nothing to embed and a model that answered, nothing but a write can change them, except the clock, which moves
"yesterday" and recency; so none is older than KEPT_MS.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from shoal.schema.models import FindAnswer, Note, NoteCode

KEPT_MS: Final = 60_000
_INCOMPLETE: Final = frozenset(
    (NoteCode.LEXICAL_ONLY, NoteCode.PENDING, NoteCode.NOT_EMBEDDED, NoteCode.OVER_QUOTA, NoteCode.PARTIAL)
)


class _Kept(NamedTuple):
    seq: int
    until_ms: int
    answer: FindAnswer


class Remembered:
    """The last answers, at most `most`, the least recently used going first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def get(self, question: Hashable, seq: int, now_ms: int) -> FindAnswer | None:
        """Return the answer to the same question, if nothing was written since it was given."""
        kept = self._kept.get(question)
        if kept is None or kept.seq != seq or not kept.until_ms - KEPT_MS <= now_ms < kept.until_ms:
            return None
        self._kept.move_to_end(question)
        return kept.answer

    def put(self, question: Hashable, seq: int, now_ms: int, answer: FindAnswer, health: Sequence[Note] = ()) -> None:
        """Keep an answer that was made when `seq` was the newest write, unless it or `health` says it is incomplete.

        What is said of the health changes without a write, so each asker is told it anew.
        """
        if not self._most or any(note.code in _INCOMPLETE for note in (*answer.notes, *health)):
            return
        self._kept[question] = _Kept(seq, now_ms + KEPT_MS, answer)
        self._kept.move_to_end(question)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
