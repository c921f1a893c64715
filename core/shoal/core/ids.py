"""Ids are hashes of what never changes, so replicas that never met give one thing one id.

BLAKE2b (RFC 7693) with a digest of 16 bytes over canonical JSON in UTF-8; outside the database 32 lower-case
hexadecimal characters.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from shoal.core.canonical import canonical_json
from shoal.schema.errors import InvalidId

ID_BYTES: Final = 16
_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{32}")

Key = list[JsonValue]
"""What tells memories of one text apart; see the functions that make one."""

_MADE: Final = "made"


def turn_key(conversation_id: str, position: int) -> Key:
    """Key of a conversation's turn: two turns that say 'Thanks!' are two memories."""
    return ["turn", conversation_id, position]


def kind_key(kind: str) -> Key:
    """Key of the profile `classic`, where one text under two kinds is two memories."""
    return ["kind", kind]


def made_key(maker: str, source_ids: Iterable[str]) -> Key:
    """Key of what consolidation makes from `source_ids`, in whichever order they come."""
    sources: list[JsonValue] = [*sorted(set(source_ids))]
    return [_MADE, maker, sources]


def memory_id(space: str, content: str, key: Key | None = None) -> str:
    """Return the id of a memory. `content` is already normalised.

    Under a `made_key` the content is left out, so that two runs over the same sources converge on one memory.
    """
    identity: dict[str, JsonValue] = {"v": _VERSION, "space": space}
    if key is not None:
        identity["key"] = key
    if key is None or key[0] != _MADE:
        identity["content"] = content
    return _digest(identity)


def edge_id(space: str, src: str, relation: str, dst: str, symmetric: bool) -> str:
    """Return the id of an edge between two ids; a symmetric relation is one edge in both directions."""
    if symmetric:
        src, dst = sorted((src, dst))
    return _digest({"v": _VERSION, "space": space, "src": src, "relation": relation, "dst": dst})


def event_id(space: str, action: str, device: str, created_at_ms: int) -> str:
    """Return the id of a space's event, such as a consolidation that a user called."""
    return _digest({"v": _VERSION, "space": space, "action": action, "device": device, "created_at": created_at_ms})


def parse_id(text: str) -> bytes:
    """Return the 16 bytes of an id as the database keeps it. Raises InvalidId."""
    if not _ID.fullmatch(text):
        raise InvalidId(
            f"{text[:64]!r} isn't an id.", "Use an id from an answer: 32 lower-case hexadecimal characters."
        )
    return bytes.fromhex(text)


def _digest(identity: JsonValue) -> str:
    return hashlib.blake2b(canonical_json(identity).encode(), digest_size=ID_BYTES).hexdigest()
