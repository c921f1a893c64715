"""The official client on the shim's pipes, in both eras of the protocol."""

import os
import sys

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.local.processes import Processes


def shim(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "shoal.local.cli", "mcp", *arguments], env=dict(os.environ)
    )


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_client_stores_finds_and_reads_through_the_shim(
    processes: Processes, mode: str, version: str
) -> None:
    async with Client(stdio_client(shim()), mode=mode) as client:
        assert client.protocol_version == version
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"memory_store", "memory_find"}
        stored = await client.call_tool("memory_store", {"content": f"über den Shim, {version}"})
        assert stored.structured_content is not None
        assert stored.structured_content["status"] == "created"
        found = await client.call_tool("memory_find", {"query": "Shim"})
        assert found.structured_content is not None
        assert found.structured_content["results"][0]["id"] == stored.structured_content["id"]
        recent = await client.read_resource("memory://recent")
        assert version in recent.contents[0].text
        refused = await client.call_tool("memory_store", {"content": ""})
        assert refused.is_error
        assert (await client.get_prompt("memory_retrieval", {"question": "何时?"})).messages


async def test_the_classic_profile_is_served_by_the_same_daemon(processes: Processes) -> None:
    record = processes.daemon()
    async with Client(stdio_client(shim("--profile", "classic"))) as client:
        assert "remember" in {tool.name for tool in (await client.list_tools()).tools}
    assert processes.process_of(record).poll() is None
