"""D1's rules for a statement. Every database here keeps them, so that what runs on a laptop runs at the edge.

A breach is a fault of the program, not of a person: TypeError or ValueError, never a ShoalError.
"""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from shoal.core.protocols import SqlValue

PARAMS_MAX: Final = 100
SQL_MAX_BYTES: Final = 100_000
VALUE_MAX_BYTES: Final = 2_000_000
"""Of one string or BLOB."""
INT_MAX: Final = 2**53 - 1
"""Greatest absolute value of an integer: numbers pass through JavaScript."""

_LITERALS_AND_COMMENTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
# A batch is the only transaction; connections and their settings belong to the driver.
_FORBIDDEN = frozenset(
    ("attach", "begin", "commit", "detach", "end", "pragma", "release", "rollback", "savepoint", "vacuum")
)
_READING = frozenset(("explain", "select", "values", "with"))
_TEXTS_REMEMBERED: Final = 512
_UTF8_CHAR_MAX_BYTES: Final = 4


def check(sql: str, params: Sequence[SqlValue], *, reads: bool = False) -> None:
    """Raise TypeError or ValueError for what D1 would refuse, and with `reads` for a statement that writes."""
    _check_sql(sql, reads)
    if len(params) > PARAMS_MAX:
        raise ValueError(f"{len(params)} parameters; at most {PARAMS_MAX}: pass a list as JSON")
    for value in params:
        _check_value(value)


@lru_cache(maxsize=_TEXTS_REMEMBERED)
def _check_sql(sql: str, reads: bool) -> None:
    if len(sql.encode()) > SQL_MAX_BYTES:
        raise ValueError(f"a statement of {len(sql)} characters; at most {SQL_MAX_BYTES} bytes")
    bare = _LITERALS_AND_COMMENTS.sub(" ", sql).strip().rstrip(";")
    if ";" in bare:
        raise ValueError("more than one statement in one text")
    word = bare.split(None, 1)[0].lower() if bare else ""
    if word in _FORBIDDEN:
        raise ValueError(f"{word} is left to the driver")
    if reads and word not in _READING:
        raise ValueError(f"query only reads; {word} belongs in a batch")


def _check_value(value: SqlValue) -> None:
    match value:
        case bool():
            raise TypeError("a bool would come back as 1 or 0: pass that")
        case str() | bytes():
            _check_size(value)
        case int() if abs(value) > INT_MAX:
            raise ValueError(f"the integer {value} is over 2^53 - 1: pass it as text")
        case float() if math.isnan(value):
            raise ValueError("NaN would be stored as NULL")
        case int() | float() | None:
            pass
        case _:
            name = type(value).__name__
            raise TypeError(f"a parameter of type {name}; only str, int, float, bytes and None can be bound")


def _check_size(value: str | bytes) -> None:
    if len(value) * _UTF8_CHAR_MAX_BYTES <= VALUE_MAX_BYTES:
        return
    size = len(value.encode()) if isinstance(value, str) else len(value)
    if size > VALUE_MAX_BYTES:
        raise ValueError(f"a value of {size} bytes; at most {VALUE_MAX_BYTES}")
