"""The tools as data: their size, their schemas, their scopes."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shoal.api.arguments import validate_tool
from shoal.api.classic import CLASSIC_TOOLS
from shoal.api.profiles import PROFILES, profile_named
from shoal.api.registry import DEFAULT_TOOLS, DELETE, FIND, STORE, UPDATE, ToolDefinition
from shoal.core.caller import Caller, Scope
from shoal.core.service import Memory
from shoal.schema.errors import InsufficientScope, InvalidInput

EVERYONE = Caller()
READER = Caller(scopes=frozenset({Scope.READ}))
WRITER = Caller(scopes=frozenset({Scope.READ, Scope.WRITE}))
DEFAULT_MAX_BYTES = 6_200
"""Of the 10,000 bytes for all twelve tools of the default profile; six are to come, with fewer filters."""
SIMPLE_TYPES = {"object", "array", "string", "integer", "number", "boolean"}
ALL_TOOLS = [tool for profile in PROFILES.values() for tool in profile.tools]


def nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and all that are nested in it."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(node for sub in inner for node in nodes(sub))]


def size(tool: ToolDefinition) -> int:
    listed = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema(EVERYONE)}
    return len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode())


def test_the_default_profile_leaves_room_in_a_models_context() -> None:
    assert sum(map(size, DEFAULT_TOOLS)) <= DEFAULT_MAX_BYTES


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_what_strict_clients_accept(tool: ToolDefinition) -> None:
    schema = tool.input_schema(EVERYONE)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(tool.request.model_fields)
    for node in nodes(schema):
        assert (
            not node.keys() & {"$ref", "$defs", "title", "anyOf", "allOf", "oneOf"} or "title" in schema["properties"]
        )
        assert "type" not in node or node["type"] in SIMPLE_TYPES or "type" in schema["properties"]
        assert node.get("type") != "array" or "items" in node
    answer = tool.output_schema()
    Draft202012Validator.check_schema(answer)
    assert answer["type"] == "object"
    assert not any("$ref" in node for node in nodes(answer))
    assert "$defs" not in answer


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_an_example_in_a_description_is_a_valid_call(tool: ToolDefinition) -> None:
    _, _, example = tool.description.partition("Example: ")
    if example:
        arguments = json.loads(example)
        Draft202012Validator(tool.input_schema(EVERYONE)).validate(arguments)
        validate_tool(tool.request, arguments)


def test_only_what_the_scopes_allow_is_listed() -> None:
    default = PROFILES["default"]
    assert [tool.name for tool in default.listed(READER)] == ["memory_find", "memory_get", "memory_stats"]
    assert [tool.name for tool in default.listed(WRITER)] == [tool.name for tool in DEFAULT_TOOLS]
    assert default.listed(Caller(scopes=frozenset())) == []
    assert "purge" not in DELETE.input_schema(WRITER)["properties"]
    assert "purge" in DELETE.input_schema(EVERYONE)["properties"]


def test_what_changes_a_memory_needs_reading_too_and_storing_does_not() -> None:
    blind = Caller(scopes=frozenset({Scope.WRITE}))
    assert [tool.name for tool in PROFILES["default"].listed(blind)] == ["memory_store"]
    assert [tool.name for tool in PROFILES["classic"].listed(blind)] == ["remember"]
    needs = {tool.name: " ".join(sorted(tool.scopes)) for tool in (*DEFAULT_TOOLS, *CLASSIC_TOOLS)}
    assert needs == {
        **dict.fromkeys(["memory_find", "memory_get", "memory_stats", "recall"], "memory:read"),
        **dict.fromkeys(["memory_store", "remember"], "memory:write"),
        **dict.fromkeys(["memory_update", "memory_delete", "forget"], "memory:read memory:write"),
    }


@pytest.mark.parametrize(
    ("given", "purges"),
    [
        ({}, False),
        ({"purge": True}, True),
        ({"purge": "true"}, True),
        ({"purge": " TRUE "}, True),
        ({"purge": "what"}, True),
        ({"purge": [0]}, True),
        ({"purge": False}, False),
        ({"purge": "false"}, False),
        ({"purge": None}, False),
    ],
)
def test_a_call_that_purges_needs_more_however_it_says_so(given: dict[str, Any], purges: bool) -> None:
    needed = {Scope.READ, Scope.WRITE} | ({Scope.ADMIN} if purges else set())
    assert DELETE.needs({"id": "0" * 32, **given}) == needed


async def test_every_call_is_checked_whatever_was_listed(memory: Memory) -> None:
    with pytest.raises(InsufficientScope, match="memory:write"):
        await STORE.call(memory, STORE.request(content="x"), READER)
    with pytest.raises(InsufficientScope, match="memory:admin"):
        await DELETE.call(memory, DELETE.request(id="0" * 32, purge=True), WRITER)
    with pytest.raises(InsufficientScope, match="memory:read"):
        await FIND.call(memory, FIND.request(query="x"), Caller(scopes=frozenset({Scope.WRITE})))
    for change in (UPDATE, DELETE):
        with pytest.raises(InsufficientScope, match="memory:read"):
            await change.call(memory, change.request(id="0" * 32), Caller(scopes=frozenset({Scope.WRITE})))


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_a_tool_that_only_reads_says_so_and_no_other_does(tool: ToolDefinition) -> None:
    assert tool.hints.read_only is (tool.scopes == {Scope.READ})
    assert tool.hints.destructive is (tool.name in {"memory_delete", "forget"})


async def test_content_and_items_together_are_refused(memory: Memory) -> None:
    both = validate_tool(STORE.request, {"content": "x", "items": [{"content": "y"}]})
    with pytest.raises(InvalidInput, match="items"):
        await STORE.call(memory, both, EVERYONE)
    with pytest.raises(InvalidInput, match="Neither"):
        await STORE.call(memory, validate_tool(STORE.request, {}), EVERYONE)


def test_an_unknown_profile_is_refused_with_the_names() -> None:
    with pytest.raises(InvalidInput) as caught:
        profile_named("clasic")
    assert "default, classic" in caught.value.mend
