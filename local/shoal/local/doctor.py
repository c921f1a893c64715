"""`shoal doctor`: look at everything that can be wrong, and say what to do about each thing found.

Nothing here writes, starts a daemon or loads a model, so it can be run on a damaged or locked database.
"""

import platform
import shutil
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from shoal.core import replication
from shoal.local import version
from shoal.local.client import HEALTH_TIMEOUT_S, NotSent, OutcomeUnknown, ask_health, request
from shoal.local.database import ApswDatabase
from shoal.local.embedding import choose
from shoal.local.home import DaemonRecord, Home, alive, read_record
from shoal.local.keeping import newest_backup
from shoal.local.lock import is_held
from shoal.local.runtime import clock_ms, require_whole
from shoal.local.settings import NO_MODEL, Loaded, load, masked
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.known import known_url
from shoal.schema.errors import InvalidSettings, ModelUnavailable, ShoalError, StorageError
from shoal.schema.limits import PASSAGES_MAX

DISK_WARN_BYTES: Final = 1_000_000_000
DISK_ERROR_BYTES: Final = 100_000_000
"""Below this SQLite soon can't write, and a backup can't be made."""
LOCK_WAIT_MS: Final = 1_000
"""A lock that lasts longer is what the person wants to hear of."""

_COUNTS: Final = {
    "memories": "select count(*) from record where class = 'memory' and init is not null",
    "without_words": f"""select count(*) from record r where r.class = 'memory' and r.init is not null
      and not exists (select 1 from content_fts_docsize d
        where d.id between r.rid * {PASSAGES_MAX} and r.rid * {PASSAGES_MAX} + {PASSAGES_MAX - 1})""",
    "stray_words": f"""select count(*) from content_fts_docsize d where not exists (
      select 1 from record r where r.rid = d.id / {PASSAGES_MAX} and r.init is not null)""",
    "without_label": """select count(*) from record r where r.class = 'memory' and r.init is not null
      and not exists (select 1 from label_fts_docsize d where d.id = r.rid)""",
    "stray_labels": """select count(*) from label_fts_docsize d where not exists (
      select 1 from record r where r.rid = d.id and r.init is not null)""",
}
_VECTOR_COUNTS: Final = {
    "wanting_a_vector": "select count(*) from record where want > 0",
    "without_vector": f"""select count(*) from record r where r.class = 'memory' and r.init is not null
      and r.state in (1, 2) and r.want <= 0 and not exists (
        select 1 from vector v where v.key between r.rid * {PASSAGES_MAX}
          and r.rid * {PASSAGES_MAX} + {PASSAGES_MAX - 1}
          and v.model = (select id from vector_model where fingerprint = ?1))""",
    "stray_vectors": f"""select count(*) from vector v where not exists (
      select 1 from record r where r.rid = v.key / {PASSAGES_MAX} and r.init is not null)""",
}
_LOSSES: Final = ("without_words", "without_label")
_STRAYS: Final = ("stray_words", "stray_labels", "stray_vectors")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    check: str
    message: str
    mend: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return asdict(self)


async def examine(
    home: Home, config: Path | None, database: Path | None, progress: Callable[[float], None]
) -> list[Finding]:
    """Look at everything; `progress` hears how much of it is done, 0..1."""
    findings = [_versions(), *_home(home)]
    try:
        loaded = load(home, config, {"db": database})
    except InvalidSettings as error:
        return [*findings, _of(error, "settings")]
    findings += _settings(loaded)
    findings += [_disk(loaded), _daemon(home)]
    progress(0.1)
    findings += await _database(loaded)
    progress(0.9)
    findings.append(_model(loaded))
    progress(1.0)
    return findings


def _of(error: ShoalError, check: str) -> Finding:
    return Finding(Level.ERROR, check, error.message, error.mend, {"code": error.code})


def _versions() -> Finding:
    import apsw

    found = {
        "shoal": version.installed(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "system": platform.platform(),
    }
    return Finding(Level.OK, "versions", ", ".join(f"{name} {value}" for name, value in found.items()), "", found)


def _home(home: Home) -> list[Finding]:
    if not home.root.is_dir():
        return [Finding(Level.OK, "home", f"{home.root} will be made at the first use.")]
    mode = stat.S_IMODE(home.root.stat().st_mode)
    if mode & 0o077 and platform.system() != "Windows":
        return [
            Finding(
                Level.WARNING,
                "home",
                f"{home.root} can be read by other users (mode {mode:o}).",
                f"Run: chmod 700 {home.root}",
            )
        ]
    return [Finding(Level.OK, "home", str(home.root))]


def _settings(loaded: Loaded) -> list[Finding]:
    values = masked(loaded.settings)
    changed = ", ".join(f"{name} = {values[name]}" for name in sorted(loaded.settings.model_fields_set))
    source = f"from {loaded.config}" if loaded.config else "no settings file"
    found = [Finding(Level.OK, "settings", f"{source}; set: {changed or 'nothing'}", "", values)]
    found += [
        Finding(Level.WARNING, "settings", text, "Remove it or correct its name; docs/settings.md lists all settings.")
        for text in loaded.warnings
    ]
    return found


def _disk(loaded: Loaded) -> Finding:
    folder = loaded.database.parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    level = Level.ERROR if free < DISK_ERROR_BYTES else Level.WARNING if free < DISK_WARN_BYTES else Level.OK
    mend = "" if level is Level.OK else "Free some space, or move the database with SHOAL_DB."
    return Finding(level, "disk", f"{free / 1e9:.1f} GB free at {folder}", mend, {"free_bytes": free})


def _daemon(home: Home) -> Finding:
    record = read_record(home)
    if record is None:
        return Finding(Level.OK, "daemon", "none runs; the next client starts one")
    health = ask_health(record)
    if health is not None:
        mine = version.installed()
        if health.version != mine:
            return Finding(
                Level.WARNING,
                "daemon",
                f"{record.url} is shoal {health.version}, this is {mine}.",
                "Restart the daemon.",
            )
        if (trouble := _trouble(record)) is not None:
            return trouble
        message = f"{record.url}, process {record.pid}, started by a {health.started_by}, serves {health.database}"
        return Finding(Level.OK, "daemon", message, "", {"url": record.url, "pid": record.pid})
    # Another program may have got the number of a daemon that was killed: nobody must be told to end that one.
    if alive(record.pid) and is_held(home.daemon_lock):
        return Finding(
            Level.ERROR,
            "daemon",
            f"process {record.pid} should serve {record.url} but does not answer.",
            f"Look into {home.log}; end the process if it hangs (kill {record.pid}).",
        )
    return Finding(Level.OK, "daemon", "none runs; the last one was killed, and the next client starts another")


def _trouble(record: DaemonRecord) -> Finding | None:
    """Return what keeps the daemon from serving: it may have met more than a look at the file finds."""
    try:
        reply = request(record, "GET", "/healthz", timeout_s=HEALTH_TIMEOUT_S)
        if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        said = reply.json()["error"]
        return Finding(Level.ERROR, "daemon", f"{record.url} says: {said['message']}", said["mend"])
    except (NotSent, OutcomeUnknown, ValueError, KeyError, TypeError) as error:
        return Finding(Level.ERROR, "daemon", f"{record.url} can't tell how it is: {error}", "Restart the daemon.")


async def _database(loaded: Loaded) -> list[Finding]:
    path = loaded.database
    try:
        require_whole(path)
    except StorageError as error:
        return [_of(error, "database")]
    if not path.exists():
        log = path.with_name(path.name + "-wal")
        if not log.exists():
            return [_absent(loaded)]
    try:
        async with await ApswDatabase.open(path, read_only=True, busy_timeout_ms=LOCK_WAIT_MS) as database:
            problems = await database.check(quick=False)
            if problems:
                return [_corrupt(loaded, "; ".join(problems[:3]))]
            found = [Finding(Level.OK, "database", f"{path}, {path.stat().st_size / 1e6:.1f} MB, checked")]
            return found + await _indexes(loaded, database) + await _sync(loaded, database)
    except StorageError as error:
        finding = _of(error, "database")
        if error.code == "database_corrupt":
            return [_corrupt(loaded, error.message)]
        return [finding]


def _absent(loaded: Loaded) -> Finding:
    url = _linked_url(loaded)
    if url is None:
        return Finding(Level.OK, "database", f"{loaded.database} will be made at the first use.")
    return Finding(
        Level.WARNING,
        "database",
        f"{loaded.database} is missing, though it was linked to {url}.",
        "The next daemon makes a new one, which gets what the edge has; at once: shoal restore --from-edge",
    )


def _linked_url(loaded: Loaded) -> str | None:
    return known_url(SyncFiles.of(loaded.home, loaded.database))


def _corrupt(loaded: Loaded, reason: str) -> Finding:
    newest, url = newest_backup(loaded.home.backups), _linked_url(loaded)
    ways = [f"shoal restore {newest}"] if newest is not None else []
    if url is not None:
        ways.append(f"shoal restore --from-edge, which brings back what {url} has")
    mend = f"Stop the daemon and run: {'; or: '.join(ways) or 'shoal restore FILE'}"
    if newest is None and url is None:
        mend += f" (there is no backup in {loaded.home.backups})"
    return Finding(Level.ERROR, "database", f"{loaded.database} is damaged: {reason}", f"{mend}. The file is kept.")


async def _indexes(loaded: Loaded, database: ApswDatabase) -> list[Finding]:
    tables = {row["name"] for row in await database.query("select name from sqlite_schema")}
    if not tables:
        return [Finding(Level.OK, "indexes", "the database is empty")]
    if "record" not in tables:
        mend = "Set SHOAL_DB to a file that shoal may make its own."
        return [Finding(Level.ERROR, "database", "this is another program's database", mend)]
    counts = {name: await _count(database, sql) for name, sql in _COUNTS.items()}
    fingerprint = _fingerprint(loaded)
    if fingerprint is not None:
        counts["wanting_a_vector"] = await _count(database, _VECTOR_COUNTS["wanting_a_vector"])
    if "vector" in tables:
        if fingerprint is not None:
            counts["without_vector"] = await _count(database, _VECTOR_COUNTS["without_vector"], fingerprint)
        counts["stray_vectors"] = await _count(database, _VECTOR_COUNTS["stray_vectors"])
    return _judge(counts)


def _judge(counts: dict[str, int]) -> list[Finding]:
    losses = {name: counts[name] for name in _LOSSES if counts.get(name)}
    strays = {name: counts[name] for name in _STRAYS if counts.get(name)}
    found: list[Finding] = []
    if losses:
        text = ", ".join(f"{count} memories {name.replace('_', ' ')}" for name, count in losses.items())
        mend = "Restore a backup, or store those memories again; please report this."
        found.append(Finding(Level.ERROR, "indexes", text, mend, counts))
    if strays:
        text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in strays.items())
        mend = "They are found by no search. Please report this."
        found.append(Finding(Level.WARNING, "indexes", text, mend, counts))
    waiting = counts.get("wanting_a_vector", 0) + counts.get("without_vector", 0)
    if waiting:
        text = f"{waiting} memories have no vector yet and are found by their words only"
        found.append(Finding(Level.WARNING, "vectors", text, "A running daemon makes them: shoal serve", counts))
    if not losses and not strays:
        found.insert(0, Finding(Level.OK, "indexes", f"{counts['memories']} memories, words agree", "", counts))
    return found


async def _sync(loaded: Loaded, database: ApswDatabase) -> list[Finding]:
    """Return how replication stands; nothing for a database that knows none yet."""
    if not await database.query("select 1 from sqlite_schema where name = 'sync_refused'"):
        return []
    now, url = clock_ms(), _linked_url(loaded)
    info = await replication.info(database, now)
    if not info.linked:
        if url is None:
            return [Finding(Level.OK, "sync", "linked to no edge")]
        message = f"this database is not linked, but was to {url}"
        mend = f"Run: shoal link {url}; if memories are missing: shoal restore --from-edge"
        return [Finding(Level.WARNING, "sync", message, mend)]
    details = info.model_dump(mode="json")
    found = [
        Finding(Level.WARNING, "sync", note.message, "`shoal status` says more.", details)
        for note in replication.troubles(info, now)
    ]
    if found:
        return found
    message = f"{info.url}, last exchange {info.last_success or 'still to come'}, {info.queue} changes wait"
    return [Finding(Level.OK, "sync", message, "", details)]


async def _count(database: ApswDatabase, sql: str, *params: str) -> int:
    row = (await database.query(sql, params))[0]
    return int(next(iter(row.values())) or 0)


def _model(loaded: Loaded) -> Finding:
    settings = loaded.settings
    if settings.model == NO_MODEL:
        return Finding(Level.OK, "model", "turned off by the setting `model`; searches use words only")
    try:
        choice = choose(settings.model, settings.model_dir, loaded.home.models)
    except ModelUnavailable as error:
        return Finding(Level.WARNING, "model", f"{error.message} Searches use words only.", error.mend, error.details)
    skipped = "; ".join(f"{step.source.value} skipped: {step.reason}" for step in choice.skipped)
    details = {"model": choice.descriptor.name, "source": choice.source.value, "path": str(choice.path)}
    text = f"{choice.descriptor.name} ({choice.descriptor.dim} dimensions) from {choice.source.value}, {choice.path}"
    return Finding(Level.WARNING if skipped else Level.OK, "model", f"{text}; {skipped}".rstrip("; "), "", details)


def _fingerprint(loaded: Loaded) -> str | None:
    from shoal.local.embedding import open_embedder

    if loaded.settings.model == NO_MODEL:
        return None
    try:
        embedder = open_embedder(loaded.settings.model, loaded.settings.model_dir, loaded.home.models)
    except ModelUnavailable:
        return None
    try:
        return embedder.fingerprint
    finally:
        embedder.close()
