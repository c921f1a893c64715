"""What shoal costs a laptop: time to start, memory, bytes on disk.

python -m bench.footprint --json OUT
"""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from bench.corpus import notes
from bench.harness import SHOAL, STOPPED_WITHIN_S, Daemon, machine, report, wait_for_vectors, write_json
from bench.latency import plant

RUNS: Final = 5
"""Starts, of which the median counts."""
SETTLE_S: Final = 5.0
"""After the start the daemon loads in the background what requests will need; after writes it writes its log back
into the database, which is what is measured (the log itself is cut at 16 MB, however many memories there are)."""
MEMORIES: Final = 10_000
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def stdio_initialize_s(home: Path) -> float:
    """Return the seconds from starting `shoal mcp` to its answer to initialize."""
    began = time.perf_counter()
    with subprocess.Popen(
        [SHOAL, "mcp"],
        env={**os.environ, "SHOAL_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as shim:
        assert shim.stdin is not None and shim.stdout is not None
        shim.stdin.write(json.dumps(_INITIALIZE).encode() + b"\n")
        shim.stdin.flush()
        answer = json.loads(shim.stdout.readline())
        took = time.perf_counter() - began
        shim.stdin.close()
        shim.wait(STOPPED_WITHIN_S)
    if "result" not in answer:
        raise RuntimeError(f"initialize failed: {answer}")
    return took


def cold_s() -> float:
    """Return the seconds of an initialize that has to start the daemon, which is ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        home = Path(folder)
        took = stdio_initialize_s(home)
        pid = json.loads((home / "run" / "daemon.json").read_text())["pid"]
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return took


def installed_mb() -> float:
    """Return the size of an environment with shoal and nothing else, made by uv for the purpose."""
    uv = Path(".tools/bin/uv").resolve()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": folder, "UV_LINK_MODE": "copy"}
        subprocess.run([uv, "sync", "--frozen", "--quiet", "--no-dev", "--no-editable"], env=environment, check=True)
        return sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file() and not f.is_symlink()) / 2**20


def measure() -> dict[str, float]:
    """Return all figures."""
    console = Console(stderr=True)
    figures: dict[str, Any] = {}
    healthy: list[float] = []
    for _ in range(RUNS):
        with Daemon() as daemon:
            healthy.append(daemon.healthy_s)
    figures["serve_healthy_s"] = statistics.median(healthy)
    with Daemon() as daemon:
        time.sleep(SETTLE_S)
        figures["rss_idle_mb"] = daemon.rss_mb()
        figures["stdio_init_warm_s"] = statistics.median(stdio_initialize_s(daemon.home) for _ in range(RUNS))
        client = daemon.client()
        client.call("POST", "/api/v1/memories", {"content": "The first memory needs the model."})
        wait_for_vectors(client, console)
        client.call("POST", "/api/v1/search", {"query": "what needs the model?"})
        figures["rss_model_mb"] = daemon.rss_mb()
        plant(client, list(notes(MEMORIES)))
        wait_for_vectors(client, console)
        client.call("POST", "/api/v1/search", {"query": "which build failed?"})
        figures["rss_10k_mb"] = daemon.rss_mb()
        home = daemon.home
        time.sleep(SETTLE_S)
        figures["db_bytes_per_memory"] = (home / "shoal.db").stat().st_size / MEMORIES
    figures["stdio_init_cold_s"] = statistics.median(cold_s() for _ in range(RUNS))
    figures["install_mb"] = installed_mb()
    return {name: round(value, 2) for name, value in figures.items()}


@click.command(help=__doc__)
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the figures.")
def main(out: Path | None) -> None:
    """Run the benchmark."""
    where = machine()
    figures = measure()
    report(where, ["what", "figure"], list(figures.items()))
    write_json(out, {"machine": where, **figures})


if __name__ == "__main__":
    main()
