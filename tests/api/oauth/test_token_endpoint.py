"""POST /token speaks forms, knows two grant types, and lets no cache keep its answers."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope
from tests.api.oauth.flow import REDIRECT, VERIFIER, app, approve, register

from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.token_endpoint import token


def served(authority: Authority) -> ASGIApp:
    face = Starlette(routes=[Route("/token", token, methods=["POST"])])

    async def with_authority(scope: HttpScope, receive: Receive, send: Send) -> None:
        await face({**scope, AUTHORITY_KEY: authority}, receive, send)

    return with_authority


async def post(authority: Authority, **form: str) -> httpx.Response:
    transport = httpx.ASGITransport(served(authority))
    async with httpx.AsyncClient(transport=transport, base_url=authority.issuer) as client:
        return await client.post("/token", data=form)


async def exchanged(authority: Authority, **different: str) -> httpx.Response:
    await register(authority, app())
    form = {
        "grant_type": "authorization_code",
        "client_id": app().id,
        "code": await approve(authority),
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
    }
    return await post(authority, **{**form, **different})


async def test_a_code_and_then_its_refresh_token_are_exchanged(authority: Authority) -> None:
    answer = await exchanged(authority)
    assert answer.status_code == 200
    told: dict[str, Any] = answer.json()
    assert set(told) == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    again = await post(authority, grant_type="refresh_token", client_id=app().id, refresh_token=told["refresh_token"])
    assert again.status_code == 200
    for one in (answer, again):
        assert one.headers["cache-control"] == "no-store"


async def test_a_refusal_has_the_form_of_oauth_and_is_kept_by_no_cache(authority: Authority) -> None:
    answer = await exchanged(authority, code_verifier="w" * 43)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_grant"
    assert set(answer.json()) == {"error", "error_description"}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("grant_type", ["password", "client_credentials", "implicit", "REFRESH_TOKEN", "é"])
async def test_other_grant_types_are_not_supported(authority: Authority, grant_type: str) -> None:
    answer = await exchanged(authority, grant_type=grant_type)
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")


async def test_a_grant_type_must_be_given(authority: Authority) -> None:
    answer = await post(authority, client_id="x")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_an_unknown_client_is_told_so(authority: Authority) -> None:
    answer = await exchanged(authority, client_id="deleted")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
