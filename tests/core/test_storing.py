import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.rig import DAY, NOW, Rig, opened

from shoal.core import service
from shoal.core.caller import Caller, Scope
from shoal.core.context import EDGE
from shoal.core.ids import memory_id, turn_key
from shoal.schema.errors import (
    ContentTooLong,
    EmptyContent,
    InvalidInput,
    InvalidMetadata,
    InvalidTag,
    InvalidText,
    InvalidTime,
    NotAllowed,
    OutOfRange,
    StorageError,
    TooMany,
    UnknownType,
)
from shoal.schema.limits import (
    BATCH_MAX,
    CONTENT_MAX_BYTES,
    CONVERSATION_MAX_CHARS,
    ENTITIES_MAX,
    ENTITY_MAX_CHARS,
    METADATA_KEY_MAX_CHARS,
    METADATA_KEYS_MAX,
    METADATA_MAX_BYTES,
    POSITION_MAX,
    SOURCE_MAX_CHARS,
    SPACE_MAX_CHARS,
    TAGS_MAX,
)
from shoal.schema.models import FindRequest, GetRequest, StoreItem, StoreRequest

WHOLE = {
    "type": "bug",
    "tags": ["proj:x", "C++"],
    "metadata": {"a": {"b": [1, 2.5, None, True, "c"]}, "键": "值", "n": 12345678901234567890},
    "source": "chat",
    "entities": ["Alice Wong", "部署"],
    "occurred_at": "2026-03-01T10:00:00+08:00",
    "importance": 1.5,
}


# Outcomes


async def test_what_was_stored_comes_back_whole(rig: Rig):
    answer = await rig.store(" a fact\n", **WHOLE)
    assert answer.id == answer.content_hash == memory_id("main", "a fact")
    assert (answer.success, answer.status, answer.type, answer.tags) == (True, "created", "bug", ["C++", "proj:x"])
    memory = await rig.one(answer.id)
    assert memory.content == "a fact"
    assert memory.metadata == WHOLE["metadata"]
    assert (memory.type, memory.kind, memory.importance) == ("bug", "episodic", 1.5)
    assert (memory.tags, memory.sources) == (["C++", "proj:x"], ["chat"])
    assert memory.entities == ["Alice Wong", "部署"]
    assert memory.occurred_at.startswith("2026-03-01T02:00:00")
    assert memory.created_at == memory.updated_at
    assert memory.created_at.startswith("2026-09-21T14:13:20")
    assert (memory.state, memory.space, memory.superseded_by) == ("live", "main", None)


async def test_without_a_type_it_is_a_note_that_happened_now(rig: Rig):
    memory = await rig.one((await rig.store("a fact")).id)
    assert (memory.type, memory.kind, memory.importance) == ("note", "semantic", 1.0)
    assert memory.occurred_at == memory.created_at


async def test_a_repeat_unites_tags_sources_and_entities(rig: Rig):
    await rig.store("a fact", tags="a,b", source="chat", entities=["Ann"])
    again = await rig.store("a fact", tags=["b", "c"], source="mail", entities=["Bob"])
    assert (again.status, again.tags, again.type_changed) == ("merged", ["a", "b", "c"], False)
    memory = await rig.one(again.id)
    assert (memory.tags, memory.sources, memory.entities) == (["a", "b", "c"], ["chat", "mail"], ["Ann", "Bob"])


async def test_a_repeat_under_another_type_changes_it_and_says_so(rig: Rig):
    await rig.store("a fact", type="note")
    again = await rig.store("a fact", type="bug")
    assert (again.status, again.type, again.type_changed) == ("merged", "bug", True)
    assert "note" in next(note.message for note in again.notes if note.code == "type_changed")
    assert (await rig.one(again.id)).type == "bug"


async def test_a_repeat_that_names_no_type_keeps_it(rig: Rig):
    await rig.store("a fact", type="bug")
    again = await rig.store("a fact")
    assert (again.type, again.type_changed) == ("bug", False)


async def test_a_repeat_merges_metadata_and_null_removes_a_key(rig: Rig):
    one = await rig.store("a fact", metadata={"a": 1, "b": 2})
    await rig.store("a fact", metadata={"b": 3, "c": [], "a": None})
    assert (await rig.one(one.id)).metadata == {"b": 3, "c": []}


async def test_a_text_in_the_trash_or_purged_is_not_stored_again(rig: Rig):
    trashed, purged = await rig.store("one", tags="old"), await rig.store("two", tags="old")
    await rig.delete(trashed.id)
    await rig.purge(purged.id)
    before = rig.written()
    for content in ("one", "two"):
        answer = await rig.store(content, tags="new,标签", type="bug", metadata={"k": 1}, importance=2.0)
        assert (answer.success, answer.status) == (False, "was_forgotten")
        assert [note.code for note in answer.notes] == ["forgotten"]
    assert rig.written() == before
    assert await rig.find() == []


async def test_revive_brings_a_text_back_from_the_trash_with_what_it_had(rig: Rig):
    one = await rig.store("a fact", tags="old", metadata={"k": 1})
    await rig.delete(one.id)
    answer = await rig.store("a fact", tags="new", revive=True)
    assert (answer.success, answer.status, answer.tags) == (True, "revived", ["new", "old"])
    memory = await rig.one(one.id)
    assert (memory.tags, memory.metadata, memory.restorable_until) == (["new", "old"], {"k": 1}, None)
    assert await rig.by_words("fact") == [one.id]


async def test_a_text_that_is_revived_keeps_its_type_unless_another_is_named(rig: Rig):
    one = await rig.store("a fact", type="bug")
    await rig.delete(one.id)
    answer = await rig.store("a fact", revive=True)
    assert (answer.type, answer.type_changed, (await rig.one(one.id)).type) == ("bug", False, "bug")
    await rig.delete(one.id)
    answer = await rig.store("a fact", type="decision", revive=True)
    assert (answer.type, answer.type_changed, (await rig.one(one.id)).type) == ("decision", True, "decision")
    assert [note.message for note in answer.notes] == ["It was stored as bug before."]


async def test_revive_of_a_purged_text_starts_from_nothing(rig: Rig):
    one = await rig.store("a fact", tags="old", metadata={"k": 1}, type="bug", importance=2.0)
    await rig.purge(one.id)
    answer = await rig.store("a fact", tags="new", revive=True)
    assert (answer.success, answer.status, answer.tags, answer.type) == (True, "revived", ["new"], "note")
    memory = await rig.one(one.id)
    assert (memory.tags, memory.metadata, memory.type, memory.importance) == (["new"], {}, "note", 1.0)
    assert await rig.by_words("old") == []


async def test_revive_of_what_was_never_forgotten_creates_or_merges(rig: Rig):
    assert (await rig.store("a fact", revive=True)).status == "created"
    assert (await rig.store("a fact", revive=True)).status == "merged"


async def test_an_archived_text_that_is_stored_again_comes_out_of_the_archive(rig: Rig):
    one = await rig.store("a fact")
    await rig.update(one.id, archived=True)
    assert (await rig.store("a fact")).status == "merged"
    assert await rig.by_words("fact") == [one.id]


# Spaces, conversations


async def test_two_spaces_keep_the_same_text_apart(rig: Rig):
    mine, team = await rig.store("a fact", tags="mine"), await rig.store("a fact", tags="team", space="team")
    assert mine.id != team.id
    assert team.status == "created"
    assert [found.tags for found in await rig.find("fact", space="team")] == [["team"]]
    await rig.purge(mine.id)
    assert [found.id for found in await rig.find("fact", space="*")] == [team.id]


async def test_turns_that_say_the_same_are_two_memories(rig: Rig):
    turns = [await rig.store("Thanks!", conversation_id="c1", position=n) for n in (1, 2)]
    assert [turn.id for turn in turns] == [memory_id("main", "Thanks!", turn_key("c1", n)) for n in (1, 2)]
    memory = await rig.one(turns[1].id)
    assert (memory.conversation_id, memory.position) == ("c1", 2)


async def test_without_a_position_a_conversation_is_no_part_of_the_identity(rig: Rig):
    first = await rig.store("a fact", conversation_id="c1")
    assert (await rig.store("a fact")).id == first.id
    assert (await rig.one(first.id)).conversation_id == "c1"


# Batches


async def test_a_batch_answers_in_order_and_equal_texts_are_one_memory(rig: Rig):
    await rig.store("known")
    items = [
        StoreItem(content="new", tags="a"),
        StoreItem(content="known", tags="b"),
        StoreItem(content=" new ", tags="c", type="bug"),
    ]
    answer = await rig.store_all(items)
    assert [result.status for result in answer.results] == ["created", "merged", "merged"]
    assert answer.results[0].id == answer.results[2].id
    memory = await rig.one(answer.results[0].id)
    assert (memory.tags, memory.type) == (["a", "c"], "bug")
    assert rig.value("select count(*) from record") == 2


async def test_a_batch_with_a_forgotten_text_stores_the_rest(rig: Rig):
    gone = await rig.store("gone")
    await rig.delete(gone.id)
    answer = await rig.store_all([StoreItem(content="gone"), StoreItem(content="kept")])
    assert (answer.success, [result.status for result in answer.results]) == (False, ["was_forgotten", "created"])


async def test_one_bad_item_keeps_the_whole_batch_out(rig: Rig):
    with pytest.raises(EmptyContent):
        await rig.store_all([StoreItem(content="good"), StoreItem(content="  ")])
    assert rig.value("select count(*) from record") == 0


# What is refused


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"content": " \u200b\n"}, EmptyContent),
        ({"content": "x" * (CONTENT_MAX_BYTES + 1)}, ContentTooLong),
        ({"content": "中" * (CONTENT_MAX_BYTES // 3 + 1)}, ContentTooLong),
        ({"content": "a\x00b"}, InvalidText),
        ({"content": "a\ud800b"}, InvalidText),
        ({"type": "poem"}, UnknownType),
        ({"tags": ["\x07"]}, InvalidTag),
        ({"tags": [f"t{n}" for n in range(TAGS_MAX + 1)]}, TooMany),
        ({"entities": [f"e{n}" for n in range(TAGS_MAX + 1)]}, TooMany),
        ({"entities": [" "]}, InvalidInput),
        ({"source": "x\x00"}, InvalidText),
        ({"metadata": {"k": "x" * METADATA_MAX_BYTES}}, InvalidMetadata),
        ({"metadata": {f"k{n}": 1 for n in range(METADATA_KEYS_MAX + 1)}}, InvalidMetadata),
        ({"metadata": {"": 1}}, InvalidMetadata),
        ({"metadata": {"k": "\ud800"}}, InvalidMetadata),
        ({"metadata": {"k": float("nan")}}, InvalidMetadata),
        ({"importance": 2.1}, OutOfRange),
        ({"importance": float("nan")}, OutOfRange),
        ({"importance": -0.1}, OutOfRange),
        ({"occurred_at": "some day"}, InvalidTime),
        ({"time_zone": "Mars/Olympus"}, InvalidTime),
        ({"position": 1}, InvalidInput),
        ({"conversation_id": "c", "position": -1}, OutOfRange),
        ({"conversation_id": "c", "position": 2**31}, OutOfRange),
        ({"conversation_id": ""}, InvalidInput),
        ({"space": ""}, InvalidInput),
        ({"space": "x" * 65}, InvalidInput),
    ],
)
async def test_what_cannot_be_used_is_refused_and_nothing_written(rig: Rig, fields, error):
    before = rig.written()
    with pytest.raises(error) as raised:
        await rig.store(**{"content": "a fact", **fields})
    assert raised.value.message and raised.value.mend
    assert rig.written() == before


async def test_items_and_content_exclude_each_other(rig: Rig):
    for fields in ({"items": []}, {"items": [StoreItem(content="a")], "tags": "x"}):
        with pytest.raises(InvalidInput):
            await rig.memory.store(StoreRequest(**fields), Caller())
    with pytest.raises(TooMany):
        await rig.store_all([StoreItem(content=str(n)) for n in range(BATCH_MAX + 1)])
    with pytest.raises(InvalidInput):
        await rig.memory.store(StoreRequest(), Caller())


async def test_one_text_with_more_tags_than_a_statement_takes_is_refused_before_anything_is_written(rig: Rig):
    items = [StoreItem(content="the same", tags=[f"{n}-{k}-".ljust(100, "x") for k in range(64)]) for n in range(300)]
    before = rig.written()
    with pytest.raises(TooMany):
        await rig.store_all(items)
    assert rig.written() == before
    assert len((await rig.store_all(items[:50])).results) == 50


async def test_what_takes_more_batches_than_one_request_may_run_is_refused_before_anything_is_written():
    rig = await opened(policy=EDGE)
    labels = {"tags": [f"t{k}" for k in range(64)], "entities": [f"e{k}" for k in range(64)]}
    items = [StoreItem(content=f"memory {n}", **labels) for n in range(500)]
    before = rig.written()
    with pytest.raises(TooMany):
        await rig.store_all(items, space="a space with a long name " * 2)
    assert rig.written() == before
    assert len((await rig.store_all(items[:200], space="a space with a long name " * 2)).results) == 200
    assert len((await rig.store_all([item.model_copy(update={"entities": None}) for item in items])).results) == 500


@pytest.mark.parametrize(
    ("field", "longest", "error"),
    [
        ("source", "s" * SOURCE_MAX_CHARS, InvalidInput),
        ("entities", ["e" * ENTITY_MAX_CHARS], InvalidInput),
        ("entities", [f"e{n}" for n in range(ENTITIES_MAX)], TooMany),
        ("space", "s" * SPACE_MAX_CHARS, InvalidInput),
        ("conversation_id", "c" * CONVERSATION_MAX_CHARS, InvalidInput),
        ("position", POSITION_MAX, OutOfRange),
        ("metadata", {"k" * METADATA_KEY_MAX_CHARS: 1}, InvalidMetadata),
    ],
)
async def test_what_just_fits_is_stored_and_one_more_refused(rig: Rig, field, longest, error):
    more = {
        str: lambda: longest + "x",
        list: lambda: [longest[0] + "x"] if len(longest) == 1 else [*longest, "x"],
        int: lambda: longest + 1,
        dict: lambda: {f"{key}x": value for key, value in longest.items()},
    }[type(longest)]()
    base = {"conversation_id": "c"} if field == "position" else {}
    assert (await rig.store("a fact", **{**base, field: longest})).status == "created"
    with pytest.raises(error):
        await rig.store("another fact", **{**base, field: more})


async def test_storing_needs_the_scope_and_the_space(rig: Rig):
    with pytest.raises(NotAllowed):
        await rig.store("a fact", caller=Caller(scopes=frozenset({Scope.READ})))
    with pytest.raises(NotAllowed):
        await rig.store("a fact", caller=Caller(spaces=("team",)), space="main")
    assert (await rig.store("a fact", caller=Caller(spaces=("team", "other")))).status == "created"
    assert rig.value("select space from record") == "team"


async def test_another_space_tells_nothing_of_what_is_stored_here(rig: Rig):
    one = await rig.store("a secret", tags="hidden")
    await rig.delete(one.id)
    stranger = Caller(spaces=("team",))
    answer = await rig.store("a secret", caller=stranger)
    assert (answer.status, answer.tags) == ("created", [])


async def test_a_writer_who_may_not_read_cannot_tell_what_is_stored_or_was_deleted(rig: Rig):
    known, forgotten = await rig.store("known", tags="hidden", type="bug"), await rig.store("forgotten", tags="hidden")
    await rig.delete(forgotten.id)
    writer = Caller(scopes=frozenset({Scope.WRITE}))
    answers = [await rig.store(text, caller=writer, tags="mine") for text in ("known", "forgotten", "new")]
    told = [answer.model_dump(exclude={"id", "content_hash"}) for answer in answers]
    assert told[0] == told[1] == told[2]
    assert (answers[0].status, answers[0].tags, answers[0].type) == ("created", ["mine"], "note")
    assert (await rig.one(known.id)).tags == ["hidden", "mine"]
    assert (await rig.one(forgotten.id)).state == "trashed"


async def test_a_database_that_refuses_is_told_and_nothing_is_kept(rig: Rig):
    rig.database.fail_batches_with = StorageError("The disk is gone.", "Find it.")
    with pytest.raises(StorageError):
        await rig.store("a fact")
    rig.database.fail_batches_with = None
    assert (await rig.store("a fact")).status == "created"


# Metadata

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=10),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), children, max_size=3)
    ),
    max_leaves=10,
)
KEYS = st.text(st.sampled_from("ab键é\"\\':%*[]{}.$ 😀"), min_size=1, max_size=8).filter(lambda key: key == key.strip())


@given(metadata=st.dictionaries(KEYS, JSON, max_size=4))
async def test_metadata_of_any_json_comes_back_equal(metadata):
    metadata = {" ".join(key.split()): value for key, value in metadata.items()}
    rig = await opened(connection=apsw.Connection(":memory:"), embedder=None)
    one = await rig.store("a fact", metadata=metadata)
    kept = {key: value for key, value in metadata.items() if value is not None}
    assert (await rig.one(one.id)).metadata == kept


@pytest.mark.parametrize("depth", [10, 200, 900, 1100, 4000])
async def test_deep_metadata_is_refused_or_comes_back(rig: Rig, depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    try:
        one = await rig.store("a fact", metadata={"deep": value})
    except (InvalidMetadata, ValueError):
        assert depth > 100
        return
    assert (await rig.one(one.id)).metadata == {"deep": value}


# wait


async def test_wait_embeds_before_it_answers(rig: Rig):
    answer = await rig.store("a fact", wait=True)
    assert answer.notes == []
    assert await rig.memory.pending() == 0


async def test_wait_without_a_model_says_so():
    rig = await opened(embedder=None)
    answer = await rig.store("a fact", wait=True)
    assert [note.code for note in answer.notes] == ["lexical_only"]


async def test_wait_is_bounded_and_says_what_is_pending(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "STORE_WAIT_S", 0.01)
    rig.embedder.open.clear()
    assert [note.code for note in (await rig.store("a fact", wait=True)).notes] == ["pending"]
    rig.embedder.open.set()


async def test_without_a_model_every_answer_says_so():
    rig = await opened(embedder=None)
    one = await rig.store("a fact")
    answers = [
        one,
        await rig.store_all([StoreItem(content="two")]),
        await rig.memory.find(FindRequest(query="fact"), Caller()),
        await rig.memory.get(GetRequest(id=one.id), Caller()),
        await rig.update(one.id, tags="x"),
        await rig.delete(one.id),
        await rig.memory.revive([one.id], Caller()),
    ]
    assert [[note.code for note in answer.notes] for answer in answers] == [["lexical_only"]] * len(answers)


async def test_the_day_a_store_names_is_the_callers_own(rig: Rig):
    tokyo, utc = Caller(time_zone="Asia/Tokyo"), Caller()
    first = await rig.store("in Tokyo", caller=tokyo, occurred_at="2026-03-01")
    second = await rig.store("in UTC", caller=utc, occurred_at="2026-03-01")
    times = [rig.value("select occurred_at from record where id = unhex(?)", one.id) for one in (first, second)]
    assert times[1] - times[0] == 9 * 3_600_000
    assert NOW - times[0] > DAY


UNUSABLE = [StoreItem(content=" "), StoreItem(content="c", type="nonsense")]


@pytest.mark.parametrize("bad", UNUSABLE, ids=["empty", "type"])
async def test_of_several_the_one_that_cannot_be_used_is_named_by_its_number(rig: Rig, bad: StoreItem):
    with pytest.raises(InvalidInput) as refused:
        await rig.store_all([StoreItem(content="a"), StoreItem(content="b"), bad])
    assert refused.value.as_dict()["item"] == 2
    assert rig.rows("select * from record") == []


async def test_the_only_one_needs_no_number(rig: Rig):
    with pytest.raises(InvalidInput) as refused:
        await rig.store(" ")
    assert "item" not in refused.value.as_dict()
