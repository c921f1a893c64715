import asyncio
from pathlib import Path

import apsw
import pytest
from tests.core.rig import ALL, DAY, NOW, Rig, cell, opened

from shoal.core.caller import Caller, Scope
from shoal.core.context import EDGE
from shoal.core.erasing import erase_words
from shoal.core.text import prepare
from shoal.local.database import ApswDatabase
from shoal.schema.errors import InvalidId, InvalidInput, NotAllowed, TooMany
from shoal.schema.models import DeleteRequest, StoreItem
from shoal.schema.sql import State

STRANGER = Caller(spaces=("team",))
WRITER = Caller(scopes=frozenset({Scope.READ, Scope.WRITE}))
READER = Caller(scopes=frozenset({Scope.READ}))


# The trash


async def test_without_confirm_nothing_goes(rig: Rig):
    one = await rig.store("a fact")
    before = rig.written()
    for fields in ({"confirm": False}, {"dry_run": True}, {"confirm": False, "purge": True}):
        answer = await rig.delete(one.id, **fields)
        assert (answer.status, answer.ids) == ("cancelled", [one.id])
        assert [note.code for note in answer.notes] == ([] if "dry_run" in fields else ["confirm"])
    assert rig.written() == before


async def test_what_is_deleted_lies_in_the_trash_for_30_days(rig: Rig):
    one = await rig.store("a fact", tags="a")
    answer = await rig.delete(one.id, reason="old")
    assert (answer.status, answer.ids) == ("deleted", [one.id])
    assert answer.restorable_until.startswith("2026-10-21T14:13:20")
    assert await rig.find("fact") == []
    assert await rig.find() == []
    memory = await rig.one(one.id)
    assert (memory.state, memory.tags, memory.restorable_until) == ("trashed", ["a"], answer.restorable_until)
    assert memory.reason == "old"
    await rig.memory.revive([one.id], ALL)
    assert (await rig.one(one.id)).reason is None
    await rig.delete(one.id)
    assert (await rig.one(one.id)).reason is None


async def test_a_second_delete_finds_nothing(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    before = rig.written()
    answer = await rig.delete(one.id)
    assert (answer.status, answer.ids) == ("not_found", [])
    assert rig.written() == before


@pytest.mark.parametrize("purge", [False, True])
async def test_of_two_at_once_only_the_first_is_told_that_a_memory_went(rig: Rig, purge):
    one = await rig.store("a fact")
    answers = await asyncio.gather(*(rig.delete(one.id, purge=purge) for _ in range(3)))
    done = "purged" if purge else "deleted"
    assert sorted((answer.status, answer.ids) for answer in answers) == sorted(
        [(done, [one.id]), ("not_found", []), ("not_found", [])]
    )


async def test_of_two_at_once_only_the_first_is_told_that_a_memory_came_back(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    answers = await asyncio.gather(*(rig.memory.revive([one.id], ALL) for _ in range(2)))
    assert sorted((answer.ids, answer.not_found) for answer in answers) == [([], [one.id]), ([one.id], [])]


async def test_a_memory_comes_back_as_it_was(rig: Rig):
    one = await rig.store("a fact", tags="a", metadata={"k": 1})
    await rig.delete(one.id)
    answer = await rig.memory.revive([one.id, "ab" * 16], ALL)
    assert (answer.ids, answer.not_found) == ([one.id], ["ab" * 16])
    memory = await rig.one(one.id)
    assert (memory.state, memory.tags, memory.metadata, memory.restorable_until) == ("live", ["a"], {"k": 1}, None)
    assert await rig.by_words("fact") == [one.id]


async def test_an_archived_memory_comes_back_archived(rig: Rig):
    one = await rig.store("a fact")
    await rig.update(one.id, archived=True)
    await rig.delete(one.id)
    await rig.memory.revive([one.id], ALL)
    assert (await rig.one(one.id)).state == "archived"


async def test_revive_of_the_living_and_the_purged_writes_nothing(rig: Rig):
    living, purged = await rig.store("living"), await rig.store("purged")
    await rig.purge(purged.id)
    before = rig.written()
    assert (await rig.memory.revive([living.id, purged.id], ALL)).ids == []
    assert rig.written() == before


async def test_delete_by_filters_takes_what_they_select(rig: Rig):
    one, two = await rig.store("one", tags="proj:x"), await rig.store("two", tags="proj:y")
    await rig.store("three", tags="other")
    await rig.update(two.id, archived=True)
    answer = await rig.delete(tags="proj:*")
    assert set(answer.ids) == {one.id, two.id}
    assert [found.snippet for found in await rig.find(include_archived=True)] == ["three"]


async def test_a_delete_must_say_what(rig: Rig):
    one = await rig.store("a fact")
    for fields in ({}, {"space": "main"}, {"tags_mode": "all"}):
        with pytest.raises(InvalidInput):
            await rig.delete(**fields)
    with pytest.raises(InvalidInput):
        await rig.delete(one.id, tags="a")
    with pytest.raises(InvalidInput):
        await rig.memory.delete(DeleteRequest(ids=[]), ALL)
    with pytest.raises(InvalidId):
        await rig.delete("nonsense")
    with pytest.raises(TooMany):
        await rig.delete(*[f"{n:032x}" for n in range(501)])


async def test_more_than_a_call_may_delete_is_said(rig: Rig):
    for start in (0, 300):
        await rig.store_all([StoreItem(content=f"n {n}", tags="x") for n in range(start, start + 300)])
    answer = await rig.delete(tags="x", reason="all of it")
    assert (len(answer.ids), [note.code for note in answer.notes]) == (500, ["partial"])
    assert rig.value("select count(*) from record where state = 3") == 500
    assert rig.value("select count(*) from cell where field = 'reason'") == 500


async def test_what_was_deleted_while_the_clock_was_years_behind_keeps_its_days(rig: Rig):
    one = await rig.store("one")
    rig.clock.now = 946_684_800_000  # A battery is flat: 2000 until the network is there.
    await rig.delete(one.id)
    rig.clock.now = NOW + DAY
    assert await rig.memory.empty_trash() == 0
    rig.clock.now = NOW + 31 * DAY
    assert await rig.memory.empty_trash() == 1


async def test_the_time_of_the_trash_is_the_latest_delete(rig: Rig):
    one = await rig.store("a fact")
    await rig.delete(one.id)
    await rig.memory.revive([one.id], ALL)
    rig.clock.now += 20 * DAY
    await rig.delete(one.id)
    rig.clock.now += 30 * DAY
    assert await rig.memory.empty_trash() == 0
    rig.clock.now += 1
    assert await rig.memory.empty_trash() == 1
    assert await rig.get(one.id) == []


# Purge


async def test_a_purge_leaves_a_hash_and_a_rank(rig: Rig):
    one = await rig.store(
        "the payload",
        tags="proj:x,标签",
        entities=["李雷"],
        metadata={"k": "v"},
        source="chat",
        occurred_at="2026-01-01",
    )
    await rig.embed_all()
    await rig.delete(one.id, reason="because")
    assert (await rig.purge(one.id)).status == "purged"
    columns = "rank, life, state, init, type, occurred_at, created_at, conversation_id, position, src, dst"
    assert rig.rows(f"select {columns} from record") == [(2, 2, State.HIDDEN, *[None] * 8)]
    for table in ("cell", "label", "content_fts", "label_fts"):
        assert rig.value(f"select count(*) from {table}") == 0, table
    assert rig.index._rows == {}
    assert await rig.memory.pending() == 0
    assert await rig.get(one.id) == []


async def test_a_purge_spares_what_others_share(rig: Rig):
    gone = await rig.store("gone", tags="标签,共有", entities=["李雷"])
    kept = await rig.store("kept", tags="共有", entities=["标签"])
    await rig.embed_all()
    await rig.purge(gone.id)
    assert {text for (text,) in rig.rows("select text from label")} == {"共有", "标签"}
    assert [found.id for found in await rig.find("共有")] == [kept.id]
    await rig.update(kept.id, tags={"add": "x"})
    assert await rig.by_words("标签") == [kept.id]


async def test_a_forgotten_text_that_is_offered_again_leaves_no_word(rig: Rig):
    one = await rig.store("a fact", tags="标签")
    await rig.purge(one.id)
    await rig.store("a fact", tags="标签", entities=["李雷"])
    assert rig.value("select count(*) from label") == 0


async def test_purge_needs_admin_and_delete_needs_write(rig: Rig):
    one = await rig.store("a fact")
    with pytest.raises(NotAllowed):
        await rig.delete(one.id, caller=WRITER, purge=True)
    with pytest.raises(NotAllowed):
        await rig.delete(one.id, caller=READER)
    with pytest.raises(NotAllowed):
        await rig.memory.revive([one.id], READER)
    assert (await rig.one(one.id)).state == "live"


async def test_strangers_cannot_tell_a_memory_from_none(rig: Rig):
    one = await rig.store("a secret")
    trashed = await rig.store("another secret")
    await rig.delete(trashed.id)
    for memory_id in (one.id, trashed.id, "ab" * 16):
        assert await rig.get(memory_id, caller=STRANGER) == []
        deleted = await rig.delete(memory_id, caller=STRANGER)
        assert (deleted.status, deleted.ids) == ("not_found", [])
        assert (await rig.memory.revive([memory_id], STRANGER)).not_found == [memory_id]
    assert (await rig.one(one.id)).state == "live"


async def test_store_trash_revive_purge_and_store_again_go_round_and_round(rig: Rig):
    for turn in range(3):
        one = await rig.store("a fact", tags=f"t{turn}", revive=turn > 0)
        assert one.status == ("revived" if turn else "created")
        assert (await rig.one(one.id)).tags == [f"t{turn}"]
        await rig.delete(one.id)
        await rig.memory.revive([one.id], ALL)
        assert await rig.by_words(f"t{turn}") == [one.id]
        await rig.purge(one.id)
        assert await rig.find("fact") == []
    assert rig.rows("select rank, life from record") == [(6, 6)]


async def test_a_purge_that_another_replica_made_takes_vectors_and_words_too(rig: Rig):
    one = await rig.store("the payload", tags="标签")
    await rig.embed_all()
    await rig.apply(cell(one.id, "init", 2, rig.clock() + 1, None))
    assert await rig.find("payload") == []
    await rig.embed_all()
    assert rig.index._rows == {}
    assert rig.value("select v from meta where k = 'erase_words'") == 0


async def test_a_purge_without_a_model_takes_the_words_too():
    rig = await opened(embedder=None)
    one = await rig.store("the payload")
    await rig.purge(one.id)
    assert rig.value("select v from meta where k = 'erase_words'") == 0


SECRETS = {
    "content": "Zirconium 机密内容 getZebraGnomon",
    "tags": ["proj:quixotic", "绝密标签"],
    "entities": ["Xanthippe", "欧阳修"],
    "metadata": {"wyvern": "basilisk"},
    "source": "kraken-mail",
    "conversation_id": "manticore",
}


async def test_no_byte_of_a_purged_memory_stays_in_the_file(tmp_path: Path):
    path = tmp_path / "m.db"
    async with await ApswDatabase.open(path) as database:
        rig = await opened(database=database, embedder=None)
        await rig.store_all([StoreItem(content=f"other words {n}", tags=[f"t{n}", "公开"]) for n in range(200)])
        one = await rig.store(**SECRETS)
        await rig.update(one.id, tags={"remove": "绝密标签"}, metadata={"griffin": "phoenix"})
        await rig.delete(one.id, reason="chimaera")
        await rig.purge(one.id)
        await rig.store(**SECRETS)
    assert SECRETS["content"].encode() not in path.read_bytes()
    # SQLite leaves bytes of a row that it moved between pages in their gaps: only those need a VACUUM.
    connection = apsw.Connection(str(path))
    connection.execute("vacuum")
    connection.close()
    data = path.read_bytes()
    words = "Zirconium 机密内容 getZebraGnomon quixotic 绝密标签 Xanthippe 欧阳修 wyvern basilisk kraken manticore"
    for word in f"{words} griffin phoenix chimaera".split():
        for form in {word, word.lower(), *prepare(word).lower().split()}:
            # FTS5 writes words without the beginning that they share with the one before; single signs say nothing.
            for part in (form, form[1:]):
                if len(part) > 2 or (len(part) == 2 and not part.isascii()):
                    assert part.encode() not in data, part


def in_words(rig: Rig, word: str) -> bool:
    # FTS5 writes words without the beginning that they share with the one before.
    return any(word[2:].encode() in bytes(block) for (block,) in rig.rows("select block from content_fts_data"))


async def filled(rows: int = 6_000) -> Rig:
    """Return a memory at the edge, where words are erased part by part, with an index of several parts."""
    rig = await opened(embedder=None, policy=EDGE)
    rig.connection.execute("begin")
    for n in range(rows):
        words = " ".join(f"w{n * 31 + k * k * 7 % 9_973}" for k in range(300))
        rig.connection.execute("insert into content_fts (rowid, content) values (?, ?)", (1_000_000 + n, words))
    rig.connection.execute("commit")
    return rig


async def test_words_are_erased_in_parts_however_large_the_index_is():
    rig = await filled()
    one = await rig.store("Zirconium")
    await rig.purge(one.id)
    assert in_words(rig, "zirconium")
    parts = 0
    while await erase_words(rig.database):
        parts += 1
    assert parts > 4
    assert not in_words(rig, "zirconium")
    assert rig.value("select v from meta where k = 'erase_words'") == 0
    assert not await erase_words(rig.database)


async def test_what_is_purged_while_words_are_erased_is_erased_afterwards():
    rig = await filled()
    one, other = await rig.store("Zirconium"), await rig.store("Ytterbium")
    await rig.purge(one.id)
    for _ in range(2):
        assert await erase_words(rig.database)
    await rig.purge(other.id)
    assert rig.value("select v from meta where k = 'erase_words'") == 3
    while await erase_words(rig.database):
        pass
    assert not in_words(rig, "zirconium")
    assert not in_words(rig, "ytterbium")


# The turn after a turn that goes


@pytest.mark.parametrize("way", ["delete", "purge", "purge from the trash", "pulled purge"])
async def test_the_next_turn_gets_a_new_vector_when_a_turn_goes(rig: Rig, way):
    first = await rig.store("When do you move?", conversation_id="c", position=1)
    await rig.store("In May.", conversation_id="c", position=2)
    await rig.embed_all()
    assert "When do you move?\nIn May." in rig.embedder.texts
    rig.embedder.texts.clear()
    if way == "pulled purge":
        await rig.apply(cell(first.id, "init", 2, rig.clock() + 1, None))
    else:
        if way == "purge from the trash":
            await rig.delete(first.id)
            await rig.embed_all()
            rig.embedder.texts.clear()
        await rig.delete(first.id, purge=way != "delete")
    await rig.embed_all()
    assert rig.embedder.texts[-1:] == ["In May."]


@pytest.mark.parametrize("type_name", ["", " ", [], [""]])
async def test_an_empty_type_deletes_nothing(rig: Rig, type_name: str | list[str]):
    kept = await rig.store("the falcon build failed")
    with pytest.raises(InvalidInput, match="Nothing says which"):
        await rig.delete(type=type_name)
    assert (await rig.one(kept.id)).state == "live"
