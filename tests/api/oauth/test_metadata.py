import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from tests.api.oauth.doubles import request_of

from shoal.api.oauth import metadata
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.face import oauth_face


@pytest.fixture
async def served(authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the face that all of OAuth is served by."""
    face = oauth_face()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await face({**scope, AUTHORITY_KEY: authority}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(serve), base_url=authority.issuer) as client:
        yield client


async def server(authority: Authority) -> dict[str, Any]:
    return json.loads(bytes((await metadata.authorization_server(request_of(authority))).body))


async def test_clients_find_every_endpoint_at_the_issuer(authority: Authority):
    about = await server(authority)
    assert about["issuer"] == "https://memory.example"
    found = {name: url for name, url in about.items() if name.endswith("_endpoint")}
    assert found == {
        "authorization_endpoint": "https://memory.example/authorize",
        "token_endpoint": "https://memory.example/token",
        "registration_endpoint": "https://memory.example/register",
        "revocation_endpoint": "https://memory.example/revoke",
        "introspection_endpoint": "https://memory.example/introspect",
    }


async def test_what_claude_looks_for_before_it_sends_its_url_is_there(authority: Authority):
    about = await server(authority)
    assert about["client_id_metadata_document_supported"] is True
    assert about["token_endpoint_auth_methods_supported"] == ["none", "client_secret_post", "client_secret_basic"]
    assert about["code_challenge_methods_supported"] == ["S256"]
    assert about["authorization_response_iss_parameter_supported"] is True
    assert about["scopes_supported"] == ["memory:read", "memory:write", "memory:admin", "sync"]


@pytest.mark.parametrize("path", metadata.AUTHORIZATION_SERVER_PATHS)
async def test_the_authorization_server_is_described_alike_at_every_path(served: httpx.AsyncClient, path: str):
    methods = ["none", "client_secret_post", "client_secret_basic"]
    assert (await served.get(path)).json() == {
        "issuer": "https://memory.example",
        "authorization_endpoint": "https://memory.example/authorize",
        "token_endpoint": "https://memory.example/token",
        "registration_endpoint": "https://memory.example/register",
        "revocation_endpoint": "https://memory.example/revoke",
        "introspection_endpoint": "https://memory.example/introspect",
        "scopes_supported": ["memory:read", "memory:write", "memory:admin", "sync"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


@pytest.mark.parametrize("path", metadata.PROTECTED_RESOURCE_PATHS)
async def test_the_resource_is_described_alike_at_every_path(served: httpx.AsyncClient, path: str):
    assert (await served.get(path)).json() == {
        "resource": "https://memory.example/mcp",
        "authorization_servers": ["https://memory.example"],
        "scopes_supported": ["memory:read", "memory:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "shoal",
    }


async def test_what_is_switched_off_is_not_offered(authority: Authority):
    closed = replace(authority, settings=replace(authority.settings, registration=False, documents=False))
    about = await server(closed)
    assert "registration_endpoint" not in about and about["client_id_metadata_document_supported"] is False


async def test_the_resource_is_exactly_what_people_paste(authority: Authority):
    about = json.loads(bytes((await metadata.protected_resource(request_of(authority))).body))
    assert about["resource"] == "https://memory.example/mcp"
    assert about["authorization_servers"] == ["https://memory.example"]
    assert about["bearer_methods_supported"] == ["header"]


async def test_a_client_that_asks_for_all_that_stands_there_gets_no_more_than_everyday_use(authority: Authority):
    about = json.loads(bytes((await metadata.protected_resource(request_of(authority))).body))
    assert about["scopes_supported"] == ["memory:read", "memory:write"]


@pytest.mark.parametrize("endpoint", [metadata.authorization_server, metadata.protected_resource])
async def test_caches_may_keep_it_for_a_while(authority: Authority, endpoint: Any):
    assert (await endpoint(request_of(authority))).headers["cache-control"] == "public, max-age=300"


def test_it_is_found_wherever_clients_look():
    assert {
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/mcp/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
    } == set(metadata.AUTHORIZATION_SERVER_PATHS)
    assert set(metadata.PROTECTED_RESOURCE_PATHS) == {
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
    }
