"""The Worker's front: who is served, how often, how much, by which face, and what it costs."""

import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from tests.api.devices import GZIPPED, Device, packed
from tests.edge.doubles.invocation import Invocation, invocation
from tests.worker.javascript import runtime
from tests.worker.world import OWNER_KEY, World

from shoal.api.mcp import mcp_face
from shoal.api.oauth.admin import router
from shoal.api.oauth.authority import authority_of
from shoal.api.rest import PUBLIC_PATHS, rest_face
from shoal.api.syncing import sync_face
from shoal.schema.errors import ShoalError
from shoal.schema.limits import BODY_MAX_BYTES, INFLATED_MAX_BYTES
from shoal.schema.wire import CELLS_MAX
from shoal.worker.budget import STATEMENTS_MAX
from shoal.worker.edge import now_ms
from shoal.worker.serving import PUBLIC, RETRY_AFTER_S, Bounded, Faces, Front, network


async def oauth(scope: Scope, receive: Receive, send: Send) -> None:
    """OAuth's face as far as these tests go: tells the names of the authority that it was given."""
    authority = authority_of(scope)
    await JSONResponse({"issuer": authority.issuer, "network": authority.network})(scope, receive, send)


def oauth_present(error: ShoalError, request_id: str, scope: Scope) -> Response:
    return JSONResponse({"refused": error.code}, error.status)


FACES = Faces(
    rest_face(version="0.1.0"),
    rest_face(version="0.1.0", more=(router,)),
    mcp_face(version="0.1.0"),
    sync_face,
    oauth,
    oauth_present,
)
BASE = "https://shoal.someone.workers.dev"
BEARER = {"Authorization": f"Bearer {OWNER_KEY}"}
MCP = {**BEARER, "Accept": "application/json, text/event-stream"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


class Asked:
    """Sends requests, each an invocation of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.last: Invocation | None = None

    async def __call__(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(Front(FACES, self._world.env, self._world.after.append, runtime()))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            with invocation() as self.last:
                answer = await client.request(method, path, **more)
                await self._world.finish()
        return answer


@pytest.fixture
def ask(world: World) -> Asked:
    return Asked(world)


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    return answer.json()["error"]


async def device_token(ask: Asked, **fields: Any) -> dict[str, str]:
    """Have the owner make a token and return {id, token}."""
    body = {"name": "a script", **fields}
    answer = await ask("POST", "/api/v1/admin/tokens", headers=BEARER, json=body)
    assert answer.status_code == 201
    return answer.json()


# Who is served


@pytest.mark.parametrize("path", ["/api/v1/stats", "/nowhere", "/mcp", "/api/v1/admin/requeue"])
async def test_without_the_token_nobody_is_served(ask: Asked, path: str):
    for headers, error in (({}, ""), ({"Authorization": "Bearer guessed"}, 'error="invalid_token", ')):
        answer = await ask("POST", path, headers=headers)
        error_of(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == (
            f'Bearer {error}resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp",'
            ' scope="memory:read memory:write"'
        )
    assert ask.last is not None
    assert ask.last.subrequests == 0


async def test_health_and_the_documents_are_for_everyone(ask: Asked):
    assert (await ask("GET", "/healthz")).json()["status"] == "ok"
    assert "/api/v1/memories" in (await ask("GET", "/openapi.json")).json()["paths"]
    assert "/api/v1/admin/tokens" in (await ask("GET", "/docs")).text


def test_the_public_paths_are_rests():
    assert PUBLIC == PUBLIC_PATHS


@pytest.mark.parametrize("path", ["/api/v1/stats", "/openapi.json", "/docs", "/mcp", "/sync/status", "/nowhere"])
async def test_without_a_configured_token_every_route_but_health_is_closed(world: World, ask: Asked, path: str):
    world.env.OWNER_KEY_SHA256 = ""
    told = error_of(await ask("GET", path, headers=BEARER), 503, "not_configured")
    assert "wrangler secret put OWNER_KEY_SHA256" in told["mend"]
    assert (await ask("GET", "/healthz")).status_code == 200


async def test_what_is_set_wrong_closes_everything_and_is_named(world: World, ask: Asked):
    world.env.TRASH_DAYS = "soon"
    for path in ("/healthz", "/api/v1/stats", "/mcp"):
        assert "TRASH_DAYS" in error_of(await ask("GET", path, headers=BEARER), 503, "not_configured")["message"]


@pytest.mark.parametrize("name", ["DB", "AI", "VECTORIZE", "QUEUE", "LIMIT"])
async def test_a_missing_binding_is_named(world: World, ask: Asked, name: str):
    delattr(world.env, name)
    assert name in error_of(await ask("GET", "/api/v1/stats", headers=BEARER), 503, "not_configured")["message"]


async def test_a_database_without_tables_says_how_to_make_them():
    empty = World()
    told = error_of(await Asked(empty)("GET", "/healthz"), 503, "not_prepared")
    assert "d1 migrations apply" in told["mend"]
    empty.close()


async def test_pages_of_the_allowed_origins_may_call_and_no_others(world: World, ask: Asked):
    world.env.ALLOWED_ORIGINS = "https://app.example.com"
    answer = await ask("GET", "/api/v1/stats", headers={**BEARER, "Origin": "https://app.example.com"})
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    preflight = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST"}
    assert (await ask("OPTIONS", "/api/v1/memories", headers=preflight)).status_code == 204
    refused = await ask("GET", "/api/v1/stats", headers={**BEARER, "Origin": "https://evil.example.com"})
    error_of(refused, 403, "origin_not_allowed")


async def test_words_for_times_are_meant_in_the_configured_zone(world: World, ask: Asked):
    world.env.TIME_ZONE = "Asia/Tokyo"
    answer = await ask("POST", "/api/v1/memories", headers=BEARER, json={"content": "x", "occurred_at": "2026-03-01"})
    memory_id = answer.json()["id"]
    told = (await ask("GET", f"/api/v1/memories/{memory_id}", headers=BEARER)).json()
    assert told["occurred_at"].startswith("2026-02-28T15:00:00")


async def test_a_token_reaches_what_it_was_made_for_and_is_checked_by_one_query(ask: Asked):
    made = await device_token(ask, spaces={"work": ["read"]})
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert (await ask("GET", "/api/v1/memories", headers=headers, params={"space": "work"})).status_code == 200
    assert ask.last is not None
    # Its first use of a day is noted, after the answer.
    assert ask.last.calls == {"d1.all": 2, "d1.batch": 1}
    assert (await ask("GET", "/api/v1/memories", headers=headers, params={"space": "main"})).status_code == 403
    assert ask.last.calls == {"d1.all": 1}
    refused = await ask("POST", "/api/v1/memories", headers=headers, json={"content": "x", "space": "work"})
    assert 'error="insufficient_scope", ' in refused.headers["www-authenticate"]
    error_of(await ask("GET", "/api/v1/admin/tokens", headers=headers), 403, "not_allowed")
    assert (await ask("DELETE", f"/api/v1/admin/tokens/{made['id']}", headers=BEARER)).status_code == 200
    error_of(await ask("GET", "/api/v1/stats", headers=headers), 401, "unauthorized")


# Replicas


async def test_a_device_pushes_and_pulls_by_its_token_and_what_it_pushed_is_queued(world: World, ask: Asked):
    device = Device(now_ms())
    made = await device_token(ask, name="laptop token", device="laptop", sync=True)
    headers = {**GZIPPED, "Authorization": f"Bearer {made['token']}"}
    cells = [cell for n in range(CELLS_MAX) for cell in device.memory(f"memory {n}")[:1]]
    answer = await ask("POST", "/sync/push", headers=headers, content=packed(device.pushes(cells)))
    assert (answer.status_code, answer.json()["refused"]) == (200, [])
    assert ask.last is not None
    # Who calls, the merge, the note of the token's use, and one message for all.
    assert ask.last.calls == {"d1.all": 1, "d1.batch": 2, "queue.send": 1}
    assert world.queue.bodies[-1]["ids"] == [cell[0] for cell in cells]
    page = await ask("POST", "/sync/pull", headers=headers, content=packed(device.pulls(["main"])))
    assert page.json()["cells"] == cells
    assert ask.last.calls == {"d1.all": 2}
    assert world.rows("select action, client, device from write_log") == [("sync", "laptop token", "laptop")]
    await world.deliver()
    world.assert_in_step()


@pytest.mark.parametrize(("method", "path"), [("POST", "/sync/push"), ("POST", "/sync/pull"), ("GET", "/sync/status")])
async def test_who_may_not_sync_is_told_all_that_it_takes(ask: Asked, method: str, path: str):
    answer = await ask(method, path, headers=GZIPPED, content=b"whatever")
    error_of(answer, 401, "unauthorized")
    everything = 'scope="memory:read memory:write memory:admin sync"'
    assert answer.headers["www-authenticate"].endswith(everything)
    made = await device_token(ask, spaces={"main": ["read", "write", "admin"]})
    answer = await ask(method, path, headers={"Authorization": f"Bearer {made['token']}"})
    error_of(answer, 403, "insufficient_scope")
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert everything in answer.headers["www-authenticate"]


async def test_the_heaviest_push_that_is_taken_stays_within_what_an_invocation_may_do(ask: Asked):
    device = Device(now_ms())
    texts = [f"{n} {'部署失败了因为证书过期' * 105}" for n in range(CELLS_MAX)]
    body = packed(device.pushes([device.memory(text)[0] for text in texts]))
    assert 0.9 * INFLATED_MAX_BYTES < len(gzip.decompress(body)) < INFLATED_MAX_BYTES
    answer = await ask("POST", "/sync/push", headers={**GZIPPED, **BEARER}, content=body)
    assert (answer.status_code, answer.json()["refused"]) == (200, [])
    assert ask.last is not None
    assert ask.last.d1_statements <= STATEMENTS_MAX // 2


async def test_only_replicas_may_pack_their_bodies(ask: Asked):
    body = packed({"content": "x"})
    for path in ("/api/v1/memories", "/mcp", "/api/v1/admin/tokens"):
        answer = await ask("POST", path, headers={**MCP, **GZIPPED}, content=body)
        error_of(answer, 415, "unsupported_media_type")
        assert answer.headers["accept-encoding"] == "identity"


# Under which name


async def test_oauth_is_served_to_anyone_under_the_name_of_the_request(ask: Asked):
    from_one = {"CF-Connecting-IP": "2001:db8::7"}
    for path in ("/authorize", "/token", "/account/revoke", "/register/x", "/.well-known/oauth-authorization-server"):
        answer = await ask("GET", path, headers=from_one)
        assert answer.json() == {"issuer": BASE, "network": "2001:db8::/64"}


async def test_a_configured_name_stands_for_that_of_the_request(world: World, ask: Asked):
    world.env.PUBLIC_URL = "https://memory.example.com"
    assert (await ask("GET", "/authorize")).json()["issuer"] == "https://memory.example.com"
    challenge = (await ask("GET", "/api/v1/stats")).headers["www-authenticate"]
    assert 'resource_metadata="https://memory.example.com/' in challenge


async def test_a_host_that_is_none_is_refused_everywhere(ask: Asked):
    for path in ("/healthz", "/api/v1/stats", "/mcp"):
        error_of(await ask("GET", path, headers={**BEARER, "Host": "x_y.example"}), 421, "host_not_allowed")
    assert (await ask("GET", "/authorize", headers={"Host": "x_y.example"})).json() == {"refused": "host_not_allowed"}


async def test_what_is_refused_on_oauths_paths_is_shown_as_they_show_it(world: World, ask: Asked):
    sent = {"Content-Type": "text/plain"}
    answer = await ask("POST", "/token", headers=sent, content=b"x")
    assert (answer.status_code, answer.json()) == (415, {"refused": "unsupported_media_type"})
    for accepted in ("application/json", "application/x-www-form-urlencoded"):
        answer = await ask("POST", "/register", headers={"Content-Type": accepted}, content=b"x")
        assert answer.status_code == 200
    world.limit.left = 0
    answer = await ask("POST", "/token")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, str(RETRY_AFTER_S))


async def test_pages_of_any_origin_may_read_what_is_well_known_and_nothing_else(ask: Asked):
    elsewhere = {"Origin": "https://elsewhere.example"}
    answer = await ask("GET", "/.well-known/oauth-authorization-server", headers=elsewhere)
    assert answer.headers["access-control-allow-origin"] == "*"
    for path in ("/token", "/authorize", "/register"):
        answer = await ask("POST", path, headers=elsewhere)
        assert (answer.status_code, answer.json()) == (403, {"refused": "origin_not_allowed"})


# How often


async def test_requests_are_counted_by_token_and_others_by_address(world: World, ask: Asked):
    from_one = {"CF-Connecting-IP": "192.0.2.1"}
    await ask("GET", "/api/v1/stats", headers={**BEARER, **from_one})
    await ask("GET", "/api/v1/stats", headers={"Authorization": "Bearer guessed", **from_one})
    await ask("GET", "/healthz", headers=from_one)
    made = await device_token(ask)
    await ask("GET", "/api/v1/stats", headers={"Authorization": f"Bearer {made['token']}", **from_one})
    address = "address 192.0.2.1"
    assert world.limit.keys == ["owner", address, address, "owner", f"grant {made['id']}"]


@pytest.mark.parametrize(("path", "headers"), [("/api/v1/stats", BEARER), ("/api/v1/stats", {}), ("/healthz", {})])
async def test_too_many_requests_are_refused_before_anything_is_asked(
    world: World, ask: Asked, path: str, headers: dict[str, str]
):
    world.limit.left = 0
    answer = await ask("GET", path, headers=headers)
    error_of(answer, 429, "rate_limited")
    assert answer.headers["retry-after"] == str(RETRY_AFTER_S)
    assert ask.last is not None
    assert ask.last.subrequests == 0


@pytest.mark.parametrize("fault", [RuntimeError("Error: internal error"), OSError("Network connection lost.")])
@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/v1/stats", BEARER, 200),
        ("POST", "/mcp", MCP, 200),
        ("POST", "/token", {}, 200),
        ("GET", "/healthz", {}, 200),
        ("GET", "/api/v1/stats", {"Authorization": "Bearer guessed"}, 401),
        ("GET", "/api/v1/stats", {}, 401),
    ],
)
async def test_a_rate_limit_that_fails_changes_no_answer_and_is_logged(
    world: World,
    ask: Asked,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
):
    world.limit.fault = fault
    answer = await ask(method, path, headers=headers, json=LIST_TOOLS if path == "/mcp" else None)
    assert answer.status_code == status
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [f"the rate limit did not count a request, which goes on: {fault}"]


async def test_without_a_configured_token_requests_are_counted_too(world: World, ask: Asked):
    world.env.OWNER_KEY_SHA256 = ""
    world.limit.left = 1
    assert [(await ask("GET", "/healthz")).status_code for _ in range(2)] == [200, 429]


# What it costs


async def test_a_store_is_one_round_trip_and_one_message(ask: Asked):
    answer = await ask("POST", "/api/v1/memories", headers=BEARER, json={"content": "Staging listens on port 8443"})
    assert answer.status_code == 201
    assert ask.last is not None
    assert ask.last.calls == {"d1.batch": 1, "queue.send": 1}
    assert ask.last.d1_statements < 20


@pytest.mark.parametrize("spaces", ["main", ["main", "other", "third"], "*"])
async def test_a_search_is_one_call_of_the_model_one_of_the_index_and_three_queries(
    world: World, ask: Asked, spaces: object
):
    await world.store_all([f"memory number {n} about staging" for n in range(60)])
    await world.deliver()
    body = {"query": "staging memory", "n_results": 50, "space": spaces, "include_edges": True, "tags": "a,b"}
    found = await ask("POST", "/api/v1/search", headers=BEARER, json=body)
    assert found.status_code == 200
    assert ask.last is not None
    calls = ask.last.calls
    assert (calls["ai.run"], calls["vectorize.query"]) == (1, 1)
    assert ask.last.d1_statements <= 3
    assert calls.total() <= 5


async def test_twenty_requests_at_once_are_all_answered(world: World):
    import asyncio

    asked = [Asked(world) for _ in range(20)]
    stored = await asyncio.gather(
        *(
            one("POST", "/api/v1/memories", headers=BEARER, json={"content": f"memory {n}"})
            for n, one in enumerate(asked)
        )
    )
    assert [answer.status_code for answer in stored] == [201] * 20
    found = await asyncio.gather(
        *(one("POST", "/api/v1/search", headers=BEARER, json={"query": f"memory {n}"}) for n, one in enumerate(asked))
    )
    assert [answer.status_code for answer in found] == [200] * 20
    await world.deliver()
    world.assert_in_step()


# Which face


async def test_mcp_answers_at_its_path_with_and_without_a_slash(ask: Asked):
    for path in ("/mcp", "/mcp/"):
        answer = await ask("POST", path, headers=MCP, json=LIST_TOOLS)
        assert "memory_find" in [tool["name"] for tool in answer.json()["result"]["tools"]]


async def test_a_tool_is_called_on_the_same_memory(world: World, ask: Asked):
    called = {"name": "memory_store", "arguments": {"content": "Sharks swim in shoals"}}
    await ask("POST", "/mcp", headers=MCP, json={**LIST_TOOLS, "method": "tools/call", "params": called})
    found = await ask("GET", "/api/v1/search", headers=BEARER, params={"q": "sharks"})
    assert found.json()["results"][0]["snippet"] == "Sharks swim in shoals"
    assert len(world.queue.bodies) == 1


async def test_other_paths_and_methods_are_refused_in_the_one_shape(ask: Asked):
    error_of(await ask("GET", "/nowhere", headers=BEARER), 404, "not_found")
    error_of(await ask("PUT", "/api/v1/stats", headers=BEARER), 405, "method_not_allowed")
    error_of(await ask("GET", "/mcp", headers=BEARER), 405, "method_not_allowed")
    error_of(await ask("POST", "/api/v1/search", headers=BEARER, content=b"{"), 415, "unsupported_media_type")
    broken = {**BEARER, "Content-Type": "application/json"}
    error_of(await ask("POST", "/api/v1/search", headers=broken, content=b"{"), 400, "malformed_body")


async def test_other_kinds_of_connection_are_none():
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "lifespan.startup"}

    await Front(FACES, object(), lambda _: None, runtime())({"type": "lifespan"}, receive, send)  # type: ignore[arg-type]
    assert sent == []


async def test_a_request_has_cloudflares_id_when_it_has_one(ask: Asked, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "shoal.access")
    answer = await ask("GET", "/healthz", headers={"CF-Ray": "8f2a1b3c4d5e6f70-FRA"})
    assert answer.headers["x-request-id"] == "8f2a1b3c4d5e6f70-FRA"
    answer = await ask("GET", "/healthz", headers={"CF-Ray": "what is this"})
    assert len(answer.headers["x-request-id"]) == 16
    ids = [record.shoal["request_id"] for record in caplog.records]  # type: ignore[attr-defined]  # set by `extra`
    assert ids == ["8f2a1b3c4d5e6f70-FRA", answer.headers["x-request-id"]]


async def test_the_log_names_the_caller_and_no_contents(world: World, ask: Asked, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    await ask("POST", "/api/v1/memories", headers=BEARER, json={"content": "a secret thing"})
    await ask("GET", "/api/v1/search", headers=BEARER, params={"q": "secret thing"})
    made = await device_token(ask)
    await ask("GET", "/api/v1/stats", headers={"Authorization": f"Bearer {made['token']}"})
    clients = {record.shoal["client"] for record in caplog.records if record.name == "shoal.access"}  # type: ignore[attr-defined]
    assert clients == {"owner", "a script"}
    ours = "\n".join(json.dumps(vars(record), default=str) for record in caplog.records if "shoal" in record.name)
    assert "secret" not in ours
    assert OWNER_KEY not in ours
    assert made["token"] not in ours


# How much


class Chunk(bytes):
    """A piece of a body as the runtime gives it."""

    def to_bytes(self) -> bytes:
        return bytes(self)


class Request:
    """A request as the runtime gives it."""

    def __init__(self, chunks: int, declared: str | None = None) -> None:
        self.method = "POST"
        self.url = f"{BASE}/api/v1/memories"
        self.headers = {
            "content-type": "application/json",
            **({} if declared is None else {"Content-Length": declared}),
        }
        self.read = 0
        self.body = self._chunks(chunks) if chunks else None

    async def _chunks(self, count: int) -> AsyncIterator[Chunk]:
        for _ in range(count):
            self.read += 1
            yield Chunk(65_536)


@asynccontextmanager
async def reading(request: Request) -> AsyncIterator[bytes]:
    body = Bounded(request).body  # type: ignore[arg-type]  # a double
    yield b"" if body is None else b"".join([chunk.to_bytes() async for chunk in body])


async def test_a_body_that_is_declared_too_long_is_not_read():
    request = Request(100, str(BODY_MAX_BYTES + 1))
    async with reading(request) as body:
        assert body == b""
    assert request.read == 0


async def test_a_body_of_unknown_length_is_read_until_it_is_too_long():
    request = Request(100)
    async with reading(request) as body:
        assert len(body) > BODY_MAX_BYTES
    assert request.read == BODY_MAX_BYTES // 65_536 + 1


@pytest.mark.parametrize("declared", [None, str(BODY_MAX_BYTES), "nonsense"])
async def test_other_bodies_are_read_whole(declared: str | None):
    async with reading(Request(16, declared)) as body:
        assert len(body) == BODY_MAX_BYTES


async def test_a_request_without_a_body_has_none():
    bounded = Bounded(Request(0))  # type: ignore[arg-type]  # a double
    assert bounded.body is None
    assert (bounded.method, bounded.url) == ("POST", f"{BASE}/api/v1/memories")


async def test_a_body_too_long_is_refused_by_the_shell(ask: Asked):
    json_type = {**BEARER, "Content-Type": "application/json"}
    answer = await ask("POST", "/api/v1/memories", headers=json_type, content=b"x" * (BODY_MAX_BYTES + 1))
    error_of(answer, 413, "body_too_large")


def test_a_method_that_the_sdk_does_not_know_is_taken_from_underneath():
    class Underneath(Request):
        @property
        def js_object(self) -> Any:
            return Request(0)

    request = Underneath(0)
    request.method = "wrong"
    assert Bounded(request).method == "POST"  # type: ignore[arg-type]  # a double


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("", ""),
        ("nonsense", "nonsense"),
    ],
)
def test_addresses_that_one_client_may_choose_among_are_counted_together(address: str, expected: str):
    assert network(address) == expected
