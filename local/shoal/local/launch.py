"""Find the daemon or start one: exactly one, however many clients ask at once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from shoal.local import version
from shoal.local.aliases import setting_from_environment
from shoal.local.client import POLL_S, find_daemon, stop_daemon
from shoal.local.home import DaemonRecord, Home, private
from shoal.schema.errors import DaemonError, DaemonRunning, DaemonUnreachable

START_TIMEOUT_S: Final = 20.0
"""How long a daemon may take to become healthy; it needs about one second, a cold disk may need ten."""
REASON_MAX_CHARS: Final = 2_000
"""How much of a failed daemon's last words goes into the error."""


class Launcher:
    """Keeps one client connected to this home's daemon. Thread-safe: callers hold `lock` of their own."""

    def __init__(self, home: Home, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._home = home
        self._environ = environ
        self._warn = warn
        self._child: subprocess.Popen[bytes] | None = None

    def daemon(self) -> DaemonRecord:
        """Return a healthy daemon's note; start or replace the daemon where needed. Raises DaemonError."""
        record = find_daemon(self._home)
        if record is None or self._replaceable(record):
            record = self._start()
        self._check_database(record)
        return record

    def _replaceable(self, record: DaemonRecord) -> bool:
        """Whether the daemon is of an older version and was started by a shim, so that nobody misses it."""
        mine = version.installed()
        if not version.older(record.version, mine):
            return False
        if record.started_by == "shim":
            return True
        self._warn(
            f"The daemon at {record.url} is shoal {record.version}, this is {mine}."
            " It was started by a person, so it stays; restart it to use the new version."
        )
        return False

    def _check_database(self, record: DaemonRecord) -> None:
        wanted = setting_from_environment("db", self._environ)
        if wanted and Path(wanted).expanduser().absolute() != Path(record.database):
            raise DaemonRunning(
                f"The daemon of this home serves {record.database}, not {wanted}.",
                "Give the other database its own SHOAL_HOME, or stop the daemon first.",
                url=record.url,
            )

    def _start(self) -> DaemonRecord:
        from shoal.local.lock import hold_start_lock

        self._home.ensure()
        with hold_start_lock(self._home.start_lock, START_TIMEOUT_S):
            record = find_daemon(self._home)
            if record is not None:
                if not self._replaceable(record):
                    return record
                stop_daemon(self._home, record)
            return self._spawn()

    def _spawn(self) -> DaemonRecord:
        if self._child is not None:
            self._child.poll()
        with open(self._home.start_log, "wb", opener=private) as log:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "shoal.local.cli", "serve", "--started-by", "shim"],
                cwd=self._home.root,
                env={**self._environ, "SHOAL_HOME": str(self._home.root)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=os.name != "nt",
                creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
            )
        return self._wait_until_healthy(self._child)

    def _wait_until_healthy(self, child: subprocess.Popen[bytes]) -> DaemonRecord:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            record = find_daemon(self._home)
            if record is not None:
                return record
            if child.poll() is not None:
                return self._after_early_end(child)
            time.sleep(POLL_S)
        child.terminate()
        raise DaemonUnreachable(
            f"A daemon was started but not healthy within {START_TIMEOUT_S:.0f} s.",
            f"Run `shoal doctor`; its log is {self._home.log}.",
        )

    def _after_early_end(self, child: subprocess.Popen[bytes]) -> DaemonRecord:
        """Return the daemon that a person started at the same moment, or say why ours ended."""
        record = find_daemon(self._home)
        if record is not None:
            return record
        words = self._home.start_log.read_text(encoding="utf-8", errors="replace").strip()[-REASON_MAX_CHARS:]
        raise DaemonError(
            f"No daemon could be started (exit code {child.returncode}): {words or 'it said nothing'}",
            "Run `shoal doctor`, which says what is wrong and what to do.",
        )
