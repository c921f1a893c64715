"""`make edge`: the whole edge for a person, on one command."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from tests.edge.doubles.standin import Standin
from tests.edge.rig.__main__ import firing_crons, is_due, triggers
from tests.edge.rig.harness import ROOT
from tests.edge.rig.rig import Rig, RigError


def test_a_person_starts_the_edge_uses_it_as_told_and_stops_it_with_ctrl_c(tmp_path: Path):
    persist = tmp_path / "state"
    persist.mkdir()
    (persist / "token").write_text("of an older version")
    command = [sys.executable, "-m", "tests.edge.rig", "--port", "0", "--persist", str(persist), "--hashed"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = ""
            while "Apps that you have let in" not in told:
                line = process.stdout.readline()
                assert line, process.stderr and process.stderr.read()
                told += line
            url, key = following(told)
            headers = {"Authorization": f"Bearer {key}"}
            content = {"content": "The tide tables are in the blue folder."}
            assert httpx.post(f"{url}/api/v1/memories", json=content, headers=headers).status_code == 201
            found = httpx.get(f"{url}/api/v1/search", params={"query": "tide"}, headers=headers).json()
            assert len(found["results"]) == 1
            assert (persist / "owner-key").stat().st_mode & 0o077 == 0
            assert persist.stat().st_mode & 0o077 == 0
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert errors.rstrip().endswith("Stopped.")
    assert "token is of an older version and no longer lets anyone in." in errors
    assert (persist / "token").read_text() == "of an older version"
    assert not running_with(persist)


def following(told: str) -> tuple[str, str]:
    """Read the address and the key as the person does who follows what is printed."""
    address = re.search(r"The edge runs at (\S+)", told)
    path = re.search(r"KEY=\$\(cat (\S+)\)", told)
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


def refusal(*arguments: str) -> str:
    """Run the command, which must not start, and return what it says."""
    command = [sys.executable, "-m", "tests.edge.rig", "--hashed", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = refusal("--port", port, "--persist", str(tmp_path))
    assert f"Port {port} is taken" in told
    assert "make edge PORT=0" in told


def test_a_memory_that_another_edge_has_open_is_told(tmp_path: Path):
    with Standin(persist=tmp_path / "vectors.db"):
        assert "is open in another process" in refusal("--port", "0", "--persist", str(tmp_path))


def test_what_is_no_key_is_told_with_what_to_do(tmp_path: Path):
    (tmp_path / "owner-key").write_text("not a key")
    assert "owner-key holds no owner's key. Remove it" in refusal("--port", "0", "--persist", str(tmp_path))


class Crons(Rig):
    """Remembers what was fired, and refuses the first."""

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.all_fired = threading.Event()

    def cron(self, expression: str, time_ms: int | None = None) -> None:
        self.fired.append(expression)
        if len(self.fired) == len(triggers()):
            self.all_fired.set()
        if len(self.fired) == 1:
            raise RigError("told to fail")


def test_every_cron_is_fired_at_the_start_whatever_becomes_of_the_others():
    rig = Crons()
    with firing_crons(rig):
        assert rig.all_fired.wait(10)
    assert rig.fired == list(triggers())


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [("*/5 * * * *", list(range(0, 60, 5))), ("7 * * * *", [7]), ("*/1 * * * *", list(range(60)))],
)
def test_a_cron_is_due_in_the_minutes_that_it_names(expression: str, minutes: list[int]):
    assert [minute for minute in range(60) if is_due(expression, minute)] == minutes


def test_the_crons_of_the_worker_can_be_fired_here():
    assert all(any(is_due(expression, minute) for minute in range(60)) for expression in triggers())


def test_a_cron_that_can_not_be_fired_here_is_told():
    with pytest.raises(ValueError, match="fire it here too"):
        is_due("0 3 * * *", 0)
