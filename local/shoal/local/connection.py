"""One SQLite connection as every part of the laptop opens it, and the check of a file at its opening."""

import importlib.util
import os
import time
from pathlib import Path
from typing import Any, Final

import apsw

from shoal.core.protocols import Row, SqlValue
from shoal.local.translate import corrupt, read_only

BUSY_TIMEOUT_MS: Final = 5_000
"""How long a connection waits for another process's lock. A group of writes holds it for milliseconds."""
CACHE_KIB: Final = 4_096
"""Page cache of one connection. The operating system caches the file as well; this one counts as our memory."""
STATEMENT_CACHE: Final = 200
WAL_KEPT_BYTES: Final = 16 * 1024 * 1024
"""The write-ahead log is cut to this when it starts again after a burst."""
CHECK_MAX_BYTES: Final = 32 * 1024 * 1024
"""Greatest file that opening checks page by page (about 0.1 s); `check` does it for any size."""

_HEADER: Final = b"SQLite format 3\0"
_WAL_RETRY_S: Final = 0.01


def _vec_path() -> str:
    """Return sqlite-vec's library without importing the package, which imports numpy (.13 s, 20 MB)."""
    package = importlib.util.find_spec("sqlite_vec")
    if package is None or not package.submodule_search_locations:
        raise ImportError("sqlite-vec is not installed")
    return str(Path(package.submodule_search_locations[0]) / "vec0")


def connect(path: Path, *, writes: bool, busy_timeout_ms: int) -> apsw.Connection:
    """Open a connection with sqlite-vec and our settings. Raises apsw.Error; blocks."""
    flags = apsw.SQLITE_OPEN_READWRITE if writes else apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(str(path), flags, statementcachesize=STATEMENT_CACHE)
    try:
        # First of all: each following line may meet another process's lock.
        connection.set_busy_timeout(busy_timeout_ms)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.enable_load_extension(True)
        connection.load_extension(_vec_path())
        connection.enable_load_extension(False)
        # No memory map: its pages count as ours, and an I/O error in one kills the process.
        for setting in ("mmap_size=0", f"cache_size=-{CACHE_KIB}", "temp_store=memory", "synchronous=full"):
            connection.pragma(*setting.split("="))
        # Deleted content is overwritten, not only unlinked.
        connection.pragma("secure_delete", "on")
    except BaseException:
        connection.close()
        raise
    return connection


def open_checked(path: Path, *, writes: bool, busy_timeout_ms: int) -> apsw.Connection:
    """Open the file, made when absent and `writes`, find out whether it is sound, and turn on the WAL.

    Always checked: the header, the length that the header states, and that the schema can be read. Page by page
    only a file of at most CHECK_MAX_BYTES beside which a write-ahead log lies: after a clean end there is none,
    so a crash (or another process at work) came before. Reading damaged pages later raises DatabaseCorrupt too.

    Raises DatabaseCorrupt, having written nothing; other failures as apsw.Error; blocks.
    """
    log = path.with_name(path.name + "-wal")
    logged = log.exists() and log.stat().st_size > 0
    _check_header(path, logged)
    if writes and not path.exists():
        # Memories are private; SQLite gives its two other files the same rights.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        connection = connect(path, writes=writes, busy_timeout_ms=busy_timeout_ms)
    except apsw.CantOpenError:
        if path.exists() and not os.access(path.parent, os.W_OK):
            raise read_only(path) from None
        raise
    try:
        _settle(connection, path, logged, writes, busy_timeout_ms)
    except BaseException:
        connection.close()
        raise
    return connection


def problems(connection: apsw.Connection, *, quick: bool, limit: int = 100) -> list[str]:
    """Return what SQLite's check finds, at most `limit` lines; empty for a sound file."""
    name = "quick_check" if quick else "integrity_check"
    try:
        lines = [str(line) for (line,) in connection.execute(f"pragma {name}({limit})")]
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    return [] if lines == ["ok"] else lines


def run(connection: apsw.Connection, sql: str, params: tuple[SqlValue, ...]) -> list[Row]:
    """Run one statement and return its rows as dicts."""
    cursor: Any = connection.execute(sql, params)
    first = next(cursor, None)
    if first is None:
        return []
    # Read only now: a statement without rows has no description.
    names = [column[0] for column in cursor.get_description()]
    rows: list[Row] = [dict(zip(names, first, strict=True))]
    rows.extend(dict(zip(names, row, strict=True)) for row in cursor)
    return rows


def _settle(connection: apsw.Connection, path: Path, logged: bool, writes: bool, busy_timeout_ms: int) -> None:
    # Closing a damaged file must not write its log into it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute("select count(*) from sqlite_schema").fetchall()
    if logged and path.stat().st_size <= CHECK_MAX_BYTES:
        findings = problems(connection, quick=True, limit=1)
        if findings:
            raise corrupt(path, findings[0])
    if writes:
        _turn_on_wal(connection, busy_timeout_ms)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def _check_header(path: Path, logged: bool) -> None:
    if not path.exists() or path.stat().st_size == 0:
        if logged:
            # SQLite would take this for a new database and delete the log, the last copy of the writes in it.
            raise corrupt(path, "the file is missing or empty, but its write-ahead log is there")
        return
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise corrupt(path, "it has no SQLite header")


def _turn_on_wal(connection: apsw.Connection, busy_timeout_ms: int) -> None:
    # When several processes make one file, SQLite doesn't wait for this lock: it fails at once.
    deadline = time.monotonic() + busy_timeout_ms / 1000
    while True:
        try:
            connection.pragma("journal_mode", "wal")
            break
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_WAL_RETRY_S)
    connection.pragma("journal_size_limit", WAL_KEPT_BYTES)
