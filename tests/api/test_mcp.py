"""MCP over the real service, for clients of both eras."""

import asyncio
import json
import sys
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from tests.api.faces import BASE, TOKENS, client_of, mcp_client, mcp_of, raw, refusal, told

from shoal.api.context import CallContext
from shoal.api.mcp import INSTRUCTIONS, build_server
from shoal.api.messages import Language
from shoal.api.profiles import PROFILES
from shoal.core.caller import Caller
from shoal.core.service import Memory
from shoal.schema.limits import BODY_MAX_BYTES, CONTENT_MAX_BYTES

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
DEFAULT = ["memory_store", "memory_find", "memory_get", "memory_update", "memory_delete", "memory_stats"]


def call(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


async def one(client: Client, content: str, **fields: Any) -> str:
    return told(await client.call_tool("memory_store", {"content": content, **fields}))["id"]


@ERAS
async def test_both_eras_see_the_same_tools(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        assert client.session.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == DEFAULT
    by_name = {tool.name: tool.annotations for tool in tools}
    assert by_name["memory_find"] and by_name["memory_find"].read_only_hint is True
    assert by_name["memory_delete"] and by_name["memory_delete"].destructive_hint is True
    assert all(hints and hints.open_world_hint is False for hints in by_name.values())


@ERAS
async def test_a_memory_is_stored_found_read_changed_and_deleted(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        stored = told(await client.call_tool("memory_store", {"content": "Staging listens on 8443", "tags": "ops"}))
        assert (stored["status"], stored["tags"]) == ("created", ["ops"])
        found = told(await client.call_tool("memory_find", {"query": "staging port", "n_results": "3"}))
        assert [row["id"] for row in found["results"]] == [stored["id"]]
        whole = told(await client.call_tool("memory_get", {"id": stored["id"]}))
        assert whole["memories"][0]["content"] == "Staging listens on 8443"
        told(await client.call_tool("memory_update", {"id": stored["id"], "tags": {"add": ["port"]}}))
        unsure = told(await client.call_tool("memory_delete", {"tags": "port"}))
        assert (unsure["status"], unsure["ids"]) == ("cancelled", [stored["id"]])
        gone = told(await client.call_tool("memory_delete", {"tags": "port", "confirm": True}))
        assert (gone["status"], gone["ids"]) == ("deleted", [stored["id"]])
        assert told(await client.call_tool("memory_stats"))["trashed"] == 1


@ERAS
async def test_answers_fit_their_output_schemas(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        stored = await one(client, "a fact", metadata={"deep": {"empty": None}})
        for name, arguments in [
            ("memory_store", {"content": "a fact", "type": "decision"}),
            ("memory_store", {"items": [{"content": "x"}, {"content": "y", "tags": ["z"]}]}),
            ("memory_find", {"query": "fact", "explain": True, "include_edges": True}),
            ("memory_get", {"id": stored, "with_edges": True, "with_history": True}),
            ("memory_get", {}),
            ("memory_update", {"id": stored, "content": "a better fact"}),
            ("memory_delete", {"id": stored}),
            ("memory_stats", {}),
        ]:
            schema = schemas[name]
            assert schema is not None
            Draft202012Validator(schema).validate(told(await client.call_tool(name, arguments)))
        whole = told(await client.call_tool("memory_get", {"id": stored}))
        assert whole["memories"][0]["metadata"] == {"deep": {"empty": None}}


@ERAS
async def test_faults_of_a_call_are_results_that_a_model_can_act_on(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        for name, arguments, code in [
            ("memory_find", {"qeury": "x"}, "invalid_input"),
            ("memory_find", {"n_results": "many"}, "invalid_input"),
            ("memory_store", {}, "invalid_input"),
            ("memory_store", {"content": "x", "items": [{"content": "y"}]}, "invalid_input"),
            ("memory_store", {"content": " "}, "empty_content"),
            ("memory_store", {"content": "a\0b"}, "invalid_text"),
            ("memory_store", {"content": "x" * (CONTENT_MAX_BYTES + 1)}, "content_too_long"),
            ("memory_store", {"content": "x", "type": "nonsense"}, "unknown_type"),
            ("memory_store", {"content": "x", "occurred_at": "the day of the dragon"}, "invalid_time"),
            ("memory_get", {"id": "xyz"}, "invalid_id"),
            ("memory_update", {"id": "0" * 32, "tags": "x"}, "not_found"),
        ]:
            refusal(await client.call_tool(name, arguments), code)
        error = refusal(await client.call_tool("memory_find", {"qeury": "x"}), "invalid_input")
        assert "Did you mean `query`?" in error["mend"]
        assert error["request_id"]
        assert told(await client.call_tool("memory_stats"))["total"] == 0


@ERAS
@pytest.mark.parametrize("query", ['"', "a AND", "NEAR(", "*", "content:x", "(", "^", "\\"])
async def test_search_syntax_in_a_query_is_only_words(memory: Memory, mode: str, query: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        await one(client, "Staging listens on 8443")
        told(await client.call_tool("memory_find", {"query": query}))


async def test_numbers_out_of_range_are_clamped_with_a_note(memory: Memory) -> None:
    async with mcp_client(mcp_of(memory)) as client:
        answer = told(await client.call_tool("memory_find", {"query": "x", "n_results": 500}))
    assert "clamped" in [note["code"] for note in answer["notes"]]


@ERAS
async def test_an_unknown_tool_is_a_protocol_error(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        with pytest.raises(MCPError, match="Unknown tool: 'memory_burn'"):
            await client.call_tool("memory_burn")


@ERAS
async def test_a_fault_of_ours_shows_no_details(
    memory: Memory, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(Memory, "stats", broken)
    async with mcp_client(mcp_of(memory), mode) as client:
        error = refusal(await client.call_tool("memory_stats"), "internal_error")
    assert "secret" not in json.dumps(error)
    assert "secret" in caplog.text


@ERAS
async def test_a_client_sees_and_may_call_only_what_its_token_allows(memory: Memory, mode: str) -> None:
    app = mcp_of(memory, TOKENS)
    async with mcp_client(app, mode, authorization="Bearer writer") as writer:
        stored = await one(writer, "secret plan")
        tools = {tool.name: tool for tool in (await writer.list_tools()).tools}
        assert list(tools) == DEFAULT
        assert "purge" not in tools["memory_delete"].input_schema["properties"]
        with pytest.raises(MCPError, match="memory:admin"):
            await writer.call_tool("memory_delete", {"id": stored, "purge": True, "confirm": True})
    async with mcp_client(app, mode, authorization="Bearer reader") as reader:
        assert [tool.name for tool in (await reader.list_tools()).tools] == [
            "memory_find",
            "memory_get",
            "memory_stats",
        ]
        with pytest.raises(MCPError, match="memory:write"):
            await reader.call_tool("memory_store", {"content": "x"})
    async with mcp_client(app, mode, authorization="Bearer elsewhere") as elsewhere:
        assert told(await elsewhere.call_tool("memory_find", {"query": "plan", "space": "*"}))["results"] == []
        refusal(await elsewhere.call_tool("memory_find", {"query": "plan", "space": "main"}), "not_allowed")
        assert (await elsewhere.read_resource("memory://recent")).contents[0].text == "There are no memories yet."
        with pytest.raises(MCPError):
            await elsewhere.read_resource(f"memory://{stored}")


@ERAS
async def test_recent_memories_are_lines(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        resources = (await client.list_resources()).resources
        assert [str(resource.uri) for resource in resources] == ["memory://recent"]
        for n in range(12):
            await one(client, f"fact\nnumber {n}", type="decision", tags=["a", "b"] if n % 2 else None)
        lines = (await client.read_resource("memory://recent")).contents[0].text.split("\n")
    assert len(lines) == 10
    assert lines[:2] == ["- [semantic/decision] fact number 11 (tags: a, b)", "- [semantic/decision] fact number 10"]


@ERAS
async def test_without_memories_a_line_says_so_in_the_callers_language(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode, accept_language="zh-CN,zh;q=0.9") as client:
        assert (await client.read_resource("memory://recent")).contents[0].text == "还没有任何记忆。"


@ERAS
async def test_a_memory_is_a_resource(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["memory://{id}"]
        stored = await one(client, "whole text", space="other")
        read = (await client.read_resource(f"memory://{stored}")).contents[0]
        assert (read.mime_type, json.loads(read.text)["content"]) == ("application/json", "whole text")
        for unknown in ["memory://" + "0" * 32, "memory://xyz", "memory://", "file:///etc/passwd"]:
            with pytest.raises(MCPError):
                await client.read_resource(unknown)


@ERAS
async def test_prompts_speak_of_the_profiles_tools_in_the_callers_language(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["memory_retrieval", "session_start"]
        asked = await client.get_prompt("memory_retrieval", {"question": "Which {port}?"})
        assert "memory_find" in asked.messages[0].content.text
        assert "Which {port}?" in asked.messages[0].content.text
        assert "memory_store" in (await client.get_prompt("session_start")).messages[0].content.text
        for name, arguments in [("memory_retrieval", {}), ("memory_retrieval", {"question": " "}), ("nothing", {})]:
            with pytest.raises(MCPError):
                await client.get_prompt(name, arguments)
    async with mcp_client(mcp_of(memory), mode, "/mcp?profile=classic", accept_language="zh") as client:
        asked = await client.get_prompt("memory_retrieval", {"question": "哪个端口?"})
        assert "请先调用 recall" in asked.messages[0].content.text


@ERAS
async def test_the_server_says_what_it_is_and_offers_no_subscriptions(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        assert client.instructions == INSTRUCTIONS
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert not capabilities.resources.subscribe


@ERAS
@pytest.mark.parametrize(
    ("path", "headers"),
    [("/mcp?profile=classic", {}), ("/mcp/?profile=classic", {}), ("/mcp", {"shoal_profile": "classic"})],
)
async def test_a_request_chooses_its_profile(memory: Memory, mode: str, path: str, headers: dict[str, str]) -> None:
    async with mcp_client(mcp_of(memory), mode, path, **headers) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            tool.name for tool in PROFILES["classic"].tools
        ]


async def test_an_unknown_profile_is_refused_with_the_names(memory: Memory) -> None:
    async with client_of(mcp_of(memory)) as client:
        answer = await client.post("/mcp?profile=x", json=call("ping"), headers=ACCEPT)
    assert answer.status_code == 422
    assert "default, classic" in answer.json()["error"]["mend"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_handshake_version_is_served_without_a_session(memory: Memory, version: str) -> None:
    async with client_of(mcp_of(memory), **ACCEPT) as client:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = await client.post("/mcp", json=call("initialize", hello))
        assert answer.json()["result"]["protocolVersion"] == version
        assert "mcp-session-id" not in answer.headers
        headers = {"mcp-protocol-version": version} if version > "2025-03-26" else {}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post("/mcp", json=done, headers=headers)).status_code == 202
        listed = await client.post("/mcp", json=call("tools/list"), headers=headers)
        assert len(listed.json()["result"]["tools"]) == len(DEFAULT)
        stored = call("tools/call", {"name": "memory_store", "arguments": {"content": "x"}})
        result = (await client.post("/mcp", json=stored, headers=headers)).json()["result"]
        assert json.loads(result["content"][0]["text"])["success"] is True


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "PUT"])
async def test_other_methods_are_told_that_post_is_the_one(memory: Memory, method: str) -> None:
    for path in ("/mcp", "/mcp/"):
        status, headers, _ = await raw(mcp_of(memory), method, path, [("accept", "text/event-stream")])
        assert (status, headers["allow"]) == (405, "POST")
    assert (await raw(mcp_of(memory, TOKENS), method, "/mcp"))[0] == 401


async def test_another_path_is_not_found(memory: Memory) -> None:
    assert (await raw(mcp_of(memory), "POST", "/mcp/x"))[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("host", "evil.example:8377")], 421),
        ([("origin", "https://evil.example")], 403),
        ([("content-type", "text/plain")], 415),
        ([("content-type", "application/json"), ("origin", BASE)], 200),
        ([("content-type", "application/json"), ("host", "localhost:9999")], 200),
        ([("content-type", "application/json"), ("host", "[::1]:8377")], 200),
    ],
)
async def test_pages_that_rebind_their_name_reach_nothing(
    memory: Memory, headers: list[tuple[str, str]], status: int
) -> None:
    body = json.dumps(call("ping")).encode()
    accept = ("accept", ACCEPT["accept"])
    assert (await raw(mcp_of(memory), "POST", "/mcp", [accept, *headers], [body]))[0] == status


@pytest.mark.parametrize("kind", [None, "text/event-stream", "application/jsonx", "x"])
@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_what_is_not_called_json_is_refused_in_the_one_shape(
    memory: Memory, kind: str | None, body: bytes
) -> None:
    headers = [("accept", ACCEPT["accept"]), *([("content-type", kind)] if kind else [])]
    status, _, answer = await raw(mcp_of(memory), "POST", "/mcp", headers, [body])
    assert (status, json.loads(answer)["error"]["code"]) == (415, "unsupported_media_type")


async def test_a_body_over_the_limit_or_broken_is_refused(memory: Memory) -> None:
    async with client_of(mcp_of(memory), **ACCEPT) as client:
        assert (await client.post("/mcp", content=b"x" * (BODY_MAX_BYTES + 1))).status_code == 413
        assert (await client.post("/mcp", content=b"{")).status_code == 400
        assert (await client.post("/mcp", json=[])).status_code == 400


async def test_an_error_can_be_read_in_any_language(memory: Memory) -> None:
    async with mcp_client(mcp_of(memory)) as client:
        answer = await client.call_tool("memory_find", {"query": "x", "time": "胡说"})
    assert answer.is_error
    assert "'胡说'" in answer.content[0].text
    assert "上周三" in answer.content[0].text


async def test_a_lone_surrogate_is_refused_and_the_answer_arrives(memory: Memory) -> None:
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_store","arguments":%s}}'
    for arguments in ('{"content": "\\ud800"}', '{"\\ud800": 1}', '{"content": "x", "metadata": {"a": NaN}}'):
        async with client_of(mcp_of(memory), **ACCEPT) as client:
            answer = await client.post("/mcp", content=body % arguments)
        assert answer.status_code == 400 or answer.json()["result"]["isError"], answer.text
    async with mcp_client(mcp_of(memory)) as client:
        assert told(await client.call_tool("memory_stats"))["total"] == 0


@ERAS
async def test_twenty_at_once_are_each_answered(memory: Memory, mode: str) -> None:
    async with mcp_client(mcp_of(memory), mode) as client:
        ids = await asyncio.gather(*(one(client, f"fact {n}") for n in range(20)))
        read = await asyncio.gather(*(client.call_tool("memory_get", {"id": known}) for known in ids))
    assert [told(answer)["memories"][0]["content"] for answer in read] == [f"fact {n}" for n in range(20)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_transport_with_one_client_has_one_context(memory: Memory, mode: str) -> None:
    always = CallContext(memory, Caller(), Language.CHINESE)
    server = build_server(PROFILES["default"], version="0.1.0", always=always)
    async with Client(server, mode=mode) as client:
        assert told(await client.call_tool("memory_stats"))["total"] == 0
        assert (await client.read_resource("memory://recent")).contents[0].text == "还没有任何记忆。"


async def test_without_a_context_nothing_is_answered(memory: Memory) -> None:
    async with Client(build_server(PROFILES["default"], version="0.1.0")) as client:
        with pytest.raises(MCPError, match="Nobody said who calls"):
            await client.list_tools()


_STDIO = """
import asyncio, sys
sys.path.insert(0, {root!r})
from shoal.api.mcp import serve_stdio
from shoal.core.caller import Caller
from tests.api.conftest import made_memory
async def main():
    await serve_stdio(await made_memory(), Caller(), version="0.1.0", profile="classic")
asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_one_process_serves_its_client_over_stdio(request: pytest.FixtureRequest, mode: str) -> None:
    code = _STDIO.format(root=str(request.config.rootpath))
    async with Client(StdioServerParameters(command=sys.executable, args=["-c", code]), mode=mode) as client:
        assert told(await client.call_tool("remember", {"content": "over stdio"}))["status"] == "created"
        assert told(await client.call_tool("recall", {"query": "stdio"}))["rows"][0]["content"] == "over stdio"
