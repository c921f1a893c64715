"""The owner makes, lists and ends tokens, and reads the log; nobody else does."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope
from tests.api.oauth.doubles import Clock, ScriptedFetcher
from tests.api.oauth.flow import REDIRECT, Counting, app, approve, connected, ended_because, exchange, register, rows

from shoal.api.context import CONTEXT_KEY, CallContext
from shoal.api.oauth import admin, clients, secrets
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.gate import TokenGate
from shoal.api.oauth.ports import Fetched
from shoal.api.oauth.records import ClientKind
from shoal.api.openapi import document
from shoal.api.rest import rest_face
from shoal.core.caller import Caller, Scope
from shoal.core.protocols import Statement
from shoal.core.service import Memory

OWNER = Caller(owner=True, client="owner")
Calls = Callable[[Caller], httpx.AsyncClient]


def face() -> FastAPI:
    return rest_face(version="1", more=[admin.router])


def face_of(authority: Authority, memory: Memory, caller: Caller) -> ASGIApp:
    served = face()

    async def serve(scope: HttpScope, receive: Receive, send: Send) -> None:
        await served({**scope, AUTHORITY_KEY: authority, CONTEXT_KEY: CallContext(memory, caller)}, receive, send)

    return serve


@pytest.fixture
async def calls(authority: Authority, memory: Memory) -> AsyncIterator[Calls]:
    def client(caller: Caller) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(face_of(authority, memory, caller)), base_url="https://memory.example"
        )

    yield client


@pytest.fixture
async def owner(calls: Calls) -> AsyncIterator[httpx.AsyncClient]:
    async with calls(OWNER) as client:
        yield client


async def make(owner: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await owner.post("/api/v1/admin/tokens", json={"name": "script", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def admitted(authority: Authority, token: str) -> Caller:
    scope: HttpScope = {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}
    return await TokenGate(lambda _scope: authority).admit(scope)


async def test_a_token_is_made_for_reading_and_writing_main_unless_told_otherwise(
    owner: httpx.AsyncClient, authority: Authority
) -> None:
    made = await make(owner)
    assert set(made) == {"id", "token"}
    caller = await admitted(authority, made["token"])
    assert (caller.client, caller.token, caller.device) == ("script", made["id"], "")
    assert (caller.scopes, caller.spaces) == ({Scope.READ, Scope.WRITE}, ("main",))
    assert not caller.owner


async def test_a_token_reaches_what_it_was_made_for(owner: httpx.AsyncClient, authority: Authority) -> None:
    made = await make(owner, device="laptop", spaces={"*": ["read"], " 家 ": ["write", "admin"]}, sync=True)
    caller = await admitted(authority, made["token"])
    assert caller.device == "laptop"
    assert caller.reach(Scope.READ) is None
    assert caller.reach(Scope.WRITE) == caller.reach(Scope.ADMIN) == ("家",)
    assert Scope.SYNC in caller.scopes


async def test_a_token_can_be_made_to_end(owner: httpx.AsyncClient, authority: Authority, clock: Clock) -> None:
    await make(owner, expires_in_days=2)
    (row,) = await rows(authority, "select expires_at from oauth_grant")
    assert row["expires_at"] == clock() + 2 * 86_400_000


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\x00b"},
        {"name": 1},
        {"device": ""},
        {"spaces": {}},
        {"spaces": {"main": []}},
        {"spaces": {"main": ["own"]}},
        {"spaces": {"": ["read"]}},
        {"spaces": {"x" * 65: ["read"]}},
        {"spaces": {str(n): ["read"] for n in range(65)}},
        {"spaces": ["main"]},
        {"spaces": {}, "sync": True},
        {"sync": "yes"},
        {"expires_in_days": 0},
        {"expires_in_days": 3_651},
        {"expires_in_days": 10**30},
        {"expires_in_days": 1.5},
        {"scope": "memory:read"},
    ],
)
async def test_a_request_that_cannot_be_met_is_refused_and_makes_nothing(
    owner: httpx.AsyncClient, authority: Authority, fields: dict[str, Any]
) -> None:
    answer = await owner.post("/api/v1/admin/tokens", json={"name": "script", **fields})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["mend"]
    assert await rows(authority, "select 1 from oauth_grant") == []


@pytest.mark.parametrize("body", [b"", b"{", b'"x"', b"[]", b'{"name": "\\ud800"}', b"\xff"])
async def test_a_body_that_is_no_request_is_refused(owner: httpx.AsyncClient, body: bytes) -> None:
    answer = await owner.post("/api/v1/admin/tokens", content=body)
    assert answer.status_code in (400, 422), answer.text


async def test_what_lets_someone_in_is_listed_without_the_tokens(
    owner: httpx.AsyncClient, authority: Authority
) -> None:
    made = await make(owner, device="laptop", spaces={"*": ["admin", "read"]}, expires_in_days=1)
    await connected(authority)
    answer = await owner.get("/api/v1/admin/tokens")
    assert made["token"] not in answer.text
    shown = {token["name"]: token for token in answer.json()["tokens"]}
    assert shown["script"] == {
        "id": made["id"],
        "kind": "device",
        "client_id": None,
        "name": "script",
        "device": "laptop",
        "spaces": {"*": ["read", "admin"]},
        "sync": False,
        "created_at": "2026-09-21T14:13:20Z",
        "used_at": None,
        "expires_at": "2026-09-22T14:13:20Z",
    }
    assert (shown["App"]["kind"], shown["App"]["client_id"]) == ("app", "app-id")


async def test_a_token_and_an_apps_connection_are_ended_by_id(owner: httpx.AsyncClient, authority: Authority) -> None:
    await make(owner)
    await connected(authority)
    for token in (await owner.get("/api/v1/admin/tokens")).json()["tokens"]:
        answer = await owner.delete(f"/api/v1/admin/tokens/{token['id']}")
        assert (answer.status_code, answer.json()) == (200, {"id": token["id"]})
        assert (await owner.delete(f"/api/v1/admin/tokens/{token['id']}")).status_code == 404
    assert await ended_because(authority) == ["owner", "owner"]


@pytest.mark.parametrize("token_id", ["x", "0" * 32, "%00", "%ED%A0%80", "A" * 32, "0" * 5_000])
async def test_an_unknown_id_is_not_found(owner: httpx.AsyncClient, token_id: str) -> None:
    answer = await owner.delete(f"/api/v1/admin/tokens/{token_id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


URL = "https://app.example/client.json"
APP = {"name": "Our app", "redirect_uris": ["https://app.example/callback", "cursor://callback"]}


async def test_a_public_client_is_registered_beforehand_and_listed(
    owner: httpx.AsyncClient, authority: Authority
) -> None:
    answer = await owner.post("/api/v1/admin/clients", json=APP)
    assert answer.status_code == 201
    made = answer.json()
    assert made == {**APP, "client_id": made["client_id"], "auth_method": "none", "client_secret": None}
    assert (await clients.find(authority, made["client_id"])).kind is ClientKind.GIVEN
    del made["client_secret"]
    assert (await owner.get("/api/v1/admin/clients")).json() == {"clients": [made]}


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
async def test_a_clients_secret_is_shown_once(owner: httpx.AsyncClient, authority: Authority, method: str) -> None:
    made = (await owner.post("/api/v1/admin/clients", json={**APP, "auth_method": method})).json()
    assert secrets.is_well_formed(made["client_secret"], secrets.Secret.CLIENT)
    assert made["client_secret"] not in (await owner.get("/api/v1/admin/clients")).text
    assert made["client_secret"] not in str(await rows(authority, "select * from oauth_client"))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"redirect_uris": []},
        {"redirect_uris": ["http://evil.example/"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["https://memory.example/callback"]},
        {"redirect_uris": ["https://app.example/\ud800"]},
        {"redirect_uris": [f"https://app.example/{n}" for n in range(11)]},
        {"redirect_uris": "https://app.example/"},
        {"auth_method": "private_key_jwt"},
        {"client_id": "chosen"},
    ],
)
async def test_a_client_that_cannot_be_is_refused(
    owner: httpx.AsyncClient, authority: Authority, fields: dict[str, Any]
) -> None:
    answer = await owner.post("/api/v1/admin/clients", content=json.dumps({**APP, **fields}))
    assert answer.status_code in (400, 422), answer.text
    assert await rows(authority, "select 1 from oauth_client") == []


async def test_a_removed_client_is_unknown_and_its_connections_end(
    owner: httpx.AsyncClient, authority: Authority
) -> None:
    made = (await owner.post("/api/v1/admin/clients", json=APP)).json()
    client = await clients.find(authority, made["client_id"])
    await exchange(authority, await approve(authority, client), client)
    answer = await owner.delete(f"/api/v1/admin/clients/{client.id}")
    assert (answer.status_code, answer.json()) == (200, {"id": client.id})
    assert (await owner.delete(f"/api/v1/admin/clients/{client.id}")).status_code == 404
    assert await ended_because(authority) == ["client_removed"]
    with pytest.raises(OAuthError):
        await clients.find(authority, client.id)


async def test_why_a_redirect_uri_is_refused_is_said_at_its_field(owner: httpx.AsyncClient) -> None:
    answer = await owner.post("/api/v1/admin/clients", json={**APP, "redirect_uris": ["http://evil.example/"]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (422, "invalid_input", "redirect_uris")
    assert "https" in error["message"] and error["mend"]


async def test_an_app_that_registered_itself_can_be_removed(owner: httpx.AsyncClient, authority: Authority) -> None:
    client = replace(app(), id="ab" * 16)
    await register(authority, client)
    await exchange(authority, await approve(authority, client), client)
    assert (await owner.get("/api/v1/admin/clients")).json() == {"clients": []}
    answer = await owner.delete(f"/api/v1/admin/clients/{client.id}")
    assert (answer.status_code, answer.json()) == (200, {"id": client.id})
    assert await ended_because(authority) == ["client_removed"]


@pytest.mark.parametrize("written", [quote(URL, safe=""), URL])
async def test_an_app_of_a_document_can_be_removed_by_its_url(
    owner: httpx.AsyncClient, authority: Authority, fetcher: ScriptedFetcher, written: str
) -> None:
    told = {"client_id": URL, "redirect_uris": [REDIRECT]}
    fetcher.answers[URL] = Fetched(200, {"content-type": "application/json"}, json.dumps(told).encode())
    client = await clients.find(authority, URL)
    await exchange(authority, await approve(authority, client), client)
    assert [token["client_id"] for token in (await owner.get("/api/v1/admin/tokens")).json()["tokens"]] == [URL]
    answer = await owner.delete(f"/api/v1/admin/clients/{written}")
    assert (answer.status_code, answer.json()) == (200, {"id": URL})
    assert await ended_because(authority) == ["client_removed"]
    assert await rows(authority, "select 1 from oauth_client") == []
    assert (await owner.delete(f"/api/v1/admin/clients/{written}")).status_code == 404


@pytest.mark.parametrize(
    "client_id",
    [
        "x",
        "0" * 32,
        "%00",
        "%ED%A0%80",
        "0" * 5_000,
        "a/b",
        "https:%2F%2Fapp.example%2Fclient",
        "https:%2F%2F%ED%A0%80",
    ],
)
async def test_an_unknown_client_is_not_found(owner: httpx.AsyncClient, client_id: str) -> None:
    assert (await owner.delete(f"/api/v1/admin/clients/{client_id}")).status_code == 404


@pytest.mark.parametrize(
    "client_id", ["x", "A" * 32, "0" * 33, "http:%2F%2Fapp.example%2Fx", "https:%2F%2F127.0.0.1%2Fx"]
)
async def test_what_can_be_no_clients_id_is_not_looked_for(
    authority: Authority, memory: Memory, client_id: str
) -> None:
    asked = Counting(authority.database)
    transport = httpx.ASGITransport(face_of(replace(authority, database=asked), memory, OWNER))
    async with httpx.AsyncClient(transport=transport, base_url="https://memory.example") as owner:
        assert (await owner.delete(f"/api/v1/admin/clients/{client_id}")).status_code == 404
    assert (asked.queries, asked.batches) == (0, [])


async def test_the_log_is_read_page_by_page_the_newest_first(owner: httpx.AsyncClient, authority: Authority) -> None:
    await authority.database.batch(
        [
            Statement(
                "insert into write_log (at, action, space, client, token, device, ids)"
                " select ?2 + value, 'store', 'main', 'App', iif(value % 2, 'odd', 'even'), '', '[\"x\"]'"
                " from json_each(?1)",
                (json.dumps(list(range(5))), authority.clock()),
            )
        ]
    )
    first = (await owner.get("/api/v1/admin/log", params={"limit": 3})).json()
    assert [entry["n"] for entry in first["entries"]] == [5, 4, 3]
    assert first["entries"][0]["ids"] == ["x"]
    rest = (await owner.get("/api/v1/admin/log", params={"limit": 3, "before": first["next"]})).json()
    assert [entry["n"] for entry in rest["entries"]] == [2, 1]
    assert rest["next"] is None
    odd = (await owner.get("/api/v1/admin/log", params={"token": "odd", "client": "App"})).json()
    assert [entry["n"] for entry in odd["entries"]] == [4, 2]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "before=x", "before=-1", f"before={10**30}", "n=1", "limit=1&limit=2"]
)
async def test_a_page_of_the_log_that_cannot_be_is_refused(owner: httpx.AsyncClient, query: str) -> None:
    answer = await owner.get(f"/api/v1/admin/log?{query}")
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/tokens"),
        ("GET", "/tokens"),
        ("DELETE", "/tokens/" + "0" * 32),
        ("POST", "/clients"),
        ("GET", "/clients"),
        ("DELETE", "/clients/" + "0" * 32),
        ("GET", "/log"),
    ],
)
async def test_nobody_but_the_owner_is_served(calls: Calls, method: str, path: str) -> None:
    # Not even a token with every scope in every space.
    async with calls(replace(OWNER, owner=False)) as client:
        answer = await client.request(method, "/api/v1/admin" + path, json={"name": "x"} if method == "POST" else None)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
        assert "owner's key" in answer.json()["error"]["mend"]


async def test_another_method_is_told_those_that_there_are(owner: httpx.AsyncClient) -> None:
    answer = await owner.put("/api/v1/admin/tokens", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_the_routes_stand_in_the_openapi_document() -> None:
    made = document(face(), oauth=True)
    body = made["paths"]["/api/v1/admin/tokens"]["post"]["requestBody"]["content"]["application/json"]
    assert set(body["schema"]["properties"]) == {"name", "device", "spaces", "sync", "expires_in_days"}
    assert made["paths"]["/api/v1/admin/log"]["get"]["parameters"]
    assert "201" in made["paths"]["/api/v1/admin/tokens"]["post"]["responses"]
