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
const child = spawn("sleep", ["1000"], { stdio: "ignore" });
emit({ event: "log", source: "worker", level: "log", message: "né" });
console.log("not the protocol");
BODY
setInterval(() => {}, 1000);
"""
READY = 'emit({ event: "ready", url: "http://x", pids: [process.pid, child.pid] });'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "serve.mjs"
    monkeypatch.setattr(process, "SERVE", path)
    return path


def started(script: Path, body: str) -> tuple[NodeProcess, list[int]]:
    """Start the script, and return the processes that it tells: its own and its child's."""
    script.write_text(SCRIPT.replace("BODY", READY + body))
    node = NodeProcess({})
    return node, node.ready()["pids"]


def test_what_node_leaves_behind_is_ended(script: Path):
    node, (parent, _) = started(script, 'process.on("SIGTERM", () => process.exit(0));')
    node.stop()
    assert not group_lives(parent)
    node.stop()


def test_a_node_that_does_not_end_is_killed_with_its_child(script: Path, monkeypatch: pytest.MonkeyPatch):
    node, (parent, _) = started(script, 'process.on("SIGTERM", () => {});')
    with monkeypatch.context() as hurried:
        hurried.setattr(process, "END_S", 0.2)
        node.stop()
    assert not group_lives(parent)


def test_when_node_is_killed_its_child_is_ended_all_the_same(script: Path):
    node, (parent, _) = started(script, "")
    os.kill(parent, signal.SIGKILL)
    assert node.wait() == -signal.SIGKILL
    assert not node.running()
    node.stop()
    assert not group_lives(parent)


def test_what_is_printed_past_the_protocol_is_a_line_of_the_log_too(script: Path):
    node, _ = started(script, "")
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
    monkeypatch.setattr(process, "END_S", 1.0)
    script.write_text(SCRIPT.replace("BODY", body))
    node = NodeProcess({})
    with pytest.raises(RigError, match=rf"(?s){told}.*\[worker log\] né"):
        node.ready()
    assert not node.running()
