"""Starts `shoal` as people and clients do, and finds what is left of it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from shoal.local.client import find_daemon
from shoal.local.home import DaemonRecord, Home, alive, read_record

WAIT_S = 20.0


def eventually(condition: Callable[[], object], what: str, within_s: float = WAIT_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.02)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_of(home: Home) -> set[int]:
    """Return the processes whose environment names the home: whoever started them."""
    mark = f"SHOAL_HOME={home.root}".encode()
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


class Processes:
    """Starts `shoal` as people and clients do."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command with pipes."""
        process = subprocess.Popen(
            [sys.executable, "-m", "shoal.local.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self._started.append(process)
        return process

    def daemon(self, port: int | None = None, /, **environment: str) -> DaemonRecord:
        """Start a daemon, on a free port if none is named, and wait until it answers."""
        process = self.start("serve", "--port", str(port or free_port()), **environment)
        eventually(lambda: find_daemon(self.home) or process.poll() is not None, "a daemon that answers")
        assert process.poll() is None, process.communicate()[1].decode()
        record = read_record(self.home)
        assert record is not None
        return record

    def process_of(self, record: DaemonRecord) -> subprocess.Popen[bytes]:
        """Return the process that `daemon` has started."""
        return next(process for process in self._started if process.pid == record.pid)

    def end(self) -> None:
        """End everything, also what the processes have started themselves."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in processes_of(self.home):
            os.kill(pid, signal.SIGKILL)
            eventually(lambda pid=pid: pid not in processes_of(self.home) or not alive(pid), "the end of a process")
