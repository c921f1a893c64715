import os
import signal
from pathlib import Path

import apsw
import pytest
from tests.local.processes import Processes, free_port

from shoal.local.backend import open_backend
from shoal.local.client import request
from shoal.local.doctor import Finding, Level, examine
from shoal.local.home import DaemonRecord, Home, read_record, write_record
from shoal.local.lock import hold_daemon_lock
from shoal.local.settings import load
from shoal.schema.models import StoreRequest


async def store(home: Home, *texts: str) -> None:
    async with open_backend(load(home)) as memory:
        for text in texts:
            await memory.store(StoreRequest(content=text))


async def examined(home: Home) -> list[Finding]:
    return await examine(home, None, None, lambda _: None)


def one(findings: list[Finding], check: str) -> Finding:
    return next(finding for finding in findings if finding.check == check)


def worst(findings: list[Finding]) -> set[Level]:
    return {finding.level for finding in findings}


def change(home: Home, sql: str) -> None:
    connection = apsw.Connection(str(home.database))
    connection.execute(sql).fetchall()
    connection.close()


async def test_a_new_home_and_one_in_use_are_well(home: Home) -> None:
    assert worst(await examined(home)) == {Level.OK}
    assert not home.root.exists()
    await store(home, "one", "two")
    findings = await examined(home)
    assert worst(findings) == {Level.OK}
    assert one(findings, "indexes").details["memories"] == 2


async def test_a_damaged_database_is_found_and_the_newest_backup_named(home: Home) -> None:
    await store(home, *(f"memory {number} " + "x" * 2000 for number in range(30)))
    home.backups.mkdir()
    (home.backups / "shoal-20260301.db").touch()
    data = home.database.read_bytes()
    home.database.write_bytes(data[:8192] + os.urandom(16384) + data[24576:])
    finding = one(await examined(home), "database")
    assert finding.level is Level.ERROR
    assert f"shoal restore {home.backups / 'shoal-20260301.db'}" in finding.mend
    home.database.write_bytes(b"no database at all")
    assert one(await examined(home), "database").level is Level.ERROR


async def test_a_locked_database_is_said_to_be_locked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.local.doctor.LOCK_WAIT_MS", 50)
    await store(home, "x")
    holder = apsw.Connection(str(home.database))
    holder.pragma("locking_mode", "exclusive")
    holder.execute("begin exclusive; update meta set v = v")
    try:
        finding = one(await examined(home), "database")
    finally:
        holder.close()
    assert (finding.level, finding.details["code"]) == (Level.ERROR, "database_locked")
    assert finding.mend


@pytest.mark.parametrize(
    ("sql", "level", "told"),
    [
        ("delete from content_fts where rowid > 0", Level.ERROR, "without words"),
        ("delete from label_fts where rowid > 0", Level.ERROR, "without label"),
        ("insert into content_fts (rowid, content) values (999 * 1024, 'ghost')", Level.WARNING, "1 stray words"),
        ("insert into label_fts (rowid, type) values (999, 'ghost')", Level.WARNING, "1 stray labels"),
    ],
)
async def test_an_index_that_disagrees_with_the_memories_is_found(
    home: Home, sql: str, level: Level, told: str
) -> None:
    await store(home, "one", "two")
    change(home, sql)
    finding = one(await examined(home), "indexes")
    assert finding.level is level
    assert told in finding.message


async def test_memories_without_a_vector_are_counted_when_a_model_could_make_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(home, "one", "two")
    monkeypatch.delenv("SHOAL_MODEL")
    finding = one(await examined(home), "vectors")
    assert finding.level is Level.WARNING
    assert finding.message.startswith("2 memories")


async def test_the_model_and_the_steps_before_it_are_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SHOAL_MODEL")
    assert "multilingual-e5-small" in one(await examined(home), "model").message
    monkeypatch.setenv("SHOAL_MODEL_DIR", str(tmp_path / "nowhere"))
    finding = one(await examined(home), "model")
    assert finding.level is Level.WARNING
    assert "directory skipped" in finding.message


async def test_settings_that_cannot_be_used_are_an_error_and_odd_ones_a_warning(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_PROT", "1")
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    findings = await examined(home)
    assert Level.WARNING in worst(findings)
    assert "a-token-of-some-length" not in str([finding.as_dict() for finding in findings])
    monkeypatch.setenv("SHOAL_PORT", "x")
    finding = one(await examined(home), "settings")
    assert (finding.level, finding.details["code"]) == (Level.ERROR, "invalid_settings")


async def test_a_home_that_others_can_read_is_a_warning(home: Home) -> None:
    home.ensure()
    home.root.chmod(0o755)
    finding = one(await examined(home), "home")
    assert finding.level is Level.WARNING
    assert "chmod 700" in finding.mend


async def test_a_daemon_that_hangs_is_an_error_and_one_that_was_killed_is_not(home: Home) -> None:
    home.ensure()
    record = DaemonRecord(os.getpid(), "127.0.0.1", free_port(), "t", "0.1.0", str(home.database), "person")
    write_record(home, record)
    # The number of a killed daemon, which another program has now.
    assert one(await examined(home), "daemon").level is Level.OK
    with hold_daemon_lock(home.daemon_lock, lambda: None):
        assert one(await examined(home), "daemon").level is Level.ERROR
    write_record(home, DaemonRecord(2**22 + 1, "127.0.0.1", free_port(), "t", "0.1.0", "", "person"))
    assert one(await examined(home), "daemon").level is Level.OK


async def test_a_daemon_whose_database_has_gone_from_under_it_says_so(home: Home, processes: Processes) -> None:
    record = processes.daemon()
    request(record, "POST", "/api/v1/memories", b'{"content": "kept"}', {"content-type": "application/json"})
    process = processes.process_of(record)
    process.send_signal(signal.SIGSTOP)  # Else it may end before it is asked.
    data = home.database.read_bytes()
    home.database.unlink()
    home.database.write_bytes(data)
    process.send_signal(signal.SIGCONT)
    finding = one(await examined(home), "daemon")
    if finding.level is Level.ERROR:
        assert "moved, deleted or replaced" in finding.message
    assert process.wait(timeout=10) == 0
    assert "moved, deleted or replaced" in home.log.read_text()
    assert read_record(home) is None


async def test_a_full_disk_is_an_error(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.local.doctor.DISK_ERROR_BYTES", 2**62)
    monkeypatch.setattr("shoal.local.doctor.DISK_WARN_BYTES", 2**62)
    finding = one(await examined(home), "disk")
    assert finding.level is Level.ERROR
    assert finding.mend
