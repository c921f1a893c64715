"""Other people's clients over the network: the MCP SDK in both of its eras, and JSON-RPC by hand as of 2025-06-18."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.edge.edge import Edge
from tests.edge.same import borrowed
from tests.outside import test_http, test_mcp2, test_versions
from tests.outside.rig import Place
from tests.outside.wires import MODERN, HttpWire, hello

from shoal.local.home import Home

VERSION = "2025-06-18"
BY_HAND = {"test_the_server_says_what_it_is": "asks over stdio too"}
OVER_HTTP = {
    "test_a_body_that_is_not_json_is_told_so": "asks without a token",
    "test_there_are_no_sessions_to_listen_to_or_to_end": "asks without a token: test_http.py",
    "test_a_web_page_that_is_none_of_ours_reaches_nothing": "asks without a token: test_http.py",
    "test_a_client_chooses_its_tools_by_address_or_header": "asks without a token: test_mcp.py",
    "test_rest_and_mcp_share_one_memory": "asks without a token: test_concurrency.py",
}
globals().update(borrowed(test_versions, BY_HAND))
globals().update(borrowed(test_http, OVER_HTTP))
globals().update(borrowed(test_mcp2, {}))


@pytest.fixture
def place(edge: Edge, tmp_path: Path) -> Place:
    """Where the Worker is, and what it must be told. It searches by words alone, as the daemon of those tests does."""
    edge.order("ai", "daily", times=None)
    headers = {"authorization": edge.http.headers["authorization"]}
    return Place(Home(tmp_path), {}, f"{edge.rig.url}/mcp", headers)


@pytest.fixture
def space(request: pytest.FixtureRequest) -> str:
    """A space for the test."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-60:].strip("-")


@pytest.fixture
def wire(request: pytest.FixtureRequest, place: Place) -> Iterator[HttpWire]:
    """A connection of the newest version for the tests that are about it, else after the handshake of another."""
    newest = request.function.__module__ == test_http.__name__
    opened = HttpWire(place, MODERN if newest else VERSION)
    if not newest:
        assert hello(opened)["protocolVersion"] == VERSION
    yield opened
    opened.close()


@pytest.fixture(params=test_mcp2.VERSION_OF)
def mode(request: pytest.FixtureRequest) -> str:
    """`auto` speaks the newest version, `legacy` begins with a handshake."""
    return request.param


@pytest.fixture
async def client(place: Place, mode: str) -> AsyncIterator[Client]:
    """A client that is not connected yet."""
    async with httpx2.AsyncClient(headers=dict(place.headers)) as http:
        yield Client(streamable_http_client(place.url, http_client=http), mode=mode)
