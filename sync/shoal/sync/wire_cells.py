"""The rules that a cell from another replica must keep, whoever sent it.

Fields that this version doesn't know are taken and passed on: a newer replica may have written them, and the merge
doesn't depend on a field's name.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter

from shoal.core import ids
from shoal.core.apply import CLOCK_MAX_MS
from shoal.core.canonical import JsonValue, canonical_json
from shoal.core.cells import INIT, Cell
from shoal.core.drafts import FORMAT, IMPORTANCE_MAX
from shoal.core.statements import INT_MAX
from shoal.schema.errors import InvalidMetadata
from shoal.schema.limits import (
    CONTENT_MAX_BYTES,
    CONVERSATION_MAX_CHARS,
    METADATA_MAX_BYTES,
    POSITION_MAX,
    SPACE_MAX_CHARS,
)
from shoal.schema.ontology import RELATIONS
from shoal.schema.wire import AHEAD_MAX_MS, RefusalCode

RANK_MAX: Final = 2**31 - 1
FIELD_MAX_CHARS: Final = 600
"""The longest of ours is `source:` and 512 characters."""
VALUE_MAX_BYTES: Final = 64 * 1024
"""UTF-8 bytes of a value other than `init`'s."""
_COUNTER: Final = 65_536
_ID: Final = re.compile(r"[0-9a-f]{32}")
_HLC: Final = re.compile(r"([0-9]{19})-[a-z0-9]{1,32}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]+")
_PARTS: Final = 6
_TIME_MAX_MS: Final = CLOCK_MAX_MS
_JSON: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue)


class CellRefused(Exception):
    """A cell breaks a rule."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def wire_cell(sent: object, now_ms: int) -> Cell:
    """Return a cell as it came in a message, checked. `now_ms` is the receiver's clock. Raises CellRefused."""
    if not isinstance(sent, Sequence) or isinstance(sent, str) or len(cast("Sequence[object]", sent)) != _PARTS:
        raise _malformed("It is not a list of six.")
    record_id, space, field, rank, hlc, value = cast("Sequence[Any]", sent)
    _require(_is_text(record_id, 32) and _ID.fullmatch(record_id), "Its id is not 32 hexadecimal characters.")
    _require(_is_name(space, SPACE_MAX_CHARS), "Its space is not a name.")
    _require(_is_name(field, FIELD_MAX_CHARS), "Its field is not a name.")
    _require(_is_int(rank) and 1 <= rank <= RANK_MAX, "Its rank is not a number from 1.")
    _check_stamp(hlc, now_ms)
    if field == INIT:
        _check_init(record_id, space, rank, value)
    else:
        _require(rank % 2 == 1, "Its rank is one of no life.")
        _check_value(field, value)
    return Cell(record_id, space, field, rank, hlc, value, None)


def stamp_ms(hlc: str) -> int:
    """Return the milliseconds since 1970 of a stamp."""
    return int(hlc[:19]) // _COUNTER


def _check_stamp(hlc: object, now_ms: int) -> None:
    _require(isinstance(hlc, str) and _HLC.fullmatch(hlc), "Its stamp is not 19 digits, `-` and a device.")
    ms = stamp_ms(cast("str", hlc))
    _require(ms <= CLOCK_MAX_MS, "Its stamp is beyond every clock.")
    if ms > now_ms + AHEAD_MAX_MS:
        raise CellRefused(RefusalCode.CLOCK_AHEAD, f"It is stamped {(ms - now_ms) // 1000} s in the future.")


def _check_init(record_id: str, space: str, rank: int, value: object) -> None:
    if value is None:
        _require(rank % 2 == 0, "It is purged, and of a living rank.")
        return
    _require(rank % 2 == 1, "It has a value, and a rank that is purged.")
    _require(isinstance(value, dict), "Its `init` is not an object.")
    init = cast("dict[str, Any]", value)
    _require(_is_name(init.get("class"), 64), "Its `init` has no class.")
    _require(init.get("space") == space, "Its `init` names another space.")
    _require(_is_json(init), "Its `init` can't be written as JSON.")
    check = _CLASSES.get(init["class"])
    if check is None:
        return  # A newer replica's; kept and passed on, and shown nowhere.
    _require(init.get("v") == FORMAT, "Its `init` is of another version.")
    if check(space, init) != record_id:
        raise CellRefused(RefusalCode.WRONG_ID, "Its content belongs to another id.")


def _memory(space: str, init: Mapping[str, Any]) -> str:
    """Check a memory's `init` and return the id that it must have."""
    content, key = init.get("content"), init.get("key")
    _require(_is_text(content, CONTENT_MAX_BYTES) and content, "Its content is missing, too long or no text.")
    _require(len(cast("str", content).encode()) <= CONTENT_MAX_BYTES, "Its content is too long.")
    _require(_is_name(init.get("type"), 64), "It has no type.")
    _require(all(_is_time(init.get(name)) for name in ("occurred_at", "created_at")), "It has no time.")
    _require(key is None or _is_key(key), "Its key is none.")
    conversation, position = init.get("conversation_id"), init.get("position")
    _require(conversation is None or _is_name(conversation, CONVERSATION_MAX_CHARS), "Its conversation has no name.")
    _require(position is None or (_is_int(position) and 0 <= position <= POSITION_MAX), "Its position is no number.")
    return ids.memory_id(space, cast("str", content), cast("ids.Key | None", key))


def _is_key(value: object) -> bool:
    return isinstance(value, list) and len(cast("list[object]", value)) > 1 and isinstance(value[0], str)


def _edge(space: str, init: Mapping[str, Any]) -> str:
    src, relation, dst = (init.get(name) for name in ("src", "relation", "dst"))
    for end in (src, dst):
        _require(isinstance(end, str) and _ID.fullmatch(end), "One of its ends is no id.")
    _require(_is_name(relation, 64), "Its relation has no name.")
    _require(_is_time(init.get("created_at")), "It has no time.")
    known = RELATIONS.get(cast("str", relation))
    symmetric = known is not None and known.symmetric
    return ids.edge_id(space, cast("str", src), cast("str", relation), cast("str", dst), symmetric)


def _event(space: str, init: Mapping[str, Any]) -> str:
    action, device, created_at = (init.get(name) for name in ("action", "device", "created_at"))
    _require(_is_name(action, 64) and _is_name(device, 64) and _is_time(created_at), "It is no event.")
    return ids.event_id(space, cast("str", action), cast("str", device), cast("int", created_at))


_CLASSES: Final[Mapping[str, Callable[[str, Mapping[str, Any]], str]]] = {
    "memory": _memory,
    "edge": _edge,
    "event": _event,
}


def _check_value(field: str, value: JsonValue) -> None:
    scalar = value is None or _is_text(value, VALUE_MAX_BYTES) or _is_number(value)
    _require(scalar, "Its value is none that a cell can have.")
    prefix, separator, name = field.partition(":")
    rule = _FIELDS.get(prefix + separator)
    if rule is not None:
        _require(not separator or name, "Its field has no name.")
        _require(rule(value), f"Its value is none for `{prefix}`.")


def _is_flag(value: JsonValue) -> bool:
    return _is_int(value) and value in (0, 1)


def _is_metadata(value: JsonValue) -> bool:
    if value is None:
        return True
    if not _is_text(value, METADATA_MAX_BYTES):
        return False
    try:
        # Not Python's own parser: it recurses, and how deep is up to whoever wrote this.
        return canonical_json(_JSON.validate_json(cast("str", value))) == value
    except (ValueError, InvalidMetadata):
        return False


def _is_text(value: object, most_bytes: int) -> bool:
    """Whether it is text that a database can keep, and not longer."""
    if not isinstance(value, str) or len(value) > most_bytes or "\0" in value:
        return False
    try:
        return len(value.encode()) <= most_bytes
    except UnicodeEncodeError:
        return False


def _is_json(value: object) -> bool:
    """Whether it can be written as JSON that everyone reads alike: no infinity, no half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _is_name(value: object, most_chars: int) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= most_chars
        and _NAME.fullmatch(value) is not None
        and _is_text(value, 4 * most_chars)
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT_MAX


def _is_number(value: object) -> bool:
    # Infinities and NaN are no JSON.
    return _is_int(value) or (isinstance(value, float) and abs(value) <= INT_MAX)


def _is_time(value: object) -> bool:
    return _is_int(value) and abs(cast("int", value)) <= _TIME_MAX_MS


_FIELDS: Final[Mapping[str, Callable[[JsonValue], bool]]] = {
    "type": lambda value: _is_name(value, 64),
    "occurred_at": _is_time,
    "importance": lambda value: _is_number(value) and 0 <= cast("float", value) <= IMPORTANCE_MAX,
    "archived": _is_flag,
    "superseded": lambda value: value is None or (isinstance(value, str) and _ID.fullmatch(value) is not None),
    "trash": lambda value: value is None or _is_time(value),
    "reason": lambda value: value is None or isinstance(value, str),
    "tag:": _is_flag,
    "source:": _is_flag,
    "entity:": _is_flag,
    "md:": _is_metadata,
    "n:": lambda value: _is_int(value) and cast("int", value) >= 0,
    "last:": _is_time,
}
"""What the fields that we know may hold: anything else would break those who read them."""


def _require(condition: object, message: str) -> None:
    if not condition:
        raise _malformed(message)


def _malformed(message: str) -> CellRefused:
    return CellRefused(RefusalCode.MALFORMED, message)
