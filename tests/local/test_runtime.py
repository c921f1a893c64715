import sqlite3
from pathlib import Path

import pytest

from shoal.core.caller import Caller
from shoal.core.fakes import FakeEmbedder
from shoal.core.migrate import migrate
from shoal.core.service import open_memory
from shoal.local.database import ApswDatabase
from shoal.local.home import Home
from shoal.local.runtime import Runtime, clock_ms, local_caller, open_runtime
from shoal.local.settings import load
from shoal.local.vectors import SqliteVecIndex
from shoal.schema.errors import DatabaseForeign, DatabaseReadOnly
from shoal.schema.models import FindRequest, StoreAnswer, StoreItem, StoreRequest


async def test_without_a_model_words_find_and_every_answer_says_why(home: Home) -> None:
    async with open_runtime(load(home)) as runtime:
        await runtime.memory.store(StoreRequest(content="words only"), Caller())
        answer = await runtime.memory.find(FindRequest(query="words"), Caller())
    assert [found.snippet for found in answer.results] == ["words only"]
    assert any(note.code == "lexical_only" and "turns it off" in note.message for note in answer.notes)


async def test_the_users_own_types_are_known(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TYPES", '{"recipe_card": "procedure"}')
    async with open_runtime(load(home)) as runtime:
        answer = await runtime.memory.store(StoreRequest(content="x", type="recipe_card"), Caller())
    assert isinstance(answer, StoreAnswer)
    assert answer.type == "recipe_card"


async def test_another_programs_database_is_left_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ensure()
    theirs = home.root / "sqlite_vec.db"
    connection = sqlite3.connect(theirs)
    connection.execute("create table memories (content_hash text)")
    connection.close()
    monkeypatch.setenv("MCP_MEMORY_SQLITE_PATH", str(theirs))
    with pytest.raises(DatabaseForeign, match="SHOAL_DB"):
        async with open_runtime(load(home)):
            pass
    connection = sqlite3.connect(theirs)
    assert connection.execute("select name from sqlite_schema").fetchall() == [("memories",)]
    connection.close()


async def test_a_folder_that_cannot_be_made_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.ensure()
    (home.root / "file").touch()
    monkeypatch.setenv("SHOAL_DB", str(home.root / "file" / "shoal.db"))
    with pytest.raises(DatabaseReadOnly, match="file"):
        async with open_runtime(load(home)):
            pass


def test_the_person_at_the_machine_speaks_in_their_time_zone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_caller(load(home), "cli", clamps=False).time_zone == "Asia/Tokyo"
    monkeypatch.setenv("SHOAL_TIME_ZONE", "Europe/Vienna")
    assert local_caller(load(home), "cli", clamps=False).time_zone == "Europe/Vienna"


def test_callers_mean_the_space_that_the_settings_name(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SPACE", "work")
    caller = local_caller(load(home), "test", clamps=True)
    assert caller.space(None) == "work"
    assert caller.space("other") == "other"
    assert caller.within("*") is None


async def test_vectors_of_a_model_used_before_go_once_all_are_made_anew(home: Home, tmp_path: Path) -> None:
    async with await ApswDatabase.open(tmp_path / "a.db") as database:
        await migrate(database)
        for fingerprint in ("old@1", "new@1"):
            embedder = FakeEmbedder(fingerprint=fingerprint)
            index = await SqliteVecIndex.open(database, fingerprint, embedder.dim)
            memory = await open_memory(database, index, embedder, clock=clock_ms, new_device="00000000")
            runtime = Runtime(memory, database, None, index, load(home))
            if fingerprint == "old@1":
                await memory.store(StoreRequest(items=[StoreItem(content=f"text {n}") for n in range(3)]), Caller())
                await memory.embed_pending()
        await runtime.drop_old_vectors()
        assert await index.count_others() == 3
        while await memory.embed_pending(2):
            pass
        await runtime.drop_old_vectors()
        assert (await index.count(), await index.count_others()) == (3, 0)
