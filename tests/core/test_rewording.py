"""After a change of text preparation the words of older memories are written anew, while they stay searchable."""

import apsw
import pytest
from tests.core.rig import ALL, Rig, opened

from shoal.core import rewording
from shoal.schema.limits import CONTENT_MAX_BYTES, TAG_MAX_CHARS, TAGS_MAX
from shoal.schema.models import FindRequest, StoreItem


async def outdated(contents: list[str], **fields) -> Rig:
    """Return a memory whose words another version prepared: it wrote `stale` for all of them."""
    rig = await opened(embedder=None)
    await rig.store_all([StoreItem(content=content, **fields) for content in contents])
    for (rowid,) in rig.rows("select id from content_fts_docsize"):
        rig.connection.execute("insert or replace into content_fts (rowid, content) values (?, 'stale')", (rowid,))
    rig.connection.execute("update label set prepared = 'stale'")
    rig.connection.execute("update meta set v = 0 where k = 'fts'")
    return await opened(connection=rig.connection, embedder=None)


async def notes(rig: Rig) -> list[str]:
    return [note.code for note in (await rig.memory.find(FindRequest(query="anything"), ALL)).notes]


async def reword_all(rig: Rig) -> int:
    steps = 0
    while await rig.memory.reword():
        steps += 1
    return steps


async def test_a_new_database_has_nothing_to_reword():
    rig = await opened(embedder=None)
    await rig.store("a fact")
    assert await rig.memory.reword() == 0
    assert await notes(rig) == ["lexical_only"]


async def test_old_words_are_written_anew_and_searches_say_that_it_is_under_way():
    rig = await outdated(["部署失败", "a fact"], tags=["发布:会"])
    assert await rig.by_words("部署") == []
    assert await notes(rig) == ["lexical_only", "partial"]
    await reword_all(rig)
    assert len(await rig.by_words("部署")) == 1
    assert len(await rig.by_words("发布")) == 2
    assert await rig.by_words("stale") == []
    assert await notes(rig) == ["lexical_only"]


async def test_steps_are_bounded_by_number_and_by_length(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewording, "STEP_MAX_BYTES", 400)
    rig = await outdated(["x " * 200, *(f"fact {n} " + "y" * 40 for n in range(4))])
    assert [await rig.memory.reword() for _ in range(4)] == [2, 2, 1, 0]
    assert len(await rig.by_words("x")) == 1
    assert rewording.STEP_MEMORIES <= 100


async def test_it_goes_on_where_it_stopped_and_leaves_new_memories_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewording, "STEP_MAX_BYTES", 1)
    rig = await outdated(["one", "two", "three"])
    assert await rig.memory.reword() == 1
    await rig.store("four")
    rig = await opened(connection=rig.connection, embedder=None)
    assert await reword_all(rig) == 2
    for content in ("one", "two", "three", "four"):
        assert len(await rig.by_words(content)) == 1


async def test_what_was_purged_meanwhile_leaves_no_word(monkeypatch: pytest.MonkeyPatch):
    rig = await outdated(["secret"], tags=["hidden"])
    (one,) = await rig.find()
    inner = rig.database.query

    async def and_purge(sql, params=()):
        rows = await inner(sql, params)
        monkeypatch.setattr(rig.database, "query", inner)
        await rig.purge(one.id)
        return rows

    monkeypatch.setattr(rig.database, "query", and_purge)
    await rig.memory.reword()
    assert rig.value("select count(*) from content_fts_docsize") == 0
    assert rig.value("select count(*) from label_fts_docsize") == 0
    assert rig.value("select count(*) from label") == 0


async def test_a_step_that_fails_is_done_again():
    rig = await outdated(["部署失败"])
    rig.database.fail_batches_with = apsw.FullError("no room")
    with pytest.raises(apsw.FullError):
        await rig.memory.reword()
    rig.database.fail_batches_with = None
    await reword_all(rig)
    assert len(await rig.by_words("部署")) == 1


async def test_any_number_of_the_longest_chinese_memories_with_all_labels_is_worked_off():
    """Their words are four times as long as they are, and a statement takes no value over 2 MB."""
    content = "".join(chr(0x4E00 + n * 7 % 20_000) for n in range(CONTENT_MAX_BYTES // 3 - 3))
    labels = ["".join(chr(0x4E00 + n * 131 % 20_000) for n in range(k, k + TAG_MAX_CHARS)) for k in range(TAGS_MAX)]
    rig = await outdated([f"{n} {content}" for n in range(3)], entities=labels)
    await rig.store_all([StoreItem(content=f"{n} fact", tags=labels) for n in range(40)])
    rig.connection.execute("update meta set v = 0 where k = 'fts'")
    rig = await opened(connection=rig.connection, embedder=None)
    assert await reword_all(rig) > 4
    assert len(await rig.by_words(content[:2])) == 3
    assert max(len(batch) for batch in rig.database.batches) <= 8
