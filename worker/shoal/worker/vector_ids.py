"""How vectors are called in an index that lies apart from the database, and what it is told of each.

An id is `key.mark`: `key` tells the memory and the passage, `mark` the version of the memory's vectors. A version is
known by the model and the texts that were embedded, so a vector that another version left behind is seen for what it
is, and two workers that make the same version overwrite each other with the same.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, NamedTuple, Self

from shoal.core.cells import compact_json
from shoal.core.protocols import VectorRow
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State

INDEXED_MAX_BYTES: Final = 64
"""Of a string that a metadata index takes, in UTF-8; of a longer one only the beginning would count."""
_DIGEST_BYTES: Final = 8
_ID: Final = re.compile(r"(\d{1,16})\.([0-9a-f]{16})")


class Version(NamedTuple):
    """One version of a memory's vectors: those of its passages from 0 on."""

    rid: int
    mark: str
    passages: int

    @classmethod
    def of_id(cls, vector_id: str) -> Self | None:
        """Return the version that an id belongs to, as far as that passage; None for an id that is none of ours."""
        found = _ID.fullmatch(vector_id)
        if found is None:
            return None
        rid, passage = divmod(int(found[1]), PASSAGES_MAX)
        return cls(rid, found[2], passage + 1)

    @property
    def ids(self) -> list[str]:
        """The ids of its vectors."""
        return [vector_id(self.rid * PASSAGES_MAX + passage, self.mark) for passage in range(self.passages)]


def vector_id(key: int, mark: str) -> str:
    """Return the id of one vector: at most 33 bytes, where Vectorize takes 64."""
    return f"{key}.{mark}"


def read_id(text: str) -> tuple[int, str] | None:
    """Return (key, mark) of an id; None for an id that is none of ours."""
    found = _ID.fullmatch(text)
    return None if found is None else (int(found[1]), found[2])


def mark(fingerprint: str, text_hashes: Iterable[bytes]) -> str:
    """Return what names a version: 16 hexadecimal characters of the model and the passages' texts, in order."""
    hashed = blake2b(fingerprint.encode(), digest_size=_DIGEST_BYTES)
    for text_hash in text_hashes:
        hashed.update(text_hash)
    return hashed.hexdigest()


def versions(rows: Sequence[VectorRow], fingerprint: str) -> list[Version]:
    """Return the version of each memory that the rows, ordered by key, hold whole."""
    by_memory = groupby(rows, key=lambda row: row.key // PASSAGES_MAX)
    return [
        Version(rid, mark(fingerprint, (row.text_hash for row in passages)), len(passages))
        for rid, passages in ((rid, list(group)) for rid, group in by_memory)
    ]


def parts(wanted: Sequence[Version], vectors: int) -> Iterator[list[Version]]:
    """Yield versions in order, as many at a time as have so many vectors together; at least one."""
    part: list[Version] = []
    size = 0
    for version in wanted:
        if part and size + version.passages > vectors:
            yield part
            part, size = [], 0
        part.append(version)
        size += version.passages
    if part:
        yield part


def versions_json(wanted: Iterable[Version]) -> str:
    """Return versions as the SQL takes them: [[rid, mark, passages], ...]."""
    return compact_json([list(version) for version in wanted])


def space_label(space: str) -> str:
    """Return what stands for a space: always short, so that a filter can name many of them."""
    return blake2b(space.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def type_label(name: str) -> str:
    """Return what stands for a type: its name, unless only the beginning of that would be indexed."""
    if len(name.encode()) <= INDEXED_MAX_BYTES:
        return name
    return f"#{blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def metadata(*, space: str, type_name: str, kind: str, occurred_ms: int, archived: bool) -> dict[str, Any]:
    """Return what the index is told of a vector. It filters by all of it, so nothing else is told."""
    return {
        "space": space_label(space),
        "type": type_label(type_name),
        "kind": kind,
        "occurred_at": occurred_ms,
        "state": State.ARCHIVED if archived else State.LIVE,
    }
