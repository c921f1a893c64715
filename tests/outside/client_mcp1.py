"""Drives shoal with the MCP SDK 1.x, which lives in an environment of its own (`make clients`).

    python client_mcp1.py SPACE http URL
    python client_mcp1.py SPACE stdio COMMAND [ARGUMENT ...]

Prints what it saw as one JSON object; test_mcp1.py judges it.
"""

import asyncio
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent
from pydantic import AnyUrl


def transport(kind: str, target: list[str]) -> AbstractAsyncContextManager[Any]:
    """Return the connection that the command line asks for."""
    if kind == "http":
        return streamable_http_client(target[0])
    # By itself it would pass on only what a shell needs.
    return stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ)))


def plain(result: CallToolResult) -> dict[str, Any]:
    """Return a tool's answer as text, as structure, and whether it is an error."""
    text = result.content[0]
    assert isinstance(text, TextContent)
    return {"text": json.loads(text.text), "structured": result.structuredContent, "is_error": result.isError}


async def drive(session: ClientSession, space: str) -> dict[str, Any]:
    """Use everything once."""
    seen: dict[str, Any] = {}
    seen["hello"] = (await session.initialize()).model_dump(mode="json")
    await session.send_ping()
    seen["tools"] = [tool.model_dump(mode="json") for tool in (await session.list_tools()).tools]
    for name, content, query in [
        ("english", "The backup runs at three in the morning", "backup morning"),
        ("chinese", "备份在凌晨三点运行", "凌晨的备份"),
    ]:
        stored = plain(await session.call_tool("memory_store", {"content": content, "space": space}))
        found = plain(await session.call_tool("memory_find", {"query": query, "space": space}))
        seen[name] = {"stored": stored, "found": found}
    seen["unknown_argument"] = plain(await session.call_tool("memory_find", {"qeury": "x"}))
    try:
        await session.call_tool("memory_burn", {})
    except McpError as error:
        seen["unknown_tool"] = {"code": error.error.code, "message": error.error.message}
    seen["resources"] = [str(resource.uri) for resource in (await session.list_resources()).resources]
    stored_id = seen["chinese"]["stored"]["text"]["id"]
    for name, uri in [("recent", "memory://recent"), ("one", f"memory://{stored_id}")]:
        seen[name] = (await session.read_resource(AnyUrl(uri))).model_dump(mode="json")["contents"][0]
    seen["prompts"] = [prompt.name for prompt in (await session.list_prompts()).prompts]
    filled = await session.get_prompt("memory_retrieval", {"question": "几点备份?"})
    seen["prompt"] = filled.model_dump(mode="json")["messages"][0]
    return seen


async def main(space: str, kind: str, target: list[str]) -> None:
    """Connect, use everything, print."""
    async with transport(kind, target) as streams, ClientSession(streams[0], streams[1]) as session:
        seen = await drive(session, space)
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
