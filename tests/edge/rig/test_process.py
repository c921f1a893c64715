"""However the processes end, none is left: with a small script in the place of the one that runs Miniflare."""

import os
import signal
from pathlib import Path

import pytest
from tests.edge.rig import process
from tests.edge.rig.process import LogLine, NodeProcess, group_lives
from tests.edge.rig.tools import RigError

SCRIPT = """
import { spawn } from "node:child_process";
const emit = (told) => console.log(JSON.stringify(told));
emit({ event: "log", source: "worker", level: "log", message: "né" });
console.log("not the protocol");
setInterval(() => {}, 1000);
"""
READY = 'emit({ event: "ready", url: "http://x", pids: [process.pid] });'
WITH_CHILD = 'spawn("sleep", ["1000"], { stdio: "ignore" });'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "serve.mjs"
    monkeypatch.setattr(process, "SERVE", path)
    return path


def started(script: Path, body: str = "") -> tuple[NodeProcess, int]:
    """Start the script, and return its process id, which is that of its group."""
    script.write_text(SCRIPT + body + READY)
    node = NodeProcess({})
    return node, node.ready()["pids"][0]


def test_what_node_leaves_behind_is_ended(script: Path):
    node, group = started(script, WITH_CHILD)
    node.stop()
    assert not group_lives(group)
    node.stop()


def test_a_node_that_does_not_end_is_killed(script: Path, monkeypatch: pytest.MonkeyPatch):
    node, group = started(script, 'process.on("SIGTERM", () => {});')
    monkeypatch.setattr(process, "END_S", 0.2)
    node.stop()
    assert not group_lives(group)


def test_when_node_is_killed_its_child_is_ended_all_the_same(script: Path):
    node, group = started(script, WITH_CHILD)
    os.kill(group, signal.SIGKILL)
    assert node.wait() == -signal.SIGKILL
    node.stop()
    assert not group_lives(group)


def test_what_is_printed_past_the_protocol_is_a_line_of_the_log_too(script: Path):
    node, _ = started(script)
    node.stop()
    assert node.log() == [LogLine("worker", "log", "né"), LogLine("node", "info", "not the protocol")]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('emit({ event: "failed", message: "no such thing" });', "no such thing"),
        ("process.exit(3);", "ended with exit code 3"),
        ("", r"not ready within 0\.5 s"),
    ],
)
def test_a_start_that_fails_ends_everything_and_tells_why_with_the_log(
    script: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
):
    monkeypatch.setattr(process, "READY_S", 0.5 if not body else 30)
    script.write_text(SCRIPT + body)
    node = NodeProcess({})
    with pytest.raises(RigError, match=rf"(?s){told}.*\[worker log\] né"):
        node.ready()
    assert node.wait() in {3, -signal.SIGTERM}
