"""Valid requests of every kind, from which the fuzzer makes others."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from tests.fuzz.place import OPEN, App, Place
from tests.outside.wires import MODERN, headers, message

LEGACY: Final = "2025-06-18"
Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it goes over the wire, but for the connection's own headers."""

    method: str
    target: bytes
    """Path and query."""
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""


def rest(place: Place) -> list[Asked]:
    """Return requests of the REST face."""
    one, other = place.shown[:2]
    stored = {
        "content": "Tea is at four",
        "tags": ["tea"],
        "metadata": {"by": "fuzz"},
        "importance": 0.5,
        "space": OPEN,
    }
    return [
        _posted(place, "/memories", stored),
        _posted(place, "/memories", {"items": [{"content": "One"}, {"content": "Two", "type": "note"}], "wait": True}),
        _posted(place, "/memories", {"content": "A turn", "conversation_id": "c1", "position": 3, "source": "chat"}),
        _posted(place, "/search", {"query": "coffee machine", "n_results": 5, "explain": True, "include_edges": True}),
        _posted(place, "/search", {"query": "yesterday's tea", "tags": ["tea"], "since": "2026-01-01", "space": "*"}),
        _posted(place, "/memories/delete", {"ids": [other], "dry_run": True, "reason": "a test"}),
        _posted(place, "/memories/delete", {"tags": ["tea"], "confirm": True}),
        _posted(place, "/memories/delete", {"ids": [one], "confirm": True}),
        _posted(place, f"/memories/{one}/revive", {}),
        _posted(place, f"/memories/{one}", {"tags": ["x"], "importance": 0.9, "archived": False}, "PATCH"),
        _posted(place, f"/memories/{one}", {"content": "It moved"}, "PATCH"),
        _asked(place, f"/memories/{one}", {"with_edges": "true", "with_history": "true"}),
        _asked(place, "/memories", {"page": "1", "page_size": "10", "order": "newest", "trash": "true"}),
        _asked(place, "/memories", {"tags": "tea", "time": "last week", "include_archived": "true"}),
        _asked(place, "/search", {"query": "coffee", "n_results": "3", "min_score": "0.1"}),
        _asked(place, f"/memories/{other}", {"confirm": "true"}, "DELETE"),
        _asked(place, "/stats", {}),
        _posted(place, "/admin/requeue", {}),
        Asked("GET", b"/healthz"),
        Asked("GET", b"/openapi.json"),
        Asked("GET", b"/docs"),
        Asked(
            "OPTIONS",
            b"/api/v1/search",
            [("origin", place.origin), ("access-control-request-method", "POST")],
        ),
    ]


def mcp(place: Place) -> list[Asked]:
    """Return requests of the MCP face, in both of its eras."""
    one = place.shown[0]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_store", {"content": "Tea is at five", "tags": ["tea"]}),
        ("memory_find", {"query": "coffee machine", "n_results": 5}),
        ("memory_get", {"ids": [one], "with_history": True}),
        ("memory_update", {"id": one, "tags": ["y"]}),
        ("memory_delete", {"ids": [one], "dry_run": True}),
        ("memory_stats", {}),
    ]
    messages: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("resources/read", {"uri": "memory://recent"}),
        ("resources/read", {"uri": f"memory://{one}"}),
        ("prompts/get", {"name": "memory_retrieval", "arguments": {"question": "Where is coffee?"}}),
        ("prompts/get", {"name": "session_start"}),
        *(("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls),
    ]
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}}
    listen = {"notifications": {"resourceSubscriptions": ["memory://recent"]}}
    return [
        *(_message(place, version, method, params) for version in (LEGACY, MODERN) for method, params in messages),
        _message(place, LEGACY, "initialize", hello),
        _message(place, LEGACY, "ping", {}),
        _message(place, MODERN, "server/discover", {}),
        _message(place, MODERN, "subscriptions/listen", listen),
        _message(place, LEGACY, "tools/call", {"name": "recall", "arguments": {"query": "coffee"}}, "?profile=classic"),
    ]


def _headers(place: Place, **more: str) -> Headers:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return [("authorization", f"Bearer {place.token}"), *named.items()]


def _posted(place: Place, path: str, body: object, method: str = "POST") -> Asked:
    said = _headers(place, content_type="application/json", accept_language="en", shoal_time_zone="Europe/Berlin")
    return Asked(method, f"/api/v1{path}".encode(), said, json.dumps(body).encode())


def _asked(place: Place, path: str, query: Mapping[str, str], method: str = "GET") -> Asked:
    return Asked(method, f"/api/v1{path}?{urlencode(query)}".encode(), _headers(place))


def _message(place: Place, version: str, method: str, params: dict[str, Any], query: str = "") -> Asked:
    said = [*_headers(place), *headers(version, method, params).items()]
    return Asked("POST", f"/mcp{query}".encode(), said, json.dumps(message(version, method, params, 1)).encode())


def oauth(place: Place, app: App) -> list[Asked]:
    """Return requests of the authorization server: of the app, of the owner's browser, and of nobody in particular."""
    code, session = f"shoal_c_{'A' * 43}", ("cookie", app.cookie)
    asked = {
        "response_type": "code",
        "client_id": app.client_id,
        "redirect_uri": app.redirect_uri,
        "scope": "memory:read memory:write",
        "state": "s",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "resource": f"{place.url}/mcp",
    }
    page = f"/authorize?{urlencode(asked)}"
    own = {"client_id": app.client_id}
    exchange = {"grant_type": "authorization_code", "code": code, "redirect_uri": app.redirect_uri}
    refresh = {"grant_type": "refresh_token", "refresh_token": f"shoal_r_{'A' * 43}", "scope": "memory:read"}
    client = {"client_name": "Fuzz", "redirect_uris": [app.redirect_uri], "token_endpoint_auth_method": "none"}
    known = (
        "oauth-authorization-server oauth-authorization-server/mcp openid-configuration oauth-protected-resource/mcp"
    )
    return [
        Asked("GET", page.encode()),
        Asked("GET", page.encode(), [session, ("accept-language", "zh")]),
        _form("/token", {**exchange, **own, "code_verifier": "v" * 43}),
        _form("/token", {**refresh, **own}),
        _form("/token", refresh, ("authorization", "Basic bm9ib2R5OnNlY3JldA==")),
        _form("/revoke", {"token": f"shoal_r_{'A' * 43}", "token_type_hint": "refresh_token", **own}),
        _form("/introspect", {"token": place.token}, ("authorization", f"Bearer {place.token}")),
        Asked("POST", b"/register", [("content-type", "application/json")], json.dumps(client).encode()),
        _form("/login", {"secret": "not the key", "next": page}, ("origin", place.url)),
        _form("/consent", app.consent, session, ("origin", place.url)),
        _form("/consent", {**app.consent, "every-read": "1", "other-name": "x"}, session, ("origin", place.url)),
        _form("/logout", {"handle": f"shoal_f_{'A' * 43}"}, session, ("origin", place.url)),
        _form("/account/revoke", {"id": "1", "handle": f"shoal_f_{'A' * 43}"}, session, ("origin", place.url)),
        Asked("GET", b"/account", [session]),
        *(Asked("GET", f"/.well-known/{name}".encode()) for name in known.split()),
    ]


def _form(path: str, fields: Mapping[str, str], *headers: tuple[str, str]) -> Asked:
    kind = ("content-type", "application/x-www-form-urlencoded")
    return Asked("POST", path.encode(), [kind, *headers], urlencode(fields).encode())


def valid(place: Place) -> list[Asked]:
    """Return all that should be answered well."""
    return [*rest(place), *mcp(place)]


def every(place: Place) -> Iterator[Asked]:
    """Return all that the place should understand."""
    yield from valid(place)
    if place.app is not None:
        yield from oauth(place, place.app)
