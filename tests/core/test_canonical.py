import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.canonical import canonical_json
from shoal.schema.errors import InvalidMetadata

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner),
    max_leaves=20,
)


def test_keys_are_sorted_without_spaces_and_characters_stay():
    assert canonical_json({"b": [1, 2.5, None], "a": "中"}) == '{"a":"中","b":[1,2.5,null]}'


def test_the_order_of_keys_does_not_matter():
    assert canonical_json({"a": 1, "b": {"c": 2, "d": 3}}) == canonical_json({"b": {"d": 3, "c": 2}, "a": 1})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": [float("inf")],
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\udfff": 1},
    "number as key": {1: "a"},
    "null as key": [{"a": {None: 1}}],
    "set": {1, 2},
    "bytes": b"x",
    "endless number": 10**5000,
    "deep": nested(100_000),
    "circle": circle(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_json_cannot_hold_is_refused(name: str):
    with pytest.raises(InvalidMetadata):
        canonical_json(REFUSED[name])


@given(VALUES)
def test_the_text_reads_back_as_the_value(value: Any):
    assert json.loads(canonical_json(value)) == value
