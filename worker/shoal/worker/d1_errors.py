"""What D1's errors mean to a person, by their texts, which are all that they tell.

The texts are those of D1's documentation and of what production was seen to answer. No text of ours repeats a
parameter; what FTS5 or SQLite quote of a query is cut out.
"""

import re
from enum import Enum, auto
from typing import Final

from shoal.schema.errors import (
    DatabaseFull,
    NotPrepared,
    StorageBusy,
    StorageError,
    StorageOverQuota,
    TooManyStatements,
)
from shoal.worker.quotas import RESET, next_reset


class Outcome(Enum):
    """What became of the statements of a call that failed."""

    NOT_RUN = auto()
    """They were never begun: the call may be made again."""
    UNKNOWN = auto()
    """They may have run: only reads may be made again."""
    REFUSED = auto()
    """They failed, and would again."""


# The order counts: some texts of the first kind contain one of the second.
_NOT_RUN: Final = re.compile(
    r"D1 DB is overloaded|Cannot resolve D1 DB|Internal error while starting up D1 DB", re.IGNORECASE
)
_UNKNOWN: Final = re.compile(
    r"Network connection lost|caused object to be reset|because its code was updated|client disconnected", re.IGNORECASE
)
_TOO_HEAVY: Final = re.compile(r"exceeded (?:its \w+|timeout)", re.IGNORECASE)
"""A query that used up its time or memory would again: once is enough."""
_OVER_QUOTA: Final = re.compile(r"\bdaily\b.*\blimit\b", re.IGNORECASE | re.DOTALL)
_FULL: Final = re.compile(r"SQLITE_FULL|disk is full|maximum (?:DB|database) size", re.IGNORECASE)
_NOT_PREPARED: Final = re.compile(r"no such (?:table|column)|has no column named", re.IGNORECASE)
_TOO_MANY: Final = re.compile(r"Too many (?:API requests|subrequests) by single Worker invocation", re.IGNORECASE)
_QUOTED: Final = re.compile(r"(?P<mark>[\"'`]).*(?P=mark)", re.DOTALL)
_REASON_MAX_CHARS: Final = 160


def outcome_of(text: str) -> Outcome:
    """Return what became of the statements of a call that failed with that text."""
    if _NOT_RUN.search(text):
        return Outcome.NOT_RUN
    if _UNKNOWN.search(text) and not _TOO_HEAVY.search(text):
        return Outcome.UNKNOWN
    return Outcome.REFUSED


def translate(text: str, now_ms: int, *, writes: bool) -> StorageError:
    """Return the error that a person should see; `writes` says whether the call might have written."""
    if _OVER_QUOTA.search(text):
        until = next_reset(now_ms)
        return StorageOverQuota(
            "The database's daily quota is used up.",
            f"It is given anew at {until} ({RESET}); a paid plan has none.",
            until=until,
        )
    if _NOT_RUN.search(text) or _UNKNOWN.search(text) or _TOO_HEAVY.search(text):
        return _busy(writes)
    if _FULL.search(text):
        return DatabaseFull("The database has reached its greatest size; nothing was written.", "Purge what can go.")
    if _NOT_PREPARED.search(text):
        return NotPrepared(
            f"The database has no tables yet, or those of an older version: {_reason(text)}.",
            "Run `npx wrangler d1 migrations apply DB --remote` (`--local` on your machine).",
        )
    if _TOO_MANY.search(text):
        return too_many_statements()
    return StorageError(f"The database refused: {_reason(text)}.", "Try again; if it stays, report this text.")


def too_many_statements() -> TooManyStatements:
    """Return the error for work that one invocation can't hold."""
    return TooManyStatements(
        "One request may run no more database statements; what was left of it was not done.",
        "Send the same again, or less at once: what was written is not written twice.",
    )


def _busy(writes: bool) -> StorageBusy:
    if not writes:
        return StorageBusy("The database is overloaded or was lost for a moment.", "Try again in a moment.")
    return StorageBusy(
        "The database is overloaded or was lost for a moment; whether this was written is not known.",
        "Send the same again in a moment: what was written is not written twice.",
    )


def _reason(text: str) -> str:
    """Return an error's text on one line, without what it quotes: that may be a memory's."""
    return " ".join(_QUOTED.sub("...", text).split())[:_REASON_MAX_CHARS].rstrip(".")
