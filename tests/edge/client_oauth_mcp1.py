"""An app made with the MCP SDK 1.x, which lives in an environment of its own (`make clients`), lets itself in.

    python client_oauth_mcp1.py URL

Prints the URL that it wants opened, reads the one that the browser is sent back to, stores, finds, and prints what it
saw as one JSON object; test_oauth_mcp1.py judges it.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

CALLBACK = "http://localhost:8123/callback"


class Storage:
    """Keeps what must outlast a start of the app."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def opened(url: str) -> None:
    """Ask for a browser."""
    print(json.dumps({"open": url}), flush=True)


async def returned() -> tuple[str, str | None]:
    """Return the code and the state with which it comes back."""
    told = parse_qs(urlsplit(sys.stdin.readline().strip()).query)
    return told["code"][0], told["state"][0]


async def drive(session: ClientSession) -> dict[str, Any]:
    """Use what an app is for."""
    seen: dict[str, Any] = {"version": (await session.initialize()).protocolVersion}
    seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
    stored = await session.call_tool("memory_store", {"content": "The backup runs at three in the morning"})
    found = await session.call_tool("memory_find", {"query": "backup morning"})
    seen["stored"], seen["found"] = stored.structuredContent, found.structuredContent
    return seen


async def main(url: str) -> None:
    """Connect, use it, print."""
    requests: list[str] = []

    async def note(response: httpx.Response) -> None:
        requests.append(f"{response.request.method} {response.request.url.path} {response.status_code}")

    metadata = OAuthClientMetadata(client_name="SDK 1 app", redirect_uris=[AnyUrl(CALLBACK)])
    provider = OAuthClientProvider(url, metadata, Storage(), opened, returned)
    async with (
        httpx.AsyncClient(auth=provider, verify=False, event_hooks={"response": [note]}) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        seen = await drive(session)
    print(json.dumps({**seen, "requests": requests}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
