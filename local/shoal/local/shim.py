"""`shoal mcp`: pass JSON-RPC between a client's stdio and the daemon, which it starts when there is none.

It imports neither the MCP SDK nor pydantic, so a client's `initialize` is answered within a second. stdout carries
JSON-RPC and nothing else. A thread per request keeps slow ones from holding up the rest; answers go out as they come.

When the daemon goes away in the middle, a request that was not sent is sent to the next daemon. One whose outcome
is unknown is repeated only if it may run twice (wire.REPLAYABLE_TOOLS); otherwise the client is told.
"""

import contextlib
import http.client
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol

from shoal.local import wire
from shoal.local.client import REQUEST_TIMEOUT_S, NotSent, OutcomeUnknown, authorization, connect
from shoal.local.home import DaemonRecord
from shoal.schema.errors import DaemonUnreachable, ShoalError
from shoal.schema.limits import BODY_MAX_BYTES

LINE_MAX_BYTES: Final = 16 * BODY_MAX_BYTES
"""Longest line that is read. The daemon refuses what is over BODY_MAX_BYTES, by the request's id."""
IN_FLIGHT_MAX: Final = 64
"""Requests at a time; no client here has more than ten, and each costs a thread."""
ATTEMPTS: Final = 3
"""A daemon may die under a request and the next one be replaced by a newer version; three deaths are a fault."""
GRACE_S: Final = 10.0
"""How long requests may still finish once stdin has closed: a piped script reads the answers after that."""
GONE_STATUS: Final = (401, 503)
"""A daemon that has this port but another token, or that is draining: neither has done anything."""


class Launcher(Protocol):
    """Knows how to get a daemon (launch.py)."""

    def daemon(self) -> DaemonRecord:
        """Return a healthy daemon's note. Raises DaemonError."""
        ...


class Exchange:
    """One request on its way; may be cancelled from another thread."""

    def __init__(self, message: wire.Message) -> None:
        self.message = message
        self.cancelled = False
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def attach(self, connection: http.client.HTTPConnection) -> None:
        """Remember the connection so that a cancel can break it; break it at once after an earlier cancel."""
        with self._lock:
            self._connection = connection
            if self.cancelled:
                self._break()

    def cancel(self) -> None:
        """Stop waiting for the answer: closing its connection is how HTTP clients of MCP cancel."""
        with self._lock:
            self.cancelled = True
            self._break()

    def _break(self) -> None:
        sock = self._connection.sock if self._connection else None
        if sock is not None:
            with contextlib.suppress(OSError):  # It may be closed already.
                sock.shutdown(socket.SHUT_RDWR)


class Shim:
    """The pipe of one client."""

    def __init__(
        self, path: str, language: str, launcher: Launcher, output: BinaryIO, warn: Callable[[str], None]
    ) -> None:
        self._path = path
        self._language = language
        self._launcher = launcher
        self._output = output
        self._warn = warn
        self._agreed: str | None = None
        self._record: DaemonRecord | None = None
        self._exchanges: dict[wire.RequestId, Exchange] = {}
        self._threads: set[threading.Thread] = set()
        self._output_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._launch_lock = threading.Lock()
        self._client_gone = threading.Event()

    def run(self, source: BinaryIO) -> None:
        """Serve until stdin closes or stdout breaks; requests under way get GRACE_S to finish."""
        for line in self._lines(source):
            if self._client_gone.is_set():
                break
            try:
                message = wire.parse(line)
            except wire.BadLine as error:
                self._write(error.answer)
                continue
            if message is not None:
                self._take(message)
        self._finish()

    def _lines(self, source: BinaryIO) -> Iterator[bytes]:
        while line := source.readline(LINE_MAX_BYTES):
            if len(line) == LINE_MAX_BYTES and not line.endswith(b"\n"):
                self._write(
                    wire.error_line(
                        None, wire.INVALID_REQUEST, f"A message of more than {LINE_MAX_BYTES} bytes was not read."
                    )
                )
                while line and not line.endswith(b"\n"):
                    line = source.readline(LINE_MAX_BYTES)
            elif line.strip():
                yield line

    def _take(self, message: wire.Message) -> None:
        if (cancelled := message.cancels) is not None:
            with self._state_lock:
                exchange = self._exchanges.get(cancelled)
            if exchange is not None:
                exchange.cancel()
        exchange = Exchange(message)
        thread = threading.Thread(target=self._serve, args=(exchange,), daemon=True)
        with self._state_lock:
            room = len(self._threads) < IN_FLIGHT_MAX
            if room:
                self._threads.add(thread)
                if message.id is not None:
                    self._exchanges[message.id] = exchange
        if room:
            thread.start()
        elif message.id is not None:
            self._write(
                wire.error_line(message.id, wire.SERVER_ERROR, f"More than {IN_FLIGHT_MAX} requests are under way.")
            )

    def _serve(self, exchange: Exchange) -> None:
        message = exchange.message
        try:
            self._forward(exchange)
        except ShoalError as error:
            self._warn(str(error))
            if message.id is not None and not exchange.cancelled:
                self._write(wire.error_line(message.id, wire.SERVER_ERROR, str(error), error.as_dict()))
        except Exception as error:
            # A fault of ours: the client must not wait for ever. Its text may hold what the message held.
            self._warn(f"a message could not be passed on ({type(error).__name__})")
            if message.id is not None and not exchange.cancelled:
                self._write(wire.error_line(message.id, wire.INTERNAL_ERROR, "Something went wrong in `shoal mcp`."))
        finally:
            with self._state_lock:
                self._threads.discard(threading.current_thread())
                if message.id is not None and self._exchanges.get(message.id) is exchange:
                    del self._exchanges[message.id]

    def _forward(self, exchange: Exchange) -> None:
        """Send a message until it is answered. Raises DaemonError."""
        reason = ""
        for _ in range(ATTEMPTS):
            record = self._daemon()
            try:
                if self._attempt(exchange, record):
                    return
                reason = "it refused the token or was about to end"
            except NotSent as error:
                if exchange.cancelled:
                    return
                reason = str(error)
            except OutcomeUnknown as error:
                if exchange.cancelled:
                    return
                reason = str(error)
                if not exchange.message.replayable:
                    raise _unknown(exchange.message, reason) from error
            self._forget(record)
        raise _unreachable(reason)

    def _daemon(self) -> DaemonRecord:
        with self._launch_lock:
            if self._record is None:
                self._record = self._launcher.daemon()
            return self._record

    def _forget(self, record: DaemonRecord) -> None:
        with self._launch_lock:
            if self._record is record:
                self._record = None

    def _attempt(self, exchange: Exchange, record: DaemonRecord) -> bool:
        """Send once and write the answer. False when the daemon refused before doing anything."""
        message = exchange.message
        connection = connect(record, REQUEST_TIMEOUT_S)
        try:
            exchange.attach(connection)
            headers = {
                **authorization(record),
                **wire.headers(message, self._agreed),
                "accept-language": self._language,
            }
            connection.request("POST", self._path, message.body, headers)
            response = connection.getresponse()
            if response.status in GONE_STATUS:
                return False
            if response.getheader("content-type", "").startswith("text/event-stream"):
                self._pass_stream(exchange, response)
            else:
                self._pass_answer(exchange, response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise OutcomeUnknown(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        return True

    def _pass_answer(self, exchange: Exchange, status: int, body: bytes) -> None:
        message = exchange.message
        if message.id is None or exchange.cancelled:
            return
        line = wire.answer_line(body, message.id)
        if line is None:
            line = wire.refusal_line(status, body, message.id)
        elif message.method == "initialize":
            self._agreed = wire.agreed_version(line)
        self._write(line)

    def _pass_stream(self, exchange: Exchange, response: http.client.HTTPResponse) -> None:
        """Write each event's data as a line: notifications, then the answer. Raises OutcomeUnknown without one."""
        data: list[bytes] = []
        answered = False
        for raw in response:
            line = raw.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                event, data = b"".join(data), []
                answered = answered or wire.is_answer(event)
                if not exchange.cancelled:
                    self._write(event)
        if not answered:
            raise OutcomeUnknown("the stream ended without an answer")

    def _write(self, line: bytes) -> None:
        with self._output_lock:
            try:
                self._output.write(line + b"\n")
                self._output.flush()
            except (OSError, ValueError):
                self._client_gone.set()

    def _finish(self) -> None:
        with self._state_lock:
            for exchange in self._exchanges.values():
                if exchange.message.endless:
                    exchange.cancel()
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and not self._client_gone.is_set():
            with self._state_lock:
                waiting = next(iter(self._threads), None)
            if waiting is None:
                return
            waiting.join(timeout=0.1)


def _unknown(message: wire.Message, reason: str) -> DaemonUnreachable:
    return DaemonUnreachable(
        f"The daemon went away during {message.params.get('name', message.method)} ({reason});"
        " whether it was done is unknown.",
        "Look with memory_get, then try again.",
    )


def _unreachable(reason: str) -> DaemonUnreachable:
    return DaemonUnreachable(
        f"The daemon could not be reached in {ATTEMPTS} attempts: {reason}.", "Run `shoal doctor`, then try again."
    )


def warn(text: str) -> None:
    """Tell the person who reads the client's log: stdout is not ours to talk on."""
    sys.stderr.write(f"shoal mcp: {text}\n")
    sys.stderr.flush()
