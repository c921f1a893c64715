"""From what a caller sends to cells: one memory to store, checked and named before anything is written."""

from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue as RequestJson

from shoal.core import ids
from shoal.core.canonical import JsonValue, canonical_json
from shoal.core.cells import INIT, Cell, local, of_set
from shoal.core.text import clean, normalise
from shoal.core.times import to_ms
from shoal.schema import tags as tag_rules
from shoal.schema.errors import InvalidInput, InvalidMetadata, OutOfRange, TooMany
from shoal.schema.limits import (
    CONVERSATION_MAX_CHARS,
    ENTITIES_MAX,
    ENTITY_MAX_CHARS,
    METADATA_KEY_MAX_CHARS,
    METADATA_KEYS_MAX,
    METADATA_MAX_BYTES,
    POSITION_MAX,
    SOURCE_MAX_CHARS,
)
from shoal.schema.models import StoreItem
from shoal.schema.ontology import Ontology
from shoal.schema.sql import Mode

FORMAT: Final = 1
"""Version of the `init` cell's object."""
IMPORTANCE_MAX: Final = 2.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory to store. `named_type` is None when the caller named none."""

    id: str
    space: str
    content: str
    key: ids.Key | None
    named_type: str | None
    type: str
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    sources: tuple[str, ...]
    metadata: dict[str, str | None]
    """Values as canonical JSON; None removes a key."""
    importance: float | None
    occurred_at: int
    created_at: int
    conversation_id: str | None
    position: int | None

    def cells(self, mode: Mode) -> list[Cell]:
        """Return the cells to apply. What is already there is left out by the SQL.

        A text that is stored again comes out of the archive: its writer must find it.
        """
        init: dict[str, JsonValue] = {
            "v": FORMAT,
            "class": "memory",
            "space": self.space,
            "content": self.content,
            "type": self.type,
            "occurred_at": self.occurred_at,
            "created_at": self.created_at,
        }
        if self.key is not None:
            init["key"] = self.key
        if self.conversation_id is not None:
            init["conversation_id"] = self.conversation_id
        if self.position is not None:
            init["position"] = self.position
        cells = [local(self.id, self.space, INIT, init, mode), local(self.id, self.space, "archived", 0, mode)]
        if mode is Mode.REVIVE:
            cells.append(local(self.id, self.space, "trash", None, mode))
        if self.named_type is not None:
            cells.append(local(self.id, self.space, "type", self.type, mode))
        for prefix, values in (("tag", self.tags), ("entity", self.entities), ("source", self.sources)):
            cells += of_set(prefix, self.id, self.space, values, True, mode)
        cells += [local(self.id, self.space, f"md:{key}", value, mode) for key, value in self.metadata.items()]
        if self.importance is not None:
            cells.append(local(self.id, self.space, "importance", self.importance, mode))
        return cells

    def united(self, other: "Draft") -> "Draft":
        """Return this draft with what another of the same text adds."""
        return replace(
            self,
            named_type=other.named_type or self.named_type,
            type=other.type if other.named_type else self.type,
            tags=tuple(dict.fromkeys(self.tags + other.tags)),
            entities=tuple(dict.fromkeys(self.entities + other.entities)),
            sources=tuple(dict.fromkeys(self.sources + other.sources)),
            metadata={**self.metadata, **other.metadata},
            importance=self.importance if other.importance is None else other.importance,
        )


def draft(item: StoreItem, space: str, ontology: Ontology, now_ms: int, zone: str, key: ids.Key | None = None) -> Draft:
    """Check one memory and name it. Raises InvalidInput of the kind that fits; nothing is written."""
    content = normalise(item.content)
    conversation = _conversation(item)
    if key is None and conversation is not None and item.position is not None:
        key = ids.turn_key(conversation, item.position)
    return Draft(
        id=ids.memory_id(space, content, key),
        space=space,
        content=content,
        key=key,
        named_type=item.type,
        type=ontology.resolve(item.type).name,
        tags=tag_rules.parse_all(item.tags),
        entities=names(item.entities, "entity", ENTITY_MAX_CHARS, ENTITIES_MAX),
        sources=names([item.source] if item.source else None, "source", SOURCE_MAX_CHARS, 1),
        metadata=metadata_cells(item.metadata),
        importance=importance(item.importance),
        occurred_at=now_ms if item.occurred_at is None else to_ms(item.occurred_at, now_ms, zone),
        created_at=now_ms,
        conversation_id=conversation,
        position=item.position,
    )


def _conversation(item: StoreItem) -> str | None:
    if item.position is not None and item.conversation_id is None:
        raise InvalidInput("`position` was given without `conversation_id`.", "Name the conversation as well.")
    if item.position is not None and not 0 <= item.position <= POSITION_MAX:
        raise OutOfRange(f"position is {item.position}.", f"Use 0 to {POSITION_MAX}.", field="position")
    if item.conversation_id is None:
        return None
    return clean(item.conversation_id, "conversation_id", CONVERSATION_MAX_CHARS)


def names(values: list[str] | None, what: str, max_chars: int, most: int) -> tuple[str, ...]:
    """Return distinct short fields, cleaned. Raises InvalidInput, TooMany."""
    distinct = tuple(dict.fromkeys(clean(value, what, max_chars) for value in values or ()))
    if len(distinct) > most:
        raise TooMany(f"{len(distinct)} of {what} were given.", f"Use at most {most}.", limit=most)
    return distinct


def importance(value: float | None) -> float | None:
    """Return importance, checked. Raises OutOfRange."""
    if value is not None and not 0 <= value <= IMPORTANCE_MAX:
        raise OutOfRange(f"importance is {value}.", f"Use 0 to {IMPORTANCE_MAX:g}; 1 is usual.", field="importance")
    return value


def metadata_cells(metadata: dict[str, RequestJson] | None) -> dict[str, str | None]:
    """Return metadata with each value as canonical JSON, None for null, which removes a key. Raises InvalidMetadata."""
    if not metadata:
        return {}
    if len(metadata) > METADATA_KEYS_MAX:
        raise InvalidMetadata(f"metadata has {len(metadata)} keys.", f"Use at most {METADATA_KEYS_MAX}.")
    cells = {
        clean(key, "metadata key", METADATA_KEY_MAX_CHARS, InvalidMetadata): (
            None if value is None else canonical_json(value)
        )
        for key, value in metadata.items()
    }
    size = sum(len(key.encode()) + len((value or "").encode()) + 4 for key, value in cells.items())
    if size > METADATA_MAX_BYTES:
        raise InvalidMetadata(f"metadata has {size} bytes.", f"Use at most {METADATA_MAX_BYTES}.")
    return cells
