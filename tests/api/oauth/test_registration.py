import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response
from tests.api.oauth.doubles import Clock, made_authority, request_of
from tests.api.oauth.flow import ended_because, rows

from shoal.api.oauth import clients, registration
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import AuthMethod
from shoal.core.protocols import Statement

JSON = {"Content-Type": "application/json"}
CLAUDE = {
    "client_name": "Claude",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


async def register(authority: Authority, body: Any, headers: dict[str, str] | None = None) -> Response:
    sent = body if isinstance(body, bytes | str) else json.dumps(body)
    return await registration.register(request_of(authority, sent, headers=JSON if headers is None else headers))


async def registered(authority: Authority, **different: Any) -> dict[str, Any]:
    answer = await register(authority, {**CLAUDE, **different})
    assert answer.status_code == 201, answer.body
    assert answer.headers["cache-control"] == "no-store"
    return json.loads(bytes(answer.body))


async def refused(authority: Authority, body: Any, headers: dict[str, str] | None = None) -> str:
    answer = await register(authority, body, headers)
    assert answer.status_code == 400
    assert await rows(authority, "select id from oauth_client") == []
    return json.loads(bytes(answer.body))["error"]


async def managed(endpoint: Any, authority: Authority, client_id: str, token: str | None) -> Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return await endpoint(request_of(authority, headers=headers, path_params={"client_id": client_id}))


async def test_a_client_learns_all_that_it_is_registered_with(authority: Authority, clock: Clock):
    told = await registered(authority)
    management = told.pop("registration_access_token")
    client_id = told.pop("client_id")
    assert management.startswith("shoal_m_")
    assert told == {
        **CLAUDE,
        "client_id_issued_at": clock() // 1000,
        "scope": "memory:read memory:write memory:admin sync",
        "registration_client_uri": f"https://memory.example/register/{client_id}",
    }
    client = await clients.find(authority, client_id)
    assert (client.name, client.redirect_uris, client.auth_method) == (
        "Claude",
        tuple(CLAUDE["redirect_uris"]),
        AuthMethod.NONE,
    )


async def test_a_client_that_says_nothing_of_secrets_gets_one_for_basic(authority: Authority):
    answer = await register(authority, {"redirect_uris": ["https://app.example/cb"]})
    told = json.loads(bytes(answer.body))
    assert told["token_endpoint_auth_method"] == "client_secret_basic"
    assert told["client_secret"].startswith("shoal_s_") and told["client_secret_expires_at"] == 0
    assert told["client_name"] == "app.example"


async def test_the_way_that_a_client_asks_for_is_the_one_it_gets(authority: Authority):
    assert "client_secret" not in await registered(authority, token_endpoint_auth_method="none")
    told = await registered(authority, token_endpoint_auth_method="client_secret_post")
    assert (await clients.find(authority, told["client_id"])).auth_method is AuthMethod.POST


async def test_no_secret_stands_in_the_database(authority: Authority):
    told = await registered(authority, token_endpoint_auth_method="client_secret_post")
    kept = str(await rows(authority, "select * from oauth_client"))
    assert told["client_secret"] not in kept and told["registration_access_token"] not in kept


async def test_the_scope_asked_for_at_registration_limits_nothing(authority: Authority):
    """Else an app that starts by reading could never step up."""
    assert (await registered(authority, scope="memory:read"))["scope"] == "memory:read memory:write memory:admin sync"


async def test_what_we_do_not_know_is_passed_over(authority: Authority):
    told = await registered(authority, logo_uri="javascript:alert(1)", jwks={"keys": []}, software_id=1, x=None)
    assert not {"logo_uri", "jwks", "x"} & set(told)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("  Claude \n Code ", "Claude Code"),
        ("evil\u202etxt.exe\u2066", "eviltxt.exe"),
        ("a\x00b\x1bc\u200bd", "abcd"),
        ("<b>&\"'", "<b>&\"'"),
        ("记忆", "记忆"),
        ("x" * 1000, "x" * 100),
        ("a\ud800b", "ab"),
        ("\u202e", "claude.ai"),
        ("\u3164\u2800\u115f\ufe0f", "claude.ai"),
        ("", "claude.ai"),
        (None, "claude.ai"),
    ],
)
async def test_a_name_is_one_line_of_characters_that_show(authority: Authority, sent: Any, shown: str):
    assert (await registered(authority, client_name=sent))["client_name"] == shown


@pytest.mark.parametrize(
    "uris",
    [
        ["http://evil.example/cb"],
        ["javascript:alert(1)"],
        ["https://app.example/cb", "data:text/html,x"],
        ["https://memory.example/authorize"],
        ["https://app.example/cb#x"],
        ["evil://x"],
    ],
)
async def test_codes_are_sent_nowhere_that_the_policy_refuses(authority: Authority, uris: list[str]):
    assert await refused(authority, {**CLAUDE, "redirect_uris": uris}) == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "different",
    [
        {"redirect_uris": []},
        {"redirect_uris": None},
        {"redirect_uris": "https://app.example/cb"},
        {"redirect_uris": [1]},
        {"redirect_uris": ["https://app.example/cb"] * 11},
        {"redirect_uris": ["https://app.example/" + "x" * 2000]},
        {"redirect_uris": ["\ud800"]},
        {"client_name": 1},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": ["none"]},
        {"grant_types": ["client_credentials"]},
        {"grant_types": []},
        {"response_types": ["token"]},
        {"response_types": [["code"]]},
    ],
    ids=str,
)
async def test_what_can_not_be_served_is_refused(authority: Authority, different: dict[str, Any]):
    assert await refused(authority, {**CLAUDE, **different}) == "invalid_client_metadata"


@pytest.mark.parametrize(
    "body", ["", "x", "[]", "null", "1", '"x"', "{", "\ufeff{}", b"\xff", "[" * 100_000, '{"a":' * 50_000, "1" * 5000]
)
async def test_a_body_that_is_no_object_is_refused(authority: Authority, body: Any):
    assert await refused(authority, body) == "invalid_client_metadata"


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/x-www-form-urlencoded"}])
async def test_a_body_must_be_sent_as_json(authority: Authority, headers: dict[str, str]):
    assert await refused(authority, CLAUDE, headers) == "invalid_client_metadata"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["none", "code"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*CLAUDE, "scope", "x"]), _VALUES).map(json.dumps) | st.text() | st.binary())
async def test_no_body_makes_anything_but_a_client_or_a_refusal(body: str | bytes):
    answer = await register(await made_authority(), body)
    told = json.loads(bytes(answer.body))
    if answer.status_code != 201:
        assert (answer.status_code, told["error"]) in {(400, "invalid_client_metadata"), (400, "invalid_redirect_uri")}
        assert told["error_description"].isascii()


async def test_one_network_registers_thirty_clients_an_hour(authority: Authority, clock: Clock):
    for _ in range(registration.NETWORK_HOURLY):
        await registered(authority)
    answer = await register(authority, CLAUDE)
    assert (answer.status_code, json.loads(bytes(answer.body))["error"]) == (429, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "3600"
    await registered(replace(authority, network="192.0.2.2"))
    clock.forward(seconds=3600)
    await registered(authority)


async def test_removing_registrations_makes_no_room_for_more(authority: Authority):
    for _ in range(registration.NETWORK_HOURLY):
        told = await registered(authority)
        await managed(registration.remove, authority, told["client_id"], told["registration_access_token"])
    assert (await register(authority, CLAUDE)).status_code == 429


async def test_all_networks_together_register_three_hundred(authority: Authority):
    for n in range(registration.HOURLY):
        await registered(replace(authority, network=str(n // 10)))
    assert (await register(replace(authority, network="another"), CLAUDE)).status_code == 429


async def test_registration_can_be_switched_off(authority: Authority):
    closed = replace(authority, settings=replace(authority.settings, registration=False))
    assert await refused(closed, CLAUDE) == "invalid_request"


async def test_a_client_reads_its_own_registration(authority: Authority):
    told = await registered(authority, token_endpoint_auth_method="client_secret_post")
    answer = await managed(registration.show, authority, told["client_id"], told["registration_access_token"])
    shown = json.loads(bytes(answer.body))
    assert answer.status_code == 200 and "client_secret" not in shown
    del told["client_secret"], told["client_secret_expires_at"]
    assert shown == told


async def test_a_client_that_removes_itself_loses_what_it_was_allowed(authority: Authority):
    told = await registered(authority)
    grant = (
        "insert into oauth_grant (id, kind, client_id, name, reach, created_at) values ('g', 'app', ?1, '', '{}', 1)"
    )
    await authority.database.batch([Statement(grant, (told["client_id"],))])
    own = (authority, told["client_id"], told["registration_access_token"])
    answer = await managed(registration.remove, *own)
    assert (answer.status_code, bytes(answer.body)) == (204, b"")
    assert await ended_because(authority) == ["client_removed"]
    assert (
        await rows(authority, "select 1 from oauth_client where coalesce(secret_sha256, management_sha256) > ''") == []
    )
    with pytest.raises(OAuthError) as unknown:
        await clients.find(authority, told["client_id"])
    assert unknown.value.code is Code.INVALID_CLIENT
    for endpoint in (registration.show, registration.remove):
        assert (await managed(endpoint, *own)).status_code == 401


@pytest.mark.parametrize("endpoint", [registration.show, registration.remove])
@pytest.mark.parametrize("client_id", ["", "x", "\ud800", "a\0", "0" * 10_000, "https://app.example/client.json"])
async def test_what_can_be_no_clients_id_opens_nothing(authority: Authority, endpoint: Any, client_id: str):
    told = await registered(authority)
    answer = await managed(endpoint, authority, client_id, told["registration_access_token"])
    assert (answer.status_code, json.loads(bytes(answer.body))["error"]) == (401, "invalid_token")


@pytest.mark.parametrize("endpoint", [registration.show, registration.remove])
async def test_only_its_own_token_opens_a_registration(authority: Authority, clock: Clock, endpoint: Any):
    one, other = await registered(authority), await registered(authority, token_endpoint_auth_method=None)
    for token in (None, "", "x", other["registration_access_token"], other["client_secret"], "shoal_m_" + "x" * 43):
        answer = await managed(endpoint, authority, one["client_id"], token)
        assert (answer.status_code, json.loads(bytes(answer.body))["error"]) == (401, "invalid_token")
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    clock.forward(days=1)
    assert (await managed(endpoint, authority, one["client_id"], one["registration_access_token"])).status_code == 401
    (count,) = await rows(authority, "select count(*) as n from oauth_client")
    assert count["n"] == 2
