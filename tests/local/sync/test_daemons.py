"""Daemons that exchange by themselves, as processes of their own, with an edge on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from tests.local.processes import Processes, eventually
from tests.local.sync.owner import device_token
from tests.local.sync.rig import Asked, LocalEdge

from shoal.local.cli.group import shoal
from shoal.local.client import request, stop_daemon
from shoal.local.home import DaemonRecord, Home

NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
SEEN_WITHIN_S = 10.0
"""Three times what it takes on a busy machine."""
STOPS_WITHIN_S = 6.0
"""Twice what the last round may take."""


class Laptop:
    """A home with its daemon."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.processes = Processes(home)
        self.record: DaemonRecord | None = None

    def start(self) -> None:
        self.record = self.processes.daemon(SHOAL_HOME=str(self.home.root), **NO_KEYRING)

    def run(self, *arguments: str, **options: Any) -> str:
        """Run a command in this process."""
        environ = {"SHOAL_HOME": str(self.home.root), **NO_KEYRING}
        result = CliRunner().invoke(shoal, arguments, env=environ, catch_exceptions=False, **options)
        assert result.exit_code == 0, result.output
        return result.stdout

    def link(self, edge: LocalEdge) -> None:
        self.run("link", edge.url, "--token-stdin", input=device_token(edge))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        assert self.record is not None
        sent = None if body is None else json.dumps(body).encode()
        reply = request(self.record, method, path, sent, {"content-type": "application/json"})
        assert reply.status < 400, reply.body
        return reply.json()

    def store(self, content: str, **fields: Any) -> str:
        return self.call("POST", "/api/v1/memories", {"content": content, **fields})["id"]

    def contents(self) -> set[str]:
        return {one["content"] for one in self.call("GET", "/api/v1/memories?page_size=100")["memories"]}

    def status(self) -> Any:
        return self.call("GET", "/daemon/sync")

    def stop(self) -> None:
        assert self.record is not None
        stop_daemon(self.home, self.record)
        # Its note goes first, so that nobody comes while it sends what waits.
        assert self.processes.process_of(self.record).wait(STOPS_WITHIN_S) == 0

    def kill(self) -> None:
        assert self.record is not None
        os.kill(self.record.pid, signal.SIGKILL)
        self.processes.process_of(self.record).wait()


@pytest.fixture
def laptop(home: Home) -> Iterator[Laptop]:
    one = Laptop(home)
    yield one
    one.processes.end()


@pytest.fixture
def other(home: Home, tmp_path: Path) -> Iterator[Laptop]:
    """A second laptop, on the same machine."""
    one = Laptop(Home(tmp_path / "other"))
    yield one
    one.processes.end()


def at_edge(edge: LocalEdge) -> set[str]:
    """Return the contents that the edge has, read beside its own thread."""
    connection: Any = edge.memory.context.database._connection  # type: ignore[attr-defined]
    while True:
        try:
            rows = connection.execute("select init->>'content' from record where state = 1").fetchall()
        except apsw.ThreadingViolationError:
            continue
        return {text for (text,) in rows}


async def hang(_scope: Scope, receive: Receive, _send: Send) -> None:
    """Answer nothing for as long as the client waits."""
    while (await receive())["type"] != "http.disconnect":
        pass


def test_two_daemons_come_to_have_the_same_and_each_sees_the_others_deletes(
    edge: LocalEdge, laptop: Laptop, other: Laptop
):
    for one in (laptop, other):
        one.link(edge)
        one.start()
    first = laptop.store("from the first", tags=["a"])
    other.store("from the second")
    laptop.store("一句话", tags=["甲"])
    other.store("一句话", tags=["乙"])
    everything = {"from the first", "from the second", "一句话"}
    eventually(lambda: laptop.contents() == other.contents() == everything, "the same on both", SEEN_WITHIN_S)

    def tags() -> list[list[str]]:
        found = [one.call("POST", "/api/v1/search", {"query": "一句话"})["results"] for one in (laptop, other)]
        return [results[0]["tags"] for results in found]

    eventually(lambda: tags() == [["乙", "甲"]] * 2, "both tags on both", SEEN_WITHIN_S)
    other.call("POST", "/api/v1/memories/delete", {"id": first, "confirm": True})
    eventually(lambda: "from the first" not in laptop.contents(), "the delete", SEEN_WITHIN_S)
    eventually(lambda: laptop.status()["sync"]["queue"] == 0, "an empty queue", SEEN_WITHIN_S)
    assert [note["code"] for note in laptop.call("GET", "/healthz")["degraded"]] == ["lexical_only"]


def test_a_link_that_comes_and_goes_is_noticed_by_a_running_daemon_within_five_seconds(edge: LocalEdge, laptop: Laptop):
    laptop.start()
    laptop.store("stored before")
    laptop.link(edge)
    eventually(lambda: at_edge(edge) == {"stored before"}, "what was there before the link", 5.0)
    laptop.run("unlink", "--yes")
    eventually(lambda: not laptop.status()["sync"]["linked"], "the end of the link", 5.0)
    eventually(lambda: laptop.status()["next_s"] is None, "the end of the rounds", 5.0)


def test_at_the_end_what_waits_is_sent_and_an_edge_that_hangs_holds_nothing_up(edge: LocalEdge, laptop: Laptop):
    laptop.link(edge)
    laptop.start()
    eventually(lambda: laptop.status()["sync"]["last_success"], "the first round", SEEN_WITHIN_S)
    edge.before = lambda _: hang  # type: ignore[assignment, return-value]
    laptop.store("for later")
    began = time.monotonic()
    laptop.stop()
    assert time.monotonic() - began < STOPS_WITHIN_S
    assert at_edge(edge) == set()
    edge.before = lambda _: None
    laptop.start()
    eventually(lambda: at_edge(edge) == {"for later"}, "what was left", SEEN_WITHIN_S)
    laptop.store("the last word")
    laptop.stop()
    assert at_edge(edge) == {"for later", "the last word"}


def test_a_daemon_killed_while_the_edge_merges_what_it_sent_loses_and_doubles_nothing(
    edge: LocalEdge, laptop: Laptop, other: Laptop
):
    laptop.link(edge)
    laptop.start()
    eventually(lambda: laptop.status()["sync"]["last_success"], "the first round", SEEN_WITHIN_S)

    def kill(asked: Asked) -> None:
        if asked.path == "/sync/push":
            edge.before = lambda _: None
            laptop.kill()

    edge.before = kill
    stored = {f"memory {number}" for number in range(60)}
    laptop.call("POST", "/api/v1/memories", {"items": [{"content": text} for text in sorted(stored)]})
    eventually(lambda: at_edge(edge) == stored, "the merge whose answer nobody hears", SEEN_WITHIN_S)
    laptop.start()
    laptop.store("after the kill")
    other.link(edge)
    other.start()
    everything = {*stored, "after the kill"}
    eventually(lambda: other.contents() == laptop.contents() == everything, "the same on both", SEEN_WITHIN_S)
    assert laptop.status()["sync"]["quarantine"] == 0


def test_commands_exchange_through_the_daemon(edge: LocalEdge, laptop: Laptop):
    laptop.link(edge)
    laptop.start()
    laptop.store("one thing")
    report = json.loads(laptop.run("sync", "--json"))
    assert report["refused"] == 0
    assert at_edge(edge) == {"one thing"}
    status = json.loads(laptop.run("status", "--json"))
    assert (status["daemon"], status["queue"], status["failure"]) == (True, 0, None)
    assert status["sent"] >= 1
    assert "looks again in" in laptop.run("status") or "exchanging" in laptop.run("status")
    assert laptop.call("GET", "/api/v1/stats")["sync"]["url"] == edge.url
    unknown = {"error": {"code": "unauthorized", "message": "Unknown token.", "mend": "Link again."}}
    edge.before = lambda asked: JSONResponse(unknown, 401) if asked.path.startswith("/sync/") else None
    result = CliRunner().invoke(shoal, ["sync", "--json"])
    assert (result.exit_code, json.loads(result.stderr)["error"]["code"]) == (1, "link_broken")
    eventually(lambda: laptop.status()["next_s"] is None, "the end of the rounds", SEEN_WITHIN_S)
    assert "shoal link" in laptop.run("status")
    assert "sync" in [note["code"] for note in laptop.call("GET", "/healthz")["degraded"]]


@pytest.mark.parametrize("with_daemon", [False, True])
def test_watching_goes_on_until_ctrl_c_and_says_what_is_exchanged(
    edge: LocalEdge, laptop: Laptop, *, with_daemon: bool
):
    laptop.link(edge)
    if with_daemon:
        laptop.start()
    watching = subprocess.Popen(
        [sys.executable, "-m", "shoal.local.cli", "sync", "--watch"],
        env={**os.environ, **NO_KEYRING, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("Sent ")
        while "Ctrl-C" not in watching.stdout.readline():
            assert watching.poll() is None
        subprocess.run(
            [sys.executable, "-m", "shoal.local.cli", "store", "one thing"], check=True, stdout=subprocess.DEVNULL
        )
        eventually(lambda: at_edge(edge) == {"one thing"}, "what another process has stored", SEEN_WITHIN_S)
        while "sent 0" in (line := watching.stdout.readline()):
            pass
        assert "sent " in line
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0, watching.stderr and watching.stderr.read()
    finally:
        watching.kill()
        watching.communicate()


def test_a_client_that_serves_itself_exchanges_too(edge: LocalEdge, laptop: Laptop):
    laptop.link(edge)
    laptop.run("store", "one thing")
    standalone = laptop.processes.start("mcp", "--standalone", **NO_KEYRING)
    eventually(lambda: at_edge(edge) == {"one thing"}, "what was stored", SEEN_WITHIN_S)
    assert standalone.poll() is None
