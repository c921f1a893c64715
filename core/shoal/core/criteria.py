"""From a caller's criteria to a filter: names to types, expressions to times, words to spaces."""

from collections.abc import Sequence
from typing import Final

from shoal.core.caller import Caller, Scope
from shoal.core.context import Context
from shoal.core.protocols import Filter
from shoal.core.text import clean
from shoal.core.times import TimeRange, parse
from shoal.schema import tags as tag_rules
from shoal.schema.errors import InvalidInput, InvalidTag, InvalidTime
from shoal.schema.limits import CONVERSATION_MAX_CHARS, ENTITY_MAX_CHARS
from shoal.schema.models import Criteria, Tags
from shoal.schema.ontology import FOREIGN_BASE

NARROWING: Final = ("type", "kind", "tags", "entity", "conversation_id", "since", "until", "time")
"""The criteria that say which memories; the others say how these are meant."""


def narrowing(criteria: Criteria) -> list[str]:
    """Return the names of the criteria that say something: language models fill with "" and [] what they leave out."""
    return [name for name in NARROWING if _says_something(getattr(criteria, name))]


def _says_something(value: Sequence[str] | str | None) -> bool:
    texts = [value] if isinstance(value, str) else value or ()
    return any(text.strip() for text in texts)


def refuse_with_ids(criteria: Criteria) -> None:
    """Raise InvalidInput where ids and criteria were both given: one of them would be ignored."""
    given = narrowing(criteria)
    if given:
        raise InvalidInput(f"Ids were given together with {', '.join(given)}.", "Use either ids or filters.")


def filter_of(context: Context, criteria: Criteria, caller: Caller, states: tuple[int, ...], *needs: Scope) -> Filter:
    """Return what the criteria select in the spaces where the caller is allowed all of `needs`.

    Raises InvalidInput, NotAllowed.
    """
    spaces = caller.within(criteria.space, *needs)
    types, left_out = _types(context, criteria)
    times = _time_range(criteria, context.clock(), caller.zone(criteria.time_zone))
    return Filter(
        spaces=spaces,
        types=types,
        types_left_out=left_out,
        tags=_tags(criteria.tags),
        tags_all=criteria.tags_mode == "all",
        entity=None if criteria.entity is None else clean(criteria.entity, "entity", ENTITY_MAX_CHARS),
        conversation_id=None
        if criteria.conversation_id is None
        else clean(criteria.conversation_id, "conversation_id", CONVERSATION_MAX_CHARS),
        since_ms=times[0],
        until_ms=times[1],
        by_created=criteria.time_field == "created",
        states=states,
    )


def _types(context: Context, criteria: Criteria) -> tuple[tuple[str, ...] | None, bool]:
    """Return the types meant by `type` and `kind`; both given, those that are in both.

    The second says whether they are those to leave out: so foreign types are found where FOREIGN_BASE is meant.
    """
    if criteria.type is None and criteria.kind is None:
        return None, False
    ontology = context.ontology
    words = [criteria.type] if isinstance(criteria.type, str) else criteria.type
    named = ontology.names() if words is None else {name for word in words for name in ontology.types_of(word)}
    of_kind = ontology.names() if criteria.kind is None else ontology.types_of_kind(criteria.kind)
    meant = tuple(name for name in ontology.names() if name in named and name in of_kind)
    if FOREIGN_BASE in meant:
        return tuple(name for name in ontology.names() if name not in meant), True
    return meant, False


def _tags(tags: Tags | None) -> tuple[str, ...]:
    if tags is None:
        return ()
    parsed = tag_rules.parse_all(tags, wildcard=True)
    if not parsed:
        raise InvalidTag("`tags` is empty.", "Name at least one tag, or leave it out.")
    return parsed


def _time_range(criteria: Criteria, now_ms: int, zone: str) -> tuple[int | None, int | None]:
    whole = None if criteria.time is None else parse(criteria.time, now_ms, zone)
    since = None if criteria.since is None else parse(criteria.since, now_ms, zone).since_ms
    until = None if criteria.until is None else _end(parse(criteria.until, now_ms, zone))
    if whole is not None:
        since = whole.since_ms if since is None else max(since, whole.since_ms)
        until = whole.until_ms if until is None else min(until, whole.until_ms)
    if since is not None and until is not None and since >= until:
        raise InvalidTime("The time range ends before it begins.", "Swap `since` and `until`, or leave one out.")
    return since, until


def _end(moment: TimeRange) -> int:
    """Return where `until` ends: 'until yesterday' and 'until 2026-03' include that day or month."""
    return moment.until_ms
