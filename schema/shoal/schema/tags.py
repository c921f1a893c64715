"""Tags: free words, or `namespace:value` in one of the namespaces below.

A tag whose part before the first colon is no namespace is a free tag, kept as written (`C++`, `http://x`).
"""

import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from shoal.schema.errors import InvalidTag, TooMany
from shoal.schema.limits import TAG_MAX_CHARS, TAGS_MAX

NAMESPACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sys": "set by shoal itself",
        "q": "quality",
        "proj": "project",
        "topic": "topic",
        "t": "topic, short form",
        "user": "person",
        "agent": "agent or client",
        "source": "where it came from",
        "conflict": "state of a conflict",
        "confidence": "how sure the writer was",
        "status": "state of work",
    }
)


WILDCARD: Final = ":*"
"""Ends what means every tag of a namespace, in filters only."""


class Tag(NamedTuple):
    """A parsed tag: its namespace (None for a free tag) and value."""

    namespace: str | None
    value: str

    def __str__(self) -> str:
        return self.value if self.namespace is None else f"{self.namespace}:{self.value}"


def parse(text: str, wildcard: bool = False) -> Tag:
    """Parse one tag; with `wildcard` it may be `ns:*`.

    Raises InvalidTag when it is empty, too long or holds control characters.
    """
    tag = _parse(text)
    if str(tag).endswith(WILDCARD) and not wildcard:
        raise InvalidTag(f"The tag {str(tag)!r} stands for a whole namespace.", "Name one tag; search with this one.")
    return tag


def _parse(text: str) -> Tag:
    tag = unicodedata.normalize("NFC", text).strip()
    if not tag:
        raise InvalidTag("A tag is empty.", "Leave it out or give it a word.")
    if len(tag) > TAG_MAX_CHARS:
        raise InvalidTag(
            f"The tag {tag[:20]!r}... has {len(tag)} characters.", f"Use at most {TAG_MAX_CHARS} characters."
        )
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in tag):
        raise InvalidTag(f"The tag {tag!r} holds a control character.", "Use printable characters only.")
    head, colon, rest = tag.partition(":")
    if colon and head.lower() in NAMESPACES:
        value = rest.strip()
        if not value:
            raise InvalidTag(f"The tag {tag!r} has a namespace but no value.", f"Write {head}:something.")
        return Tag(head.lower(), value)
    return Tag(None, tag)


def parse_all(tags: Iterable[str] | str | None, wildcard: bool = False) -> tuple[str, ...]:
    """Parse a list of tags, or one string with commas, into distinct tags in the order given.

    `wildcard` as in `parse`.
    Raises InvalidTag, or TooMany over TAGS_MAX.
    """
    if tags is None:
        return ()
    words = [w for w in tags.replace("，", ",").split(",") if w.strip()] if isinstance(tags, str) else tags
    distinct = tuple(dict.fromkeys(str(parse(word, wildcard)) for word in words))
    if len(distinct) > TAGS_MAX:
        raise TooMany(f"{len(distinct)} tags were given.", f"Use at most {TAGS_MAX}.")
    return distinct
