"""The MCP SDK lets itself in: it finds the way, registers, asks, refreshes, and asks for more, all by itself."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import mcp.client.auth.oauth2
import mcp.shared.auth_utils
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from tests.edge.doubles.internet import Internet
from tests.edge.edge import COFFEE, Edge
from tests.edge.owner import Owner, parameters
from tests.outside.test_mcp2 import VERSION_OF

CALLBACK: Final = "http://127.0.0.1:3030/callback"
DOCUMENT: Final = "https://app.example.com/oauth/client.json"
HOUR_S: Final = 3_600
READING: Final = {"memory_find", "memory_get", "memory_stats"}
WRITING: Final = {"memory_store", "memory_update", "memory_delete"}


class App:
    """What an app's maker writes around the SDK: a place for tokens, and two ways to the browser."""

    def __init__(self, edge: Edge, owner: Owner, mode: str, document: str | None = None) -> None:
        self.url = f"{edge.rig.url}/mcp"
        self.owner = owner
        self.mode = mode
        self.document = document
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.sent: list[str] = []
        """Path and status of all requests, oldest first."""
        self.forms: list[dict[str, str]] = []
        """What the token endpoint was sent."""
        self._sent_back = ""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """Connect, as after a start of the app."""
        metadata = OAuthClientMetadata(client_name="SDK app", redirect_uris=[AnyUrl(CALLBACK)])
        provider = OAuthClientProvider(self.url, metadata, self, self._open, self._returned, self.document)
        hooks = {"response": [self._note]}
        async with (
            httpx2.AsyncClient(auth=provider, verify=False, event_hooks=hooks) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=self.mode) as client,
        ):
            yield client

    def count(self, line: str) -> int:
        """Return how many requests had this method, path and status."""
        return self.sent.count(line)

    async def _note(self, response: httpx2.Response) -> None:
        request = response.request
        self.sent.append(f"{request.method} {request.url.path} {response.status_code}")
        if request.url.path == "/token":
            self.forms.append(parameters(f"x:?{request.content.decode()}"))

    # The browser

    async def _open(self, url: str) -> None:
        self._sent_back = self.owner.lets_in(url)

    async def _returned(self) -> AuthorizationCodeResult:
        assert self._sent_back.startswith(CALLBACK)
        told = parameters(self._sent_back)
        return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told["iss"])

    # The storage

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture(params=VERSION_OF)
def mode(request: pytest.FixtureRequest) -> str:
    """`auto` speaks the newest version, `legacy` begins with a handshake."""
    return request.param


@pytest.fixture
def owner(edge: Edge) -> Iterator[Owner]:
    with Owner(edge.rig.url) as owner:
        yield owner


@pytest.fixture
def app(edge: Edge, owner: Owner, mode: str) -> App:
    return App(edge, owner, mode)


async def tools(client: Client) -> set[str]:
    """Return the names of the tools that the client is shown now."""
    # The list may be kept for a while by whoever asks with the same token; the SDK forgets that it has another one.
    return {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}


async def store_and_find(client: Client) -> None:
    """Store something and find it."""
    stored = await told(client, "memory_store", content=COFFEE)
    found = await told(client, "memory_find", query="coffee machine")
    assert [row["id"] for row in found["results"]] == [stored["id"]]


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a call that must go well."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


def later(edge: Edge, monkeypatch: pytest.MonkeyPatch, ahead_s: float) -> None:
    """Let time pass, for the Worker and for the SDK."""
    edge.rig.set_clock(ahead_s)
    clock = SimpleNamespace(time=lambda: time.time() + ahead_s)
    for module in (mcp.client.auth.oauth2, mcp.shared.auth_utils):
        monkeypatch.setattr(module, "time", clock)


async def test_it_registers_is_let_in_and_sees_only_what_it_was_allowed(edge: Edge, app: App, owner: Owner):
    async with app.connected() as client:
        assert client.session.protocol_version == VERSION_OF[app.mode]
        seen = await tools(client)
        assert seen == READING | WRITING
        await store_and_find(client)
    assert app.sent[:6] == [
        "POST /mcp 401",
        "GET /.well-known/oauth-protected-resource/mcp 200",
        "GET /.well-known/oauth-authorization-server 200",
        "POST /register 201",
        "POST /token 200",
        "POST /mcp 200",
    ]
    assert owner.scopes_asked() == ["memory:read memory:write"]
    assert edge.rows("select client, action from write_log") == [("SDK app", "store")]
    # After another start it goes on with what it has stored.
    async with app.connected() as client:
        await told(client, "memory_find", query="coffee machine")
    assert len(owner.asked) == app.count("POST /register 201") == 1


async def test_it_is_known_by_its_document(edge: Edge, owner: Owner, internet: Internet, mode: str):
    document = {"client_id": DOCUMENT, "client_name": "Documented", "redirect_uris": ["http://127.0.0.1/callback"]}
    internet.put(DOCUMENT, document)
    app = App(edge, owner, mode, DOCUMENT)
    async with app.connected() as client:
        await store_and_find(client)
    assert owner.asked[0]["client_id"] == DOCUMENT
    assert app.count("POST /register 201") == 0
    assert edge.rows("select client from write_log") == [("Documented",)]


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
async def test_it_is_known_when_the_owner_has_registered_it(edge: Edge, owner: Owner, method: str):
    wanted = {"name": "Ours", "redirect_uris": [CALLBACK], "auth_method": method}
    made = edge.ask("POST", "/admin/clients", json=wanted)
    app = App(edge, owner, "auto")
    app.client = OAuthClientInformationFull(
        client_id=made["client_id"],
        client_secret=made.get("client_secret"),
        token_endpoint_auth_method=method,
        redirect_uris=[AnyUrl(CALLBACK)],
        issuer=edge.rig.url,
    )
    async with app.connected() as client:
        await store_and_find(client)
    assert app.count("POST /register 201") == 0
    assert ("client_secret" in app.forms[0]) is (method == "client_secret_post")


async def test_it_refreshes_by_itself_and_the_owner_is_not_asked_again(
    edge: Edge, app: App, owner: Owner, monkeypatch: pytest.MonkeyPatch
):
    async with app.connected() as client:
        await store_and_find(client)
        first = app.tokens
        later(edge, monkeypatch, HOUR_S + 1)
        await told(client, "memory_find", query="coffee machine")
        later(edge, monkeypatch, 2 * HOUR_S + 2)
        await told(client, "memory_find", query="coffee machine")
    assert [form["grant_type"] for form in app.forms] == ["authorization_code", "refresh_token", "refresh_token"]
    assert first is not None
    assert app.forms[1]["refresh_token"] == first.refresh_token
    assert app.forms[2]["refresh_token"] != first.refresh_token
    assert len(owner.asked) == app.count("POST /mcp 401") == 1


async def test_when_the_owner_has_ended_it_the_next_call_is_refused_and_it_asks_anew(app: App, owner: Owner):
    async with app.connected() as client:
        await store_and_find(client)
        owner.ends_all()
        since = len(app.sent)
        await told(client, "memory_find", query="coffee machine")
    assert app.sent[since] == "POST /mcp 401"
    assert len(owner.asked) == 2
    assert app.count("POST /register 201") == 1


async def test_when_it_needs_more_it_asks_for_all_of_it_and_the_call_goes_through(app: App, owner: Owner):
    owner.allows = {"main": "memory:read"}
    async with app.connected() as client:
        assert await tools(client) == READING
        owner.allows = None
        await store_and_find(client)
        assert await tools(client) == READING | WRITING
    assert app.count("POST /mcp 403") == 1
    assert [set(scopes.split()) for scopes in owner.scopes_asked()] == [{"memory:read", "memory:write"}] * 2
