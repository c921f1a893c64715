"""Every protocol version over both transports, message by message."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.outside.rig import Place
from tests.outside.wires import HANDSHAKES, MODERN, VERSIONS, HttpWire, StdioWire, Wire, call, hello

TOOLS = {"memory_store", "memory_find", "memory_get", "memory_update", "memory_delete", "memory_stats"}
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """A protocol version."""
    return request.param


@pytest.fixture(params=[HttpWire, StdioWire], ids=["http", "stdio"])
def wire(request: pytest.FixtureRequest, place: Place, version: str) -> Iterator[Wire]:
    """A connection after the hello of its version."""
    opened: Any = request.param(place, version)
    assert hello(opened)["capabilities"]["tools"] is not None
    yield opened
    opened.close()


def test_the_server_says_what_it_is(place: Place, version: str) -> None:
    for kind in (HttpWire, StdioWire):
        wire = kind(place, version)
        said = hello(wire)
        wire.close()
        if version == MODERN:
            assert version in said["supportedVersions"]
            server = said["_meta"]["io.modelcontextprotocol/serverInfo"]
        else:
            assert said["protocolVersion"] == version
            server = said["serverInfo"]
        assert server["name"] == "shoal"
        assert {"tools", "resources", "prompts"} <= said["capabilities"].keys()
        assert not said["capabilities"]["resources"].get("subscribe")
        assert "Search it before you answer" in said["instructions"]


def test_tools_are_listed_with_their_schemas_and_hints(wire: Wire) -> None:
    tools = {tool["name"]: tool for tool in wire.ask("tools/list")["result"]["tools"]}
    assert tools.keys() >= TOOLS
    for tool in tools.values():
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        # Older versions don't know the two and leave them be.
        assert tool["annotations"]["openWorldHint"] is False
        assert tool["outputSchema"]["type"] == "object"


def test_a_memory_is_stored_and_found_in_english_and_chinese(wire: Wire, space: str) -> None:
    english = call(wire, "memory_store", content="Staging listens on port 8443", space=space)
    chinese = call(wire, "memory_store", content="咖啡机在三楼的厨房", tags=["办公室"], space=space)
    assert (english["status"], chinese["status"]) == ("created", "created")
    for query, stored in [("staging port", english), ("厨房", chinese), ("咖啡机在哪里", chinese)]:
        found = call(wire, "memory_find", query=query, space=space)
        assert [row["id"] for row in found["results"]] == [stored["id"]], query
    assert call(wire, "memory_find", query="厨房", space=space)["results"][0]["snippet"] == "咖啡机在三楼的厨房"
    again = call(wire, "memory_store", content="咖啡机在三楼的厨房", space=space)
    assert (again["status"], again["id"]) == ("merged", chinese["id"])


def test_a_tools_answer_comes_as_text_and_as_structure(wire: Wire) -> None:
    result = wire.ask("tools/call", {"name": "memory_stats", "arguments": {}})["result"]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"])


def test_recent_memories_and_a_single_one_are_resources(wire: Wire, space: str) -> None:
    listed = wire.ask("resources/list")["result"]["resources"]
    assert "memory://recent" in [resource["uri"] for resource in listed]
    templates = wire.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert "memory://{id}" in [template["uriTemplate"] for template in templates]
    stored = call(wire, "memory_store", content=f"读到我 from {space}", space=space)
    recent = wire.ask("resources/read", {"uri": "memory://recent"})["result"]["contents"][0]
    assert (recent["uri"], recent["mimeType"]) == ("memory://recent", "text/plain")
    assert f"读到我 from {space}" in recent["text"].splitlines()[0]
    whole = wire.ask("resources/read", {"uri": f"memory://{stored['id']}"})["result"]["contents"][0]
    assert json.loads(whole["text"])["content"] == f"读到我 from {space}"
    error = wire.ask("resources/read", {"uri": "memory://" + "0" * 32})["error"]
    assert error["code"] == INVALID_PARAMS


def test_prompts_are_listed_and_filled_in(wire: Wire) -> None:
    prompts = {prompt["name"]: prompt for prompt in wire.ask("prompts/list")["result"]["prompts"]}
    assert {"memory_retrieval", "session_start"} <= prompts.keys()
    assert prompts["memory_retrieval"]["arguments"][0]["name"] == "question"
    asked = {"name": "memory_retrieval", "arguments": {"question": "哪个端口?"}}
    filled = wire.ask("prompts/get", asked)["result"]["messages"][0]
    assert filled["role"] == "user"
    assert "memory_find" in filled["content"]["text"]
    assert "哪个端口?" in filled["content"]["text"]
    for wrong in [{"name": "memory_retrieval"}, {"name": "nothing"}]:
        assert wire.ask("prompts/get", wrong)["error"]["code"] == INVALID_PARAMS


def test_what_is_not_known_is_refused_and_the_connection_lives_on(wire: Wire) -> None:
    assert wire.ask("tools/call", {"name": "memory_burn", "arguments": {}})["error"]["code"] == INVALID_PARAMS
    assert wire.ask("nothing/here")["error"]["code"] == METHOD_NOT_FOUND
    for arguments, word in [({"qeury": "x"}, "Did you mean `query`?"), ({"query": "x", "n_results": "many"}, "")]:
        result = wire.ask("tools/call", {"name": "memory_find", "arguments": arguments})["result"]
        error = json.loads(result["content"][0]["text"])
        assert (result["isError"], error["code"]) == (True, "invalid_input")
        assert word in error["mend"]
    assert call(wire, "memory_stats")["degraded"] is not None


def test_a_ping_is_answered_in_the_versions_that_have_it(wire: Wire) -> None:
    answer = wire.ask("ping")
    if wire.version in HANDSHAKES:
        assert answer["result"] == {}
    else:
        assert answer["error"]["code"] == METHOD_NOT_FOUND


def test_a_notification_is_taken_without_an_answer(wire: Wire) -> None:
    wire.notify("notifications/cancelled", {"requestId": 99, "reason": "no longer needed"})
    wire.notify("notifications/nothing")
    assert wire.ask("tools/list")["result"]["tools"]
