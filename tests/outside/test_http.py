"""Streamable HTTP at the daemon: what statuses, headers and bodies mean."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.outside.rig import Place
from tests.outside.wires import CLIENT, HANDSHAKES, JSON, MODERN, VERSIONS, HttpWire, headers, message

NEWEST_HANDSHAKE = HANDSHAKES[-1]
HEADER_MISMATCH = -32020
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
PARSE_ERROR = -32700
STATS: dict[str, Any] = {"name": "memory_stats", "arguments": {}}


@pytest.fixture
def wire(place: Place) -> Iterator[HttpWire]:
    """A connection of the newest version."""
    opened = HttpWire(place, MODERN)
    yield opened
    opened.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_needs_nothing_that_came_before_it(wire: HttpWire, version: str) -> None:
    answer = wire.post(message(version, "tools/call", STATS, 1), headers(version, "tools/call", STATS))
    assert answer.status_code == 200
    assert answer.json()["result"]["structuredContent"]["total"] >= 0


def test_a_version_nobody_knows_gets_the_newest_with_a_handshake(wire: HttpWire) -> None:
    asked = {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": CLIENT}
    answer = wire.post(message("", "initialize", asked, 1), JSON)
    assert answer.json()["result"]["protocolVersion"] == NEWEST_HANDSHAKE
    later = wire.post(message("", "ping", None, 2), {**JSON, "mcp-protocol-version": "1999-01-01"})
    assert later.status_code == 400


@pytest.mark.parametrize(
    ("without", "wrong"),
    [
        ("mcp-method", {}),
        ("mcp-name", {}),
        ("", {"mcp-method": "tools/list"}),
        ("", {"mcp-name": "memory_find"}),
    ],
)
def test_headers_must_say_what_the_body_says(wire: HttpWire, without: str, wrong: dict[str, str]) -> None:
    said = {**headers(MODERN, "tools/call", STATS), **wrong}
    said.pop(without, None)
    answer = wire.post(message(MODERN, "tools/call", STATS, 1), said)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, HEADER_MISMATCH)


def test_a_request_of_the_newest_version_must_carry_it_in_its_body(wire: HttpWire) -> None:
    answer = wire.post(message("", "tools/call", STATS, 1), headers(MODERN, "tools/call", STATS))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, INVALID_PARAMS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_is_refused_as_a_whole(wire: HttpWire, version: str) -> None:
    # 2025-03-26 has batches; the SDK serves none in any version.
    batch = [message(version, "tools/call", STATS, number) for number in (1, 2)]
    answer = wire.post(batch, headers(version, "tools/call", STATS))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == (INVALID_REQUEST if version == MODERN else INVALID_PARAMS)


def test_a_body_that_is_not_json_is_told_so(place: Place) -> None:
    answer = httpx.post(place.url, content=b"{", headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, PARSE_ERROR)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_are_no_sessions_to_listen_to_or_to_end(place: Place, method: str) -> None:
    answer = httpx.request(method, place.url, headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"host": "rebound.example:80"}, 421),
        ({"origin": "https://page.example"}, 403),
        ({"host": "localhost"}, 200),
    ],
)
def test_a_web_page_that_is_none_of_ours_reaches_nothing(place: Place, said: dict[str, str], status: int) -> None:
    answer = httpx.post(place.url, json=message("", "ping", None, 1), headers={**JSON, **said})
    assert answer.status_code == status


@pytest.mark.parametrize(("query", "said"), [("?profile=classic", {}), ("", {"shoal-profile": "classic"})])
def test_a_client_chooses_its_tools_by_address_or_header(place: Place, query: str, said: dict[str, str]) -> None:
    answer = httpx.post(place.url + query, json=message("", "tools/list", None, 1), headers={**JSON, **said})
    names = {tool["name"] for tool in answer.json()["result"]["tools"]}
    assert {"remember", "recall", "forget"} <= names


def test_rest_and_mcp_share_one_memory(place: Place, wire: HttpWire, space: str) -> None:
    root = f"http://{urlsplit(place.url).netloc}"
    stored = httpx.post(f"{root}/api/v1/memories", json={"content": "两边都看得见", "space": space})
    assert stored.status_code == 201
    asked = {"name": "memory_find", "arguments": {"query": "看得见", "space": space}}
    result = wire.ask("tools/call", asked)["result"]
    assert [row["id"] for row in result["structuredContent"]["results"]] == [stored.json()["id"]]
    assert json.loads(httpx.get(f"{root}/healthz").content)["status"] in ("ok", "degraded")
