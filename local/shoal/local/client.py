"""Talk to the daemon over loopback with the standard library: the shim and the commands must start fast.

Each request has its own connection (about .2 ms on loopback), so a failure says which it was: a connection that was
refused sent nothing; one that broke later leaves the outcome unknown.
"""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shoal.local.home import DaemonRecord, Home, StartedBy, alive, read_record
from shoal.schema.errors import DaemonUnreachable

HEALTH_TIMEOUT_S: Final = 2.0
"""How long a daemon may take to say that it is there; it answers in milliseconds unless the machine is swamped."""
REQUEST_TIMEOUT_S: Final = 300.0
"""How long an answer may take: storing 500 long memories with `wait` takes a minute on a slow laptop."""
STOP_TIMEOUT_S: Final = 15.0
"""How long a daemon may take to drain: a little more than its own limit for finishing requests."""
POLL_S: Final = 0.03


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON. Raises ValueError."""
        return json.loads(self.body)


class NotSent(Exception):
    """No connection: the daemon has seen nothing of the request."""


class OutcomeUnknown(Exception):
    """The connection broke after the request had been sent, so it may or may not have been done."""


def connect(record: DaemonRecord, timeout_s: float) -> http.client.HTTPConnection:
    """Open a connection to the daemon. Raises NotSent."""
    try:
        connection = http.client.HTTPConnection(record.host, record.port, timeout=timeout_s)
        connection.connect()
    except (OSError, ValueError, OverflowError, http.client.InvalidURL) as error:
        # All but the first: the note names no host or port that there can be.
        raise NotSent(str(error)) from error
    return connection


def request(
    record: DaemonRecord,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> Reply:
    """Send one request with the daemon's token and return the whole answer. Raises NotSent, OutcomeUnknown."""
    connection = connect(record, timeout_s)
    try:
        connection.request(method, path, body, {**authorization(record), **(headers or {})})
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise OutcomeUnknown(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def request_lines(
    record: DaemonRecord, method: str, path: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> Iterator[bytes]:
    """Send one request and yield the answer's lines as they come, each within timeout_s. Raises as `request`."""
    connection = connect(record, timeout_s)
    try:
        connection.request(method, path, headers=authorization(record))
        yield from connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise OutcomeUnknown(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def authorization(record: DaemonRecord) -> dict[str, str]:
    """Return the headers that every request to this daemon carries."""
    return {"authorization": f"Bearer {record.token}", "connection": "close"}


@dataclass(frozen=True, slots=True)
class Health:
    """What a daemon says of itself to who knows its token."""

    version: str
    started_by: StartedBy
    database: str


def ask_health(record: DaemonRecord, timeout_s: float = HEALTH_TIMEOUT_S) -> Health | None:
    """Ask whether the daemon of this note answers on its port; None when not, or when another program does."""
    try:
        reply = request(record, "GET", "/daemon", timeout_s=timeout_s)
        said = reply.json()
        if reply.status != http.client.OK or said["pid"] != record.pid:
            return None
        return Health(said["version"], said["started_by"], said["database"])
    except (NotSent, OutcomeUnknown, ValueError, KeyError, TypeError):
        return None


def find_daemon(home: Home) -> DaemonRecord | None:
    """Return the daemon that serves this home, or None. A note that a killed daemon left behind is seen through."""
    record = read_record(home)
    if record is None or not alive(record.pid) or ask_health(record) is None:
        return None
    return record


def stop_daemon(home: Home, record: DaemonRecord) -> None:
    """Ask a daemon to drain and end, and wait until it has gone. Raises DaemonUnreachable."""
    try:
        request(record, "POST", "/daemon/stop", timeout_s=HEALTH_TIMEOUT_S)
    except NotSent:
        return
    except OutcomeUnknown:
        pass  # It may have closed the connection on its way out; whether it goes is seen below.
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        found = read_record(home)
        if found is None or found.pid != record.pid:
            return
        time.sleep(POLL_S)
    raise DaemonUnreachable(
        f"The daemon (process {record.pid}) did not end within {STOP_TIMEOUT_S:.0f} s.",
        "Look into logs/daemon.log; end the process by hand if it hangs.",
    )
