import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ids import edge_id, event_id, kind_key, made_key, memory_id, parse_id, turn_key
from shoal.schema.errors import InvalidId

A, B = "0a" * 16, "f0" * 16
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def test_a_memory_id_is_blake2b_of_the_canonical_json():
    identity = '{"content":"部署 on Friday","space":"main","v":1}'
    expected = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    assert memory_id("main", "部署 on Friday") == expected == "ef3984e934c9b50363242afe47fcab11"


def test_a_key_is_part_of_the_id():
    identity = '{"content":"Thanks!","key":["turn","c1",3],"space":"main","v":1}'
    expected = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    assert memory_id("main", "Thanks!", turn_key("c1", 3)) == expected


def test_memories_differ_by_space_content_and_key():
    ids = {
        memory_id("main", "a"),
        memory_id("team", "a"),
        memory_id("main", "b"),
        memory_id("main", "a", turn_key("c", 1)),
        memory_id("main", "a", turn_key("c", 2)),
        memory_id("main", "a", kind_key("note")),
    }
    assert len(ids) == 6


def test_what_consolidation_makes_has_the_id_of_its_sources():
    first = memory_id("main", "one wording", made_key("summary", [A, B]))
    assert first == memory_id("main", "another wording", made_key("summary", [B, A, A]))
    assert first != memory_id("main", "one wording", made_key("insight", [A, B]))


def test_an_edge_of_a_symmetric_relation_has_no_direction():
    assert edge_id("main", A, "related", B, symmetric=True) == edge_id("main", B, "related", A, symmetric=True)
    assert edge_id("main", A, "causes", B, symmetric=False) != edge_id("main", B, "causes", A, symmetric=False)


def test_events_differ_by_device_and_time():
    ids = {
        event_id("main", "decay", "laptop", 1),
        event_id("main", "decay", "laptop", 2),
        event_id("main", "decay", "edge", 1),
        event_id("main", "evolve", "laptop", 1),
    }
    assert len(ids) == 4


@given(TEXT, TEXT)
def test_an_id_reads_back_as_sixteen_bytes(space: str, content: str):
    text = memory_id(space, content)
    assert parse_id(text).hex() == text


@pytest.mark.parametrize("text", ["", A[:-1], A + "0", A.upper(), "g" * 32, A + "\n", "０" * 32])
def test_what_is_no_id_is_refused(text: str):
    with pytest.raises(InvalidId):
        parse_id(text)
