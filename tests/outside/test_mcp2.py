"""The MCP SDK 2.x as client, in both of its eras, over both transports."""

import asyncio
import json
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from pydantic import BaseModel
from tests.outside.rig import SHOAL, Place

VERSION_OF = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def told(result: CallToolResult) -> dict[str, Any]:
    """Return the answer of a tool call that went well."""
    assert result.structured_content is not None
    return result.structured_content


def text_of(part: BaseModel) -> str:
    """Return the text of what may also be a picture."""
    return part.model_dump()["text"]


@pytest.fixture(params=VERSION_OF)
def mode(request: pytest.FixtureRequest) -> str:
    """`auto` speaks the newest version, `legacy` begins with a handshake."""
    return request.param


@pytest.fixture(params=["http", "stdio"])
def client(request: pytest.FixtureRequest, place: Place, mode: str) -> Client:
    """A client that is not connected yet: the SDK wants to be opened and closed in one task."""
    over_stdio = StdioServerParameters(command=SHOAL, args=["mcp"], env=place.environment)
    return Client(place.url if request.param == "http" else over_stdio, mode=mode)


async def test_the_version_of_its_era_is_agreed(client: Client, mode: str) -> None:
    async with client:
        assert client.session.protocol_version == VERSION_OF[mode]
        assert client.server_info is not None
        assert client.server_info.name == "shoal"
        assert "memory_find" in {tool.name for tool in (await client.list_tools()).tools}


async def test_a_memory_is_stored_found_and_deleted(client: Client, space: str) -> None:
    async with client:
        # From here on the SDK checks each answer against the tool's output schema.
        await client.list_tools()
        ids: list[str] = []
        for content in ("The release train leaves on Thursday", "发布列车周四出发"):
            ids.append(told(await client.call_tool("memory_store", {"content": content, "space": space}))["id"])
        for query, known in zip(("release train", "发布"), ids, strict=True):
            found = told(await client.call_tool("memory_find", {"query": query, "space": space}))
            assert [row["id"] for row in found["results"]] == [known]
        gone = told(await client.call_tool("memory_delete", {"ids": ids, "space": space, "confirm": True}))
        assert (gone["status"], sorted(gone["ids"])) == ("deleted", sorted(ids))


async def test_resources_and_prompts_are_read(client: Client, space: str) -> None:
    async with client:
        stored = told(await client.call_tool("memory_store", {"content": f"读我 {space}", "space": space}))
        recent = (await client.read_resource("memory://recent")).contents[0]
        assert f"读我 {space}" in text_of(recent)
        whole = (await client.read_resource(f"memory://{stored['id']}")).contents[0]
        assert json.loads(text_of(whole))["space"] == space
        assert "memory_retrieval" in {prompt.name for prompt in (await client.list_prompts()).prompts}
        filled = await client.get_prompt("memory_retrieval", {"question": "Which day?"})
        assert "Which day?" in text_of(filled.messages[0].content)


async def test_faults_are_told_and_the_client_goes_on(client: Client) -> None:
    async with client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("memory_burn")
        refused = await client.call_tool("memory_find", {"qeury": "x"})
        assert refused.is_error
        assert json.loads(text_of(refused.content[0]))["code"] == "invalid_input"
        with pytest.raises(MCPError):
            await client.read_resource("memory://nothing")
        assert told(await client.call_tool("memory_stats"))["total"] >= 0


async def test_twenty_calls_at_once_are_each_answered(client: Client, space: str) -> None:
    async with client:
        asked = [{"content": f"fact {number} of {space}", "space": space} for number in range(20)]
        answers = await asyncio.gather(*(client.call_tool("memory_store", one) for one in asked))
        assert len({told(answer)["id"] for answer in answers}) == 20
