"""What the browser brings back from the edge: to a server on this machine, or pasted by a person (RFC 8252, 7.3)."""

import asyncio
import secrets
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from shoal.local.sync.asking import shown
from shoal.schema.errors import InvalidInput, NotAllowed, ShoalError, SyncError

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
IDLE_S: Final = 10
"""How long a connection may say nothing: browsers open some in advance."""
POLL_S: Final = 0.05
PASTED_MAX_CHARS: Final = 4_000
_ASKED_ANEW: Final = "Run shoal link again."
_PAGE: Final = """<!doctype html><meta charset="utf-8"><title>shoal</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<h1>shoal</h1><p>{english}</p><p lang="zh">{chinese}</p>
"""
_DONE: Final = _PAGE.format(
    english="You may close this window and go back to the terminal.", chinese="可以关闭此窗口，请回到终端。"
)
_NOT_LINKED: Final = _PAGE.format(
    english="This device was not linked; the terminal says why. You may close this window.",
    chinese="此设备未能连接，原因请见终端。可以关闭此窗口。",
)
_NOTHING: Final = _PAGE.format(english="There is nothing here.", chinese="这里没有内容。")


@dataclass(frozen=True, slots=True)
class Approved:
    """The edge lets this device in."""

    code: str
    iss: str | None
    """Who says so (RFC 9207)."""


class NotForUs(InvalidInput):
    """It answers another request than ours, or none: whoever sends it is not to end the waiting."""


def read_answer(address: str, state: str) -> Approved:
    """Return what an address says to which the edge has sent the browser.

    Raises NotForUs unless it answers what has our state, NotAllowed when the person has refused, SyncError.
    """
    try:
        parts = urlsplit(address.strip()[:PASTED_MAX_CHARS])
        values = parse_qs(parts.query)
    except ValueError:
        values = {}
    told = {name: each[0] for name, each in values.items() if len(each) == 1}
    ours = secrets.compare_digest(told.get("state", "").encode(), state.encode())
    # The address that was opened has our state too, and may be pasted by mistake.
    if not ours or not (told.get("code") or told.get("error")):
        raise NotForUs(
            "This is not the answer to this request.", "Copy the whole address from the browser, as it is at the end."
        )
    if told.get("error") == "access_denied":
        raise NotAllowed("You have not let this device in.", "Run shoal link again if that was a mistake.")
    if "error" in told:
        raise SyncError(f"The edge answers: {shown(told.get('error_description') or told['error'])}", _ASKED_ANEW)
    return Approved(told["code"], told.get("iss"))


class Callback:
    """A server on this machine that waits for one answer. Nothing of it is logged: the request has the code."""

    def __init__(self, state: str) -> None:
        """Take a free port; requests are served between `async with` and its end."""
        self._state = state
        self._answer: asyncio.Future[Approved] = asyncio.get_running_loop().create_future()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True)

    @property
    def redirect_uri(self) -> str:
        """Where the edge is to send the browser."""
        return f"http://{self.authority}{PATH}"

    @property
    def authority(self) -> str:
        """Host and port."""
        return f"{HOST}:{self._server.server_address[1]}"

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        # The thread may be handing over an answer, so this one may not hold the loop up.
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    async def answer(self, timeout_s: float) -> Approved:
        """Wait for the answer. Raises NotAllowed, SyncError, also when none has come in time."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._answer), timeout_s)
        except TimeoutError:
            raise SyncError(
                f"Nobody has let this device in within {timeout_s / 60:.0f} minutes.", _ASKED_ANEW
            ) from None

    def paste(self, address: str) -> None:
        """Take an address that a person has copied out of a browser. Raises NotForUs."""
        self._settle(address)

    def received(self, path: str) -> str:
        """Take what a browser has asked for, in any thread, and return the page to show. Raises NotForUs."""
        # Read twice: here for the page, there for who waits, as a future belongs to its loop's thread.
        page = _DONE
        try:
            read_answer(path, self._state)
        except NotForUs:
            raise
        except ShoalError:
            page = _NOT_LINKED
        self._answer.get_loop().call_soon_threadsafe(self._settle, path)
        return page

    def _settle(self, address: str) -> None:
        if self._answer.done():
            return
        try:
            self._answer.set_result(read_answer(address, self._state))
        except NotForUs:
            raise
        except ShoalError as error:
            self._answer.set_exception(error)


class _Server(ThreadingHTTPServer):
    """Threads, because a browser's connection in advance would keep its next one waiting."""

    daemon_threads = True

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        super().__init__((HOST, 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_S
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        callback = self.server.callback
        # By another name a page of elsewhere could get here (DNS rebinding).
        ours = self.headers.get("host") == callback.authority and urlsplit(self.path).path == PATH
        try:
            page, status = (callback.received(self.path), HTTPStatus.OK) if ours else (_NOTHING, HTTPStatus.NOT_FOUND)
        except NotForUs:
            page, status = _NOTHING, HTTPStatus.BAD_REQUEST
        body = page.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        # The address has the code.
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "shoal"

    def log_message(self, format: str, *args: object) -> None:
        pass
