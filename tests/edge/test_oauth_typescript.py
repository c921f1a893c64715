"""The MCP SDKs for TypeScript let themselves in: the one that most apps are made with, and the newest."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.edge.doubles.internet import Internet
from tests.edge.edge import COFFEE, PLAIN, Edge
from tests.edge.owner import Owner
from tests.outside.rig import TOOLS, node, tool

APP: Final = Path(__file__).with_name("node_clients") / "app.mjs"
PACKAGES: Final = TOOLS / "node"
CALLBACK: Final = "http://127.0.0.1/callback"
"""Any port will do."""
DOCUMENT: Final = "https://app.example.com/oauth/client.json"
HOUR_S: Final = 3_600
VERSION_OF: Final = {"sdk": "2025-11-25", "client": "2026-07-28"}
END_S: Final = 10.0
READING: Final = {"memory_find", "memory_get", "memory_stats"}
WRITING: Final = {"memory_store", "memory_update", "memory_delete"}


class Failed(Exception):
    """What the SDK threw."""


class App:
    """The app of node_clients/app.mjs, and the browser that it opens."""

    def __init__(self, kind: str, url: str, owner: Owner) -> None:
        self.kind = kind
        self.requests: list[str] = []
        """What the last command took: method, path and status."""
        self._owner = owner
        tool(PACKAGES / "node_modules" / "@modelcontextprotocol" / kind / "package.json")
        command = [node(), str(APP), str(PACKAGES), kind, f"{url}/mcp"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        """End it."""
        try:
            self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        assert self._process.returncode == 0

    def do(self, action: str, **more: Any) -> Any:
        """Let it do something, and let it in where it asks for that; return the result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": action, **more}) + "\n")
        self._process.stdin.flush()
        while "open" in (said := self._said()):
            httpx.get(self._owner.lets_in(said["open"]), **PLAIN).raise_for_status()
        self.requests = said["requests"]
        if "error" in said:
            raise Failed(said["error"])
        return said["result"]

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, which must go well, and return its answer."""
        result = self.do("call", name=name, arguments=arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def store_and_find(self) -> None:
        """Store something and find it."""
        stored = self.call("memory_store", content=COFFEE)
        self.find(stored["id"])

    def find(self, memory_id: str) -> None:
        """Find what was stored."""
        assert [row["id"] for row in self.call("memory_find", query="coffee machine")["results"]] == [memory_id]

    def _said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@pytest.fixture
def owner(edge: Edge) -> Iterator[Owner]:
    with Owner(edge.rig.url) as owner:
        yield owner


@pytest.fixture(params=VERSION_OF)
def app(request: pytest.FixtureRequest, edge: Edge, owner: Owner) -> Iterator[App]:
    app = App(request.param, edge.rig.url, owner)
    yield app
    app.close()


def test_it_registers_is_let_in_refreshes_and_asks_anew_when_the_owner_has_ended_it(edge: Edge, app: App, owner: Owner):
    assert app.do("connect")["version"] == VERSION_OF[app.kind]
    assert "POST /register 201" in app.requests
    assert set(app.do("tools")) == READING | WRITING
    stored = app.call("memory_store", content=COFFEE)
    app.find(stored["id"])
    assert edge.rows("select client, action from write_log") == [(f"TypeScript {app.kind}", "store")]

    # Its access token has run out.
    edge.rig.set_clock(HOUR_S + 1)
    app.find(stored["id"])
    assert app.requests[0] == "POST /mcp 401"
    assert app.requests[-2:] == ["POST /token 200", "POST /mcp 200"]
    assert len(owner.asked) == 1

    # Its refresh token is of no use either: the SDK gives it up, and asks.
    owner.ends_all()
    app.find(stored["id"])
    assert next(one for one in app.requests if one.startswith("POST /mcp")) == "POST /mcp 401"
    assert "POST /token 400" in app.requests
    assert len(owner.asked) == 2
    assert "POST /register 201" not in app.requests


def test_it_is_known_by_its_document(edge: Edge, app: App, owner: Owner, internet: Internet):
    document = {"client_id": DOCUMENT, "client_name": "Documented", "redirect_uris": [CALLBACK]}
    internet.put(DOCUMENT, document)
    app.do("connect", document=DOCUMENT)
    assert "POST /register 201" not in app.requests
    app.store_and_find()
    assert owner.asked[0]["client_id"] == DOCUMENT
    assert edge.rows("select client from write_log") == [("Documented",)]


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_it_is_known_when_the_owner_has_registered_it(edge: Edge, app: App, owner: Owner, method: str):
    made = edge.ask("POST", "/admin/clients", json={"name": "Ours", "redirect_uris": [CALLBACK], "auth_method": method})
    known = {name: made[name] for name in ("client_id", "client_secret") if made.get(name)}
    app.do("connect", client={**known, "token_endpoint_auth_method": method})
    assert "POST /register 201" not in app.requests
    app.store_and_find()
    assert owner.asked[0]["client_id"] == made["client_id"]
    # Its access token has run out: it refreshes as the client that it is.
    edge.rig.set_clock(HOUR_S + 1)
    app.call("memory_find", query="coffee machine")
    assert app.requests[-2:] == ["POST /token 200", "POST /mcp 200"]


def test_when_it_needs_more_it_asks_for_all_of_it_and_the_call_goes_through(app: App, owner: Owner):
    owner.allows = {"main": "memory:read"}
    app.do("connect")
    assert set(app.do("tools")) == READING
    owner.allows = None
    if app.kind == "sdk":
        # It refreshes first, which by RFC 6749, 6, can give no more than before, and gives up: its users connect anew.
        with pytest.raises(Failed, match="403 after trying upscoping"):
            app.store_and_find()
        assert app.requests == ["POST /mcp 403", "POST /token 200", "POST /mcp 403"]
        app.do("disconnect")
        app.do("connect")
    app.store_and_find()
    assert [set(scopes.split()) for scopes in owner.scopes_asked()] == [{"memory:read", "memory:write"}] * 2
