"""Paths that only look like others: each is not found, or stands behind the same gate."""

from typing import Any

import pytest
from tests.api.faces import TOKENS, mcp_of, raw, rest_of

from shoal.api.rest import PUBLIC_PATHS
from shoal.core.service import Memory

SENT = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
WRITER = ("authorization", "Bearer writer")
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
TRICKS = [
    "//mcp", "/mcp%2f", "/mcp%2F", "/MCP", "/Mcp/", "/mcp//", "/mcp/;x", "/mcp;x", "/mcp/.", "/mcp/..", "/./mcp",
    "/api/v1/../mcp", "/api/v1/%2e%2e/mcp", "/api/v1/..%2fmcp", "/%6dcp", "/mcp%00", "/mcp\x00", "/mcp ", "/mcp%20",
    "/mcp\\", "/mcp?", "/mcp#", "/mcp.json", "mcp", "", "/", "*", "/.well-known/../mcp", "/healthz/../mcp",
    "//api/v1/stats", "/API/v1/stats", "/api/V1/stats", "/api//v1/stats", "/api/v1/stats/", "/api/v1/stats;x",
    "/api/v1/./stats", "/api/v1/x/../stats", "/api/v1/%73tats", "/api/v1%2fstats", "/healthz/../api/v1/stats",
    "/healthz/%2e%2e/api/v1/stats", "/docs/../api/v1/stats", "/healthz/", "//healthz", "/healthz%00", "/HEALTHZ",
    "/healthz;x", "/docs/", "/openapi.json/", "/healthz/x", "https://127.0.0.1:8377/mcp",
]  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
@pytest.mark.parametrize("face", [rest_of, mcp_of])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
async def test_a_trick_in_the_path_leads_past_no_gate(memory: Memory, face: Any, method: str, path: str) -> None:
    app = face(memory, TOKENS)
    assert (await raw(app, method, path, SENT, [PING]))[0] == 401
    assert (await raw(app, method, path, [*SENT, WRITER], [PING]))[0] == 404


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_mcp_is_at_its_path_with_and_without_a_slash(memory: Memory, path: str) -> None:
    app = mcp_of(memory, TOKENS)
    assert (await raw(app, "POST", path, SENT, [PING]))[0] == 401
    assert (await raw(app, "POST", path, [*SENT, WRITER], [PING]))[0] == 200


@pytest.mark.parametrize("path", sorted(PUBLIC_PATHS))
async def test_public_paths_are_public_by_their_exact_names(memory: Memory, path: str) -> None:
    assert (await raw(rest_of(memory, TOKENS), "GET", path))[0] == 200
    assert (await raw(mcp_of(memory, TOKENS), "GET", path))[0] == 401


UNKNOWN = "0" * 32
GETS = ["/healthz", "/docs", "/openapi.json", "/api/v1/stats", "/api/v1/memories", "/api/v1/search?q=x",
        f"/api/v1/memories/{UNKNOWN}", "/api/v1/search?limit=x", "/nowhere"]  # fmt: skip


@pytest.mark.parametrize("path", GETS)
async def test_every_path_that_can_be_got_answers_head_with_the_same_head(memory: Memory, path: str) -> None:
    app = rest_of(memory, TOKENS)
    where, _, query = path.partition("?")
    sent = [WRITER, ("x-request-id", "r1")]
    status, headers, body = await raw(app, "GET", where, sent, query=query)
    assert int(headers["content-length"]) == len(body) > 0
    assert await raw(app, "HEAD", where, sent, query=query) == (status, headers, b"")


async def test_head_where_nothing_can_be_got_says_what_can_be_done(memory: Memory) -> None:
    for app, path, allowed in [
        (mcp_of(memory, TOKENS), "/mcp", "POST"),
        (mcp_of(memory, TOKENS), "/mcp/", "POST"),
        (rest_of(memory, TOKENS), "/api/v1/admin/requeue", "POST"),
    ]:
        status, headers, body = await raw(app, "HEAD", path, [WRITER])
        assert (status, headers["allow"], body) == (405, allowed, b"")


async def test_plain_options_names_the_methods_behind_the_same_gate(memory: Memory) -> None:
    for app, path, allowed in [
        (mcp_of(memory, TOKENS), "/mcp", "POST"),
        (mcp_of(memory, TOKENS), "/mcp/", "POST"),
        (rest_of(memory, TOKENS), "/api/v1/memories", "GET, HEAD, POST"),
        (rest_of(memory, TOKENS), f"/api/v1/memories/{UNKNOWN}", "DELETE, GET, HEAD, PATCH"),
        (rest_of(memory, TOKENS), "/api/v1/admin/requeue", "POST"),
    ]:
        assert (await raw(app, "OPTIONS", path))[0] == 401
        status, headers, body = await raw(app, "OPTIONS", path, [WRITER])
        assert (status, headers["allow"], body) == (204, allowed, b"")
    status, headers, _ = await raw(rest_of(memory, TOKENS), "OPTIONS", "/healthz")
    assert (status, headers["allow"]) == (204, "GET, HEAD")


async def test_a_path_that_is_not_there_is_not_found_whatever_the_method(memory: Memory) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"):
        for path in ("/nowhere", "/api/v1", "/api/v1/admin", f"/api/v1/memories/{UNKNOWN}/burn"):
            assert (await raw(rest_of(memory, TOKENS), method, path, [WRITER]))[0] == 404
        status, _, _ = await raw(rest_of(memory, TOKENS), method, "/nowhere")
        assert status == 401
