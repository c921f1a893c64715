"""Step-up: over HTTP a client learns which scopes to ask for before anything is done."""

import json
from typing import Any

import httpx
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from tests.api.faces import LOOPBACK, client_of, mcp_client, refusal, told

from shoal.api.context import CallContext, one_memory
from shoal.api.gate import BearerGate, token_hash
from shoal.api.mcp import build_server, mcp_app
from shoal.api.profiles import PROFILES
from shoal.api.step_up import Wanted, wanted
from shoal.core.caller import Caller, Scope
from shoal.core.service import Memory

READ, WRITE, ADMIN = Scope.READ, Scope.WRITE, Scope.ADMIN
HELD = {"none": (), "r": (READ,), "w": (WRITE,), "rw": (READ, WRITE), "rwa": (READ, WRITE, ADMIN)}
GATE = BearerGate({token_hash(name): Caller(scopes=frozenset(scopes), client=name) for name, scopes in HELD.items()})
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ID = "0" * 32
DEFAULT = PROFILES["default"]


def app_of(memory: Memory) -> Any:
    return mcp_app(one_memory(memory), GATE, LOOPBACK, version="0.1.0")


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", name=name, arguments=arguments)


async def post(memory: Memory, token: str, body: Any, path: str = "/mcp") -> httpx.Response:
    async with client_of(app_of(memory), authorization=f"Bearer {token}", **ACCEPT) as client:
        return await client.post(path, content=body if isinstance(body, bytes) else json.dumps(body))


READS = [
    message("resources/read", uri="memory://recent"),
    message("resources/read", uri=f"memory://{ID}"),
    message("resources/subscribe", uri="memory://recent"),
    message("subscriptions/listen", uris=["memory://recent"]),
    message("prompts/get", name="session_start"),
    message("completion/complete", ref={"type": "ref/prompt", "name": "session_start"}),
    call("memory_find", query="x"),
    call("memory_get"),
    call("memory_stats"),
]
CASES = [
    *[("none", one, "memory:read") for one in READS],
    *[("w", one, "memory:read memory:write") for one in READS],
    ("none", call("memory_store", content="x"), "memory:write"),
    ("r", call("memory_store", content="x"), "memory:read memory:write"),
    ("r", call("memory_update", id=ID, tags="x"), "memory:read memory:write"),
    ("w", call("memory_update", id=ID, tags="x"), "memory:read memory:write"),
    ("w", call("memory_delete", id=ID, confirm=True), "memory:read memory:write"),
    ("rw", call("memory_delete", id=ID, purge=True, confirm=True), "memory:read memory:write memory:admin"),
    ("rw", call("memory_delete", id=ID, purge="true"), "memory:read memory:write memory:admin"),
    ("r", call("memory_delete", id=ID, purge=True), "memory:read memory:write memory:admin"),
]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize(("token", "asked", "scopes"), CASES)
async def test_what_the_token_does_not_allow_is_challenged(
    memory: Memory, token: str, asked: dict[str, Any], scopes: str, path: str
) -> None:
    answer = await post(memory, token, asked, path)
    assert answer.status_code == 403
    assert answer.headers["www-authenticate"] == f'Bearer error="insufficient_scope", scope="{scopes}"'
    told = answer.json()
    assert (told["jsonrpc"], told["id"]) == ("2.0", 7)
    assert told["error"]["data"]["code"] == "insufficient_scope"
    assert told["error"]["data"]["scopes"] == scopes.split()
    assert told["error"]["data"]["request_id"] == answer.headers["x-request-id"]
    assert (await memory.stats(Caller())).total == 0


@pytest.mark.parametrize("asked", READS[-3:])
async def test_what_the_token_allows_is_answered(memory: Memory, asked: dict[str, Any]) -> None:
    for token in ("r", "rw", "rwa"):
        answer = await post(memory, token, asked)
        assert answer.status_code == 200
        assert not answer.json()["result"].get("isError")
    assert "id" in (await post(memory, "w", call("memory_store", content="x"))).json()["result"]["structuredContent"]


async def test_classic_tools_are_checked_by_their_own_names(memory: Memory) -> None:
    path = "/mcp?profile=classic"
    assert (await post(memory, "r", call("remember", content="x"), path)).status_code == 403
    assert (await post(memory, "w", call("remember", content="x"), path)).status_code == 200
    assert (await post(memory, "w", call("recall", query="x"), path)).status_code == 403
    answer = await post(memory, "w", call("forget", memo_id=ID), path)
    assert 'scope="memory:read memory:write"' in answer.headers["www-authenticate"]
    # The default profile's names are unknown here, which the server says itself.
    assert (await post(memory, "none", call("memory_store", content="x"), path)).status_code != 403


async def test_a_list_of_messages_needs_what_they_need_together(memory: Memory) -> None:
    batch = [call("memory_find", query="x"), call("memory_store", content="x"), message("ping")]
    answer = await post(memory, "r", batch)
    assert (answer.status_code, answer.json()["id"]) == (403, None)
    assert 'scope="memory:read memory:write"' in answer.headers["www-authenticate"]
    assert (await post(memory, "rw", batch)).status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"[[]]", b"7", b'"tools/call"', b"[" * 100_000, b"\xff\xfe", b'{"a":' * 5_000,
     b'{"method": 7}', b'{"method": ["tools/call"]}', b'{"method": "tools/call"}', b'{"method": "tools/burn"}',
     b'{"method": "tools/call", "params": []}', b'{"method": "tools/call", "params": {"name": ["memory_store"]}}',
     b'{"method": "tools/call", "params": {"name": "memory_burn"}}', b'{"id": ' + b"9" * 5_000 + b"}"],
)  # fmt: skip
async def test_what_cannot_be_read_here_goes_on_to_the_server(memory: Memory, body: bytes) -> None:
    assert wanted(body, DEFAULT).scopes == frozenset()
    answer = await post(memory, "none", body)
    assert answer.status_code in {200, 202, 400, 404, 415}, answer.text
    assert (await memory.stats(Caller())).total == 0


@pytest.mark.parametrize("arguments", [None, [], "x", 7, {"purge": {}}, {"purge": ""}])
def test_arguments_of_any_shape_are_read(arguments: Any) -> None:
    body = json.dumps(message("tools/call", name="memory_delete", arguments=arguments)).encode()
    assert wanted(body, DEFAULT) == Wanted(frozenset({READ, WRITE}), 7)


@pytest.mark.parametrize(("given", "kept"), [("a", "a"), (0, 0), (None, None), (True, None), (1.5, None), ([], None)])
def test_an_answer_repeats_the_id_of_the_request_only_when_it_is_one(given: Any, kept: Any) -> None:
    assert wanted(json.dumps({**call("memory_get"), "id": given}).encode(), DEFAULT).id == kept


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_cannot_ask_for_more_shows_what_is_missing(memory: Memory, mode: str) -> None:
    async with mcp_client(app_of(memory), mode, authorization="Bearer r") as client:
        with pytest.raises(MCPError, match=r"needs the scope memory:write\. Connect again and allow it"):
            await client.call_tool("memory_store", {"content": "x"})
        assert told(await client.call_tool("memory_stats"))["total"] == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_lists_show_only_what_may_be_read_and_called(memory: Memory, mode: str) -> None:
    async with mcp_client(app_of(memory), mode, authorization="Bearer w") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["memory_store"]
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_annotations_are_there_whatever_the_scopes_are(memory: Memory, mode: str) -> None:
    for token in HELD:
        async with mcp_client(app_of(memory), mode, authorization=f"Bearer {token}") as client:
            for tool in (await client.list_tools()).tools:
                definition = DEFAULT.tool(tool.name)
                assert definition is not None
                assert tool.annotations is not None
                shown = tool.annotations
                assert (shown.read_only_hint, shown.destructive_hint, shown.idempotent_hint, shown.open_world_hint) == (
                    definition.hints.read_only,
                    definition.hints.destructive,
                    definition.hints.idempotent,
                    False,
                )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_stdio_the_checks_inside_are_the_ones_that_refuse(memory: Memory, mode: str) -> None:
    always = CallContext(memory, Caller(scopes=frozenset({WRITE})))
    async with Client(build_server(DEFAULT, version="0.1.0", always=always), mode=mode) as client:
        error = refusal(await client.call_tool("memory_find", {"query": "x"}), "insufficient_scope")
        assert error["scopes"] == ["memory:read", "memory:write"]
        refusal(await client.call_tool("memory_delete", {"id": ID, "purge": True}), "insufficient_scope")
        for asking in (
            client.read_resource("memory://recent"),
            client.read_resource(f"memory://{ID}"),
            client.get_prompt("session_start"),
            client.get_prompt("memory_retrieval", {"question": "x"}),
        ):
            with pytest.raises(MCPError, match="memory:read"):
                await asking
        assert told(await client.call_tool("memory_store", {"content": "x"}))["status"] == "created"
