"""A database keeps its device's name while it is the same, and gets another as a copy or at an earlier time."""

import asyncio
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.local.processes import Processes

from shoal.core.caller import Caller
from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase
from shoal.local.home import Home
from shoal.local.keeping import back_up, restore
from shoal.local.runtime import open_database, open_runtime
from shoal.local.settings import load
from shoal.local.sync import anchor, machine
from shoal.local.sync.anchor import State, is_same
from shoal.local.sync.files import SyncFiles
from shoal.schema.errors import DatabaseLocked, DatabaseReadOnly
from shoal.schema.models import StoreRequest

KNOWN = State(device="aaaaaaaa", generation=7, seq=100, machine="m", inode=5)
SIDES = ("", "-wal", "-shm")


def test_the_same_file_is_the_same_also_when_the_last_opening_was_cut_off_before_the_anchor():
    assert is_same(KNOWN, KNOWN)
    assert is_same(replace(KNOWN, seq=150), KNOWN)
    assert is_same(replace(KNOWN, generation=8), KNOWN)


@pytest.mark.parametrize(
    "found",
    [
        replace(KNOWN, device="bbbbbbbb"),
        replace(KNOWN, machine="another"),
        replace(KNOWN, inode=6),
        replace(KNOWN, generation=6),
        replace(KNOWN, generation=9),
        replace(KNOWN, seq=99),
        State(device="", generation=0, seq=0, machine="m", inode=5),
    ],
)
def test_what_differs_from_the_anchor_is_another(found: State):
    assert not is_same(found, KNOWN)


def test_without_an_anchor_nothing_is_proven():
    assert not is_same(KNOWN, None)


async def device(home: Home, content: str = "") -> str:
    """Open the home's database as every command does, write if told to, and return the device's name."""
    async with open_runtime(load(home)) as runtime:
        if content:
            await runtime.memory.store(StoreRequest(content=content), Caller())
        return runtime.memory.context.replica.device


def copy(source: Path, target: Path) -> None:
    """Copy a database as `cp` does: into the file that lies there."""
    for side in SIDES:
        old, new = source.with_name(source.name + side), target.with_name(target.name + side)
        if old.exists():
            new.write_bytes(old.read_bytes())
        else:
            new.unlink(missing_ok=True)


async def test_a_database_keeps_its_device_from_one_opening_to_the_next(home: Home):
    names = [await device(home, f"memory {number}") for number in range(4)]
    assert len(set(names)) == 1
    assert len(names[0]) == 8


async def test_a_copy_put_in_its_place_is_another_device(home: Home, tmp_path: Path):
    first = await device(home, "one")
    copy(home.database, tmp_path / "copy.db")
    assert await device(home, "two") == first
    copy(tmp_path / "copy.db", home.database)
    second = await device(home)
    assert second != first
    assert await device(home) == second


async def test_a_copy_that_was_taken_while_it_was_open_is_another_device(home: Home, tmp_path: Path):
    async with open_runtime(load(home)) as runtime:
        first = runtime.memory.context.replica.device
        copy(home.database, tmp_path / "copy.db")
        await runtime.memory.store(StoreRequest(content="written after the copy"), Caller())
    copy(tmp_path / "copy.db", home.database)
    assert await device(home) != first


async def test_a_copy_in_another_home_is_another_device(home: Home, tmp_path: Path):
    first = await device(home, "one")
    other = Home(tmp_path / "other")
    other.ensure()
    copy(home.database, other.database)
    assert await device(other) != first
    assert await device(home) == first


async def test_a_home_copied_whole_is_another_device_and_the_old_one_stays(home: Home, tmp_path: Path):
    first = await device(home, "one")
    shutil.copytree(home.root, tmp_path / "clone")
    assert await device(Home(tmp_path / "clone")) != first
    assert await device(home) == first


async def test_a_home_that_was_moved_stays_the_same(home: Home, tmp_path: Path):
    first = await device(home, "one")
    home.root.rename(tmp_path / "moved")
    assert await device(Home(tmp_path / "moved")) == first


async def test_a_database_is_the_same_by_whatever_path_it_is_reached(home: Home, tmp_path: Path):
    first = await device(home, "one")
    (tmp_path / "link").symlink_to(home.root)
    assert await device(Home(tmp_path / "link")) == first
    assert await device(Home(home.root / ".." / home.root.name)) == first


async def test_a_home_on_another_machine_is_another_device(home: Home, monkeypatch: pytest.MonkeyPatch):
    first = await device(home, "one")
    monkeypatch.setattr(anchor, "machine", lambda: "another")
    assert await device(home) != first


async def test_a_restored_backup_is_another_device(home: Home, tmp_path: Path):
    first = await device(home, "one")
    await back_up(home.database, tmp_path / "backup.db", lambda _: None)
    await restore(tmp_path / "backup.db", home.database, datetime.now(UTC), lambda _: None)
    second = await device(home)
    assert second != first
    assert await device(home, "two") == second


class CutOff(Exception):
    """The process ends here."""


async def test_an_opening_that_ends_between_database_and_anchor_is_known_for_the_same(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    first = await device(home, "one")

    def fail(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as cut:
        cut.setattr(anchor, "_write", fail)
        with pytest.raises(CutOff):
            await device(home)
    assert await device(home) == first


async def test_a_process_that_was_killed_leaves_the_same_device(home: Home):
    first = await device(home, "one")
    files = SyncFiles.of(home, home.database)
    async with open_runtime(load(home)) as runtime:
        await runtime.memory.store(StoreRequest(content="two"), Caller())
        kept = files.anchor.read_text()
    # As if the end had never been noted.
    files.anchor.write_text(kept)
    assert await device(home) == first


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"device": "aaaaaaaa"}', '{"device": 1, "more": 2}', "\ud800"])
async def test_an_anchor_that_can_not_be_read_is_none(home: Home, text: str):
    first = await device(home, "one")
    SyncFiles.of(home, home.database).anchor.write_bytes(text.encode(errors="surrogatepass"))
    second = await device(home)
    assert second != first
    assert await device(home) == second


async def test_a_database_of_a_version_without_anchors_begins_under_a_new_name(home: Home):
    first = await device(home, "one")
    async with await ApswDatabase.open(home.database) as database:
        await database.batch([Statement("delete from meta where k = 'anchor_generation'")])
    assert await device(home) != first


async def test_two_databases_of_one_home_have_anchors_of_their_own(home: Home, monkeypatch: pytest.MonkeyPatch):
    first = await device(home, "one")
    monkeypatch.setenv("SHOAL_DB", str(home.root / "other.db"))
    other = await device(home, "one")
    monkeypatch.delenv("SHOAL_DB")
    assert (await device(home), other != first) == (first, True)


async def test_openings_at_once_agree_on_one_device(home: Home):
    names = await asyncio.gather(*(device(home, f"memory {number}") for number in range(6)))
    assert len(set(names)) == 1
    assert await device(home) == names[0]


def test_processes_at_once_agree_on_one_device(home: Home, processes: Processes):
    started = [processes.start("store", f"memory {number}") for number in range(3)]
    for process in started:
        assert process.wait(timeout=30) == 0
    assert asyncio.run(stamps(home)) == 1


async def stamps(home: Home) -> int:
    """Return how many devices have written."""
    async with open_database(load(home)) as database:
        rows = await database.query("select count(distinct substr(hlc, 21)) as n from record")
        return int(rows[0]["n"])


async def test_reading_alone_leaves_database_and_anchor_as_they_are(home: Home):
    await device(home, "one")
    path = SyncFiles.of(home, home.database).anchor
    before = path.read_text()
    async with await ApswDatabase.open(home.database, read_only=True) as database:
        await database.query("select 1")
    assert path.read_text() == before


async def test_the_anchor_is_its_owners_alone_and_says_how_far_the_database_has_come(home: Home):
    name = await device(home, "one")
    path = SyncFiles.of(home, home.database).anchor
    assert path.stat().st_mode & 0o777 == 0o600
    told = json.loads(path.read_text())
    assert (told["device"], told["generation"], told["machine"]) == (name, 1, machine.machine())
    assert told["seq"] > 0
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")]


async def test_an_anchor_that_can_not_be_written_keeps_the_database_closed(home: Home, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(anchor, "write_private", lambda *_a, **_k: full())
    with pytest.raises(DatabaseReadOnly, match="No space left"):
        await device(home)


async def test_an_end_that_can_not_be_noted_is_no_failure_of_what_was_done(home: Home, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    async with open_runtime(load(home)) as runtime:
        first = runtime.memory.context.replica.device
        await runtime.memory.store(StoreRequest(content="one"), Caller())
        monkeypatch.setattr(anchor, "write_private", full)
    monkeypatch.undo()
    assert await device(home) == first


async def test_a_lock_that_nobody_gives_back_is_told(home: Home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anchor, "WAIT_S", 0.05)
    await device(home)
    files = SyncFiles.of(home, home.database)
    async with anchor._locked(files):  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(DatabaseLocked, match="Another process"):
            await device(home)


def test_a_machine_without_an_id_is_like_another_without_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    machine.machine.cache_clear()
    try:
        (tmp_path / "id").write_text("0123456789abcdef\n")
        monkeypatch.setattr(machine, "_FILES", (tmp_path / "none", tmp_path / "id"))
        named = machine.machine()
        machine.machine.cache_clear()
        monkeypatch.setattr(machine, "_FILES", (tmp_path / "none",))
        nameless = machine.machine()
        assert named != nameless
        assert len(named) == len(nameless) == 16
        assert "0123456789abcdef" not in named
    finally:
        machine.machine.cache_clear()
