"""Find the way to an edge's authorization server and register there (RFC 9728, RFC 8414, RFC 7591).

With the MCP SDK's models and rules. It takes a second to import, so only `shoal link` does.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar, cast
from urllib.parse import urlencode

import httpx
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import PKCEParameters, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    validate_authorization_response_iss,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata
from pydantic import BaseModel, ValidationError

from shoal.local.sync.asking import Answer, ask, error_of, host_of, shown
from shoal.local.sync.vault import Client
from shoal.schema.errors import NotFound, ShoalError, SyncError

RESOURCE_PATH: Final = "/mcp"
SCOPE: Final = "memory:read memory:write memory:admin sync"
"""What a laptop needs for its memory to be the same as the edge's: purges travel only with memory:admin."""

M = TypeVar("M", bound=BaseModel)


async def discover(http: httpx.AsyncClient, url: str) -> OAuthMetadata:
    """Return what the authorization server of the edge at `url` says of itself.

    It must be the edge itself, with all of its endpoints: a code or token of this device goes nowhere else. Raises
    NotFound, SyncError, EdgeUnreachable, EdgeBusy.
    """
    resource = url + RESOURCE_PATH
    about = await _first(
        http, build_protected_resource_metadata_discovery_urls(None, resource), ProtectedResourceMetadata
    )
    if about is None:
        raise NotFound(
            f"{host_of(url)} is no edge of shoal, or one without OAuth.",
            "Look whether this is the address of your Worker. Where only device tokens are used: --token-stdin.",
        )
    if str(about.resource) != resource:
        raise _disagrees(url, f"calls itself {shown(str(about.resource))}")
    issuer = str(about.authorization_servers[0])
    server = await _first(
        http, build_oauth_authorization_server_metadata_discovery_urls(issuer, resource), OAuthMetadata
    )
    if server is None:
        raise _disagrees(url, "has no description of its authorization server")
    try:
        validate_metadata_issuer(server, url)
    except OAuthFlowError as error:
        raise _disagrees(url, f"names {shown(str(server.issuer))} as who lets you in") from error
    for endpoint in _endpoints(server):
        if not endpoint.startswith(f"{url}/"):
            raise _disagrees(url, f"leads to {shown(endpoint)}")
    return server


async def register(http: httpx.AsyncClient, server: OAuthMetadata, name: str, redirect_uri: str) -> Client:
    """Register this device as a public client (RFC 7591). Raises SyncError, EdgeUnreachable, EdgeBusy."""
    issuer = str(server.issuer)
    if server.registration_endpoint is None:
        raise SyncError(
            f"{host_of(issuer)} lets no device register itself.",
            f"Make a device token at {issuer}/account, then: shoal link {issuer} --token-stdin",
        )
    wanted = OAuthClientMetadata.model_validate(
        {"client_name": name, "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none", "scope": SCOPE}
    )
    body = wanted.model_dump_json(by_alias=True, exclude_none=True).encode()
    endpoint = str(server.registration_endpoint)
    answer = await ask(http, "POST", endpoint, headers={"content-type": "application/json"}, content=body)
    if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        raise _registration_refused(answer, endpoint)
    try:
        registered = OAuthClientInformationFull.model_validate_json(answer.body)
        check_registration_usable(registered)
    except (ValidationError, OAuthRegistrationError):
        # Not chained: the text would repeat what came.
        raise _disagrees(issuer, "answers a registration in a form that can't be used") from None
    return Client(
        client_id=registered.client_id,
        token_endpoint=str(server.token_endpoint),
        revocation_endpoint=str(server.revocation_endpoint) if server.revocation_endpoint else None,
        resource=issuer + RESOURCE_PATH,
    )


def pkce() -> PKCEParameters:
    """Return a new verifier with its challenge (RFC 7636)."""
    return PKCEParameters.generate()


def authorization_url(server: OAuthMetadata, client: Client, redirect_uri: str, state: str, challenge: str) -> str:
    """Return where the person's browser goes to be asked (RFC 6749, 4.1.1)."""
    asked: Mapping[str, str] = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "scope": SCOPE,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": client.resource,
    }
    return f"{server.authorization_endpoint}?{urlencode(asked)}"


def check_issuer(server: OAuthMetadata, iss: str | None) -> None:
    """Raise SyncError unless the browser's answer comes from the server that was asked (RFC 9207)."""
    try:
        validate_authorization_response_iss(iss, server)
    except OAuthFlowError:
        raise SyncError(
            "The browser's answer comes from another server than was asked.",
            "Someone may be trying to be let in instead of you. Look at the connections on the edge's account page.",
        ) from None


async def _first(http: httpx.AsyncClient, urls: list[str], kind: type[M]) -> M | None:
    """Return the first of several documents that is there. Raises EdgeUnreachable, EdgeBusy."""
    for url in urls:
        answer = await ask(http, "GET", url)
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise error_of(answer, url)
        if answer.status == HTTPStatus.OK:
            try:
                return kind.model_validate_json(answer.body)
            except ValidationError:
                continue
    return None


def _endpoints(server: OAuthMetadata) -> list[str]:
    found = (
        server.authorization_endpoint,
        server.token_endpoint,
        server.registration_endpoint,
        server.revocation_endpoint,
    )
    return [str(endpoint) for endpoint in found if endpoint is not None]


def _registration_refused(answer: Answer, endpoint: str) -> ShoalError:
    found = answer.json()
    said = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    if answer.status == HTTPStatus.BAD_REQUEST and isinstance(said.get("error"), str):
        return SyncError(
            f"{host_of(endpoint)} refuses to register this device. {shown(said.get('error_description'))}",
            "Choose another --name, or link with a device token: --token-stdin.",
        )
    return error_of(answer, endpoint)


def _disagrees(url: str, what: str) -> SyncError:
    return SyncError(
        f"{host_of(url)} {what}, so this device does not trust it with anything.",
        "Link to the address by which the edge calls itself; its operator sees it in the Worker's settings.",
    )
