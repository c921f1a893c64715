"""What vectors are called, and what the index is told of them."""

import pytest

from shoal.core.protocols import VectorRow
from shoal.schema.limits import PASSAGES_MAX, SPACE_MAX_CHARS
from shoal.schema.sql import State
from shoal.worker.vector_ids import (
    Version,
    mark,
    metadata,
    parts,
    read_id,
    space_label,
    type_label,
    vector_id,
    versions,
    versions_json,
)

ONE, OTHER = b"1" * 16, b"2" * 16
GREATEST_KEY = 2**53 - 1


def row(rid: int, passage: int, text_hash: bytes = ONE) -> VectorRow:
    return VectorRow(rid * PASSAGES_MAX + passage, [1.0], text_hash, "main", "note", "semantic", 0, False)


def test_a_mark_tells_the_model_the_texts_and_their_order():
    marks = {
        mark("model", [ONE]),
        mark("model", [OTHER]),
        mark("model", [ONE, OTHER]),
        mark("model", [OTHER, ONE]),
        mark("other model", [ONE]),
    }
    assert len(marks) == 5
    assert all(len(one) == 16 for one in marks)
    assert mark("model", [ONE]) == mark("model", iter([ONE]))


def test_an_id_is_short_enough_and_reads_back():
    one = vector_id(GREATEST_KEY, mark("model", [ONE]))
    assert len(one.encode()) <= 33
    assert read_id(one) == (GREATEST_KEY, mark("model", [ONE]))


@pytest.mark.parametrize("text", ["", "1", "1.", ".0123456789abcdef", "1.0123456789ABCDEF", "-1.0123456789abcdef", "x"])
def test_ids_of_others_are_known_for_that(text: str):
    assert read_id(text) is None
    assert Version.of_id(text) is None


def test_a_memorys_passages_are_one_version():
    rows = [row(7, 0), row(7, 1, OTHER), row(9, 0)]
    assert versions(rows, "model") == [Version(7, mark("model", [ONE, OTHER]), 2), Version(9, mark("model", [ONE]), 1)]


def test_a_version_knows_its_vectors_and_a_vector_its_version():
    version = Version(7, mark("model", [ONE]), 2)
    assert version.ids == [vector_id(7168, version.mark), vector_id(7169, version.mark)]
    assert Version.of_id(version.ids[1]) == version
    assert versions_json([version]) == f'[[7,"{version.mark}",2]]'


def test_spaces_and_types_are_indexed_whole_however_long():
    longest = "鱼" * SPACE_MAX_CHARS
    labels = {space_label("main"), space_label(longest), space_label(longest[:-1])}
    assert len(labels) == 3
    assert all(len(label) == 16 for label in labels)
    assert type_label("bug") == "bug"
    assert type_label("x" * 64) == "x" * 64
    assert type_label("x" * 65) != type_label("x" * 66)
    assert all(len(type_label(name).encode()) <= 64 for name in ("x" * 65, longest))


def test_the_index_is_told_what_it_filters_by_and_no_more():
    told = metadata(space="Ada's", type_name="bug", kind="semantic", occurred_ms=5, archived=True)
    assert told == {
        "space": space_label("Ada's"),
        "type": "bug",
        "kind": "semantic",
        "occurred_at": 5,
        "state": State.ARCHIVED,
    }
    assert metadata(space="a", type_name="b", kind="c", occurred_ms=5, archived=False)["state"] == State.LIVE


def test_versions_part_by_their_vectors_and_the_largest_goes_alone():
    some = [Version(rid, "a", passages) for rid, passages in enumerate((3, 4, 20, 1, 9))]
    assert [[one.passages for one in part] for part in parts(some, 10)] == [[3, 4], [20], [1, 9]]
    assert list(parts([], 10)) == []
