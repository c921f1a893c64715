"""A cell from elsewhere is taken or refused, whatever it is."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.rig import ALL, NOW, opened

from shoal.core.apply import CLOCK_MAX_MS
from shoal.core.cells import Cell
from shoal.core.ids import edge_id, event_id, memory_id, turn_key
from shoal.schema.limits import CONTENT_MAX_BYTES
from shoal.schema.models import GetRequest
from shoal.schema.wire import AHEAD_MAX_MS, RefusalCode
from shoal.sync.wire_cells import FIELD_MAX_CHARS, RANK_MAX, VALUE_MAX_BYTES, CellRefused, stamp_ms, wire_cell

TEXT = "deploy failed"
ID = memory_id("main", TEXT)
OTHER = memory_id("main", "another")
INIT = {
    "v": 1,
    "class": "memory",
    "space": "main",
    "content": TEXT,
    "type": "note",
    "occurred_at": NOW,
    "created_at": NOW,
}


def hlc(ms: int = NOW, device: str = "other") -> str:
    return f"{ms * 65536:019d}-{device}"


def sent(field: str = "tag:x", value: Any = 1, rank: Any = 1, stamp: Any = None, record: Any = ID) -> list[Any]:
    return [record, "main", field, rank, hlc() if stamp is None else stamp, value]


def refusal(cell: object) -> RefusalCode:
    with pytest.raises(CellRefused) as caught:
        wire_cell(cell, NOW)
    assert caught.value.message.endswith(".")
    return caught.value.code


def test_a_cell_comes_as_it_was_sent():
    assert wire_cell(sent(), NOW) == Cell(ID, "main", "tag:x", 1, hlc(), 1, None)
    assert wire_cell(tuple(sent()), NOW).id == ID


def test_an_init_comes_with_its_object():
    assert wire_cell(sent("init", INIT), NOW).value == INIT


@pytest.mark.parametrize(
    "cell",
    [
        None,
        "abcdef",
        {},
        [],
        sent()[:5],
        [*sent(), 1],
        sent(record=ID.upper()),
        sent(record=ID[:-1]),
        sent(record=7),
        sent(field=""),
        sent(field="tag:\n"),
        sent(field="x" * (FIELD_MAX_CHARS + 1)),
        sent(field="tag:"),
        sent(rank=0),
        sent(rank=2),
        sent(rank=True),
        sent(rank=1.0),
        sent(rank=RANK_MAX + 2),
        sent(stamp=""),
        sent(stamp=hlc()[:-6]),
        sent(stamp=hlc(device="Other")),
        sent(stamp=hlc(device="x" * 33)),
        sent(stamp=hlc(CLOCK_MAX_MS + 1)),
        sent(value=[1]),
        sent(value={"a": 1}),
        sent(value=True),
        sent(field="zz", value="x" * (VALUE_MAX_BYTES + 1)),
        sent(field="zz", value="\0"),
        sent(field="zz", value="\ud800"),
        sent(field="zz", value=float("inf")),
        sent(field="zz", value=2**53),
    ],
)
def test_what_is_no_cell_is_malformed(cell: object):
    assert refusal(cell) is RefusalCode.MALFORMED


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("type", "bug", 7),
        ("occurred_at", NOW, "today"),
        ("occurred_at", -5, 2**50),
        ("importance", 0.5, 2.5),
        ("importance", 2, None),
        ("archived", 1, 2),
        ("superseded", OTHER, "x"),
        ("superseded", None, 1),
        ("trash", NOW, "now"),
        ("trash", None, 2.5),
        ("reason", "old", 1),
        ("tag:x", 0, None),
        ("source:x", 1, "1"),
        ("entity:x", 1, -1),
        ("md:k", '{"a":1}', '{"a": 1}'),
        ("md:k", None, "{"),
        ("md:k", '"x"', 1),
        ("n:dev", 3, -1),
        ("last:dev", NOW, None),
        ("a field of a newer version", "anything", ["a list"]),
    ],
)
def test_each_field_takes_what_its_readers_can_read(field: str, good: Any, bad: Any):
    assert wire_cell(sent(field, good), NOW).value == good
    assert refusal(sent(field, bad)) is RefusalCode.MALFORMED


def test_metadata_however_deep_is_refused_and_breaks_nothing():
    assert refusal(sent("md:k", "[" * 20_000 + "]" * 20_000)) is RefusalCode.MALFORMED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", 2),
        ("class", None),
        ("class", 7),
        ("space", "team"),
        ("content", ""),
        ("content", None),
        ("content", "\ud800"),
        ("content", "x" * (CONTENT_MAX_BYTES + 1)),
        ("type", ""),
        ("occurred_at", None),
        ("created_at", True),
        ("created_at", 1.5),
        ("key", "turn"),
        ("key", ["turn"]),
        ("key", [1, 2]),
        ("conversation_id", 3),
        ("position", -1),
        ("position", "0"),
    ],
)
def test_an_init_that_would_break_a_reader_is_malformed(name: str, value: Any):
    assert refusal(sent("init", {**INIT, name: value})) is RefusalCode.MALFORMED


def test_an_init_of_another_id_is_refused_as_such():
    assert refusal(sent("init", {**INIT, "content": "something else"})) is RefusalCode.WRONG_ID
    assert refusal(sent("init", {**INIT, "key": ["kind", "x"]})) is RefusalCode.WRONG_ID


def test_the_ids_of_turns_edges_and_events_are_checked_as_well():
    key = turn_key("talk", 3)
    turn = {**INIT, "key": key, "conversation_id": "talk", "position": 3}
    edge = {"v": 1, "class": "edge", "space": "main", "src": ID, "relation": "supports", "dst": OTHER, "created_at": 1}
    event = {"v": 1, "class": "event", "space": "main", "action": "evolve", "device": "a", "created_at": 5}
    good = {
        memory_id("main", TEXT, key): turn,
        edge_id("main", ID, "supports", OTHER, symmetric=False): edge,
        event_id("main", "evolve", "a", 5): event,
    }
    for record, init in good.items():
        assert wire_cell(sent("init", init, record=record), NOW).value == init
        assert refusal(sent("init", init, record=ID)) is RefusalCode.WRONG_ID
    for name in ("src", "relation", "dst", "created_at"):
        assert refusal(sent("init", {**edge, name: None})) is RefusalCode.MALFORMED
    for name in ("action", "device", "created_at"):
        assert refusal(sent("init", {**event, name: None})) is RefusalCode.MALFORMED


def test_an_init_of_a_class_that_is_not_known_here_is_taken():
    newer = {"class": "widget", "space": "main", "v": 9, "anything": [1, {"a": None}]}
    assert wire_cell(sent("init", newer), NOW).value == newer


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "\ud800", {"\udfff": 1}])
def test_an_init_that_is_no_json_is_malformed_also_where_nobody_here_reads_it(value: Any):
    assert refusal(sent("init", {"class": "widget", "space": "main", "x": [value]})) is RefusalCode.MALFORMED
    assert refusal(sent("init", {**INIT, "x": value})) is RefusalCode.MALFORMED


def test_an_init_that_is_too_deep_is_malformed():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert refusal(sent("init", {"class": "widget", "space": "main", "x": deep})) is RefusalCode.MALFORMED


async def test_a_class_that_is_not_known_here_makes_no_edge_and_no_turn_of_what_it_says():
    rig = await opened(embedder=None)
    await rig.store(TEXT, conversation_id="talk", position=1)
    await rig.store("another")
    turn = memory_id("main", TEXT, turn_key("talk", 1))
    strange = {"class": "widget", "space": "main", "src": turn, "dst": OTHER, "conversation_id": "talk", "position": 2}
    await rig.apply(wire_cell(sent("init", strange), NOW))
    (memory,) = await rig.get(turn, with_edges=True, with_history=True)
    assert memory.edges == []
    await rig.update(turn, tags=["x"])
    assert rig.value("select want from record where class = 'widget'") == 0


def test_what_is_purged_has_an_even_rank_and_what_lives_an_odd_one():
    assert wire_cell(sent("init", None, rank=2), NOW).value is None
    assert refusal(sent("init", None, rank=1)) is RefusalCode.MALFORMED
    assert refusal(sent("init", INIT, rank=2)) is RefusalCode.MALFORMED
    assert wire_cell(sent("init", INIT, rank=3), NOW).rank == 3


def test_a_stamp_may_be_five_minutes_ahead_and_no_more():
    assert wire_cell(sent(stamp=hlc(NOW + AHEAD_MAX_MS)), NOW)
    assert refusal(sent(stamp=hlc(NOW + AHEAD_MAX_MS + 1))) is RefusalCode.CLOCK_AHEAD
    assert wire_cell(sent(stamp=hlc(0)), NOW)


def test_the_milliseconds_of_a_stamp_are_read_off_it():
    assert stamp_ms(hlc(NOW + 5)) == NOW + 5


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.text(st.characters(codec=None)),
        st.sampled_from([ID, "main", "init", "md:k", "tag:x", hlc(), hlc(NOW * 2), 2**63, -(2**63), NOW]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=7),
        st.dictionaries(st.one_of(st.text(max_size=9), st.sampled_from(list(INIT))), inner, max_size=7),
    ),
    max_leaves=25,
)
field_names = st.one_of(
    st.sampled_from(
        ["init", "type", "trash", "tag:x", "md:k", "n:d", "importance", "occurred_at", "superseded", "reason"]
    ),
    st.text(max_size=20),
)
inits = st.dictionaries(st.sampled_from([*INIT, "key", "position", "conversation_id", "src", "dst"]), json_values).map(
    lambda changes: {**INIT, **changes}
)
cells = st.one_of(
    json_values,
    st.lists(json_values, min_size=6, max_size=6),
    st.tuples(
        st.sampled_from([ID, OTHER]),
        st.sampled_from(["main", "team"]),
        field_names,
        st.integers(0, 5),
        st.sampled_from([hlc(), hlc(NOW + 1)]),
        st.one_of(json_values, inits),
    ).map(list),
)


def fuzz(cell: Any) -> None:
    try:
        taken = wire_cell(cell, NOW)
    except CellRefused as error:
        assert isinstance(error.code, RefusalCode)
        return
    json.dumps(taken.value, allow_nan=False).encode()


@given(cell=cells)
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_value_is_taken_or_refused_with_a_code(cell: Any):
    fuzz(cell)


@pytest.mark.long
@given(cell=cells)
@settings(max_examples=20_000, suppress_health_check=[HealthCheck.too_slow])
def test_thousands_of_json_values_are_taken_or_refused_with_a_code(cell: Any):
    fuzz(cell)


@given(these=st.lists(cells, max_size=6))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
async def test_whatever_is_taken_can_be_written_and_read(these: list[Any]):
    rig = await opened(embedder=None)
    taken: list[Cell] = []
    for one in these:
        try:
            taken.append(wire_cell(one, NOW))
        except CellRefused:
            continue
    if taken:
        await rig.apply(*taken)
    await rig.get(ID, OTHER, with_edges=True, with_history=True)
    await rig.memory.get(GetRequest(space="*"), ALL)
