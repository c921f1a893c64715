"""The laptop's database: group commit, kills, several processes, full and read-only disks, damage, backups."""

import asyncio
import errno
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from shoal.core.protocols import Statement
from shoal.local.backup import copy
from shoal.local.database import ApswDatabase
from shoal.schema.errors import (
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseReplaced,
    StorageError,
)

WRITING = Path(__file__).with_name("writing.py")
TABLE = Statement("create table if not exists item (id integer primary key, value)")
PUT = "insert into item (id, value) values (?1, ?2)"
NOBODY = 65_534
PAGE = 4_096


def put(number: int, value: str = "x") -> list[Statement]:
    return [Statement(PUT, (number, value))]


async def count(database: ApswDatabase) -> int:
    [row] = await database.query("select count(*) as n from item")
    assert isinstance(row["n"], int)
    return row["n"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shoal.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[ApswDatabase]:
    """An open database with a table `item`."""
    async with await ApswDatabase.open(path) as opened:
        await opened.batch([TABLE])
        yield opened


def size(path: Path) -> int:
    return path.stat().st_size


def content(path: Path) -> bytes:
    return path.read_bytes()


def files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def filled(path: Path, rows: int = 200) -> None:
    """Make a sound database of some hundred kilobytes."""

    async def fill() -> None:
        async with await ApswDatabase.open(path) as database:
            await database.batch([TABLE])
            await database.batch([Statement(PUT, (number, "x" * 2_000)) for number in range(rows)])

    asyncio.run(fill())


class TestGroupCommit:
    async def test_batches_that_wait_together_share_commits(self, database: ApswDatabase):
        before = database.commits
        await asyncio.gather(*(database.batch(put(number)) for number in range(500)))
        assert await count(database) == 500
        assert database.commits - before <= 10

    async def test_a_failing_batch_fails_alone(self, database: ApswDatabase):
        await database.batch(put(3))
        before = database.commits
        batches = [[*put(100 + number), *put(number)] for number in range(6)]
        results = await asyncio.gather(*map(database.batch, batches), return_exceptions=True)
        assert database.commits - before <= 2
        assert isinstance(results[3], apsw.ConstraintError)
        assert [result for result in results if isinstance(result, Exception)] == [results[3]]
        rows = await database.query("select id from item order by id")
        assert [row["id"] for row in rows] == [0, 1, 2, 3, 4, 5, 100, 101, 102, 104, 105]

    async def test_batches_run_in_the_order_they_were_asked_for(self, database: ApswDatabase):
        await database.batch(put(1, ""))
        add = "update item set value = value || ?1 where id = 1"
        await asyncio.gather(*(database.batch([Statement(add, (letter,))]) for letter in "abcdefgh"))
        assert await database.query("select value from item") == [{"value": "abcdefgh"}]

    async def test_a_batch_that_fills_the_disk_does_not_take_its_neighbours_along(self, path: Path):
        async with await ApswDatabase.open(path) as database:
            await database.batch([TABLE])
            await _limit_pages(database, 40)
            batches = [put(1), put(2, "x" * 1_000_000), put(3)]
            results = await asyncio.gather(*map(database.batch, batches), return_exceptions=True)
            assert [type(result) for result in results] == [list, DatabaseFull, list]
            assert await count(database) == 2

    async def test_a_cancelled_caller_undoes_nothing(self, database: ApswDatabase):
        waiting = [asyncio.ensure_future(database.batch(put(number))) for number in range(50)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 25
        await database.batch(put(1_000))
        assert await count(database) == 51

    async def test_a_reader_does_not_wait_for_a_long_write(self, database: ApswDatabase):
        long_one = (
            "insert into item (id, value) with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)"
            " select i, hex(zeroblob(20)) from n"
        )
        writing = asyncio.ensure_future(database.batch([Statement(long_one, (300_000,))]))
        await asyncio.sleep(0.02)
        assert await count(database) == 0
        assert not writing.done()
        await writing
        assert await count(database) == 300_000

    async def test_two_event_loops_may_write_at_once(self, database: ApswDatabase):
        async def write(first: int) -> None:
            await asyncio.gather(*(database.batch(put(first + number)) for number in range(100)))

        other = asyncio.to_thread(lambda: asyncio.run(write(1_000)))
        await asyncio.gather(other, write(0))
        assert await count(database) == 200

    async def test_the_log_does_not_grow_without_bound(self, database: ApswDatabase, path: Path):
        for number in range(60):
            await database.batch([Statement(PUT, (number, "x" * 1_000_000))])
        assert size(path.with_name("shoal.db-wal")) < 24_000_000
        assert size(path) > 40_000_000


class TestClosing:
    async def test_what_waits_is_written_first(self, path: Path):
        database = await ApswDatabase.open(path)
        await database.batch([TABLE])
        waiting = [asyncio.ensure_future(database.batch(put(number))) for number in range(300)]
        await asyncio.sleep(0)
        await database.close()
        await asyncio.gather(*waiting)
        async with await ApswDatabase.open(path) as again:
            assert await count(again) == 300

    async def test_no_log_is_left_behind(self, path: Path):
        async with await ApswDatabase.open(path) as database:
            await database.batch([TABLE])
        assert files(path) == [path.name]

    async def test_afterwards_everything_is_refused_and_closing_again_is_no_error(self, path: Path):
        database = await ApswDatabase.open(path)
        await database.close()
        await database.close()
        for attempt in (database.query("select 1"), database.batch([TABLE]), database.check(quick=True)):
            with pytest.raises(StorageError, match="closed"):
                await attempt

    def test_a_process_that_forgets_to_close_ends_all_the_same(self, path: Path):
        code = (
            "import asyncio, sys; from pathlib import Path\n"
            "from shoal.local.database import ApswDatabase\n"
            "asyncio.run(ApswDatabase.open(Path(sys.argv[1])))"
        )
        ended = subprocess.run([sys.executable, "-c", code, path], check=False, timeout=20, capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b"")


class TestSettings:
    async def test_a_new_file_is_private(self, database: ApswDatabase, path: Path):
        await database.batch(put(1))
        for file in path.parent.iterdir():
            assert file.stat().st_mode & 0o077 == 0

    async def test_a_write_reaches_the_disk_before_it_is_acknowledged(self, database: ApswDatabase):
        def settings(connection: apsw.Connection) -> list[object]:
            names = ("journal_mode", "synchronous", "secure_delete", "query_only")
            return [connection.pragma(name) for name in names]

        full = 2
        assert await database.read(settings) == ["wal", full, 1, 1]

    async def test_sqlite_vec_is_there_for_readers_and_the_writer(self, database: ApswDatabase):
        [[row]] = await database.batch([Statement("select vec_length(?1) as n", (bytes(8),))])
        assert await database.query("select vec_length(?1) as n", (bytes(8),)) == [row] == [{"n": 2}]

    async def test_deleted_content_is_overwritten(self, database: ApswDatabase, path: Path):
        secret = "a very private matter"
        await database.batch(put(1, secret * 50))
        await database.batch([Statement("delete from item")])
        await database.close()
        assert secret.encode() not in content(path)


def killed(path: Path, group: int, after_s: float) -> set[int]:
    """Kill a writing process, and return the batches that it had acknowledged."""
    process = subprocess.Popen([sys.executable, WRITING, path, "0", "0", str(group)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == "ready\n"
        time.sleep(after_s)
        process.kill()
        # The last line may be cut; then nobody was told.
        return {int(line) for line in process.stdout if line.endswith("\n")}


async def _after_kill(path: Path, group: int, after_s: float) -> int:
    acknowledged = await asyncio.to_thread(killed, path, group, after_s)
    async with await ApswDatabase.open(path) as database:
        assert await database.check(quick=False) == []
        rows = await database.query("select number, count(*) as halves from written group by number")
        written = {row["number"]: row["halves"] for row in rows}
        await database.batch([Statement("delete from written")])
    assert acknowledged <= written.keys()
    assert set(written.values()) <= {2}, "half a batch was kept"
    return len(acknowledged)


class TestKill:
    @pytest.mark.parametrize("group", [1, 8, 32])
    async def test_a_kill_loses_no_acknowledged_batch(self, path: Path, group: int):
        assert await _after_kill(path, group, 0.2) > 0

    @pytest.mark.long
    async def test_many_kills_lose_no_acknowledged_batch(self, path: Path):
        acknowledged = 0
        for number in range(40):
            acknowledged += await _after_kill(path, 1 + number % 40, 0.05 + number % 7 * 0.1)
        assert acknowledged > 1_000


class TestSeveralProcesses:
    async def test_four_that_write_one_new_file_lose_nothing_and_meet_no_lock(self, path: Path):
        started = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                str(WRITING),
                str(path),
                str(writer),
                "150",
                "3",
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for writer in range(4)
        ]
        for process, (out, error) in zip(
            started, await asyncio.gather(*(process.communicate() for process in started)), strict=True
        ):
            assert (process.returncode, error) == (0, b"")
            assert out.endswith(b"done\n")
        async with await ApswDatabase.open(path) as database:
            rows = await database.query("select writer, number, count(*) as halves from written group by 1, 2")
        assert {row["halves"] for row in rows} == {2}
        assert Counter(row["writer"] for row in rows) == {0: 150, 1: 150, 2: 150, 3: 150}

    async def test_a_lock_that_is_held_for_a_moment_is_waited_for(self, database: ApswDatabase, path: Path):
        with closing(apsw.Connection(str(path))) as other:
            other.execute("begin immediate")
            waiting = asyncio.ensure_future(database.batch(put(1)))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            other.execute("commit")
            await waiting
        assert await count(database) == 1

    async def test_a_lock_that_is_held_too_long_is_named_and_nothing_is_written(self, path: Path):
        async with await ApswDatabase.open(path, busy_timeout_ms=100) as database:
            await database.batch([TABLE])
            with closing(apsw.Connection(str(path))) as other:
                other.execute("begin immediate")
                results = await asyncio.gather(database.batch(put(1)), database.batch(put(2)), return_exceptions=True)
                assert [type(result) for result in results] == [DatabaseLocked] * 2
                assert await count(database) == 0
                other.execute("commit")
            await database.batch(put(1))
            assert await count(database) == 1

    async def test_a_reader_sees_what_another_process_wrote(self, database: ApswDatabase, path: Path):
        async with await ApswDatabase.open(path) as other:
            await other.batch(put(1))
            assert await count(database) == 1


async def _limit_pages(database: ApswDatabase, pages: int) -> None:
    """Make the writer's disk full after so many pages: a setting of its connection, so set on its thread's own."""
    writer = database._writer  # pyright: ignore[reportPrivateUsage]  # no public way to a full disk
    assert writer is not None
    writer._connection.pragma("max_page_count", pages)  # pyright: ignore[reportPrivateUsage]


class TestFullDisk:
    async def test_a_full_disk_is_named_and_what_was_written_stays(self, path: Path):
        async with await ApswDatabase.open(path) as database:
            await database.batch([TABLE])
            await _limit_pages(database, 20)
            await database.batch(put(1))
            with pytest.raises(DatabaseFull, match="room"):
                await database.batch(put(2, "x" * 1_000_000))
            assert await count(database) == 1
            await _limit_pages(database, 10_000)
            await database.batch(put(2, "x" * 1_000_000))
            assert await count(database) == 2

    def test_a_limit_on_the_files_size_is_a_full_disk_too(self, path: Path):
        code = """
import asyncio, signal, sys
from pathlib import Path
from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase
from shoal.schema.errors import DatabaseFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    async with await ApswDatabase.open(Path(sys.argv[1])) as database:
        await database.batch([Statement("create table item (id integer primary key, value)")])
        written = 0
        try:
            while True:
                await database.batch([Statement("insert into item (value) values (?1)", ("x" * 50_000,))])
                written += 1
        except DatabaseFull:
            [row] = await database.query("select count(*) as n from item")
            assert row["n"] == written > 0
            print("full")
asyncio.run(main())
"""
        limit = 1_000_000
        ended = subprocess.run(
            [sys.executable, "-c", code, path],
            check=False,
            timeout=20,
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        assert (ended.stdout, ended.returncode) == (b"full\n", 0), ended.stderr.decode()


class TestReadOnly:
    async def test_a_database_opened_read_only_reads_and_refuses_to_write(self, database: ApswDatabase, path: Path):
        await database.batch(put(1))
        async with await ApswDatabase.open(path, read_only=True) as reading:
            assert await count(reading) == 1
            with pytest.raises(DatabaseReadOnly):
                await reading.batch(put(2))
            await database.batch(put(3))
            assert await count(reading) == 2
            assert await reading.check(quick=True) == []
            await reading.backup(path.with_name("copy.db"))

    async def test_read_only_makes_no_file(self, path: Path):
        with pytest.raises(StorageError, match=r"shoal\.db"):
            await ApswDatabase.open(path, read_only=True)
        assert files(path) == []

    async def test_a_name_that_is_not_utf8_is_named(self, tmp_path: Path):
        with pytest.raises(StorageError, match="not UTF-8"):
            await ApswDatabase.open(tmp_path / "\udcff.db")

    async def test_a_folder_that_is_missing_is_named(self, path: Path):
        with pytest.raises(StorageError, match=r"missing/shoal\.db"):
            await ApswDatabase.open(path.parent / "missing" / "shoal.db")

    @pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
    def test_a_file_or_folder_without_the_right_to_write_is_named(
        self, tmp_path: Path, file_mode: int, folder_mode: int
    ):
        folder = tmp_path / "folder"
        folder.mkdir()
        path = folder / "shoal.db"
        filled(path)
        before = path.read_bytes()
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        assert _as_nobody(_opened_for_writing, path) == "DatabaseReadOnly"
        folder.chmod(0o755)
        assert path.read_bytes() == before

    def test_opening_read_only_what_sqlite_cant_even_read_so_says_why(self, tmp_path: Path):
        folder = tmp_path / "folder"
        folder.mkdir()
        filled(folder / "shoal.db")
        folder.chmod(0o555)
        assert _as_nobody(_opened_for_reading, folder / "shoal.db") == "DatabaseReadOnly"
        folder.chmod(0o755)


def _opened_for_writing(path: Path) -> str:
    async def attempt() -> str:
        try:
            async with await ApswDatabase.open(path) as database:
                await database.batch(put(-1))
        except StorageError as error:
            return type(error).__name__
        return "written"

    return asyncio.run(attempt())


def _opened_for_reading(path: Path) -> str:
    async def attempt() -> str:
        try:
            async with await ApswDatabase.open(path, read_only=True) as database:
                return str(await count(database))
        except StorageError as error:
            return type(error).__name__

    return asyncio.run(attempt())


def _as_nobody(function: object, path: Path) -> str:
    """Call function(path) in a forked process without root's rights, and return what it says."""
    assert callable(function)
    for folder in path.parents:
        if folder.stat().st_uid == os.getuid() and folder != path.parent:
            folder.chmod(folder.stat().st_mode | 0o011)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "crashed"
        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            answer = function(path)
        finally:
            os.write(writing, str(answer).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(size(path) // 2 // PAGE * PAGE + 100)


def _garble(path: Path, page: int, pages: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xa5" * (pages * PAGE))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _renamed(path: Path) -> None:
    path.rename(path.with_name("moved"))


def _swapped(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


class TestDamage:
    @pytest.mark.parametrize(
        "damage", [_cut, lambda path: _garble(path, 0), lambda path: path.write_bytes(b"not a database at all")]
    )
    @pytest.mark.parametrize("read_only", [False, True])
    async def test_a_damaged_file_is_refused_and_left_as_it_is(self, path: Path, damage, read_only: bool):
        await asyncio.to_thread(filled, path)
        damage(path)
        before = content(path)
        with pytest.raises(DatabaseCorrupt, match="shoal restore"):
            await ApswDatabase.open(path, read_only=read_only)
        assert content(path) == before
        # A connection that may not write can't take away the two empty files that it needed.
        assert read_only or files(path) == [path.name]

    async def test_after_a_crash_damage_inside_is_found_at_opening(self, path: Path):
        await asyncio.to_thread(filled, path)
        await _crashed(path)
        _garble(path, 5, 20)
        before, log = content(path), content(path.with_name("shoal.db-wal"))
        with pytest.raises(DatabaseCorrupt, match="shoal restore"):
            await ApswDatabase.open(path)
        assert (content(path), content(path.with_name("shoal.db-wal"))) == (before, log)

    async def test_an_empty_file_with_a_log_beside_it_is_not_taken_for_a_new_one(self, path: Path):
        await asyncio.to_thread(filled, path)
        await _crashed(path)
        log = content(path.with_name("shoal.db-wal"))
        for damage in (_empty, Path.unlink):
            damage(path)
            with pytest.raises(DatabaseCorrupt, match="log is there"):
                await ApswDatabase.open(path)
            assert content(path.with_name("shoal.db-wal")) == log

    async def test_an_empty_file_is_a_new_database(self, path: Path):
        _empty(path)
        async with await ApswDatabase.open(path) as database:
            await database.batch([TABLE])

    async def test_a_damaged_page_is_named_when_it_is_read_and_by_the_check(self, path: Path):
        await asyncio.to_thread(filled, path)
        _garble(path, 5, 20)
        async with await ApswDatabase.open(path) as database:
            with pytest.raises(DatabaseCorrupt, match="shoal restore"):
                await database.query("select sum(length(value)) from item")
            with pytest.raises(DatabaseCorrupt):
                await database.batch([Statement("update item set value = 'y'")])
            for quick in (True, False):
                assert await database.check(quick=quick)

    async def test_after_damage_nothing_is_acknowledged_and_the_log_stays(self, path: Path):
        await asyncio.to_thread(filled, path)
        database = await ApswDatabase.open(path)
        await database.batch([Statement(PUT, (1_000_000, "in the log"))])
        _garble(path, 5, 20)
        log = path.with_name("shoal.db-wal")
        with pytest.raises(DatabaseCorrupt):
            await database.query("select sum(length(value)) from item")
        before, logged = content(path), content(log)
        with pytest.raises(DatabaseCorrupt, match="shoal restore"):
            await database.batch([Statement(PUT, (1_000_001, "into damage"))])
        with pytest.raises(DatabaseCorrupt):
            await database.query("select 1")
        await database.close()
        assert (content(path), content(log)) == (before, logged)

    @pytest.mark.parametrize("gone", [Path.unlink, _renamed, _swapped])
    async def test_a_file_that_is_no_longer_the_one_that_was_opened_takes_no_write(self, path: Path, gone):
        await asyncio.to_thread(filled, path)
        database = await ApswDatabase.open(path)
        await database.query("select 1")
        gone(path)
        for asked in (database.query("select 1"), database.batch([Statement(PUT, (1_000_000, "lost"))])):
            with pytest.raises(DatabaseReplaced, match="restart shoal"):
                await asked
        with pytest.raises(DatabaseReplaced):
            database.require_file()
        await database.close()

    async def test_a_file_that_came_back_is_written_again(self, path: Path):
        await asyncio.to_thread(filled, path)
        async with await ApswDatabase.open(path) as database:
            _renamed(path)
            with pytest.raises(DatabaseReplaced):
                await database.query("select 1")
            path.with_name("moved").rename(path)
            await database.batch([Statement(PUT, (1_000_000, "kept"))])
        async with await ApswDatabase.open(path) as database:
            assert await database.query("select value from item where id = 1000000") == [{"value": "kept"}]

    async def test_a_sound_file_has_no_findings(self, database: ApswDatabase):
        await database.batch([Statement(PUT, (number, "x" * 2_000)) for number in range(50)])
        assert await database.check(quick=True) == await database.check(quick=False) == []


async def _crashed(path: Path) -> None:
    """Leave a write-ahead log beside the file, as a kill does."""
    code = """
import asyncio, os, sys
from pathlib import Path
from shoal.core.protocols import Statement
from shoal.local.database import ApswDatabase
async def main():
    database = await ApswDatabase.open(Path(sys.argv[1]))
    await database.batch([Statement("insert into item (id, value) values (-1, 'last')")])
    os._exit(0)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path))
    assert await process.wait() == 0
    assert size(path.with_name("shoal.db-wal")) > 0


class TestBackup:
    async def test_a_backup_under_writes_is_a_whole_moment(self, database: ApswDatabase, path: Path):
        await database.batch([Statement(PUT, (-number, "x" * 2_000)) for number in range(1, 12_000)])
        target = path.with_name("copy.db")
        begun, written = threading.Event(), threading.Event()

        def hold(_share: float) -> None:
            begun.set()
            assert written.wait(20)

        def back_up() -> None:
            with closing(apsw.Connection(str(path))) as source:
                copy(source, target, hold)

        backing_up = asyncio.create_task(asyncio.to_thread(back_up))
        assert await asyncio.to_thread(begun.wait, 20)
        for number in range(100):
            await database.batch([*put(number), Statement("update item set value = 'y' where id = ?1", (-number,))])
        written.set()
        await backing_up
        async with await ApswDatabase.open(target) as copied:
            assert await copied.check(quick=False) == []
            [row] = await copied.query("select count(*) as n, sum(value = 'y') as changed from item")
        assert row == {"n": 11_999, "changed": 0}
        assert await count(database) == 12_099

    async def test_progress_goes_up_to_one(self, database: ApswDatabase, path: Path):
        await database.batch([Statement(PUT, (number, "x" * 2_000)) for number in range(12_000)])
        shares: list[float] = []
        await database.backup(path.with_name("copy.db"), shares.append)
        await asyncio.sleep(0)
        assert len(shares) > 1
        assert shares == sorted(shares)
        assert shares[-1] == 1

    async def test_a_backup_replaces_an_older_one_and_leaves_nothing_else(self, database: ApswDatabase, path: Path):
        target = path.with_name("copy.db")
        for number in range(2):
            await database.batch(put(number))
            await database.backup(target)
        async with await ApswDatabase.open(target) as copy:
            assert await count(copy) == 2
        assert files(path) == ["copy.db", "shoal.db", "shoal.db-shm", "shoal.db-wal"]
        assert target.stat().st_mode & 0o077 == 0

    async def test_a_backup_that_fails_leaves_the_older_one(self, database: ApswDatabase, path: Path):
        folder = path.with_name("missing")
        with pytest.raises(StorageError, match=r"missing/copy\.db"):
            await database.backup(folder / "copy.db")
        target = path.with_name("copy.db")
        await database.backup(target)
        before = content(target)

        def fail(_share: float) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with closing(apsw.Connection(str(path))) as source, pytest.raises(OSError, match="No space"):
            copy(source, target, fail)
        assert content(target) == before
        assert files(path) == ["copy.db", "shoal.db", "shoal.db-shm", "shoal.db-wal"]
