"""Stale notes, other versions, other databases: found out with a listener that plays the daemon."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.local.processes import Processes, free_port

from shoal.local import launch, version
from shoal.local.client import ask_health, find_daemon
from shoal.local.home import DaemonRecord, Home, write_record
from shoal.local.launch import Launcher
from shoal.schema.errors import DaemonError, DaemonRunning

# A launcher leaves its daemon running, and Popen complains when it is thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@contextmanager
def playing(record: DaemonRecord, answer: bytes | None = None) -> Iterator[DaemonRecord]:
    """Answer on a port as the daemon of a note does, or with other bytes."""

    class Handler(BaseHTTPRequestHandler):
        """Plays."""

        def do_GET(self) -> None:
            known = self.headers["authorization"] == f"Bearer {record.token}"
            body = answer or json.dumps({k: v for k, v in asdict(record).items() if k != "token"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield replace(record, port=server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def noted(home: Home, **changes: object) -> DaemonRecord:
    record = DaemonRecord(os.getpid(), "127.0.0.1", free_port(), "t", version.installed(), str(home.database), "person")
    return replace(record, **changes)


def test_a_daemon_that_answers_with_its_process_is_found(home: Home) -> None:
    home.ensure()
    with playing(noted(home)) as record:
        write_record(home, record)
        assert find_daemon(home) == record


def test_a_note_of_a_dead_process_or_of_a_port_where_another_program_answers_is_stale(home: Home) -> None:
    home.ensure()
    write_record(home, noted(home))
    assert find_daemon(home) is None
    with playing(noted(home), b"<html>hello</html>") as record:
        write_record(home, record)
        assert find_daemon(home) is None
    with playing(noted(home, pid=1)) as record:
        # The process of the note lives, yet the one that answers is another.
        assert ask_health(replace(record, pid=os.getpid())) is None
        assert ask_health(replace(record, token="other")) is None
        assert ask_health(record) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"host": "a\r\nb"},
        {"host": "a b"},
        {"host": "字" * 80},
        {"host": ""},
        {"port": -5},
        {"port": 10**9},
        {"token": "字\n"},
        {"pid": 0},
        {"pid": 10**30},
    ],
)
def test_a_note_that_names_no_place_there_can_be_is_stale(home: Home, change: dict[str, Any]) -> None:
    home.ensure()
    record = DaemonRecord(os.getpid(), "127.0.0.1", free_port(), "t", "0.1.0", str(home.database), "shim")
    write_record(home, replace(record, **change))
    assert find_daemon(home) is None


def test_a_newer_daemon_and_an_older_one_that_a_person_started_stay(home: Home) -> None:
    home.ensure()
    warnings: list[str] = []
    with playing(noted(home, version="0.0.1", started_by="person")) as record:
        write_record(home, record)
        assert Launcher(home, {}, warnings.append).daemon() == record
    assert "0.0.1" in warnings[0]
    with playing(noted(home, version="999.0", started_by="shim")) as record:
        write_record(home, record)
        assert Launcher(home, {}, warnings.append).daemon() == record
    assert len(warnings) == 1


def test_an_older_daemon_that_a_shim_started_is_replaced(home: Home, processes: Processes) -> None:
    record = processes.daemon()
    older = replace(record, version="0.0.1", started_by="shim")
    write_record(home, older)
    current = Launcher(home, dict(os.environ), lambda _: None).daemon()
    assert current.pid != record.pid
    assert current.version == version.installed()
    assert processes.process_of(record).wait(timeout=5) == 0


def test_a_daemon_of_another_database_is_not_used(home: Home) -> None:
    home.ensure()
    with playing(noted(home)) as record:
        write_record(home, record)
        with pytest.raises(DaemonRunning, match=r"other\.db"):
            Launcher(home, {"SHOAL_DB": "/some/other.db"}, lambda _: None).daemon()


def test_the_last_words_of_a_daemon_that_could_not_start_are_told(home: Home, processes: Processes) -> None:
    environ = {**os.environ, "SHOAL_TRASH_DAYS": "0"}
    with pytest.raises(DaemonError, match="trash_days") as caught:
        Launcher(home, environ, lambda _: None).daemon()
    assert "shoal doctor" in caught.value.mend


def test_a_daemon_that_never_gets_healthy_is_ended(
    home: Home, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "START_TIMEOUT_S", 0.05)
    with pytest.raises(DaemonError, match="not healthy"):
        Launcher(home, dict(os.environ), lambda _: None).daemon()
