"""A space that leaves this device leaves nothing of itself behind."""

from typing import Any

import pytest
from tests.core.rig import NOW, Rig, cell, opened

from shoal.core.ids import memory_id
from shoal.schema.wire import RefusalCode
from shoal.sync import leaving, queue
from shoal.sync.wire_cells import wire_cell


async def leave(rig: Rig, *spaces: str, up_to: int | None = None) -> None:
    last = await leaving.last_write(rig.database) if up_to is None else up_to
    await leaving.leave(rig.memory.context, spaces, last)


def held(rig: Rig, space: str) -> int:
    """Return how many records of a space there are."""
    return rig.value("select count(*) from record where rank > 0 and space = ?", space)


async def test_only_what_is_of_the_space_goes(rig: Rig):
    await rig.store("team secret", space="team", tags=["标签", "shared"], entities=["Ann"], metadata={"k": 1})
    kept = await rig.store("mine", tags=["shared"])
    await leave(rig, "team")
    assert (held(rig, "team"), held(rig, "main")) == (0, 1)
    assert [one.id for one in await rig.get(kept.id)] == [kept.id]
    assert await rig.get(memory_id("team", "team secret")) == []
    assert rig.rows("select field from cell") == [("tag:shared",)]
    assert rig.rows("select init from record where space = 'team'") == [(None,)]
    assert await rig.by_words("secret", space="team") == []
    assert await rig.by_words("标签", space="team") == []
    assert rig.rows("select text from label where text = '标签'") == []


async def test_its_words_and_vectors_leave_the_file_with_the_next_work_of_the_indexer():
    rig = await opened()
    await rig.store("team secret", space="team")
    assert any(b"secret" in block for (block,) in rig.rows("select block from content_fts_data"))
    await rig.embed_all()
    assert rig.index is not None and len(rig.index._rows) == 1
    await leave(rig, "team")
    await rig.embed_all()
    await rig.memory.indexer.erase_purged()
    assert len(rig.index._rows) == 0
    for table in ("content_fts_data", "label_fts_data"):
        assert not any(b"secret" in block for (block,) in rig.rows(f"select block from {table}"))


async def test_its_edges_purged_records_and_what_had_no_init_yet_go_too(rig: Rig):
    first = await rig.store("one", space="team")
    await rig.update(first.id, content="two", space="team")
    gone = await rig.store("three", space="team")
    await rig.purge(gone.id, space="team")
    await rig.apply(cell(memory_id("team", "four"), "tag:a", 1, NOW, 1, space="team"))
    assert await leaving.anything(rig.database, ["team"])
    await leave(rig, "team")
    assert not await leaving.anything(rig.database, ["team"])
    assert rig.rows("select count(*) from cell") == [(0,)]
    assert rig.rows("select max(rank), max(hlc), max(dirty) from record") == [(0, "", 0)]


async def test_nothing_of_it_waits_or_is_laid_aside_afterwards(rig: Rig):
    await rig.store("one", space="team", tags=["a"])
    cells, _ = await queue.page(rig.database, "*", queue.START)
    await rig.database.batch(queue.refused([queue.Refused(cells[1], RefusalCode.MALFORMED, "No.")], NOW))
    await leave(rig, "team")
    assert await queue.page(rig.database, "*", queue.START) == ([], None)
    assert rig.rows("select * from sync_refused") == []


async def test_it_can_break_off_and_be_called_again(rig: Rig, monkeypatch: Any):
    monkeypatch.setattr(leaving, "AT_ONCE", 2)
    for number in range(5):
        await rig.store(f"memory {number}", space="team")
    batch, count = rig.database.batch, 0

    async def failing(statements: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError
        return await batch(statements)

    monkeypatch.setattr(rig.database, "batch", failing)
    with pytest.raises(OSError):
        await leave(rig, "team")
    assert held(rig, "team") == 3
    await leave(rig, "team")
    assert held(rig, "team") == 0
    await leave(rig, "team")


async def test_a_space_that_comes_back_is_as_it_was(rig: Rig):
    stored = await rig.store("one", space="team", tags=["标签"], conversation_id="talk", position=0)
    before = await rig.one(stored.id)
    cells, _ = await queue.page(rig.database, "*", queue.START)
    await leave(rig, "team")
    await rig.apply(*[wire_cell(one.cell, NOW) for one in cells])
    assert await rig.one(stored.id) == before
    assert await rig.by_words("标签", space="team") == [stored.id]


async def test_a_search_that_was_remembered_is_not_answered_from_memory(rig: Rig):
    await rig.store("secret", space="team")
    assert len(await rig.find("secret", space="team")) == 1
    await leave(rig, "team")
    assert await rig.find("secret", space="team") == []


async def test_what_was_written_after_the_copy_stays_whole(rig: Rig):
    changed = await rig.store("one", space="team", tags=["a"])
    await rig.store("two", space="team")
    copied = await leaving.last_write(rig.database)
    await rig.update(changed.id, tags=["a", "b"], space="team")
    new = await rig.store("three", space="team", tags=["c"])
    await leave(rig, "team", up_to=copied)
    assert await leaving.anything(rig.database, ["team"])
    assert sorted(one.content for one in await rig.get(changed.id, new.id)) == ["one", "three"]
    assert (await rig.one(changed.id)).tags == ["a", "b"]
    assert await rig.by_words("three", space="team") == [new.id]
    assert held(rig, "team") == 2
