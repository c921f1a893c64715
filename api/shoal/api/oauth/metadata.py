"""Where everything is: the documents by which clients find their way (RFC 8414, RFC 9728)."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.api.oauth.authority import RESOURCE_PATH, Authority, authority_of
from shoal.api.oauth.paths import AUTHORIZE, INTROSPECT, PROTECTED_RESOURCE, REGISTER, REVOKE, TOKEN
from shoal.api.oauth.records import CLIENT_SCOPES, DEFAULT_SCOPES, AuthMethod

_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
AUTHORIZATION_SERVER_PATHS: Final = tuple(
    path
    for name in (_SERVER, _OPENID)
    # Clients look with the resource's path behind, before, and without it.
    for path in (name, f"{name}{RESOURCE_PATH}", f"{RESOURCE_PATH}{name}")
)
PROTECTED_RESOURCE_PATHS: Final = (PROTECTED_RESOURCE, PROTECTED_RESOURCE + RESOURCE_PATH)
_CACHED: Final = {"Cache-Control": "public, max-age=300"}


async def authorization_server(request: Request) -> Response:
    """Describe the authorization server (RFC 8414, 2)."""
    return JSONResponse(_server(authority_of(request.scope)), headers=_CACHED)


async def protected_resource(request: Request) -> Response:
    """Describe the one resource (RFC 9728, 2).

    `scopes_supported` are what a client needs for everyday use, and asks for when nothing else tells it what to ask
    for; whoever needs more is told so by a challenge (least privilege).
    """
    authority = authority_of(request.scope)
    about = {
        "resource": authority.resource,
        "authorization_servers": [authority.issuer],
        "scopes_supported": list(DEFAULT_SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "shoal",
    }
    return JSONResponse(about, headers=_CACHED)


def _server(authority: Authority) -> dict[str, Any]:
    issuer, methods = authority.issuer, [AuthMethod.NONE, AuthMethod.POST, AuthMethod.BASIC]
    about = {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE,
        "token_endpoint": issuer + TOKEN,
        "registration_endpoint": issuer + REGISTER,
        "revocation_endpoint": issuer + REVOKE,
        "introspection_endpoint": issuer + INTROSPECT,
        "scopes_supported": list(CLIENT_SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": authority.settings.documents,
    }
    if not authority.settings.registration:
        del about["registration_endpoint"]
    return about
