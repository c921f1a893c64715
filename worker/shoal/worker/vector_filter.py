"""From core's Filter to Vectorize's: as much of it as there is metadata for and fits."""

from typing import Any, Final, NamedTuple

from shoal.core.cells import compact_json
from shoal.core.protocols import Filter
from shoal.schema.sql import State
from shoal.worker.vector_ids import space_label, type_label

FILTER_MAX_BYTES: Final = 2_047
"""Of a filter as compact JSON: about 100 spaces or 130 types."""
_INDEXED_STATES: Final = frozenset({State.LIVE, State.ARCHIVED})
"""Those whose memories have vectors at all."""


class VectorFilter(NamedTuple):
    """What Vectorize is asked to filter by."""

    conditions: dict[str, Any]
    whole: bool
    """Whether that is all of the filter; else what comes back is more than passes."""


def vector_filter(where: Filter) -> VectorFilter | None:
    """Return the filter for Vectorize, None when nothing can pass."""
    states = _INDEXED_STATES & set(where.states)
    if not states or where.spaces == () or (where.types == () and not where.types_left_out):
        return None
    conditions: dict[str, Any] = {}
    if states != _INDEXED_STATES:
        conditions["state"] = {"$in": sorted(states)}
    if not where.by_created:
        conditions |= _times(where)
    whole = not (
        where.tags
        or where.entity is not None
        or where.conversation_id is not None
        or (where.by_created and (where.since_ms, where.until_ms) != (None, None))
    )
    # The spaces first: without them the nearest may all be other people's.
    for name, condition in (_spaces(where), _types(where)):
        if condition and _fits({**conditions, name: condition}):
            conditions[name] = condition
        elif condition:
            whole = False
    return VectorFilter(conditions, whole)


def _times(where: Filter) -> dict[str, Any]:
    bounds = {"$gte": where.since_ms, "$lt": where.until_ms}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return {"occurred_at": given} if given else {}


def _spaces(where: Filter) -> tuple[str, dict[str, Any]]:
    return "space", {"$in": [space_label(space) for space in where.spaces]} if where.spaces else {}


def _types(where: Filter) -> tuple[str, dict[str, Any]]:
    operator = "$nin" if where.types_left_out else "$in"
    return "type", {operator: [type_label(name) for name in where.types]} if where.types else {}


def _fits(conditions: dict[str, Any]) -> bool:
    return len(compact_json(conditions).encode()) <= FILTER_MAX_BYTES
