"""JSON-RPC by hand over both transports, in the shape of each protocol version. No SDK."""

import json
import subprocess
from typing import Any, Final, Protocol, cast

import httpx
from tests.outside.rig import SHOAL, Place

HANDSHAKES: Final = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
"""Versions that begin with `initialize`."""
MODERN: Final = "2026-07-28"
"""The version without a handshake: each request says all that the server must know."""
VERSIONS: Final = [*HANDSHAKES, MODERN]
HEADER_SINCE: Final = "2025-06-18"
"""From here on every HTTP request after the handshake names the version."""
NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
JSON: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
CLIENT: Final = {"name": "tests", "version": "1"}


def message(version: str, method: str, params: dict[str, Any] | None = None, number: int | None = None) -> Any:
    """Return a request, or without a number a notification."""
    said = dict(params or {})
    if version == MODERN:
        said["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    head = {"jsonrpc": "2.0", "method": method}
    return {**head, **({} if number is None else {"id": number}), **({"params": said} if said else {})}


def headers(version: str, method: str, params: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the HTTP headers that go with a message."""
    said = {} if version < HEADER_SINCE or method == "initialize" else {"mcp-protocol-version": version}
    if version == MODERN:
        said["mcp-method"] = method
        if method in NAMED:
            said["mcp-name"] = (params or {})[NAMED[method]]
    return {**JSON, **said}


class Wire(Protocol):
    """A connection on which one version is spoken."""

    version: str

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the whole answer to a request."""
        ...

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send what has no answer."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class HttpWire:
    """Streamable HTTP: a POST a message."""

    def __init__(self, place: Place, version: str) -> None:
        self.version = version
        self._url = place.url
        self._client = httpx.Client(timeout=20, headers=place.headers)
        self._number = 0

    def post(self, body: Any, said: dict[str, str]) -> httpx.Response:
        """POST any JSON, well-formed or not."""
        return self._client.post(self._url, json=body, headers=said)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the whole answer to a request."""
        self._number += 1
        asked = message(self.version, method, params, self._number)
        answer = self.post(asked, headers(self.version, method, params))
        assert answer.headers["content-type"] == "application/json", answer.text
        assert "mcp-session-id" not in answer.headers
        return checked(answer.json(), self._number)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send what has no answer: the status says that it was taken."""
        answer = self.post(message(self.version, method, params), headers(self.version, method, params))
        assert (answer.status_code, answer.content) == (202, b"")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class StdioWire:
    """`shoal mcp`: a line a message."""

    def __init__(self, place: Place, version: str, *arguments: str, **environment: str) -> None:
        self.version = version
        self._number = 0
        self.process = subprocess.Popen(
            [SHOAL, "mcp", *arguments],
            env={**place.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, line: bytes) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Read one line, which is a JSON object whatever happens."""
        assert self.process.stdout is not None
        return cast("dict[str, Any]", json.loads(self.process.stdout.readline()))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the whole answer to a request."""
        self._number += 1
        self.send(json.dumps(message(self.version, method, params, self._number), ensure_ascii=False).encode())
        return checked(self.receive(), self._number)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send what has no answer."""
        self.send(json.dumps(message(self.version, method, params)).encode())

    def close(self) -> None:
        """Close stdin, upon which it ends by itself, having said nothing more on stdout or stderr."""
        rest, complaints = self.process.communicate(timeout=20)
        assert (rest, complaints, self.process.returncode) == (b"", b"", 0)


def checked(answer: Any, number: int) -> dict[str, Any]:
    """Return an answer that is JSON-RPC and belongs to the request."""
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", number), answer
    assert ("result" in answer) != ("error" in answer), answer
    return answer


def hello(wire: Wire) -> dict[str, Any]:
    """Say hello as the version does, and return what the server said about itself."""
    if wire.version == MODERN:
        return wire.ask("server/discover")["result"]
    asked = {"protocolVersion": wire.version, "capabilities": {}, "clientInfo": CLIENT}
    result = wire.ask("initialize", asked)["result"]
    wire.notify("notifications/initialized")
    return result


def call(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool call that went well, as the text of its result has it."""
    result = wire.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])
