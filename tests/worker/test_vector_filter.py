"""What of a filter Vectorize is asked for."""

import json

import pytest

from shoal.core.protocols import Filter
from shoal.schema.sql import State
from shoal.worker.vector_filter import FILTER_MAX_BYTES, vector_filter
from shoal.worker.vector_ids import space_label

LIVE = {"state": {"$in": [State.LIVE]}}
BOTH = (State.LIVE, State.ARCHIVED)


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        (Filter(), LIVE),
        (Filter(states=BOTH), {}),
        (Filter(states=(State.ARCHIVED, State.TRASHED)), {"state": {"$in": [State.ARCHIVED]}}),
        (Filter(spaces=("a", "b"), states=BOTH), {"space": {"$in": [space_label("a"), space_label("b")]}}),
        (Filter(types=("bug", "note"), states=BOTH), {"type": {"$in": ["bug", "note"]}}),
        (Filter(types=("bug",), types_left_out=True, states=BOTH), {"type": {"$nin": ["bug"]}}),
        (Filter(types=(), types_left_out=True, states=BOTH), {}),
        (Filter(since_ms=5, states=BOTH), {"occurred_at": {"$gte": 5}}),
        (Filter(since_ms=5, until_ms=9, states=BOTH), {"occurred_at": {"$gte": 5, "$lt": 9}}),
        (Filter(since_ms=0, states=BOTH), {"occurred_at": {"$gte": 0}}),
        (Filter(by_created=True, states=BOTH), {}),
    ],
)
def test_what_there_is_metadata_for_is_asked_for_whole(where: Filter, conditions: dict[str, object]):
    found = vector_filter(where)
    assert found is not None
    assert (found.conditions, found.whole) == (conditions, True)


@pytest.mark.parametrize(
    "where",
    [
        Filter(tags=("a",)),
        Filter(entity="Ada"),
        Filter(conversation_id="c"),
        Filter(since_ms=5, by_created=True),
        Filter(until_ms=5, by_created=True),
    ],
)
def test_what_there_is_no_metadata_for_is_left_to_the_database(where: Filter):
    found = vector_filter(where)
    assert found is not None
    assert (found.conditions, found.whole) == (LIVE, False)


@pytest.mark.parametrize("where", [Filter(spaces=()), Filter(types=()), Filter(states=(State.TRASHED,))])
def test_a_filter_that_nothing_passes_is_not_asked(where: Filter):
    assert vector_filter(where) is None


def test_a_hundred_spaces_fit():
    found = vector_filter(Filter(spaces=tuple(f"space {n}" for n in range(100))))
    assert found is not None
    assert found.whole
    assert len(json.dumps(found.conditions, separators=(",", ":"))) <= FILTER_MAX_BYTES


def test_what_does_not_fit_is_left_to_the_database_and_spaces_come_first():
    types = tuple(f"some_long_name_of_a_type_{n}" for n in range(60))
    spaces = tuple(f"space {n}" for n in range(60))
    found = vector_filter(Filter(spaces=spaces, types=types))
    assert found is not None
    assert set(found.conditions) == {"state", "space"}
    assert not found.whole
    found = vector_filter(Filter(spaces=tuple(f"space {n}" for n in range(200)), types=("bug",)))
    assert found is not None
    assert set(found.conditions) == {"state", "type"}
    assert not found.whole
