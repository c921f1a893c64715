"""The gate lets in the owner's key and good tokens, each as far as it was allowed, and nothing else."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Scope as HttpScope
from tests.api.oauth.doubles import OWNER_KEY, Clock
from tests.api.oauth.flow import Counting, approve, connected, ended_because, exchange, refresh, rows

from shoal.api.oauth import grants, secrets
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.gate import TokenGate, caller_of
from shoal.api.oauth.records import CLIENT_SCOPES, SPACE_SCOPES, Reach
from shoal.core.caller import Caller, Scope
from shoal.schema.errors import InsufficientScope, StorageBusy, Unauthorized

KEY = "-".join(OWNER_KEY[start : start + 4] for start in range(0, 32, 4))
SPACES = st.sampled_from(["main", "work", "家", "*"])
REACHES = st.builds(Reach, st.dictionaries(SPACES, st.frozensets(st.sampled_from(SPACE_SCOPES))), st.booleans())


def request(*authorization: str, path: str = "/mcp") -> HttpScope:
    headers = [(b"authorization", value.encode("latin-1")) for value in authorization]
    return {"type": "http", "path": path, "headers": headers}


async def admit(authority: Authority, token: object, **more: Any) -> Caller:
    return await TokenGate(lambda _scope: authority, **more).admit(request(f"Bearer {token}"))


@pytest.mark.parametrize("written", [OWNER_KEY, KEY, KEY.lower(), KEY.replace("-", " ")])
async def test_the_owners_key_opens_everything_however_it_is_written(authority: Authority, written: str) -> None:
    caller = await admit(authority, written)
    assert caller.owner and caller.client == "owner"
    assert all(caller.reach(scope) is None for scope in Scope)


@pytest.mark.parametrize("wrong", [KEY[:-1] + "A", KEY[:-1], KEY + "A", "1" * 32, "", "shoal_a_", "x" * 10_000])
async def test_anything_like_the_key_is_refused_without_asking_the_database(authority: Authority, wrong: str) -> None:
    counting = Counting(authority.database)
    with pytest.raises(Unauthorized):
        await admit(replace(authority, database=counting), wrong)
    assert counting.queries == 0


async def test_without_a_key_in_the_settings_no_key_opens(authority: Authority) -> None:
    bare = replace(authority, settings=replace(authority.settings, owner_key_sha256=""))
    with pytest.raises(Unauthorized):
        await admit(bare, KEY)


async def test_an_access_token_is_its_grant(authority: Authority) -> None:
    answer = await connected(authority)
    (grant,) = await grants.listed(authority)
    caller = await admit(authority, answer["access_token"])
    assert caller == Caller(
        scopes=frozenset({Scope.READ, Scope.WRITE}), spaces=("main",), client="App", token=grant.id, time_zone="UTC"
    )


async def test_a_device_token_is_its_device_under_any_name_of_the_server(authority: Authority) -> None:
    reach = Reach({"*": frozenset({Scope.READ}), "main": frozenset({Scope.WRITE})}, sync=True)
    grant_id, token = await grants.make_device_token(authority, "backup", "laptop", reach)
    caller = await admit(replace(authority, issuer="https://other.example"), token)
    assert (caller.client, caller.device, caller.token) == ("backup", "laptop", grant_id)
    assert caller.scopes == {Scope.READ, Scope.WRITE, Scope.SYNC}
    assert (caller.reach(Scope.READ), caller.reach(Scope.WRITE)) == (None, ("main",))


async def test_the_callers_time_zone_is_the_settings_one(authority: Authority) -> None:
    there = replace(authority, settings=replace(authority.settings, default_time_zone="Asia/Shanghai"))
    assert (await admit(there, KEY)).time_zone == "Asia/Shanghai"
    assert (await admit(there, (await connected(there))["access_token"])).time_zone == "Asia/Shanghai"


async def test_a_narrowed_token_holds_what_it_was_narrowed_to(authority: Authority) -> None:
    reach = Reach({"main": frozenset({Scope.READ}), "notes": frozenset({Scope.WRITE})})
    first = await connected(authority, reach=reach)
    narrowed = await refresh(authority, first["refresh_token"], scope="memory:read")
    caller = await admit(authority, narrowed["access_token"])
    assert (caller.scopes, caller.spaces) == ({Scope.READ}, ("main",))


async def test_one_question_admits(authority: Authority) -> None:
    token = (await connected(authority))["access_token"]
    counting = Counting(authority.database)
    await admit(replace(authority, database=counting), token)
    assert (counting.queries, counting.batches) == (1, [])


async def test_an_access_token_is_good_for_an_hour(authority: Authority, clock: Clock) -> None:
    token = (await connected(authority))["access_token"]
    clock.now_ms += 3_599_999
    await admit(authority, token)
    clock.now_ms += 1
    with pytest.raises(Unauthorized):
        await admit(authority, token)


async def test_a_device_token_is_good_until_the_time_it_was_given(authority: Authority, clock: Clock) -> None:
    reach = Reach({"main": frozenset({Scope.READ})})
    _, forever = await grants.make_device_token(authority, "a", "", reach)
    _, brief = await grants.make_device_token(authority, "b", "", reach, clock() + 1000)
    await admit(authority, brief)
    clock.forward(days=5_000)
    await admit(authority, forever)
    with pytest.raises(Unauthorized):
        await admit(authority, brief)


async def test_a_revoked_grants_token_is_refused_at_once(authority: Authority) -> None:
    token = (await connected(authority))["access_token"]
    (grant,) = await grants.listed(authority)
    await admit(authority, token)
    await grants.revoke(authority, grant.id, grants.Because.OWNER)
    with pytest.raises(Unauthorized):
        await admit(authority, token)


async def test_a_token_for_another_resource_is_refused(authority: Authority) -> None:
    token = (await connected(authority))["access_token"]
    with pytest.raises(Unauthorized):
        await admit(replace(authority, issuer="https://other.example"), token)


async def test_neither_codes_nor_refresh_tokens_admit(authority: Authority) -> None:
    code = await approve(authority)
    answer = await exchange(authority, code)
    for text in (code, answer["refresh_token"], secrets.make(secrets.Secret.ACCESS, authority.random)):
        with pytest.raises(Unauthorized):
            await admit(authority, text)
    assert await ended_because(authority) == [None]


async def test_a_refresh_token_in_an_access_tokens_dress_is_refused(authority: Authority) -> None:
    refresh_token = str((await connected(authority))["refresh_token"])
    with pytest.raises(Unauthorized):
        await admit(authority, refresh_token.replace("shoal_r_", "shoal_a_"))


@pytest.mark.parametrize("headers", [(), ("Basic abc",), ("Bearer",), (f"Bearer {KEY}", f"Bearer {KEY}")])
async def test_there_must_be_one_bearer_token(authority: Authority, headers: tuple[str, ...]) -> None:
    with pytest.raises(Unauthorized):
        await TokenGate(lambda _scope: authority).admit(request(*headers))


async def test_a_use_is_noted_once_a_day(authority: Authority, clock: Clock) -> None:
    _, token = await grants.make_device_token(authority, "a", "", Reach({"main": frozenset({Scope.READ})}))
    counting = Counting(authority.database)
    there = replace(authority, database=counting)
    noted: list[int] = []
    for _ in range(5):
        await admit(there, token)
        clock.forward(days=0.5)
        noted.append(len(counting.batches))
    assert noted == [1, 1, 2, 2, 3]
    (row,) = await rows(authority, "select used_at from oauth_grant")
    assert row["used_at"] == clock() - 43_200_000


async def test_the_noting_can_be_left_for_after_the_answer(authority: Authority, clock: Clock) -> None:
    _, token = await grants.make_device_token(authority, "a", "", Reach({"main": frozenset({Scope.READ})}))
    left: list[Coroutine[Any, Any, None]] = []
    await admit(authority, token, later=left.append)
    assert (await rows(authority, "select used_at from oauth_grant")) == [{"used_at": None}]
    (work,) = left
    await work
    assert (await rows(authority, "select used_at from oauth_grant")) == [{"used_at": clock()}]


@pytest.mark.parametrize("failure", [StorageBusy("The database is busy.", "Try again."), RuntimeError("broken")])
async def test_a_noting_that_fails_is_logged_and_harms_nobody(
    authority: Authority, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    grant_id, token = await grants.make_device_token(authority, "a", "", Reach({"main": frozenset({Scope.READ})}))
    counting = Counting(authority.database)
    counting.failure = failure
    assert (await admit(replace(authority, database=counting), token)).token == grant_id
    assert grant_id in caplog.text and token not in caplog.text


async def test_who_sent_nothing_is_told_where_to_get_a_token(authority: Authority) -> None:
    told = TokenGate(lambda _scope: authority).challenge(request(), Unauthorized("No.", "Do."))
    assert told == (
        'Bearer resource_metadata="https://memory.example/.well-known/oauth-protected-resource/mcp",'
        ' scope="memory:read memory:write"'
    )


@pytest.mark.parametrize("path", ["/sync/push", "/sync/pull", "/sync/status", "/sync/"])
async def test_a_replica_is_told_to_ask_for_everything(authority: Authority, path: str) -> None:
    told = TokenGate(lambda _scope: authority).challenge(request(path=path), Unauthorized("No.", "Do."))
    assert told.endswith(' scope="memory:read memory:write memory:admin sync"')


async def test_who_sent_a_bad_token_is_told_that_as_well(authority: Authority) -> None:
    told = TokenGate(lambda _scope: authority).challenge(request("Bearer x"), Unauthorized("No.", "Do."))
    assert 'error="invalid_token"' in told and "resource_metadata=" in told


async def test_who_lacks_a_scope_is_told_all_that_are_needed(authority: Authority) -> None:
    error = InsufficientScope("No.", "Do.", scopes=["memory:read", "memory:admin"])
    told = TokenGate(lambda _scope: authority).challenge(request("Bearer x"), error)
    assert 'error="insufficient_scope"' in told and 'scope="memory:read memory:admin"' in told
    assert "resource_metadata=" in told and told.count("scope=") == 1


@given(REACHES, st.frozensets(st.sampled_from(CLIENT_SCOPES)))
def test_a_caller_reaches_what_its_grant_does(reach: Reach, scopes: frozenset[Scope]) -> None:
    caller = caller_of(reach, scopes)
    assert caller.scopes == scopes & reach.scopes
    for scope in SPACE_SCOPES:
        assert caller.reach(scope) == (reach.of(scope) if scope in scopes else ())
    reached = [caller.reach(scope) for scope in SPACE_SCOPES]
    if None in reached:
        assert caller.spaces is None
    else:
        assert set(caller.spaces or ()) == {space for limit in reached for space in limit or ()}


@given(REACHES)
def test_a_reach_comes_back_from_the_database_as_it_was(reach: Reach) -> None:
    again = Reach.from_json(reach.to_json())
    assert again.sync == reach.sync
    assert all(again.of(scope) == reach.of(scope) for scope in SPACE_SCOPES)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200))
async def test_no_header_makes_anything_but_a_refusal(authority: Authority, header: bytes) -> None:
    scope: HttpScope = {"type": "http", "headers": [(b"authorization", header)]}
    with pytest.raises(Unauthorized):
        await TokenGate(lambda _scope: authority).admit(scope)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=80))
async def test_no_token_makes_anything_but_a_refusal(authority: Authority, token: bytes) -> None:
    scope: HttpScope = {"type": "http", "headers": [(b"authorization", b"Bearer " + token)]}
    with pytest.raises(Unauthorized):
        await TokenGate(lambda _scope: authority).admit(scope)
