"""Ask an edge over HTTP: bounded in time and size, with one meaning for each way in which it can go wrong.

What is read from an answer for people to see is cut and cleaned: it may come from anything that sits at the address.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx

from shoal.schema.errors import (
    EdgeBusy,
    EdgeRefused,
    EdgeRestored,
    EdgeUnreachable,
    InvalidInput,
    LinkBroken,
    NotAllowed,
    ProtocolMismatch,
    ShoalError,
    SyncError,
)

CONNECT_S: Final = 10.0
READ_S: Final = 60.0
"""How long an answer may be silent: D1 has been seen to stall for half of that."""
KEEP_S: Final = 120.0
"""How long an idle connection is kept: longer than the pause between two rounds."""
ANSWER_MAX_BYTES: Final = 16_000_000
"""Of an unpacked answer. The largest page is a single cell of 2 MB whose every character JSON has to escape."""
RETRY_AFTER_MAX_S: Final = 86_400.0
"""Quotas are given anew each day; whoever asks for more is not believed."""
SHOWN_CHARS: Final = 500
"""Characters of a message from outside that are repeated."""
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_REFUSES_CONTENT: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Only these are about what was sent: other refusals would meet every cell alike, and lay aside the whole queue."""
_PLACE: Final = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?")
"""A host by name or address, and a port."""
_LATER: Final = "It is tried again by itself; nothing is lost."


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, unpacked."""

    status: int
    headers: Mapping[str, str]
    """Found in any case."""
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:  # UnicodeDecodeError among them
            return None


def edge_url(given: str) -> str:
    """Return the URL of an edge, `https://host[:port]`, from what people write: with /mcp, a slash, capital letters.

    Raises InvalidInput: over http an edge may only be on this machine, as the token would travel in the clear.
    """
    try:
        url, parts = httpx.URL(given.strip()), urlsplit(given.strip())
        # Asking for the port raises where it is none.
        plain = not (parts.username or parts.password or parts.query or parts.fragment or parts.port == 0)
    except (ValueError, httpx.InvalidURL) as error:
        raise InvalidInput("This is no URL of an edge.", "Write it as https://shoal.example.") from error
    place = url.netloc.decode("ascii")
    plain = plain and _PLACE.fullmatch(place) is not None and url.path.rstrip("/") in ("", "/mcp")
    if url.scheme not in ("https", "http") or not plain:
        raise InvalidInput(
            "This is no URL of an edge.", "Write the address of the Worker as https://shoal.example, without a path."
        )
    if url.scheme == "http" and url.host not in LOOPBACK:
        raise InvalidInput("Over http the token could be read on its way.", "Write https:// instead of http://.")
    return f"{url.scheme}://{place}"


def new_client(url: str) -> httpx.AsyncClient:
    """Return a client for one edge: bounded in time, following no redirects, TLS verified, HTTP/1.1 kept alive.

    On this machine no proxy of the environment is asked: it would be sent the token.
    """
    secure = url.startswith("https://")
    return httpx.AsyncClient(
        verify=secure,
        trust_env=secure,
        follow_redirects=False,
        timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=4, keepalive_expiry=KEEP_S),
        headers={"accept": "application/json", "accept-encoding": "gzip"},
    )


async def ask(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    form: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request and return the whole answer, whatever its status. Raises EdgeUnreachable."""
    try:
        async with client.stream(method, url, headers=headers, content=content, data=form) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > ANSWER_MAX_BYTES:
                    raise _unreachable(url, f"its answer is over {ANSWER_MAX_BYTES // 1_000_000} MB")
            return Answer(response.status_code, response.headers, bytes(body))
    except httpx.RequestError as error:
        raise _unreachable(url, _why(error)) from error


def error_of(answer: Answer, url: str) -> ShoalError:
    """Return the error that an answer of the edge at `url` means whose status is not that of success."""
    found = answer.json()
    told = found.get("error") if isinstance(found, dict) else None
    told = cast("dict[str, Any]", told) if isinstance(told, dict) and isinstance(told.get("code"), str) else None
    code, message, mend = (shown(told.get(key)) for key in ("code", "message", "mend")) if told else ("", "", "")
    status, host = answer.status, host_of(url)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return EdgeBusy(
            message or f"{host} answers {status}.", mend or _LATER, retry_after_s=retry_after_s(answer, time.time())
        )
    if told is None:
        # A login page of the network, a proxy, a firewall, a page that has taken over the address: not the edge's word.
        return EdgeUnreachable(
            f"{host} answers {status}, but not as an edge of shoal.",
            "Look whether a proxy or this network's login page is in the way. If the edge has moved, link to its new"
            " address: shoal link URL.",
        )
    if status == HTTPStatus.UNAUTHORIZED:
        return LinkBroken(f"{host} lets this device in no more. {message}", again(url))
    match code:
        case "insufficient_scope":
            return LinkBroken(
                f"{host} does not let this device sync. {message}", f"{again(url)}, and allow it to sync."
            )
        case "not_allowed":
            return NotAllowed(message, mend)
        case "edge_restored":
            return EdgeRestored(message, mend)
        case "protocol_mismatch":
            return ProtocolMismatch(message, mend)
        case "not_found" | "method_not_allowed":
            return ProtocolMismatch(f"{host} is of a version without replication.", "Deploy the newer shoal there.")
        case _:
            pass
    if status in _REFUSES_CONTENT:
        return EdgeRefused(message, mend, refused_status=status)
    return SyncError(f"{host} answers {status} {code}. {message}", mend)


def again(url: str) -> str:
    """Return what to do when an edge lets a device in no more."""
    return f"Link it again: shoal link {url}"


def host_of(url: str) -> str:
    """Return what people call an edge: its host, with a port if it has one."""
    return urlsplit(url).netloc


def retry_after_s(answer: Answer, now_s: float) -> float:
    """Return for how many seconds an answer wants to be left alone (RFC 9110, 10.2.3); 0 where it does not say."""
    given = answer.headers.get("retry-after", "").strip()
    try:
        wanted = float(given) if given.isdecimal() else parsedate_to_datetime(given).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, wanted), RETRY_AFTER_MAX_S)


def _unreachable(url: str, why: str) -> EdgeUnreachable:
    return EdgeUnreachable(f"{host_of(url)} could not be asked: {why}.", _LATER)


def _why(error: httpx.RequestError) -> str:
    """Say what broke. Only a failed connection's own words are repeated: others may quote a header, so a token."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {CONNECT_S:.0f} s"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {READ_S:.0f} s"
    if isinstance(error, httpx.ConnectError):
        return shown(str(error)).rstrip(".") or "no connection"
    return f"the connection broke ({type(error).__name__})"


def shown(text: object) -> str:
    """Return a text from outside as it may be printed: on a terminal control characters are commands."""
    cut = text[:SHOWN_CHARS] if isinstance(text, str) else ""
    return "".join(char if char.isprintable() else " " for char in cut).strip()
