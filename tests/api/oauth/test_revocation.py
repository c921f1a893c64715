"""An app can end its own connection and nobody else's; the owner can ask about any token."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope
from tests.api.oauth.doubles import OWNER_KEY, Clock
from tests.api.oauth.flow import app, connected, ended_because, refresh, register

from shoal.api.oauth import grants
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.records import Reach
from shoal.api.oauth.revocation import introspect, revoke
from shoal.core.caller import Scope


def served(authority: Authority) -> ASGIApp:
    face = Starlette(
        routes=[Route("/revoke", revoke, methods=["POST"]), Route("/introspect", introspect, methods=["POST"])]
    )

    async def with_authority(scope: HttpScope, receive: Receive, send: Send) -> None:
        await face({**scope, AUTHORITY_KEY: authority}, receive, send)

    return with_authority


async def post(authority: Authority, path: str, bearer: str = "", **form: Any) -> httpx.Response:
    transport = httpx.ASGITransport(served(authority))
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with httpx.AsyncClient(transport=transport, base_url=authority.issuer, headers=headers) as client:
        return await client.post(path, data=form)


async def inspected(authority: Authority, token: object) -> dict[str, Any]:
    answer = await post(authority, "/introspect", OWNER_KEY, token=token)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "nonsense"])
async def test_either_token_ends_the_whole_connection(authority: Authority, which: str, hint: str) -> None:
    await register(authority, app())
    answer = await connected(authority)
    told = await post(authority, "/revoke", client_id=app().id, token=answer[which], token_type_hint=hint)
    assert told.status_code == 200
    assert await ended_because(authority) == ["client"]


async def test_another_clients_token_is_left_alone_and_answered_the_same(authority: Authority) -> None:
    await register(authority, app("other"))
    answer = await connected(authority)
    _, device = await grants.make_device_token(authority, "a", "", Reach({"main": frozenset({Scope.READ})}))
    own = await post(authority, "/revoke", client_id=app("other").id, token="shoal_a_" + "x" * 43)
    for token in (answer["access_token"], answer["refresh_token"], device, "nonsense", "ü"):
        told = await post(authority, "/revoke", client_id=app("other").id, token=token)
        assert (told.status_code, told.content) == (own.status_code, own.content) == (200, own.content)
    assert await ended_because(authority) == [None, None]


async def test_who_revokes_must_be_a_client_and_name_a_token(authority: Authority) -> None:
    await register(authority, app())
    answer = await connected(authority)
    stranger = await post(authority, "/revoke", client_id="stranger", token=answer["access_token"])
    assert (stranger.status_code, stranger.json()["error"]) == (401, "invalid_client")
    nothing = await post(authority, "/revoke", client_id=app().id)
    assert (nothing.status_code, nothing.json()["error"]) == (400, "invalid_request")
    assert await ended_because(authority) == [None]


async def test_the_owner_learns_what_an_access_token_is_good_for(authority: Authority, clock: Clock) -> None:
    reach = Reach({"main": frozenset({Scope.READ, Scope.WRITE}), "*": frozenset({Scope.READ})})
    answer = await connected(authority, reach=reach)
    assert await inspected(authority, answer["access_token"]) == {
        "active": True,
        "scope": "memory:read memory:write",
        "client_id": "app-id",
        "token_type": "Bearer",
        "exp": clock() // 1000 + 3600,
        "iat": clock() // 1000,
        "aud": "https://memory.example/mcp",
        "iss": "https://memory.example",
        "sub": "owner",
        "spaces": {"*": ["memory:read"], "main": ["memory:write"]},
    }


async def test_a_devices_token_never_expires_and_has_no_client(authority: Authority) -> None:
    _, token = await grants.make_device_token(authority, "a", "", Reach({"main": frozenset({Scope.READ})}))
    told = await inspected(authority, token)
    assert told["active"] is True
    assert "exp" not in told and "client_id" not in told


async def test_a_refresh_token_is_active_while_it_can_be_used(authority: Authority) -> None:
    first = await connected(authority)
    second = await refresh(authority, first["refresh_token"])
    assert (await inspected(authority, first["refresh_token"]))["active"] is True
    await refresh(authority, second["refresh_token"])
    assert await inspected(authority, first["refresh_token"]) == {"active": False}


async def test_of_what_is_no_good_only_that_is_told(authority: Authority, clock: Clock) -> None:
    answer = await connected(authority)
    for token in ("nonsense", "shoal_a_" + "x" * 43, OWNER_KEY, "ü"):
        assert await inspected(authority, token) == {"active": False}
    clock.forward(seconds=3_600)
    assert await inspected(authority, answer["access_token"]) == {"active": False}
    (grant,) = await grants.listed(authority)
    await grants.revoke(authority, grant.id, grants.Because.OWNER)
    assert await inspected(authority, answer["refresh_token"]) == {"active": False}


async def test_only_the_owner_may_ask(authority: Authority) -> None:
    token = str((await connected(authority))["access_token"])
    for bearer in ("", token, OWNER_KEY[:-1] + "A"):
        answer = await post(authority, "/introspect", bearer, token=token)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    nothing = await post(authority, "/introspect", OWNER_KEY)
    assert (nothing.status_code, nothing.json()["error"]) == (400, "invalid_request")
