"""REST with routes that another part brings: OAuth's administration."""

from typing import Any

import pytest
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response
from tests.api.faces import LOOPBACK, TOKENS, client_of, numbered

from shoal.api.context import context_of, one_memory
from shoal.api.openapi import route_docs
from shoal.api.rest import PUBLIC_PATHS, Health, rest_face
from shoal.api.shell import Shell
from shoal.core.caller import Scope
from shoal.core.service import Memory

admin = APIRouter(prefix="/api/v1/admin")


@admin.get("/tokens", **route_docs(Health, needs={Scope.ADMIN}))
async def tokens(request: Request) -> Response:
    """List what was let in."""
    context_of(request.scope).caller.require(Scope.ADMIN)
    return JSONResponse([])


@admin.delete("/tokens", response_model=None)
async def revoke() -> Response:
    """Revoke all."""
    return JSONResponse([])


@pytest.fixture
def app(memory: Memory) -> Any:
    """REST with two more routes."""
    face = rest_face(version="0.1.0", more=[admin])
    return Shell(face, one_memory(memory), TOKENS, LOOPBACK, PUBLIC_PATHS, numbered())


async def test_more_routes_stand_beside_the_others_behind_the_same_gate(app: Any) -> None:
    async with client_of(app) as nobody:
        assert (await nobody.get("/api/v1/admin/tokens")).status_code == 401
    async with client_of(app, authorization="Bearer everything") as all_scopes:
        assert (await all_scopes.get("/api/v1/admin/tokens")).json() == []
        assert (await all_scopes.get("/api/v1/stats")).status_code == 200
        assert (await all_scopes.put("/api/v1/admin/tokens")).headers["allow"] == "DELETE, GET, HEAD"


async def test_their_refusals_are_challenged_like_the_others(app: Any) -> None:
    async with client_of(app, authorization="Bearer reader") as reader:
        answer = await reader.get("/api/v1/admin/tokens")
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "insufficient_scope"
    assert answer.headers["www-authenticate"] == ('Bearer error="insufficient_scope", scope="memory:read memory:admin"')


async def test_with_them_the_document_says_where_tokens_are_got(app: Any) -> None:
    async with client_of(app) as client:
        made = (await client.get("/openapi.json")).json()
    flow = made["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"]
    assert (flow["authorizationUrl"], flow["tokenUrl"]) == ("/authorize", "/token")
    assert set(flow["scopes"]) == set(Scope)
    paths = made["paths"]
    assert paths["/api/v1/admin/tokens"]["get"]["security"] == [
        {"bearer": ["memory:admin"]},
        {"oauth2": ["memory:admin"]},
    ]
    assert paths["/api/v1/stats"]["get"]["security"] == [{"bearer": ["memory:read"]}, {"oauth2": ["memory:read"]}]
    assert paths["/healthz"]["get"]["security"] == []
    # What says nothing of its own takes what is said for all.
    assert "security" not in paths["/api/v1/admin/tokens"]["delete"]
    assert made["security"] == [{"bearer": []}, {"oauth2": []}]
