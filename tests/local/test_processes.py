"""Daemon and shim as real processes: who starts whom, and what is left when one of them dies."""

import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from contextlib import closing
from typing import Any

import apsw
import pytest
from tests.local.processes import Processes, eventually, free_port, processes_of

from shoal.local.client import NotSent, OutcomeUnknown, find_daemon, request
from shoal.local.home import DaemonRecord, Home, read_record

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and /proc")

INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Client:
    """An MCP client on a shim's pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._id = 0

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request and return the answer to it."""
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}})
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1].decode()
        answer = json.loads(line)
        assert answer["id"] == self._id
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        return answer["result"]["structuredContent"] if "result" in answer else answer

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> bytes:
        """Close stdin, as a client does that ends; return what is left on stdout once the shim has ended."""
        return self.process.communicate(timeout=15)[0]


def rest(record: DaemonRecord, method: str, path: str, body: Any = None) -> Any:
    reply = request(
        record,
        method,
        f"/api/v1{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    assert reply.status < 300, reply.body
    return reply.json()


def contents(record: DaemonRecord) -> set[str]:
    return {memory["content"] for memory in rest(record, "GET", "/memories?page_size=100")["memories"]}


def test_a_daemon_serves_rest_and_mcp_and_leaves_nothing_behind_on_sigterm(processes: Processes) -> None:
    record = processes.daemon()
    assert stat.S_IMODE(processes.home.record.stat().st_mode) == 0o600
    assert stat.S_IMODE(processes.home.root.stat().st_mode) == 0o700
    assert request(record, "GET", "/healthz").json()["version"] == record.version
    assert "/api/v1/memories" in request(record, "GET", "/openapi.json").json()["paths"]
    rest(record, "POST", "/memories", {"content": "over REST"})
    listing = request(
        record,
        "POST",
        "/mcp",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode(),
        {"content-type": "application/json", "accept": "application/json, text/event-stream"},
    ).json()
    assert "memory_find" in {tool["name"] for tool in listing["result"]["tools"]}

    process = processes.process_of(record)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    assert read_record(processes.home) is None
    assert not processes.home.database.with_name("shoal.db-wal").exists()


TOKEN = "a-token-of-some-length"
TRICKS = ["//mcp", "/mcp%2f", "/MCP", "/mcp/;x", "/api/v1/../mcp", "/%6dcp", "/api/v1/%2e%2e/mcp", "/healthz/../mcp",
          "/healthz%2f..%2fapi/v1/stats", "/healthz/%2e%2e/api/v1/stats", "//api/v1/stats", "/healthz%00", "/docs/",
          "/mcp?access_token=" + TOKEN, "/api/v1/stats?token=" + TOKEN, "/daemon", "/daemon/", "/%64aemon",
          "//daemon/stop"]  # fmt: skip


def test_with_a_token_nothing_but_health_and_the_documents_is_served_without_it(processes: Processes) -> None:
    record = processes.daemon(SHOAL_TOKEN=TOKEN)
    assert {raw_status(record, path) for path in ("/healthz", "/docs", "/openapi.json")} == {200}
    assert {path: raw_status(record, path) for path in TRICKS if raw_status(record, path) != 401} == {}
    opened = {path: raw_status(record, path, TOKEN) for path in TRICKS}
    # What percent-encoding only writes differently is the path itself; GET is not for MCP.
    same = {"/mcp%2f", "/%6dcp", "/mcp?access_token=" + TOKEN}
    assert {path for path, status in opened.items() if status == 405} == same
    assert {path for path, status in opened.items() if status == 200} == {"/api/v1/stats?token=" + TOKEN}
    # The daemon's own routes take its own token alone.
    assert {path for path, status in opened.items() if status == 401} == {"/daemon", "/%64aemon"}


def raw_status(record: DaemonRecord, path: str, token: str = "") -> int:
    """Ask for a path as it is written, which HTTP clients would tidy up, and return the status."""
    said = f"authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection((record.host, record.port), timeout=10) as connection:
        head = f"GET {path} HTTP/1.1\r\nhost: {record.host}:{record.port}\r\nconnection: close\r\n{said}\r\n"
        connection.sendall(head.encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_whatever_the_processes_leave_can_be_read_by_its_owner_only(processes: Processes) -> None:
    client = Client(processes.start("mcp"))
    client.ask(**INITIALIZE)
    client.call("memory_store", content="private")
    for arguments in (("backup",), ("doctor",)):
        assert processes.start(*arguments).wait(timeout=15) == 0
    root = processes.home.root
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert {"shoal.db", "shoal.db-wal", "logs/daemon.log", "logs/start.log", "run/daemon.lock"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    client.close()


SECRET = "Planted-Secret"


def test_nothing_that_was_sent_reaches_a_log_or_stderr_even_when_we_fail(processes: Processes) -> None:
    record = processes.daemon(SHOAL_LOG_LEVEL="debug")
    client = Client(processes.start("mcp"))
    client.ask(**INITIALIZE)
    rest(record, "POST", "/memories", {"content": f"{SECRET} kept", "tags": [SECRET], "metadata": {SECRET: SECRET}})
    statuses = {refused(record, SECRET)}
    with closing(apsw.Connection(str(processes.home.database))) as connection:
        connection.set_busy_timeout(5_000)
        connection.execute("drop table content_fts")
    for body in (
        {"content": f"{SECRET} lost", "tags": [SECRET]},
        {"content": SECRET, "type": SECRET},
        {"content": SECRET, "occurred_at": SECRET},
        {"content": [SECRET]},
        {SECRET: SECRET},
        {"content": SECRET * 30_000},
    ):
        statuses.add(refused(record, SECRET, body))
    assert {404, 422, 500} <= statuses
    for tool, arguments in (
        ("memory_store", {"content": f"{SECRET} lost"}),
        ("memory_find", {"query": SECRET}),
        ("memory_get", {"id": SECRET}),
        (SECRET, {}),
    ):
        answer = client.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "error" in answer or answer["result"]["isError"]
    client.send({"jsonrpc": "2.0", "id": 1, "method": SECRET, "params": [SECRET]})
    assert client.process.stdin is not None
    client.process.stdin.write(f'{{"bad {SECRET}\n'.encode())
    _, told = client.process.communicate(timeout=15)
    command = processes.start("find", f"{SECRET} query")
    command.communicate(timeout=15)
    assert command.returncode == 1

    process = processes.process_of(record)
    process.send_signal(signal.SIGTERM)
    printed = b"".join((*process.communicate(timeout=15), told)).decode()
    logged = "".join(path.read_text() for path in processes.home.log.parent.iterdir())
    assert "Traceback" in logged
    assert SECRET not in logged + printed


def refused(record: DaemonRecord, path: str, body: Any = None) -> int:
    payload = None if body is None else json.dumps(body).encode()
    where = f"/{path}" if body is None else "/api/v1/memories"
    return request(
        record, "GET" if body is None else "POST", where, payload, {"content-type": "application/json"}
    ).status


@pytest.mark.long
def test_ten_kills_among_four_writers_lose_nothing_that_was_acknowledged(processes: Processes) -> None:
    port = str(free_port())
    acknowledged: set[str] = set()
    trashed: set[str] = set()
    over = threading.Event()

    def start() -> DaemonRecord:
        process = processes.start("serve", "--port", port)
        eventually(lambda: find_daemon(processes.home) or process.poll() is not None, "a daemon that answers")
        found = read_record(processes.home)
        assert found is not None
        return found

    def write(writer: int) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            items = [{"content": f"{writer} {number} {n} 词语 words", "tags": [f"t{n}"]} for n in range(1 + number % 9)]
            try:
                stored = [one["id"] for one in rest(record, "POST", "/memories", {"items": items})["results"]]
                acknowledged.update(stored)
                if number % 5 == 0:
                    rest(record, "DELETE", f"/memories/{stored[0]}?confirm=true")
                    trashed.add(stored[0])
            except (NotSent, OutcomeUnknown):
                time.sleep(0.05)

    record = start()
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(10):
        time.sleep(0.7)
        os.kill(record.pid, signal.SIGKILL)
        processes.process_of(record).wait()
        record = start()
    over.set()
    for writer in writers:
        writer.join()
    assert len(acknowledged) > 100
    states = {one: rest(record, "GET", f"/memories/{one}")["state"] for one in acknowledged}
    assert {one for one, state in states.items() if state == "trashed"} >= trashed
    doctor = processes.start("doctor")
    assert doctor.wait(timeout=30) == 0, doctor.communicate()[0].decode()


def test_a_second_daemon_is_refused_and_the_url_of_the_first_is_told(processes: Processes) -> None:
    record = processes.daemon()
    second = processes.start("serve")
    _, errors = second.communicate(timeout=15)
    assert second.returncode == 1
    assert record.url in errors.decode()
    assert find_daemon(processes.home) == record


def test_what_was_sent_is_written_though_the_client_has_gone_or_the_daemon_is_told_to_end(
    processes: Processes,
) -> None:
    record = processes.daemon()
    post(record, {"content": "from a client that did not wait"}).close()
    eventually(lambda: contents(record) == {"from a client that did not wait"}, "the write of a client that has gone")

    waiting = post(record, {"items": [{"content": f"number {number} " + "x" * 500} for number in range(400)]})
    process = processes.process_of(record)
    process.send_signal(signal.SIGTERM)
    with waiting:
        assert b" 201 " in waiting.recv(100)
    assert process.wait(timeout=10) == 0
    again = processes.daemon()
    assert rest(again, "GET", "/stats")["total"] == 401


def post(record: DaemonRecord, body: dict[str, Any]) -> socket.socket:
    payload = json.dumps(body).encode()
    connection = socket.create_connection((record.host, record.port), timeout=10)
    head = (
        f"POST /api/v1/memories HTTP/1.1\r\nhost: {record.host}:{record.port}\r\nauthorization: Bearer {record.token}"
        f"\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    connection.sendall(head.encode() + payload)
    return connection


def test_ten_shims_at_once_start_one_daemon_which_ends_when_idle(processes: Processes) -> None:
    clients = [Client(processes.start("mcp", SHOAL_IDLE_MINUTES="0.02")) for _ in range(10)]
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda c=client: answers.append(c.ask(**INITIALIZE))) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [answer["result"]["serverInfo"]["name"] for answer in answers] == ["shoal"] * 10
    record = read_record(processes.home)
    assert record is not None
    assert processes_of(processes.home) == {record.pid, *(client.process.pid for client in clients)}

    for client in clients:
        assert client.close() == b""
        assert client.process.returncode == 0
    eventually(lambda: not processes_of(processes.home), "the end of the idle daemon")
    assert read_record(processes.home) is None


def test_a_session_goes_on_when_the_daemon_is_killed_in_the_middle(processes: Processes) -> None:
    client = Client(processes.start("mcp"))
    client.ask(**INITIALIZE)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    first = read_record(processes.home)
    assert first is not None
    stored = client.call("memory_store", content="kept through a crash")
    assert stored["status"] == "created"
    os.kill(first.pid, signal.SIGKILL)

    assert client.call("memory_store", content="kept through a crash")["status"] == "merged"
    second = read_record(processes.home)
    assert second is not None
    assert second.pid != first.pid
    assert client.close() == b""


def test_a_shim_says_why_no_daemon_can_be_started(processes: Processes) -> None:
    processes.home.ensure()
    processes.home.database.write_bytes(b"this is no database" * 300)
    client = Client(processes.start("mcp"))
    error = client.ask(**INITIALIZE)["error"]
    assert "shoal.db" in error["message"]
    assert error["data"]["code"] == "daemon_error"
    client.close()
    assert processes.home.database.read_bytes().startswith(b"this is no database")
    assert not processes_of(processes.home)


def test_standalone_serves_one_client_without_a_daemon(processes: Processes) -> None:
    client = Client(processes.start("mcp", "--standalone", "--profile", "classic"))
    client.ask(**INITIALIZE)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert client.call("remember", content="all in one")["status"] == "created"
    assert read_record(processes.home) is None
    client.close()
    assert client.process.returncode == 0
    assert not processes_of(processes.home)


def test_commands_and_a_client_share_the_daemon(processes: Processes, home: Home) -> None:
    record = processes.daemon()
    client = Client(processes.start("mcp"))
    client.ask(**INITIALIZE)
    client.call("memory_store", content="told by the client")
    out, _ = processes.start("list", "--json").communicate(timeout=15)
    assert [memory["content"] for memory in json.loads(out)["memories"]] == ["told by the client"]
    stored, _ = processes.start("store", "told by a person", "--json").communicate(timeout=15)
    one = json.loads(stored)["id"]
    assert client.call("memory_get", id=one)["memories"][0]["sources"] == ["cli"]
    preview, _ = processes.start("delete", one, "--dry-run", "--json").communicate(timeout=15)
    assert json.loads(preview)["status"] == "cancelled"
    deleted, _ = processes.start("delete", one, "--yes", "--json").communicate(timeout=15)
    assert json.loads(deleted)["status"] == "deleted"
    revived, _ = processes.start("revive", one, "--json").communicate(timeout=15)
    assert json.loads(revived)["ids"] == [one]
    refused = processes.start("restore", str(home.database))
    assert record.url in refused.communicate(timeout=15)[1].decode()
    assert refused.returncode == 1
