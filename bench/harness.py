"""What the benchmarks share: a daemon of their own, a bare HTTP client, percentiles, a table, a JSON file."""

import http.client
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.table import Table

SHOAL: Final = str(Path(sys.executable).with_name("shoal"))
HEALTHY_WITHIN_S: Final = 30.0
STOPPED_WITHIN_S: Final = 20.0
PRINTED_COLUMNS: Final = 140
"""Of a table that goes into a file."""
_POLL_S: Final = 0.01


class Client:
    """HTTP to a server of ours over one connection that stays open; bare, so that the server is what is timed."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer's JSON. Raises RuntimeError for a status of 400 or more."""
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        self._connection.request(method, path, payload, self._headers)
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:500]!r}")
        return json.loads(text)

    def rest(self) -> None:
        """Close the connection; the next call opens another. Servers close one that is idle for some seconds."""
        self._connection.close()


class Daemon:
    """`shoal serve` with a home of its own, ended with the block."""

    def __init__(self, home: Path | None = None) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if home is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="shoal-bench-")
            home = Path(self._temporary.name)
        self.home = home
        self.port = free_port()
        self.healthy_s = 0.0

    def __enter__(self) -> Self:
        # A terminated benchmark leaves its blocks, and so its daemon, in order.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [SHOAL, "serve", "--port", str(self.port)],
            env={**os.environ, "SHOAL_HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not self._healthy():
            if self._process.poll() is not None or time.perf_counter() - began > HEALTHY_WITHIN_S:
                raise RuntimeError(f"shoal serve did not become healthy; see {self.home / 'logs'}")
            time.sleep(_POLL_S)
        self.healthy_s = time.perf_counter() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self._process.pid

    def client(self) -> Client:
        """Return a new connection."""
        return Client(self.port)

    def _healthy(self) -> bool:
        with suppress(OSError, RuntimeError, http.client.HTTPException):
            return bool(self.client().call("GET", "/healthz"))
        return False

    def rss_mb(self) -> float:
        """Return the process's resident memory, from /proc."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmRSS in /proc")


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_vectors(client: Client, progress: Console) -> None:
    """Return once every memory has its vectors."""
    with progress.status("embedding") as status:
        while pending := client.call("GET", "/healthz")["pending"]:
            status.update(f"embedding: {pending} left")
            time.sleep(1)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return {p50_ms, p95_ms}."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"p50_ms": round(statistics.median(seconds) * 1000, 2), "p95_ms": round(cuts[18] * 1000, 2)}


def machine() -> str:
    """Return what the figures were taken on, in one line."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {model}, {platform.system()} {platform.release()},"
        f" Python {platform.python_version()}, load {load:.1f} at the start"
    )


def report(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table under the machine's name."""
    console = Console()
    if not console.is_terminal:
        console.width = PRINTED_COLUMNS
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


def write_json(path: Path | None, data: Mapping[str, Any]) -> None:
    """Write the figures where the caller wants them."""
    if path is not None:
        path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
