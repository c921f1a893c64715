"""The second half of `make run`: a local edge, linked to the daemon, and one memory that crosses each way."""

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console

from bench.harness import SHOAL, Client

PORT: Final = 8378
START_S: Final = 120.0
SEEN_WITHIN_S: Final = 60.0
STOP_S: Final = 20.0
TOKEN_NAME: Final = "make run"
_POLL_S: Final = 0.05
_RUNS_AT: Final = re.compile(r"The edge runs at (http://127\.0\.0\.1:(\d+)) ")


class NoEdge(Exception):
    """The edge can't run here, and why."""


@contextmanager
def edge_beside(home: Path, console: Console) -> Iterator[str]:
    """Run the Worker beside the daemon for as long as the block, and give its URL. Raises NoEdge."""
    command = [sys.executable, "-m", "tests.edge.rig", "--port", str(PORT if _is_free(PORT) else 0)]
    with console.status("starting an edge on this machine"), _log(home).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, env={**os.environ, "SHOAL_HOME": str(home)}, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            url = _url(process)
        except NoEdge as error:
            _end(process)
            said = _log(home).read_text(encoding="utf-8").strip().splitlines()
            raise NoEdge(said[-1] if said else str(error)) from error
    try:
        yield url
    finally:
        _end(process)


def cross(home: Path, url: str, daemon: Client, console: Console) -> None:
    """Link the daemon to the edge, let one memory go each way, and say how long that took."""
    owner = Client(int(url.rpartition(":")[2]), (home / "edge" / "owner-key").read_text(encoding="utf-8").strip())
    for known in owner.call("GET", "/api/v1/admin/tokens")["tokens"]:
        if known["name"] == TOKEN_NAME:
            owner.call("DELETE", f"/api/v1/admin/tokens/{known['id']}")
    asked = {"name": TOKEN_NAME, "device": socket.gethostname(), "spaces": {"*": ["read", "write", "admin"]}}
    token: str = owner.call("POST", "/api/v1/admin/tokens", {**asked, "sync": True})["token"]
    linking = [SHOAL, "--home", str(home), "link", url, "--token-stdin", "--json"]
    subprocess.run(linking, input=token, text=True, check=True, stdout=subprocess.DEVNULL)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    up = _seen_after_s(daemon, owner, f"Written on the laptop at {now}.")
    down = _seen_after_s(owner, daemon, f"Written at the edge at {now}.")
    console.print(
        f"Linked with an edge at {url}, the real Worker on this machine: a memory stored on the laptop was found there"
        f" after {up:.1f} s, one stored there was found on the laptop after {down:.1f} s."
    )


def _seen_after_s(writer: Client, finder: Client, content: str) -> float:
    stored: str = writer.call("POST", "/api/v1/memories", {"content": content})["id"]
    began = time.perf_counter()
    while stored not in {one["id"] for one in finder.call("POST", "/api/v1/search", {"query": content})["results"]}:
        if time.perf_counter() - began > SEEN_WITHIN_S:
            raise RuntimeError(f"{content!r} was not seen on the other side within {SEEN_WITHIN_S:.0f} s")
        time.sleep(_POLL_S)
    return time.perf_counter() - began


def _url(process: subprocess.Popen[str]) -> str:
    """Return where the edge serves, once it says so; what it says goes on being read, so that it never waits."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    deadline = time.monotonic() + START_S
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise NoEdge(f"it did not start within {START_S:.0f} s") from None
        if line is None:
            raise NoEdge("it ended at once")
        if found := _RUNS_AT.search(line):
            return found[1]


def _read(stream: IO[Any] | None, lines: "queue.Queue[str | None]") -> None:
    for line in stream or ():
        lines.put(line)
    lines.put(None)


def _log(home: Path) -> Path:
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "edge.log"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
