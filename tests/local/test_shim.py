"""The shim in this process, against a small HTTP server that fails as a daemon can."""

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

import pytest
from tests.local.processes import eventually, free_port

from shoal.local import shim as shim_module
from shoal.local.home import DaemonRecord
from shoal.local.shim import Shim
from shoal.schema.errors import DaemonError

Answer = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Hands each message to the test's function."""

    answer: Answer
    seen: list[dict[str, Any]]
    headers_seen: list[dict[str, str]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append(body)
        self.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
        type(self).answer(self, body)

    def reply(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def result(self, body: dict[str, Any], **result: Any) -> None:
        self.reply(json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


class Launcher:
    """Names the daemons in turn; the last one stays."""

    def __init__(self, *records: DaemonRecord) -> None:
        self.records = list(records)
        self.asked = 0

    def daemon(self) -> DaemonRecord:
        self.asked += 1
        if not self.records:
            raise DaemonError("No daemon could be started.", "Look into the log.")
        return self.records.pop(0) if len(self.records) > 1 else self.records[0]


def record(port: int) -> DaemonRecord:
    return DaemonRecord(1, "127.0.0.1", port, "secret", "0.1.0", "/x.db", "shim")


@contextmanager
def served(answer: Answer) -> Iterator[tuple[DaemonRecord, type[Handler]]]:
    handler = type("Bound", (Handler,), {"answer": staticmethod(answer), "seen": [], "headers_seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield record(server.server_port), handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(launcher: Launcher, *messages: dict[str, Any] | bytes) -> list[dict[str, Any]]:
    """Pass the messages through a shim until stdin closes, and return the lines on its stdout."""
    output = io.BytesIO()
    lines = [m if isinstance(m, bytes) else json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages]
    Shim("/mcp", "en", launcher, output, lambda _: None).run(io.BytesIO(b"".join(lines)))
    return [json.loads(line) for line in output.getvalue().splitlines()]


def call(tool: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_a_message_that_we_fail_to_pass_on_is_answered_without_what_it_held() -> None:
    class Broken:
        def daemon(self) -> DaemonRecord:
            raise ValueError("the message said: a secret")

    warnings: list[str] = []
    output = io.BytesIO()
    line = json.dumps({"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}).encode() + b"\n"
    Shim("/mcp", "en", Broken(), output, warnings.append).run(io.BytesIO(line))
    answer = json.loads(output.getvalue())
    assert (answer["id"], answer["error"]["code"]) == ("\ud800", -32603)
    assert len(warnings) == 1
    assert "secret" not in warnings[0] + output.getvalue().decode()


def test_answers_go_out_as_they_come_and_notifications_get_none() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if "id" not in body:
            handler.reply(b"", 202)
            return
        time.sleep(0.2 if body["id"] == 1 else 0)
        handler.result(body, n=body["id"])

    with served(answer) as (daemon, handler):
        found = run(
            Launcher(daemon),
            {"id": 1, "method": "tools/list"},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        )
        assert [one["id"] for one in found] == [2, 1]
        assert len(handler.seen) == 3
        assert {headers["authorization"] for headers in handler.headers_seen} == {"Bearer secret"}


def test_the_version_that_initialize_agreed_goes_with_what_follows() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        handler.result(body, protocolVersion="2025-06-18")

    with served(answer) as (daemon, handler):
        source, sink = os.pipe()
        out_source, out_sink = os.pipe()
        with (
            os.fdopen(source, "rb") as stdin,
            os.fdopen(sink, "wb") as client,
            os.fdopen(out_source, "rb") as answers,
            os.fdopen(out_sink, "wb") as stdout,
        ):
            shim = Shim("/mcp", "zh", Launcher(daemon), stdout, lambda _: None)
            thread = threading.Thread(target=shim.run, args=(stdin,))
            thread.start()
            for number, method in enumerate(("initialize", "tools/list")):
                client.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method}).encode() + b"\n")
                client.flush()
                assert json.loads(answers.readline())["id"] == number
            client.close()
            thread.join(timeout=5)
        assert [headers.get("mcp-protocol-version") for headers in handler.headers_seen] == [None, "2025-06-18"]
        assert handler.headers_seen[0]["accept-language"] == "zh"


def test_a_request_that_was_not_sent_goes_to_the_next_daemon() -> None:
    with served(lambda handler, body: handler.result(body)) as (daemon, handler):
        launcher = Launcher(record(free_port()), daemon)
        assert "result" in run(launcher, call("memory_delete"))[0]
        assert launcher.asked == 2
        assert len(handler.seen) == 1


def test_a_store_whose_outcome_is_unknown_is_sent_again() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.seen) == 1:
            handler.connection.close()
            handler.close_connection = True
            return
        handler.result(body)

    with served(quietly(answer)) as (daemon, handler):
        assert "result" in run(Launcher(daemon), call("memory_store", content="x"))[0]
        assert len(handler.seen) == 2


def test_a_delete_whose_outcome_is_unknown_is_not_sent_again_and_the_client_is_told() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        handler.connection.close()
        handler.close_connection = True

    with served(quietly(answer)) as (daemon, handler):
        error = run(Launcher(daemon), call("memory_delete"))[0]["error"]
        assert "unknown" in error["message"]
        assert error["data"]["code"] == "daemon_unreachable"
        assert len(handler.seen) == 1


def quietly(answer: Answer) -> Answer:
    """Let a handler break its connection without the server's complaint."""

    def safe(handler: Handler, body: dict[str, Any]) -> None:
        answer(handler, body)
        if handler.close_connection:
            handler.wfile = io.BytesIO()

    return safe


def test_a_daemon_of_another_token_is_looked_up_again() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.seen) == 1:
            handler.reply(b"{}", 401)
        else:
            handler.result(body)

    with served(answer) as (daemon, _):
        launcher = Launcher(daemon)
        assert "result" in run(launcher, call("memory_delete"))[0]
        assert launcher.asked == 2


def test_a_daemon_that_stays_away_is_an_error_with_what_to_do() -> None:
    error = run(Launcher(record(free_port())), call("memory_find"))[0]["error"]
    assert error["code"] == -32000
    assert "shoal doctor" in error["message"]


def test_the_reason_why_no_daemon_starts_reaches_the_client_and_notifications_stay_silent() -> None:
    found = run(Launcher(), call("memory_find"), {"method": "notifications/initialized"})
    assert [one["error"]["data"]["code"] for one in found] == ["daemon_error"]


def test_a_stream_is_passed_on_event_by_event_and_ends_with_its_answer() -> None:
    events = (
        b': ping\r\n\r\nevent: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\r\n\r\n'
        b'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n'
    )
    with served(lambda handler, _: handler.reply(events, kind="text/event-stream")) as (daemon, _):
        found = run(Launcher(daemon), call("memory_find"))
        assert [one.get("method", "answer") for one in found] == ["notifications/progress", "answer"]


def test_a_stream_without_an_answer_is_opened_again() -> None:
    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.seen) == 1:
            handler.reply(b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', kind="text/event-stream")
        else:
            handler.result(body)

    with served(answer) as (daemon, _):
        found = run(Launcher(daemon), call("memory_find"))
        assert [one.get("method", "answer") for one in found] == ["notifications/x", "answer"]


def test_a_subscription_ends_with_its_client() -> None:
    release = threading.Event()

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        release.wait(5)
        handler.close_connection = True

    started = time.monotonic()
    with served(quietly(answer)) as (daemon, _):
        assert run(Launcher(daemon), {"id": 1, "method": "subscriptions/listen"}) == []
        assert time.monotonic() - started < 3
        release.set()


def test_a_cancelled_request_is_given_up_and_not_answered() -> None:
    arrived, release = threading.Event(), threading.Event()

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if "id" not in body:
            handler.reply(b"", 202)
            return
        arrived.set()
        release.wait(5)
        handler.close_connection = True

    class Source(io.BytesIO):
        """Sends the cancel once the request has arrived."""

        def readline(self, size: int | None = -1, /) -> bytes:
            found = super().readline(size)
            if b"cancelled" in found:
                assert arrived.wait(5)
            return found

    messages: list[dict[str, Any]] = [
        call("memory_find", 1),
        {"method": "notifications/cancelled", "params": {"requestId": 1}},
    ]
    source = Source(b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages))
    output = io.BytesIO()
    started = time.monotonic()
    with served(quietly(answer)) as (daemon, handler):
        Shim("/mcp", "en", Launcher(daemon), output, lambda _: None).run(source)
        release.set()
        assert output.getvalue() == b""
        assert time.monotonic() - started < 3
        assert handler.seen[-1]["method"] == "notifications/cancelled"


def test_more_requests_than_the_limit_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim_module, "IN_FLIGHT_MAX", 1)

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.3)
        handler.result(body)

    with served(answer) as (daemon, _):
        found = run(Launcher(daemon), call("memory_find", 1), call("memory_find", 2))
        assert [("error" in one, one["id"]) for one in found] == [(True, 2), (False, 1)]


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim_module, "LINE_MAX_BYTES", 200)
    with served(lambda handler, body: handler.result(body)) as (daemon, _):
        long = call("memory_store", 1, content="x" * 1000)
        found = run(Launcher(daemon), long, b"\n", b"nonsense\n", call("memory_find", 2))
        assert {one["id"] for one in found} == {None, 2}
        assert [one["error"]["code"] for one in found if "error" in one] == [-32600, -32700]


def test_a_client_that_has_gone_ends_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.BytesIO):
        """A pipe whose reader has gone."""

        def write(self, data: Any, /) -> int:
            raise BrokenPipeError

    release = threading.Event()
    before = set(threading.enumerate())

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if body["id"] == 2:
            release.wait(5)
        handler.result(body)

    with served(answer) as (daemon, _):
        started = time.monotonic()
        output: BinaryIO = Gone()
        source = io.BytesIO(
            b"".join(json.dumps({"jsonrpc": "2.0", **call("memory_find", n)}).encode() + b"\n" for n in (1, 2))
        )
        Shim("/mcp", "en", Launcher(daemon), output, lambda _: None).run(source)
        release.set()
        assert time.monotonic() - started < 3
    eventually(lambda: set(threading.enumerate()) <= before, "the end of the threads")
