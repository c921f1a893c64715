"""What clients read before anything else: the authorization server (RFC 8414) and the resource (RFC 9728)."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.records import CLIENT_SCOPES, DEFAULT_SCOPES, AuthMethod

AUTHORIZATION_SERVER_PATHS: Final = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/mcp/.well-known/openid-configuration",
)
"""Our issuer has no path, so the first is where RFC 8414 puts it; clients also try the others, by the server's URL and
by OpenID's name, and some give up at a 404."""
PROTECTED_RESOURCE_PATHS: Final = (
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-protected-resource",
)
"""The first is where RFC 9728 puts it for ISSUER/mcp, the second what clients try without a path."""
MAX_AGE_S: Final = 300
"""Short: a setting that is changed should be seen soon."""


async def authorization_server(request: Request) -> Response:
    """Answer what this authorization server can do."""
    return _public(authorization_server_metadata(authority_of(request.scope)))


async def protected_resource(request: Request) -> Response:
    """Answer what the resource is, and who lets callers in."""
    return _public(protected_resource_metadata(authority_of(request.scope)))


def authorization_server_metadata(authority: Authority) -> dict[str, Any]:
    """Return the authorization server's metadata (RFC 8414, 2; RFC 9207, 3)."""
    issuer, methods = authority.issuer, list(map(str, AuthMethod))
    found: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "revocation_endpoint": f"{issuer}/revoke",
        "introspection_endpoint": f"{issuer}/introspect",
        "scopes_supported": list(map(str, CLIENT_SCOPES)),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        # The owner's own bearer token: clients have no business there.
        "introspection_endpoint_auth_methods_supported": ["Bearer"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": authority.settings.documents,
    }
    if authority.settings.registration:
        found["registration_endpoint"] = f"{issuer}/register"
    return found


def protected_resource_metadata(authority: Authority) -> dict[str, Any]:
    """Return the resource's metadata (RFC 9728, 2).

    Clients ask for all scopes that stand here when no challenge names some. So only reading and writing stand here:
    what purges or syncs has to ask for it, when it needs it.
    """
    return {
        "resource": authority.resource,
        "authorization_servers": [authority.issuer],
        "scopes_supported": list(map(str, DEFAULT_SCOPES)),
        "bearer_methods_supported": ["header"],
        "resource_name": "shoal",
    }


def _public(value: dict[str, Any]) -> Response:
    return JSONResponse(value, headers={"Cache-Control": f"public, max-age={MAX_AGE_S}"})
