"""`make edge`: the whole edge for a person, on one command."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from tests.edge.rig.harness import ROOT


def test_a_person_starts_the_edge_uses_it_as_told_and_stops_it_with_ctrl_c(tmp_path: Path):
    persist = tmp_path / "state"
    command = [sys.executable, "-m", "tests.edge.rig", "--port", "0", "--persist", str(persist), "--hashed"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = ""
            while "MCP clients connect" not in told:
                line = process.stdout.readline()
                assert line, process.stderr and process.stderr.read()
                told += line
            url, token = following(told)
            headers = {"Authorization": f"Bearer {token}"}
            content = {"content": "The tide tables are in the blue folder."}
            assert httpx.post(f"{url}/api/v1/memories", json=content, headers=headers).status_code == 201
            found = httpx.get(f"{url}/api/v1/search", params={"query": "tide"}, headers=headers).json()
            assert len(found["results"]) == 1
            assert (persist / "token").stat().st_mode & 0o077 == 0
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert errors.rstrip().endswith("Stopped.")
    assert not running_with(persist)


def following(told: str) -> tuple[str, str]:
    """Read the address and the token as the person does who follows what is printed."""
    address = re.search(r"The edge runs at (\S+)", told)
    path = re.search(r"TOKEN=\$\(cat (\S+)\)", told)
    assert address
    assert path
    return address[1], Path(path[1]).read_text()


def running_with(folder: Path) -> list[str]:
    """The processes that have a file in the folder open."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if any(str(folder) in str(fd.readlink()) for fd in (process / "fd").iterdir()):
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
    return found
