"""SHOAL_HOME: where the files lie, and the note in which a daemon says how to reach it.

Imported by the stdio shim at every start, so nothing heavy is imported here.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, Self

import platformdirs

from shoal.schema.errors import DatabaseReadOnly, InvalidSettings

PRIVATE_DIR: Final = 0o700
PRIVATE_FILE: Final = 0o600
NAME_SHOWN_CHARS: Final = 100
"""How much of a folder's name an error repeats."""

StartedBy = Literal["person", "shim"]


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one shoal: settings, database, models, logs, and what the processes tell each other."""

    root: Path

    @classmethod
    def locate(cls, environ: Mapping[str, str]) -> Self:
        """Return the home that SHOAL_HOME names, or the user's data folder of the platform.

        Raises InvalidSettings for what can't be the name of a folder.
        """
        named = environ.get("SHOAL_HOME")
        try:
            root = Path(named).expanduser() if named else Path(platformdirs.user_data_dir("shoal", appauthor=False))
            str(root).encode()  # SQLite knows only names in UTF-8.
            root.is_dir()
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidSettings(
                f"SHOAL_HOME can't be {str(named)[:NAME_SHOWN_CHARS]!a}: {reason}.", "Set it to a folder of yours."
            ) from error
        return cls(root.absolute())

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.root / "shoal.toml"

    @property
    def database(self) -> Path:
        """The database, unless the settings name another."""
        return self.root / "shoal.db"

    @property
    def models(self) -> Path:
        """Weights that were downloaded or converted."""
        return self.root / "models"

    @property
    def backups(self) -> Path:
        """Where `shoal backup` writes when no file is named."""
        return self.root / "backups"

    @property
    def log(self) -> Path:
        """The daemon's log; older parts lie beside it with a number."""
        return self.root / "logs" / "daemon.log"

    @property
    def start_log(self) -> Path:
        """What a daemon that a shim started wrote to stderr before it had a log."""
        return self.root / "logs" / "start.log"

    @property
    def record(self) -> Path:
        """The note of the running daemon."""
        return self.root / "run" / "daemon.json"

    @property
    def daemon_lock(self) -> Path:
        """Held by the daemon for as long as it lives; the system frees it however the daemon ends."""
        return self.root / "run" / "daemon.lock"

    @property
    def start_lock(self) -> Path:
        """Held by whoever is starting a daemon, so that ten clients start one."""
        return self.root / "run" / "start.lock"

    def ensure(self) -> None:
        """Make the folders, readable by their owner only. Raises DatabaseReadOnly."""
        try:
            for folder in (self.root, self.record.parent, self.log.parent):
                folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseReadOnly(
                f"The folder {self.root} can't be made: {error.strerror or error}.",
                "Set SHOAL_HOME to a folder that you may write.",
            ) from error


@dataclass(frozen=True, slots=True)
class DaemonRecord:
    """How to reach the running daemon. The token is new at each start."""

    pid: int
    host: str
    port: int
    token: str
    version: str
    database: str
    started_by: StartedBy

    @property
    def url(self) -> str:
        """The address of the daemon's root."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: an `opener` for `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def write_record(home: Home, record: DaemonRecord) -> None:
    """Write daemon.json in one step, readable by its owner only. The caller holds the daemon's lock."""
    draft = home.record.with_name(f".daemon-{record.pid}.json")
    try:
        with open(draft, "w", encoding="utf-8", opener=private) as file:
            json.dump(asdict(record), file)
        draft.replace(home.record)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read_record(home: Home) -> DaemonRecord | None:
    """Return what daemon.json says, or None when there is none or it can't be understood."""
    try:
        found = json.loads(home.record.read_text(encoding="utf-8"))
        return DaemonRecord(
            pid=int(found["pid"]),
            host=str(found["host"]),
            port=int(found["port"]),
            token=str(found["token"]),
            version=str(found["version"]),
            database=str(found["database"]),
            started_by="shim" if found["started_by"] == "shim" else "person",
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_record(home: Home, pid: int) -> None:
    """Remove daemon.json if it is still this process's."""
    record = read_record(home)
    if record is not None and record.pid == pid:
        with contextlib.suppress(OSError):
            home.record.unlink()


def alive(pid: int) -> bool:
    """Whether a process of this id exists. On Windows always True: there only its port can tell."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
