"""Seed files: JSON Lines of memories, {type, content, entities, occurredAt, attachmentUri, tags}."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from pydantic import ValidationError

from shoal.schema.errors import InvalidInput, NotFound, UnknownType
from shoal.schema.limits import BODY_MAX_BYTES
from shoal.schema.models import StoreAnswer, StoreBatchAnswer, StoreItem, StoreRequest, StoreStatus
from shoal.schema.ontology import Ontology

SEED_BATCH: Final = 50
"""Memories in one store call: small enough for a progress bar to move."""
SEED_BATCH_BYTES: Final = BODY_MAX_BYTES // 4
"""Bytes of content in one store call; the rest is for tags, metadata and JSON's escapes."""
SOURCE: Final = "seed"
DEFAULT: Final = "default"
"""The word for the memories that are shipped."""

Store = Callable[[StoreRequest], Awaitable[StoreAnswer | StoreBatchAnswer]]


class Line(NamedTuple):
    """A memory and the line that it stands in, from 1."""

    number: int
    item: StoreItem


@dataclass(slots=True)
class Seed:
    """What a file holds: memories, and a sentence for each line that can't be one."""

    lines: list[Line] = field(default_factory=list[Line])
    warnings: list[str] = field(default_factory=list[str])


def read_seed(name: str, ontology: Ontology) -> Seed:
    """Read a file, or the shipped memories under DEFAULT. Raises NotFound."""
    if name == DEFAULT:
        text = resources.files("shoal.local").joinpath("seed.jsonl").read_text(encoding="utf-8")
        return parse_seed(text, ontology)
    try:
        return parse_seed(Path(name).expanduser().read_text(encoding="utf-8", errors="replace"), ontology)
    except OSError as error:
        raise NotFound(
            f"The seed file {name} can't be read: {error.strerror or error}.", "Give the path of a JSON Lines file."
        ) from error


def parse_seed(text: str, ontology: Ontology) -> Seed:
    """Parse lines; a bad one is skipped with a warning that names it."""
    seed = Seed()
    # Not splitlines(): U+2028 and the like are text inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            seed.lines.append(Line(number, _item(line, ontology)))
        except (ValueError, UnknownType) as error:
            seed.warnings.append(f"Line {number} was skipped: {_reason(error)}")
    return seed


async def plant(
    seed: Seed, store: Store, space: str, done: Callable[[int], None] = lambda _: None
) -> Counter[StoreStatus]:
    """Store a seed's memories and count what became of them; `done` hears how many lines are through.

    A memory that the service refuses is skipped with a warning, as a bad line is.
    """
    counts: Counter[StoreStatus] = Counter()
    for part in _portions(seed.lines):
        try:
            counts += await _store(part, store, space)
        except InvalidInput:
            for line in part:
                try:
                    counts += await _store([line], store, space)
                except InvalidInput as error:
                    seed.warnings.append(f"Line {line.number} was skipped: {error.message}")
        done(len(part))
    return counts


def _portions(lines: list[Line]) -> Iterator[list[Line]]:
    """Yield the lines in portions that one request may carry."""
    part: list[Line] = []
    size = 0
    for line in lines:
        length = len(line.item.content.encode("utf-8", "surrogatepass"))
        if part and (len(part) == SEED_BATCH or size + length > SEED_BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += length
    if part:
        yield part


async def _store(lines: list[Line], store: Store, space: str) -> Counter[StoreStatus]:
    answer = await store(StoreRequest(items=[line.item for line in lines], space=space))
    results = answer.results if isinstance(answer, StoreBatchAnswer) else [answer]
    return Counter(result.status for result in results)


def _reason(error: ValueError | UnknownType) -> str:
    if isinstance(error, UnknownType):
        return error.message
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg} at column {error.colno})."
    if isinstance(error, ValidationError):
        part = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, part['loc']))}: {part['msg']}."
    return str(error)


def _item(line: str, ontology: Ontology) -> StoreItem:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("it is not an object.")
    row = cast("dict[str, Any]", found)
    content = row.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ValueError("its content is empty.")
    named = row.get("type")
    if named is not None and not isinstance(named, str):
        raise ValueError("its type is not a word.")
    attachment = row.get("attachmentUri")
    return StoreItem(
        content=content,
        type=ontology.resolve(named).name,
        tags=row.get("tags"),
        entities=row.get("entities"),
        occurred_at=row.get("occurredAt"),
        metadata={"attachment_uri": attachment} if attachment else None,
        source=SOURCE,
    )
