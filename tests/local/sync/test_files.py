"""The files of a database's replication: their names, their locks, and that they are written in one step."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shoal.local.home import Home
from shoal.local.sync.files import SyncFiles, held, write_private
from shoal.schema.errors import SyncError


def test_each_database_of_a_home_has_files_of_its_own_that_move_with_the_home(tmp_path: Path):
    home, moved = Home(tmp_path / "home"), Home(tmp_path / "moved")
    files = SyncFiles.of(home, home.database)
    assert files.key == SyncFiles.of(moved, moved.database).key
    assert files.key != SyncFiles.of(home, home.root / "other.db").key
    assert files.key != SyncFiles.of(home, moved.database).key
    paths = [files.link, files.link_lock, files.round_lock, files.anchor, files.anchor_lock]
    assert len(set(paths)) == len(paths)
    assert all(path.is_relative_to(home.root) for path in paths)


async def test_a_lock_is_held_by_one_at_a_time_also_within_a_process(tmp_path: Path):
    inside = 0

    async def work() -> None:
        nonlocal inside
        async with held(tmp_path / "lock", 10, "testing"):
            inside += 1
            await asyncio.sleep(0.001)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(work() for _ in range(5)))


async def test_whoever_waits_in_vain_is_told_what_for(tmp_path: Path):
    async with held(tmp_path / "lock", 0, "testing"):
        with pytest.raises(SyncError, match="Another process has been testing"):
            async with held(tmp_path / "lock", 0, "testing"):
                pass
    async with held(tmp_path / "lock", 0, "testing"):
        pass


async def test_a_lock_in_no_folder_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        async with held(tmp_path / "none" / "lock", 0, "testing"):
            pass


async def take(path: Path) -> None:
    async with held(path, 0, "testing"):
        pass


def test_a_process_that_is_killed_holds_no_lock(tmp_path: Path):
    code = textwrap.dedent(f"""
        import asyncio, time
        from pathlib import Path
        from shoal.local.sync.files import held
        async def main():
            async with held(Path({str(tmp_path / "lock")!r}), 0, "testing"):
                print("held", flush=True)
                time.sleep(60)
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SyncError):
            asyncio.run(take(tmp_path / "lock"))
        process.send_signal(signal.SIGKILL)
        process.wait()
    asyncio.run(take(tmp_path / "lock"))
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_whole_for_its_owner_alone(tmp_path: Path, durable: bool):
    path = tmp_path / "folder" / "file"
    write_private(path, "one", durable=durable)
    path.chmod(0o644)
    write_private(path, "two", durable=durable)
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    write_private(path, "one", durable=True)

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_private(path, "two", durable=True)
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]
