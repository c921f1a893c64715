"""Clients of the faces, in this process."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from shoal.api.context import one_memory
from shoal.api.gate import BearerGate, Gate, HostRule, OpenGate, token_hash
from shoal.api.mcp import mcp_app
from shoal.api.rest import rest_app
from shoal.core.caller import Caller, Scope
from shoal.core.service import Memory

BASE = "http://127.0.0.1:8377"
EVERYONE = OpenGate(Caller(client="test"))
TOKENS = BearerGate(
    {
        token_hash("reader"): Caller(scopes=frozenset({Scope.READ}), client="reader"),
        token_hash("writer"): Caller(scopes=frozenset({Scope.READ, Scope.WRITE}), client="writer"),
        token_hash("elsewhere"): Caller(spaces=("elsewhere",), client="elsewhere"),
        token_hash("everything"): Caller(client="everything"),
    }
)
LOOPBACK = HostRule.loopback(frozenset({"https://app.example.com"}))


def numbered() -> Callable[[], str]:
    """Return a source of request ids: r1, r2, ..."""
    numbers = itertools.count(1)
    return lambda: f"r{next(numbers)}"


def rest_of(memory: Memory, gate: Gate = EVERYONE) -> Any:
    return rest_app(one_memory(memory), gate, LOOPBACK, version="0.1.0", new_id=numbered())


@asynccontextmanager
async def client_of(app: Any, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
        yield client


async def raw(
    app: Any,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]] = (),
    chunks: Iterable[bytes] = (b"",),
    query: str = "",
    leaves: bool = False,
) -> tuple[int, dict[str, str], bytes]:
    """Send one request as a server hands it to the app, and return status, headers and body.

    After the chunks the client is gone, before the body's end if it `leaves`. `headers` without a host get one.
    """
    given = [(k.lower().encode(), v.encode("latin-1")) for k, v in headers]
    if not any(name == b"host" for name, _ in given):
        given.append((b"host", b"127.0.0.1:8377"))
    pieces = list(chunks)
    messages = [
        {"type": "http.request", "body": piece, "more_body": leaves or n < len(pieces) - 1}
        for n, piece in enumerate(pieces)
    ]
    waiting = iter([*messages, {"type": "http.disconnect"}])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": given,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8377),
    }
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, body


def mcp_of(memory: Memory, gate: Gate = EVERYONE, profile: str = "default") -> Any:
    return mcp_app(one_memory(memory), gate, LOOPBACK, version="0.1.0", profile=profile, new_id=numbered())


@asynccontextmanager
async def mcp_client(app: Any, mode: str = "auto", path: str = "/mcp", **headers: str) -> AsyncIterator[Client]:
    """An MCP client over HTTP: `auto` speaks 2026-07-28, `legacy` 2025-11-25."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=BASE, headers=named) as http,
        Client(streamable_http_client(BASE + path, http_client=http), mode=mode) as client,
    ):
        yield client


def told(result: Any) -> dict[str, Any]:
    """Return the answer of a tool call, which stands in it twice."""
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def refusal(result: Any, code: str) -> dict[str, Any]:
    """Return the error of a tool call."""
    assert result.is_error
    error = json.loads(result.content[0].text)
    assert error["code"] == code, error
    assert error["message"]
    assert error["mend"]
    return error
