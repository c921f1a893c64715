from collections.abc import Sequence

import pytest
from tests.core.rig import ALL, Rig

from shoal.core.caller import Caller, Scope
from shoal.core.protocols import Row, SqlValue
from shoal.core.reading import ANSWER_MAX_BYTES, TOOL_ANSWER_MAX_BYTES
from shoal.schema.errors import InvalidId, InvalidInput, NotAllowed, OutOfRange, TooMany
from shoal.schema.limits import CONTENT_MAX_BYTES
from shoal.schema.models import GetRequest, StoreItem

STRICT = Caller(clamps=False)
TEAM = Caller(spaces=("team",))


async def page(rig: Rig, caller: Caller = ALL, **fields):
    return await rig.memory.get(GetRequest(**fields), caller)


# By id


async def test_memories_come_in_the_order_of_their_ids_each_once(rig: Rig):
    ids = [(await rig.store(f"memory {n}")).id for n in range(4)]
    asked = [ids[2], ids[0], ids[2], ids[3]]
    assert [memory.id for memory in await rig.get(*asked)] == [ids[2], ids[0], ids[3]]


async def test_id_and_ids_may_be_given_together(rig: Rig):
    ids = [(await rig.store(f"memory {n}")).id for n in range(2)]
    answer = await page(rig, id=ids[1], ids=[ids[0], ids[1]])
    assert [memory.id for memory in answer.memories] == [ids[1], ids[0]]
    assert (answer.page, answer.more) == (None, None)


async def test_what_is_missing_is_counted_in_a_note(rig: Rig):
    one = await rig.store("a fact")
    answer = await page(rig, ids=[one.id, "ab" * 16, "cd" * 16])
    assert [memory.id for memory in answer.memories] == [one.id]
    assert [(note.code, note.n) for note in answer.notes] == [("missing", 2)]


async def test_memories_of_every_state_are_read_by_id(rig: Rig):
    ids = [(await rig.store(f"memory {n}")).id for n in range(3)]
    await rig.update(ids[1], archived=True)
    await rig.delete(ids[2])
    assert [memory.state for memory in await rig.get(*ids)] == ["live", "archived", "trashed"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"id": "nonsense"}, InvalidId),
        ({"ids": ["AB" * 16]}, InvalidId),
        ({"ids": ["ab" * 16, "ab" * 15]}, InvalidId),
        ({"ids": []}, InvalidInput),
        ({"ids": [f"{n:032x}" for n in range(501)]}, TooMany),
        ({"id": "ab" * 16, "space": ""}, InvalidInput),
    ],
)
async def test_ids_that_cannot_be_are_refused(rig: Rig, fields, error):
    with pytest.raises(error):
        await page(rig, **fields)


async def test_another_space_looks_empty(rig: Rig):
    mine, team = await rig.store("a secret"), await rig.store("a secret", space="team")
    both = {"ids": [mine.id, team.id]}
    assert [memory.id for memory in (await page(rig, TEAM, **both)).memories] == [team.id]
    assert [memory.id for memory in (await page(rig, space="team", **both)).memories] == [team.id]
    assert [memory.id for memory in (await page(rig, space="*", **both)).memories] == [mine.id, team.id]
    with pytest.raises(NotAllowed):
        await page(rig, TEAM, space="main", **both)
    with pytest.raises(NotAllowed):
        await page(rig, Caller(scopes=frozenset({Scope.WRITE})), **both)


async def test_an_edge_is_hidden_while_an_end_cannot_be_seen(rig: Rig):
    old = await rig.store("the old text")
    new = (await rig.update(old.id, content="the new text")).superseded_by
    assert [len(memory.edges) for memory in await rig.get(old.id, new, with_edges=True)] == [1, 1]
    await rig.delete(old.id)
    assert [memory.edges for memory in await rig.get(new, with_edges=True)] == [[]]
    await rig.memory.revive([old.id], ALL)
    assert [len(memory.edges) for memory in await rig.get(new, with_edges=True)] == [1]


# Page by page


async def test_pages_cut_the_whole_list_without_gaps_or_repeats(rig: Rig):
    await rig.store_all([StoreItem(content=f"memory {n:02}", occurred_at="2026-01-01") for n in range(25)])
    seen = []
    for number in (1, 2, 3):
        answer = await page(rig, page=number, page_size=10)
        seen += [memory.content for memory in answer.memories]
        assert (answer.page, answer.page_size, answer.more) == (number, 10, number < 3)
    assert sorted(seen, reverse=True) == seen
    assert len(seen) == 25
    answer = await page(rig, page=4, page_size=10)
    assert (answer.memories, answer.more) == ([], False)


async def test_a_page_that_is_just_full_is_the_last(rig: Rig):
    await rig.store_all([StoreItem(content=f"memory {n}") for n in range(10)])
    assert (await page(rig, page_size=10)).more is False


async def test_the_orders(rig: Rig):
    for day in (2, 3, 1):
        rig.clock.now += 1000
        await rig.store(f"day {day}", occurred_at=f"2026-01-0{day}")
    first = (await page(rig, order="oldest")).memories[0]
    rig.clock.now += 1000
    await rig.update(first.id, tags="x")
    orders = {
        order: [memory.content for memory in (await page(rig, order=order)).memories]
        for order in ("newest", "oldest", "updated")
    }
    assert orders == {
        "newest": ["day 3", "day 2", "day 1"],
        "oldest": ["day 1", "day 2", "day 3"],
        "updated": ["day 1", "day 3", "day 2"],
    }


@pytest.mark.parametrize("name", ["type", "tags", "entity", "conversation_id", "since", "until", "time"])
async def test_an_empty_filter_beside_an_id_counts_as_left_out(rig: Rig, name: str):
    one = await rig.store("falcon")
    assert [memory.id for memory in (await page(rig, id=one.id, **{name: ""})).memories] == [one.id]


async def test_ids_and_filters_together_are_refused(rig: Rig):
    one = await rig.store("one")
    with pytest.raises(InvalidInput, match="tags"):
        await page(rig, id=one.id, tags="x")


async def test_lists_leave_out_the_archive_and_show_the_trash_apart(rig: Rig):
    ids = [(await rig.store(f"memory {n}", tags="x")).id for n in range(3)]
    await rig.update(ids[1], archived=True)
    await rig.delete(ids[2])
    for fields, states in (
        ({}, {"live"}),
        ({"include_archived": True}, {"live", "archived"}),
        ({"trash": True}, {"trashed"}),
        ({"trash": True, "tags": "y"}, set()),
    ):
        assert {memory.state for memory in (await page(rig, **fields)).memories} == states


async def test_lists_obey_the_filters_and_the_callers_spaces(rig: Rig):
    await rig.store("one", tags="x", type="bug")
    await rig.store("two", tags="x", space="team")
    await rig.store("three", type="bug")
    for caller, fields, expected in (
        (ALL, {}, ["three", "one"]),
        (ALL, {"tags": "x", "space": "*"}, ["two", "one"]),
        (ALL, {"type": "error"}, ["three", "one"]),
        (TEAM, {}, ["two"]),
        (TEAM, {"space": "*"}, ["two"]),
    ):
        assert [memory.content for memory in (await page(rig, caller, **fields)).memories] == expected


async def test_page_numbers_out_of_range_are_clamped_or_refused(rig: Rig):
    await rig.store("a fact")
    for fields in ({"page": 0}, {"page_size": 0}, {"page_size": 101}, {"page": 10**9}):
        answer = await page(rig, **fields)
        assert [note.code for note in answer.notes] == ["clamped"]
        with pytest.raises(OutOfRange):
            await page(rig, STRICT, **fields)


async def test_a_tools_answer_is_cut_where_it_gets_too_long_and_says_so(rig: Rig):
    texts = [f"{n} " + "word " * 5_000 for n in range(4)]
    ids = [(await rig.store(text)).id for text in texts]
    for fields, mend in (({"ids": ids}, "ask for their ids"), ({"page_size": 4}, "ask for smaller pages")):
        answer = await rig.memory.get(GetRequest(**fields), ALL)
        assert len(answer.memories) == 2
        assert [(note.code, note.n) for note in answer.notes] == [("truncated", 2)]
        assert mend in answer.notes[0].message
        assert answer.more in (None, True)
        whole = await rig.memory.get(GetRequest(**fields), Caller(clamps=False))
        assert (len(whole.memories), whole.notes) == (4, [])


async def test_the_first_memory_is_whole_however_long(rig: Rig):
    one = await rig.store("word " * 20_000)
    assert len((await rig.one(one.id)).content) > TOOL_ANSWER_MAX_BYTES


async def test_any_answer_is_cut_before_it_gets_huge(rig: Rig):
    long = "word " * (CONTENT_MAX_BYTES // 5 - 10)
    ids = [(await rig.store(f"{number} {long}")).id for number in range(33)]
    answer = await rig.memory.get(GetRequest(ids=ids), Caller(clamps=False))
    assert len(answer.memories) == ANSWER_MAX_BYTES // len(long)
    assert [(note.code, note.n) for note in answer.notes] == [("truncated", len(ids) - len(answer.memories))]


async def test_contents_that_no_answer_has_are_not_even_read(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    long = "word " * (CONTENT_MAX_BYTES // 5 - 10)
    ids = [(await rig.store(f"{number} {long}")).id for number in range(6)]
    query, read = rig.database.inner.query, [0]

    async def counted(text: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        rows = await query(text, params)
        read.append(sum(len(value) for row in rows for value in row.values() if isinstance(value, str)))
        return rows

    monkeypatch.setattr(rig.database.inner, "query", counted)
    for fields in ({"ids": ids}, {"page_size": 6}):
        assert len((await rig.memory.get(GetRequest(**fields), ALL)).memories) == 1
        assert max(read) < CONTENT_MAX_BYTES + TOOL_ANSWER_MAX_BYTES
    read[:] = [0]
    await rig.delete(*ids)
    await rig.memory.revive(ids, ALL)
    assert max(read) < len(long) // 100
