"""A command that can't reach the daemon says so; what the daemon raises, it raises too."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.local.processes import free_port

from shoal.local.client import NotSent, OutcomeUnknown, request_lines
from shoal.local.home import DaemonRecord
from shoal.local.sync.access import OverDaemon
from shoal.schema.errors import DaemonUnreachable, LinkBroken
from shoal.sync.engine import Phase, Report

STEP = {"phase": "pull", "pushed": 1, "pulled": 2, "share": 0.5}


def record(port: int) -> DaemonRecord:
    return DaemonRecord(1, "127.0.0.1", port, "secret", "1", "/shoal.db", "person")


@contextmanager
def daemon(*lines: bytes, status: int = 200) -> Iterator[int]:
    """Answer every request with these lines, on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            for line in lines:
                self.wfile.write(line)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


async def exchange(port: int, hear: Callable[[Any], None] = lambda _: None) -> Report:
    return await OverDaemon(record(port)).exchange(hear, retry=False)


async def test_the_steps_are_heard_and_the_report_is_returned():
    steps: list[Any] = []
    report = {"pushed": 1, "pulled": 2, "refused": 0, "skipped": 0, "restamped": False, "restored": False}
    with daemon(line(**STEP), line(report={**report, "gained": ["main"], "lost": None})) as port:
        found = await exchange(port, steps.append)
    assert (found.pushed, found.pulled, found.gained) == (1, 2, ["main"])
    assert [(step.phase, step.share) for step in steps] == [(Phase.PULL, 0.5)]


async def test_what_the_daemon_raised_is_raised():
    told = LinkBroken("Unknown token.", "Link again.").as_dict()
    with daemon(line(**STEP), line(error=told)) as port, pytest.raises(LinkBroken, match="Link again"):
        await exchange(port)


@pytest.mark.parametrize("lines", [(), (line(**STEP),), (b"no JSON\n",)])
async def test_an_answer_that_breaks_off_is_no_success(lines: tuple[bytes, ...]):
    with daemon(*lines) as port, pytest.raises(DaemonUnreachable, match="shoal doctor"):
        await exchange(port)


async def test_a_daemon_that_has_gone_is_said_to_be_unreachable():
    access = OverDaemon(record(free_port()))
    for asked in (access.standing(), access.seen(), access.exchange(lambda _: None, retry=True)):
        with pytest.raises(DaemonUnreachable):
            await asked


async def test_a_daemon_of_another_version_that_knows_no_such_route_is_no_answer():
    with daemon(b"{}", status=404) as port, pytest.raises(DaemonUnreachable, match="404"):
        await OverDaemon(record(port)).standing()


def test_lines_come_as_they_are_written_and_a_connection_that_breaks_is_no_end():
    with daemon(b"one\n", b"two\n") as port:
        assert list(request_lines(record(port), "POST", "/")) == [b"one\n", b"two\n"]
    with pytest.raises(NotSent):
        next(request_lines(record(free_port()), "POST", "/"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        lines = request_lines(record(listening.getsockname()[1]), "POST", "/", timeout_s=0.05)
        with pytest.raises(OutcomeUnknown):
            next(lines)
