"""JSON-RPC lines of the stdio side, and what each becomes on the daemon's Streamable HTTP side. No I/O.

Two eras share the wire. A 2026-07-28 request carries its protocol version in `params._meta` and mirrors version,
method and name in headers. An older one is shaped by the `initialize` that came before, whose agreed version goes
into the header of everything after it.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
"""The code that JSON-RPC leaves to servers: here it means that the daemon can't be reached."""

VERSION_META_KEY: Final = "io.modelcontextprotocol/protocolVersion"
NAME_PARAMETER: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method -> the parameter that the Mcp-Name header mirrors."""

REPLAYABLE_TOOLS: Final = frozenset(
    {
        "memory_store",
        "memory_find",
        "memory_get",
        "memory_stats",
        "read_pic",
        "remember",
        "recall",
        "search",
        "fetch",
    }
)
"""Tools that may run twice: reads, and stores, whose id is the hash of the content. A delete or an update whose
outcome is unknown is not repeated: in between someone may have revived or changed the memory."""

REFUSAL_MAX_CHARS: Final = 500
"""How much of an answer that can't be understood is shown."""

_PLAIN_HEADER: Final = re.compile(r"[\x21-\x7E]([\x20-\x7E]*[\x21-\x7E])?")
_ENCODED_HEADER: Final = re.compile(r"=\?base64\?.*\?=")

RequestId = str | int


@dataclass(frozen=True, slots=True)
class Message:
    """One line from the client: a request (with an id) or a notification, and the bytes to pass on."""

    body: bytes
    method: str
    id: RequestId | None
    params: Mapping[str, Any]

    @property
    def modern_version(self) -> str | None:
        """The protocol version that the message itself carries, which only the new era does."""
        meta = self.params.get("_meta")
        found = cast("dict[str, Any]", meta).get(VERSION_META_KEY) if isinstance(meta, dict) else None
        return found if isinstance(found, str) else None

    @property
    def replayable(self) -> bool:
        """Whether the message may be sent again when nobody knows whether the daemon has carried it out."""
        return self.method != "tools/call" or self.params.get("name") in REPLAYABLE_TOOLS

    @property
    def endless(self) -> bool:
        """Whether the answer is a stream that lasts as long as the client does."""
        return self.method == "subscriptions/listen"

    @property
    def cancels(self) -> RequestId | None:
        """The id of the request that this message cancels."""
        found = self.params.get("requestId") if self.method == "notifications/cancelled" else None
        return found if isinstance(found, str | int) else None


class BadLine(ValueError):
    """A line that is no JSON-RPC message; `answer` is what the client gets."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.answer = error_line(request_id, code, message)


def parse(line: bytes) -> Message | None:
    """Read one line. None for a client's answer to a server's request: the daemon never asks. Raises BadLine."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(PARSE_ERROR, f"This line is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadLine(INVALID_REQUEST, "A line holds one JSON-RPC message; batches are not served.")
    message = cast("dict[str, Any]", found)
    method, request_id = message.get("method"), message.get("id")
    if request_id is not None and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        raise BadLine(INVALID_REQUEST, "An id is a string or an integer.")
    if not isinstance(method, str):
        if "result" in message or "error" in message:
            return None
        raise BadLine(INVALID_REQUEST, "The message names no method.", request_id)
    params = message.get("params")
    return Message(line.strip(), method, request_id, cast("dict[str, Any]", params) if isinstance(params, dict) else {})


def headers(message: Message, agreed_version: str | None) -> dict[str, str]:
    """Return the HTTP headers for a message. `agreed_version` is what an earlier `initialize` settled."""
    found = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if (modern := message.modern_version) is not None:
        found["mcp-protocol-version"] = encode_header(modern)
        found["mcp-method"] = encode_header(message.method)
        name = message.params.get(NAME_PARAMETER.get(message.method, ""))
        if isinstance(name, str):
            found["mcp-name"] = encode_header(name)
    elif agreed_version is not None and message.method != "initialize":
        found["mcp-protocol-version"] = agreed_version
    return found


def encode_header(value: str) -> str:
    """Return a value as it may stand in a header: as it is, or in MCP's base64 form when HTTP would change it."""
    if _PLAIN_HEADER.fullmatch(value) and not _ENCODED_HEADER.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode('ascii')}?="


def error_line(request_id: RequestId | None, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """Return a JSON-RPC error as a line without its end."""
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    # ASCII, so that a lone surrogate in the id or in what was refused can't break the answer that says so.
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def answer_line(body: bytes, request_id: RequestId) -> bytes | None:
    """Return the daemon's JSON answer as one line with the request's id, or None when it is no JSON-RPC answer."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or "jsonrpc" not in found or not ("result" in found or "error" in found):
        return None
    answer = cast("dict[str, Any]", found)
    if answer.get("id") == request_id and b"\n" not in body:
        return body
    # An error that was found before the id could be read says null.
    return json.dumps({**answer, "id": request_id}, separators=(",", ":")).encode()


def refusal_line(status: int, body: bytes, request_id: RequestId) -> bytes:
    """Return the error for an HTTP answer that is no JSON-RPC: the message and mend of our own, else its text."""
    try:
        told = json.loads(body)["error"]
        return error_line(request_id, SERVER_ERROR, f"{told['message']} {told['mend']}", told)
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")[:REFUSAL_MAX_CHARS]
        return error_line(request_id, SERVER_ERROR, f"The daemon answered {status}: {text}")


def is_answer(event: bytes) -> bool:
    """Whether an event of a stream is the answer that ends it, rather than a notification."""
    try:
        found = json.loads(event)
    except ValueError:
        return False
    return isinstance(found, dict) and "method" not in found and ("result" in found or "error" in found)


def agreed_version(answer: bytes) -> str | None:
    """Return the protocol version in the answer to `initialize`."""
    result = json.loads(answer).get("result")
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None
