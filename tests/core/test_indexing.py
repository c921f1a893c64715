import asyncio
from pathlib import Path

import apsw
import pytest
from tests.core.rig import ALL, NOW, Embeddings, Rig, cell, opened

from shoal.core.context import LAPTOP
from shoal.core.fakes import FakeDatabase, FakeVectorIndex
from shoal.core.ids import memory_id
from shoal.core.indexing import CONTEXT_MAX_CHARS, text_hash
from shoal.local.database import ApswDatabase
from shoal.local.vectors import SqliteVecIndex
from shoal.schema.errors import ModelUnavailable
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.models import StoreItem


def vectors(rig: Rig) -> dict[int, bytes]:
    """Return key -> hash of the text that was embedded."""
    return {key: row.text_hash for key, row in rig.index._rows.items()}


async def begun(rig: Rig) -> "asyncio.Task[int]":
    """Return a step that waits for the model."""
    step = asyncio.ensure_future(rig.memory.embed_pending())
    await rig.embedder.asked.wait()
    return step


# Steps


async def test_a_step_is_bounded_and_takes_the_newest_first(rig: Rig):
    await rig.store_all([StoreItem(content=f"memory {n}") for n in range(10)])
    assert await rig.memory.pending() == 10
    assert await rig.memory.embed_pending(4) == 4
    assert rig.embedder.texts == ["memory 9", "memory 8", "memory 7", "memory 6"]
    assert await rig.memory.pending() == 6
    await rig.embed_all()
    assert (await rig.memory.pending(), len(rig.index._rows)) == (0, 10)
    assert await rig.memory.embed_pending() == 0


async def test_a_step_is_bounded_by_the_length_of_what_it_takes_but_always_takes_one(rig: Rig):
    most = LAPTOP.index_step_chars
    sizes = (most // 2, 10, most * 2, most // 2, most // 2, 10)
    await rig.store_all([StoreItem(content=f"{n} ".ljust(size, "x")) for n, size in enumerate(sizes)])
    taken: list[int] = []
    while step := await rig.memory.embed_pending(32):
        taken.append(step)
    # The newest first: 10 + a half, a half, more than a step, 10 + a half.
    assert taken == [2, 1, 1, 2]


async def test_a_repeat_store_or_an_edit_of_tags_makes_no_new_vector(rig: Rig):
    one = await rig.store("a fact")
    await rig.embed_all()
    await rig.store("a fact", tags="x")
    await rig.update(one.id, type="bug", importance=2.0)
    assert await rig.memory.pending() == 0


async def test_a_long_document_has_a_vector_for_each_passage(rig: Rig):
    await rig.store("A sentence about gardens. " * 400)
    await rig.embed_all()
    passages = rig.value("select count(*) from content_fts")
    assert len(rig.index._rows) == passages > 2
    assert sorted(vectors(rig)) == [PASSAGES_MAX + n for n in range(passages)]


async def test_a_model_that_fails_leaves_all_wanted(rig: Rig):
    await rig.store("a fact")
    rig.embedder.broken = True
    with pytest.raises(ModelUnavailable):
        await rig.memory.embed_pending()
    assert await rig.memory.pending() == 1
    rig.embedder.broken = False
    await rig.embed_all()
    assert await rig.memory.pending() == 0


async def test_a_crash_between_the_vector_and_its_mark_is_made_good(rig: Rig):
    await rig.store("a fact")
    rig.database.fail_batches_with = RuntimeError("power cut")
    with pytest.raises(RuntimeError):
        await rig.memory.embed_pending()
    rig.database.fail_batches_with = None
    assert (await rig.memory.pending(), len(rig.index._rows)) == (1, 1)
    # Another process takes over where this one ended.
    again = await opened(connection=rig.connection, index=rig.index, embedder=rig.embedder)
    await again.embed_all()
    assert (await again.memory.pending(), len(rig.index._rows)) == (0, 1)
    assert [found.why for found in await again.find("fact")] == [["words", "meaning"]]


async def test_a_mark_that_comes_while_a_vector_is_made_is_not_lost(rig: Rig):
    await rig.store("When do you move?", conversation_id="c", position=1)
    await rig.store("In May.", conversation_id="c", position=2)
    rig.embedder.open.clear()
    step = await begun(rig)
    await rig.delete(memory_id("main", "When do you move?", ["turn", "c", 1]))
    rig.embedder.open.set()
    await step
    assert await rig.memory.pending() >= 1
    await rig.embed_all()
    assert rig.embedder.texts[-1] == "In May."


async def test_a_memory_purged_while_its_vector_is_made_leaves_none(rig: Rig):
    one = await rig.store("a fact")
    rig.embedder.open.clear()
    step = await begun(rig)
    purge = asyncio.ensure_future(rig.purge(one.id))
    await asyncio.sleep(0.01)
    rig.embedder.open.set()
    await asyncio.gather(step, purge)
    await rig.embed_all()
    assert rig.index._rows == {}
    assert await rig.memory.pending() == 0


async def test_two_steps_at_once_share_the_work(rig: Rig):
    await rig.store_all([StoreItem(content=f"memory {n}") for n in range(20)])
    await asyncio.gather(*(rig.memory.embed_pending(5) for _ in range(4)))
    assert sorted(rig.embedder.texts) == sorted(f"memory {n}" for n in range(20))
    assert await rig.memory.pending() == 0


async def test_a_search_waits_a_little_for_what_the_background_has_begun(rig: Rig):
    await rig.store("a fact")
    rig.embedder.open.clear()
    step = await begun(rig)
    search = asyncio.ensure_future(rig.find("fact"))
    await asyncio.sleep(0.005)
    rig.embedder.open.set()
    assert [found.why for found in await search] == [["words", "meaning"]]
    assert await step == 1
    assert rig.embedder.texts == ["a fact"]


async def test_without_a_model_all_is_wanted_and_purges_still_work():
    connection = apsw.Connection(":memory:")
    rig = await opened(connection=connection, embedder=None)
    one = await rig.store("a fact")
    await rig.purge(one.id)
    await rig.store("kept")
    assert await rig.memory.embed_pending() == 0
    index = FakeVectorIndex(FakeDatabase(connection))
    with_model = await opened(connection=connection, index=index)
    assert await with_model.memory.pending() in (1, 2)
    await with_model.embed_all()
    assert (await with_model.memory.pending(), len(index._rows)) == (0, 1)
    assert with_model.embedder.texts == ["kept"]


async def test_a_purge_with_an_index_but_no_model_takes_the_vectors():
    connection = apsw.Connection(":memory:")
    rig = await opened(connection=connection)
    one = await rig.store("a fact")
    await rig.embed_all()
    modelless = await opened(connection=connection, index=rig.index, embedder=None)
    await modelless.purge(one.id)
    assert rig.index._rows == {}


# Conversations


async def test_a_turn_is_embedded_with_the_end_of_the_turn_before(rig: Rig):
    question = "x " * 200 + "When do you move?"
    await rig.store(question, conversation_id="c", position=1)
    two = await rig.store("In May.", conversation_id="c", position=2)
    await rig.embed_all()
    expected = f"{question[-CONTEXT_MAX_CHARS:]}\nIn May."
    assert expected in rig.embedder.texts
    rid = rig.value("select rid from record where id = unhex(?)", two.id)
    assert vectors(rig)[rid * PASSAGES_MAX] == text_hash(expected)


@pytest.mark.parametrize("spaces", [("main", "main"), ("main", "team")])
async def test_a_turn_that_comes_late_makes_the_next_anew_in_its_own_space(rig: Rig, spaces):
    await rig.store("In May.", conversation_id="c", position=2, space=spaces[0])
    await rig.store("Which town?", conversation_id="c", position=3, space=spaces[0])
    await rig.embed_all()
    rig.embedder.texts.clear()
    await rig.store("When do you move?", conversation_id="c", position=1, space=spaces[1])
    await rig.embed_all()
    new = "When do you move?"
    same = spaces[0] == spaces[1]
    assert sorted(rig.embedder.texts) == sorted([new, f"{new}\nIn May."] if same else [new])


@pytest.mark.parametrize("way", ["trash", "pulled trash", "revive", "pulled init"])
async def test_the_next_turn_is_wanted_whichever_way_a_turn_comes_or_goes(rig: Rig, way):
    first = await rig.store("When do you move?", conversation_id="c", position=1)
    await rig.store("In May.", conversation_id="c", position=2)
    if way == "revive":
        await rig.delete(first.id)
    if way == "pulled init":
        await rig.purge(first.id)
    await rig.embed_all()
    rig.embedder.texts.clear()
    if way == "trash":
        await rig.delete(first.id)
    elif way == "pulled trash":
        await rig.apply(cell(first.id, "trash", 1, NOW + 1, NOW))
    elif way == "revive":
        await rig.memory.revive([first.id], ALL)
    else:
        init = {
            "class": "memory",
            "content": "When do you move?",
            "type": "note",
            "occurred_at": NOW,
            "conversation_id": "c",
            "position": 1,
        }
        await rig.apply(cell(first.id, "init", 3, NOW + 1, init))
    await rig.embed_all()
    assert [text for text in rig.embedder.texts if text.endswith("In May.")] == [
        "In May." if "trash" in way else "When do you move?\nIn May."
    ]


# A change of model


async def test_a_new_model_embeds_all_anew_in_steps_and_searches_stay_correct():
    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    await old.store_all([StoreItem(content=f"memory {n} of zebras") for n in range(10)])
    await old.embed_all()
    new = await opened(connection=connection, embedder="new@1")
    assert await new.memory.pending() == 10
    seen = 0
    while True:
        answer = await new.find("zebras", n_results=20)
        assert len(answer) == 10
        by_meaning = [found for found in answer if "meaning" in found.why]
        assert len(by_meaning) == seen
        worked = await new.memory.embed_pending(4)
        seen += worked
        if not worked:
            break
    assert seen == 10
    assert await new.memory.pending() == 0
    assert len(new.embedder.texts) == 10


async def test_what_waits_for_a_vector_is_not_counted_or_embedded_twice_under_a_new_model():
    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    await old.store("embedded")
    await old.embed_all()
    await old.store("waiting")
    new = await opened(connection=connection, embedder="new@1")
    assert await new.memory.pending() == 2
    await new.embed_all()
    assert await new.memory.pending() == 0
    assert "embedded" in new.embedder.texts


async def test_the_first_model_takes_what_was_stored_without_one_once():
    connection = apsw.Connection(":memory:")
    without = await opened(connection=connection, embedder=None)
    await without.store_all([StoreItem(content=f"memory {n}") for n in range(5)])
    first = await opened(connection=connection)
    assert await first.memory.pending() == 5
    await first.embed_all()
    assert len(first.embedder.texts) == 5
    same = await opened(connection=connection, index=first.index)
    assert await same.memory.pending() == 0


async def test_a_restart_in_the_middle_goes_on_where_it_was():
    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    await old.store_all([StoreItem(content=f"memory {n}") for n in range(10)])
    await old.embed_all()
    new = await opened(connection=connection, embedder="new@1")
    await new.memory.embed_pending(4)
    again = await opened(connection=connection, index=new.index, embedder="new@1")
    assert await again.memory.pending() == 6
    await again.embed_all()
    assert len(again.embedder.texts) == 6
    assert len(again.index._rows) == 10


async def test_a_step_that_fails_under_a_new_model_skips_nothing():
    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    await old.store_all([StoreItem(content=f"memory {n}") for n in range(10)])
    await old.embed_all()
    new = await opened(connection=connection, embedder="new@1")
    new.embedder.broken = True
    results = await asyncio.gather(*(new.memory.embed_pending(4) for _ in range(2)), return_exceptions=True)
    assert any(isinstance(result, ModelUnavailable) for result in results)
    new.embedder.broken = False
    await asyncio.gather(*(new.memory.embed_pending(4) for _ in range(3)))
    await new.embed_all()
    assert len(new.index._rows) == 10


async def test_a_step_that_fails_beside_one_that_works_skips_nothing():
    class Choosy(Embeddings):
        refused = "memory 9"

        async def embed(self, texts, role):
            if self.refused in texts:
                await asyncio.sleep(0.01)
                raise ModelUnavailable("It dislikes this text.", "Try another.")
            return await super().embed(texts, role)

    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    await old.store_all([StoreItem(content=f"memory {n}") for n in range(10)])
    await old.embed_all()
    new = await opened(connection=connection, embedder=Choosy("new@1"))
    await asyncio.gather(*(new.memory.embed_pending(4) for _ in range(2)), return_exceptions=True)
    new.embedder.refused = ""
    await new.embed_all()
    assert len(new.index._rows) == 10


async def test_memories_stored_while_vectors_are_made_anew_get_theirs_too():
    connection = apsw.Connection(":memory:")
    old = await opened(connection=connection, embedder="old@1")
    gone = await old.store("memory that goes")
    await old.store("memory that stays")
    await old.embed_all()
    new = await opened(connection=connection, embedder="new@1")
    await new.store("a new memory")
    await new.purge(gone.id)
    await new.embed_all()
    assert len(new.index._rows) == 2
    assert await new.memory.pending() == 0


# The real drivers


async def test_on_the_real_drivers_the_same_holds(tmp_path: Path):
    path = tmp_path / "m.db"
    old_model, new_model = Embeddings("old@1"), Embeddings("new@1")
    async with await ApswDatabase.open(path) as database:
        index = await SqliteVecIndex.open(database, old_model.fingerprint, old_model.dim)
        rig = await opened(database=database, index=index, embedder=old_model)
        question = await rig.store("When do you move to Lisbon?", conversation_id="c", position=1, tags="x")
        turn = await rig.store("In May.", conversation_id="c", position=2)
        gone = await rig.store("部署失败")
        assert [found.id for found in await rig.find("move to Lisbon")][:2] == [question.id, turn.id]
        assert [found.id for found in await rig.find("Lisbon", tags="x")] == [question.id]
        await rig.embed_all()
        assert await index.count() == 3
        await rig.purge(gone.id)
        assert await index.count() == 2
    async with await ApswDatabase.open(path) as database:
        index = await SqliteVecIndex.open(database, new_model.fingerprint, new_model.dim)
        rig = await opened(database=database, index=index, embedder=new_model)
        assert (await rig.memory.pending(), await index.count()) == (2, 0)
        assert (await rig.find("Lisbon", n_results=1))[0].why == ["words"]
        await rig.embed_all()
        assert (await rig.memory.pending(), await index.count()) == (0, 2)
        assert (await rig.find("Lisbon"))[0].why == ["words", "meaning"]
        stats = await rig.memory.stats(ALL)
        assert (stats.live, stats.pending_embeddings) == (2, 0)


async def test_two_processes_on_one_file_agree(tmp_path: Path):
    path = tmp_path / "m.db"
    async with await ApswDatabase.open(path) as one, await ApswDatabase.open(path) as two:
        first = await opened(database=one, embedder=None)
        second = await opened(database=two, embedder=None, device="other")
        await asyncio.gather(
            *(rig.store(f"fact {n}", tags=f"t{who}") for n in range(20) for who, rig in enumerate((first, second)))
        )
        found = (await first.find("fact", n_results=50), await second.find("fact", n_results=50))
        assert [len(results) for results in found] == [20, 20]
        assert {tuple(result.tags) for result in found[0]} == {("t0", "t1")}
        rows = await one.query("select hlc from record union all select hlc from cell")
        assert len({row["hlc"] for row in rows}) == len(rows) == 60
