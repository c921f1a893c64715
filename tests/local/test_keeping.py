import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.core.protocols import Statement
from shoal.local.backend import open_backend
from shoal.local.database import ApswDatabase
from shoal.local.home import Home
from shoal.local.keeping import SIDE_FILES, back_up, check_backup, newest_backup, restore
from shoal.local.settings import load
from shoal.schema.errors import DatabaseCorrupt, NotFound, StorageError
from shoal.schema.models import GetRequest, StoreRequest

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


ENDED = 2**22 + 1
"""A process id beyond Linux's greatest."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def ignore(_: float) -> None:
    """Take no notice of progress."""


async def store(home: Home, text: str) -> None:
    async with open_backend(load(home)) as memory:
        await memory.store(StoreRequest(content=text))


async def contents(home: Home) -> list[str]:
    async with open_backend(load(home)) as memory:
        return [one.content for one in (await memory.get(GetRequest(order="oldest"))).memories]


async def device(path: Path) -> object:
    async with await ApswDatabase.open(path, read_only=True) as database:
        return (await database.query("select v from meta where k = 'device'"))[0]["v"]


async def test_a_backup_puts_back_what_was_there_and_the_newer_file_is_kept(home: Home, tmp_path: Path) -> None:
    await store(home, "before")
    shares: list[float] = []
    target = tmp_path / "deep" / "copy.db"
    assert await back_up(home.database, target, shares.append) == target.stat().st_size
    await store(home, "after")
    aside = await restore(target, home.database, NOW, ignore)
    assert aside == home.root / "shoal.db.before-20260301-120000"
    assert await contents(home) == ["before"]
    async with await ApswDatabase.open(aside, read_only=True) as old:
        assert (await old.query("select count(*) as n from record where class = 'memory'"))[0]["n"] == 2
    assert not list(home.root.glob("*.restoring*"))


async def test_two_restores_within_a_second_keep_both_databases_from_before(home: Home, tmp_path: Path) -> None:
    await store(home, "first")
    await back_up(home.database, tmp_path / "copy.db", ignore)
    await store(home, "second")
    asides = [await restore(tmp_path / "copy.db", home.database, NOW, ignore) for _ in range(3)]
    assert [aside.name.rpartition("120000")[2] for aside in asides if aside] == ["", "-2", "-3"]
    counts: list[object] = []
    for aside in asides:
        assert aside is not None
        async with await ApswDatabase.open(aside, read_only=True) as old:
            counts += (await old.query("select count(*) as n from record where class = 'memory'"))[0].values()
    assert counts == [2, 1, 1]


async def test_a_restored_database_is_another_device(home: Home, tmp_path: Path) -> None:
    await store(home, "x")
    await back_up(home.database, tmp_path / "copy.db", ignore)
    before = await device(home.database)
    await restore(tmp_path / "copy.db", home.database, NOW, ignore)
    assert await device(home.database) != before


async def test_what_a_killed_backup_left_is_removed_by_the_next_and_one_that_runs_is_not(
    home: Home, tmp_path: Path
) -> None:
    await store(home, "x")
    left = [f"copy.db.{ENDED}-0a0b0c0d.part", f"copy.db.{ENDED}-0a0b0c0d.part-journal"]
    others = [f"copy.db.{os.getpid()}-0a0b0c0d.part", f"other.db.{ENDED}-0a0b0c0d.part", "copy.db.mine.part"]
    for name in (*left, *others):
        (tmp_path / name).touch()
    await back_up(home.database, tmp_path / "copy.db", ignore)
    assert names(tmp_path) - {home.root.name} == {"copy.db", *others}


@pytest.mark.parametrize("renames", [1, 2, 3])
async def test_a_restore_that_is_killed_between_two_files_leaves_no_memory_that_seems_empty(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    await store(home, "precious")
    await back_up(home.database, tmp_path / "copy.db", ignore)
    for suffix in SIDE_FILES:  # As after a crash.
        home.database.with_name(f"shoal.db{suffix}").write_bytes(b"log")
    rename, done = Path.replace, 0

    def replace(path: Path, target: Path) -> Path:
        nonlocal done
        if path.parent == home.root and ".part" not in path.name:
            done += 1
            if done > renames:
                raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Path, "replace", replace)
        killed.setattr(Path, "unlink", lambda _path, missing_ok=False: None)
        await restore(tmp_path / "copy.db", home.database, NOW, ignore)
    with pytest.raises(StorageError, match="restore"):
        await contents(home)
    await restore(tmp_path / "copy.db", home.database, NOW + timedelta(seconds=1), ignore)
    assert await contents(home) == ["precious"]


async def test_a_backup_is_restored_where_nothing_was(home: Home, tmp_path: Path) -> None:
    await store(home, "x")
    await back_up(home.database, tmp_path / "copy.db", ignore)
    other = Home(tmp_path / "other")
    other.ensure()
    assert await restore(tmp_path / "copy.db", other.database, NOW, ignore) is None
    assert await contents(other) == ["x"]


async def test_a_damaged_backup_is_refused_and_the_database_stays(home: Home, tmp_path: Path) -> None:
    await store(home, "kept")
    copy = tmp_path / "copy.db"
    await back_up(home.database, copy, ignore)
    whole = copy.read_bytes()
    copy.write_bytes(whole[:8192] + b"\xff" * 4096 + whole[12288:])
    with pytest.raises(DatabaseCorrupt):
        await restore(copy, home.database, NOW, ignore)
    assert await contents(home) == ["kept"]


async def test_another_programs_database_is_no_backup(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    async with await ApswDatabase.open(other) as database:
        await database.batch([Statement("create table t (a)")])
    with pytest.raises(DatabaseCorrupt, match="not a database of shoal"):
        await check_backup(other)


async def test_what_is_missing_is_named(home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"shoal\.db"):
        await back_up(home.database, tmp_path / "copy.db", ignore)
    with pytest.raises(NotFound, match=r"nothing\.db"):
        await restore(tmp_path / "nothing.db", home.database, NOW, ignore)


def test_the_newest_backup_is_found(tmp_path: Path) -> None:
    assert newest_backup(tmp_path / "none") is None
    assert newest_backup(tmp_path) is None
    (tmp_path / "a.db").touch()
    (tmp_path / "note.txt").touch()
    assert newest_backup(tmp_path) == tmp_path / "a.db"
