import pytest
from tests.core.rig import ALL, NOW, Rig, cell

from shoal.core.caller import Caller, Scope
from shoal.core.ids import memory_id
from shoal.schema.errors import (
    InvalidId,
    InvalidInput,
    InvalidTag,
    NotAllowed,
    NotFound,
    OutOfRange,
    TooMany,
    UnknownType,
)
from shoal.schema.limits import TAGS_MAX
from shoal.schema.models import TagChanges

STRANGER = Caller(spaces=("team",))


# In place


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, 2.0])
async def test_every_importance_within_the_range_is_kept(rig: Rig, value: float):
    stored = await rig.store("stored with it", importance=value)
    changed = await rig.store("given it later")
    await rig.update(changed.id, importance=value)
    for one in (stored, changed):
        assert (await rig.one(one.id)).importance == value
        await rig.update(one.id, importance=1.5)
        await rig.update(one.id, importance=value)
        assert (await rig.one(one.id)).importance == value


async def test_every_part_can_be_changed(rig: Rig):
    one = await rig.store("a fact", tags="a,b", metadata={"x": 1, "y": 2})
    rig.clock.now += 1000
    answer = await rig.update(
        one.id,
        type="Best Practice",
        tags=TagChanges(add="c", remove="a"),
        metadata={"x": None, "z": "新"},
        importance=2.0,
        occurred_at="2026-01-02T03:04:05Z",
        archived=True,
    )
    assert (answer.success, answer.id, answer.superseded_by) == (True, one.id, None)
    memory = await rig.one(one.id)
    assert (memory.type, memory.tags, memory.metadata) == ("best_practice", ["b", "c"], {"y": 2, "z": "新"})
    assert (memory.importance, memory.state) == (2.0, "archived")
    assert memory.occurred_at.startswith("2026-01-02T03:04:05")
    assert memory.updated_at > memory.created_at


async def test_a_list_of_tags_means_exactly_these(rig: Rig):
    one = await rig.store("a fact", tags="a,b")
    await rig.update(one.id, tags=["b", "c"])
    assert (await rig.one(one.id)).tags == ["b", "c"]
    await rig.update(one.id, tags=TagChanges(set=[]))
    assert (await rig.one(one.id)).tags == []


async def test_a_removed_tag_is_found_no_more_and_can_come_back(rig: Rig):
    one = await rig.store("a fact", tags="alpha")
    await rig.update(one.id, tags=TagChanges(remove="alpha"))
    assert await rig.by_words("alpha") == []
    assert await rig.find(tags="alpha") == []
    await rig.store("a fact", tags="alpha")
    assert await rig.by_words("alpha") == [one.id]


async def test_a_memory_is_found_by_the_words_of_its_new_type_and_no_more_of_its_old(rig: Rig):
    one = await rig.store("a fact", type="architecture")
    await rig.update(one.id, type="hypothesis")
    assert await rig.by_words("hypothesis") == [one.id]
    assert await rig.by_words("architecture") == []


async def test_in_and_out_of_the_archive(rig: Rig):
    one = await rig.store("a fact")
    await rig.update(one.id, archived=True)
    assert await rig.find("fact") == []
    assert [found.state for found in await rig.find("fact", include_archived=True)] == ["archived"]
    await rig.update(one.id, archived=False)
    assert [found.state for found in await rig.find("fact")] == ["live"]


async def test_an_edit_of_a_memory_in_the_trash_is_refused_and_changes_nothing(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    before = rig.written()
    for fields in ({"tags": "x"}, {"type": "bug"}, {"content": "new"}, {"archived": True}):
        with pytest.raises(NotFound):
            await rig.update(one.id, **fields)
    assert rig.written() == before


async def test_an_edit_with_revive_takes_it_out_of_the_trash(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    await rig.update(one.id, tags="x", revive=True)
    memory = await rig.one(one.id)
    assert (memory.state, memory.tags) == ("live", ["x"])
    await rig.delete(one.id)
    assert (await rig.update(one.id, revive=True)).success
    assert (await rig.one(one.id)).state == "live"


async def test_a_pulled_edit_does_not_take_a_memory_out_of_the_trash(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    await rig.apply(cell(one.id, "tag:x", 1, NOW + 10, 1))
    memory = await rig.one(one.id)
    assert (memory.state, memory.tags) == ("trashed", ["x"])


async def test_an_edit_that_meets_a_delete_on_its_way_is_told(rig: Rig):
    one = await rig.store("a fact")
    inner = rig.database.query

    async def and_delete(sql, params=()):
        rows = await inner(sql, params)
        rig.database.query = inner
        await rig.delete(one.id)
        return rows

    rig.database.query = and_delete
    with pytest.raises(NotFound):
        await rig.update(one.id, tags="x")
    assert (await rig.one(one.id)).tags == []


async def test_an_edit_with_revive_that_meets_a_purge_on_its_way_is_told(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    inner = rig.database.query

    async def and_purge(sql, params=()):
        rows = await inner(sql, params)
        rig.database.query = inner
        await rig.purge(one.id)
        return rows

    rig.database.query = and_purge
    with pytest.raises(NotFound):
        await rig.update(one.id, tags="x", revive=True)
    assert await rig.get(one.id) == []


async def test_tags_that_stores_united_past_the_limit_can_be_removed_but_not_grow(rig: Rig):
    one = await rig.store("a fact", tags=[f"a{n}" for n in range(TAGS_MAX)])
    await rig.store("a fact", tags=[f"b{n}" for n in range(TAGS_MAX)])
    await rig.update(one.id, tags=TagChanges(remove="a0"))
    assert len((await rig.one(one.id)).tags) == 2 * TAGS_MAX - 1
    with pytest.raises(TooMany):
        await rig.update(one.id, tags=TagChanges(add="one more"))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, InvalidInput),
        ({"type": "poem"}, UnknownType),
        ({"tags": TagChanges(set="a", add="b")}, InvalidInput),
        ({"tags": [""]}, InvalidTag),
        ({"importance": 3.0}, OutOfRange),
        ({"content": "a fact"}, InvalidInput),
        ({"content": "  "}, InvalidInput),
        ({"metadata": {"k" * 65: 1}}, InvalidInput),
    ],
)
async def test_a_change_that_cannot_be_is_refused_and_nothing_written(rig: Rig, fields, error):
    one = await rig.store("a fact", tags="x")
    before = rig.written()
    with pytest.raises(error):
        await rig.update(one.id, **fields)
    assert rig.written() == before


async def test_who_may_not_reach_a_memory_hears_the_same_as_for_none(rig: Rig):
    one = await rig.store("a secret")
    messages = []
    for memory_id_ in (one.id, "ab" * 16):
        with pytest.raises(NotFound) as raised:
            await rig.update(memory_id_, caller=STRANGER, tags="x")
        messages.append(str(raised.value).replace(memory_id_, ""))
    assert len(set(messages)) == 1
    with pytest.raises(NotAllowed):
        await rig.update(one.id, caller=Caller(scopes=frozenset({Scope.READ})), tags="x")
    with pytest.raises(NotAllowed):
        await rig.update(one.id, caller=STRANGER, space="main", tags="x")
    with pytest.raises(NotFound):
        await rig.update(one.id, space="team", tags="x")
    with pytest.raises(InvalidId):
        await rig.update("nonsense", tags="x")


# New text


async def test_new_text_makes_a_new_memory_that_carries_what_the_old_one_had(rig: Rig):
    old = await rig.store(
        "the old text", type="bug", tags="a,b", metadata={"k": 1, "l": 2}, entities=["Ann"], source="chat",
        importance=1.5,
    )  # fmt: skip
    answer = await rig.update(old.id, content="the new text", tags=TagChanges(add="c"), metadata={"l": None})
    assert answer.superseded_by == memory_id("main", "the new text")
    new = await rig.one(answer.superseded_by, with_history=True, with_edges=True)
    assert (new.type, new.tags, new.metadata, new.entities) == ("bug", ["a", "b", "c"], {"k": 1}, ["Ann"])
    assert (new.sources, new.importance, new.superseded_by) == (["chat"], 1.5, None)
    assert new.history == [old.id, new.id]
    assert [(edge.source, edge.relation, edge.target) for edge in new.edges] == [(new.id, "supersedes", old.id)]
    before = await rig.one(old.id, with_history=True)
    assert (before.content, before.superseded_by, before.tags) == ("the old text", new.id, ["a", "b"])
    assert before.history == [old.id, new.id]


async def test_text_changed_to_and_fro_has_one_latest_version(rig: Rig):
    a = await rig.store("text A")
    b = (await rig.update(a.id, content="text B")).superseded_by
    assert (await rig.update(b, content="text A")).superseded_by == a.id
    now_a, now_b = await rig.get(a.id, b, with_history=True, with_edges=True)
    assert (now_a.superseded_by, now_b.superseded_by) == (None, a.id)
    assert now_a.history == now_b.history == [b, a.id]
    assert [(edge.source, edge.target) for edge in now_a.edges] == [(a.id, b)]
    await rig.update(a.id, content="text B")
    now_a, now_b = await rig.get(a.id, b, with_history=True)
    assert (now_a.superseded_by, now_b.superseded_by) == (b, None)
    assert now_a.history == now_b.history == [a.id, b]


async def test_a_ring_of_versions_has_one_order(rig: Rig):
    a = (await rig.store("text A")).id
    b = (await rig.update(a, content="text B")).superseded_by
    c = (await rig.update(b, content="text C")).superseded_by
    await rig.update(c, content="text A")
    assert [memory.history for memory in await rig.get(a, b, c, with_history=True)] == [[b, c, a]] * 3


async def test_two_replicas_that_edit_the_same_text_keep_both_versions(rig: Rig):
    a = await rig.store("text A")
    b = (await rig.update(a.id, content="text B")).superseded_by
    c = (await rig.update(a.id, content="text C")).superseded_by
    assert (await rig.one(a.id)).superseded_by == c
    assert (await rig.one(b, with_history=True)).history[0] == a.id
    assert (await rig.one(c, with_history=True)).history[0] == a.id


async def test_a_version_whose_successor_went_is_the_latest_again(rig: Rig):
    old = await rig.store("the old text")
    new = (await rig.update(old.id, content="the new text")).superseded_by
    for act in (rig.delete(new), rig.memory.revive([new], ALL), rig.purge(new)):
        answer = await act
        memory = await rig.one(old.id, with_edges=True, with_history=True)
        gone = getattr(answer, "status", None) in ("deleted", "purged")
        assert (memory.superseded_by is None) == gone
        assert (memory.edges == []) == gone
        assert memory.history == ([old.id] if gone else [old.id, new])
        (found,) = await rig.find("old", n_results=1)
        assert any("superseded" in why for why in found.why) != gone


async def test_new_text_brings_a_forgotten_one_back(rig: Rig):
    b = await rig.store("text B")
    await rig.purge(b.id)
    a = await rig.store("text A")
    answer = await rig.update(a.id, content="text B")
    assert answer.superseded_by == b.id
    assert (await rig.one(b.id)).state == "live"


async def test_new_text_of_a_memory_with_a_foreign_type_or_many_tags_is_possible(rig: Rig):
    a = await rig.store("text A", tags=[f"a{n}" for n in range(TAGS_MAX)])
    await rig.store("text A", tags=[f"b{n}" for n in range(TAGS_MAX)])
    await rig.apply(cell(a.id, "type", 1, NOW + 1, "their_own_type"))
    b = await rig.one((await rig.update(a.id, content="text B")).superseded_by)
    assert (b.type, b.kind, len(b.tags)) == ("their_own_type", "episodic", 2 * TAGS_MAX)


async def test_new_text_of_a_trashed_memory_with_revive(rig: Rig):
    a = await rig.store("text A")
    await rig.delete(a.id)
    b = (await rig.update(a.id, content="text B", revive=True)).superseded_by
    assert [memory.state for memory in await rig.get(a.id, b)] == ["live", "live"]
    assert (await rig.one(a.id)).superseded_by == b
