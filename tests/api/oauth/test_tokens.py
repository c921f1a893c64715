"""A refresh token is followed by the next, and whoever comes with one after its time ends the whole connection."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.oauth.doubles import Clock
from tests.api.oauth.flow import (
    READ_WRITE,
    Counting,
    Together,
    app,
    connected,
    ended_because,
    refresh,
    register,
    rows,
)

from shoal.api.oauth import grants, secrets, tokens
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError


async def refused(authority: Authority, token: Any, error: Code = Code.INVALID_GRANT, **different: Any) -> None:
    with pytest.raises(OAuthError) as caught:
        await refresh(authority, token, **different)
    assert caught.value.code is error
    assert str(token) not in caught.value.description


async def test_a_refresh_gives_a_new_pair(authority: Authority) -> None:
    first = await connected(authority)
    second = await refresh(authority, first["refresh_token"])
    assert second["scope"] == first["scope"]
    assert second["expires_in"] == 3600
    assert len({first["access_token"], first["refresh_token"], second["access_token"], second["refresh_token"]}) == 4


async def test_a_refresh_takes_one_question_and_one_batch(authority: Authority) -> None:
    first = await connected(authority)
    counting = Counting(authority.database)
    await refresh(replace(authority, database=counting), first["refresh_token"])
    assert (counting.queries, counting.batches) == (1, [6])


async def test_a_refresh_renews_the_client(authority: Authority, clock: Clock) -> None:
    await register(authority, app())
    first = await connected(authority)
    clock.forward(days=20)
    await refresh(authority, first["refresh_token"])
    (row,) = await rows(authority, "select used_at from oauth_client")
    assert row["used_at"] == clock()


async def test_a_missing_token_is_named(authority: Authority) -> None:
    with pytest.raises(OAuthError, match="refresh_token") as caught:
        await tokens.refresh(authority, app(), {})
    assert caught.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("token", ["x-1", "shoal_a_" + "a" * 43, "shoal_r_" + "a" * 42, "shoal_r_" + "\ud800" * 43])
async def test_what_cannot_be_a_refresh_token_is_not_looked_up(authority: Authority, token: str) -> None:
    counting = Counting(authority.database)
    await refused(replace(authority, database=counting), token)
    assert counting.queries == 0


async def test_an_unknown_token_is_refused(authority: Authority) -> None:
    await refused(authority, secrets.make(secrets.Secret.REFRESH, authority.random))


async def test_after_a_lost_answer_the_old_token_serves_again(authority: Authority) -> None:
    first = await connected(authority)
    lost = await refresh(authority, first["refresh_token"])
    again = await refresh(authority, first["refresh_token"])
    third = await refresh(authority, again["refresh_token"])
    assert third and lost
    assert await ended_because(authority) == [None]


async def test_the_old_token_used_after_its_successor_ends_the_grant(authority: Authority) -> None:
    first = await connected(authority)
    second = await refresh(authority, first["refresh_token"])
    third = await refresh(authority, second["refresh_token"])
    await refused(authority, first["refresh_token"])
    assert await ended_because(authority) == ["token_reused"]
    await refused(authority, third["refresh_token"])


async def test_a_sibling_used_after_the_other_ends_the_grant(authority: Authority) -> None:
    first = await connected(authority)
    one = await refresh(authority, first["refresh_token"])
    other = await refresh(authority, first["refresh_token"])
    await refresh(authority, one["refresh_token"])
    await refused(authority, other["refresh_token"])
    assert await ended_because(authority) == ["token_reused"]


async def test_two_refreshes_with_one_token_at_once_both_succeed(authority: Authority) -> None:
    # An app with two windows does this; which of the two goes on is found out when one of them does.
    first = await connected(authority)
    both = replace(authority, database=Together(authority.database))
    one, other = await asyncio.gather(*(refresh(both, first["refresh_token"]) for _ in range(2)))
    assert await ended_because(authority) == [None]
    await refresh(authority, other["refresh_token"])
    await refused(authority, one["refresh_token"])


async def test_of_two_siblings_used_at_once_one_gets_tokens_and_then_the_grant_ends(authority: Authority) -> None:
    first = await connected(authority)
    siblings = [await refresh(authority, first["refresh_token"]) for _ in range(2)]
    both = replace(authority, database=Together(authority.database))
    results = await asyncio.gather(
        *(refresh(both, sibling["refresh_token"]) for sibling in siblings), return_exceptions=True
    )
    assert sum(isinstance(result, OAuthError) for result in results) == 1
    assert await ended_because(authority) == ["token_reused"]


async def test_a_token_used_beside_its_successor_at_once_ends_the_grant_or_came_first(authority: Authority) -> None:
    first = await connected(authority)
    second = await refresh(authority, first["refresh_token"])
    both = replace(authority, database=Together(authority.database))
    # The batches run in this order: the successor claims before the old token is used.
    newer, older = await asyncio.gather(
        refresh(both, second["refresh_token"]), refresh(both, first["refresh_token"]), return_exceptions=True
    )
    assert isinstance(newer, dict) and isinstance(older, OAuthError)
    assert await ended_because(authority) == ["token_reused"]


async def test_a_refresh_can_narrow_the_access_token_only(authority: Authority) -> None:
    first = await connected(authority)
    narrowed = await refresh(authority, first["refresh_token"], scope="memory:read")
    assert narrowed["scope"] == "memory:read"
    whole = await refresh(authority, narrowed["refresh_token"])
    assert whole["scope"] == "memory:read memory:write"


@pytest.mark.parametrize("scope", ["memory:admin", "memory:read sync", "openid", "\ud800", "memory:READ"])
async def test_a_refresh_cannot_ask_for_more_and_uses_nothing_up(authority: Authority, scope: str) -> None:
    first = await connected(authority)
    await refused(authority, first["refresh_token"], Code.INVALID_SCOPE, scope=scope)
    assert await refresh(authority, first["refresh_token"], scope="")


async def test_scopes_that_we_do_not_know_are_passed_over(authority: Authority) -> None:
    first = await connected(authority, scopes=READ_WRITE)
    answer = await refresh(authority, first["refresh_token"], scope="offline_access memory:write")
    assert answer["scope"] == "memory:write"


async def test_another_clients_token_is_refused_and_stays_good(authority: Authority) -> None:
    first = await connected(authority)
    await refused(authority, first["refresh_token"], client=app("other"))
    assert await ended_because(authority) == [None]
    assert await refresh(authority, first["refresh_token"])


async def test_another_resource_is_refused_and_the_token_stays_good(authority: Authority) -> None:
    first = await connected(authority)
    await refused(authority, first["refresh_token"], Code.INVALID_TARGET, resource="https://other.example/mcp")
    elsewhere = replace(authority, issuer="https://other.example")
    await refused(elsewhere, first["refresh_token"], Code.INVALID_TARGET)
    assert await refresh(authority, first["refresh_token"], resource=authority.issuer + "/mcp/")


async def test_a_refresh_token_lasts_thirty_days_from_its_making(authority: Authority, clock: Clock) -> None:
    token = (await connected(authority))["refresh_token"]
    for _ in range(3):
        clock.now_ms += 30 * 86_400_000 - 1
        token = (await refresh(authority, token))["refresh_token"]
    clock.forward(days=30)
    await refused(authority, token)
    assert await ended_because(authority) == [None]


async def test_an_ended_grants_token_is_refused(authority: Authority) -> None:
    first = await connected(authority)
    (grant,) = await grants.listed(authority)
    await grants.revoke(authority, grant.id, grants.Because.OWNER)
    await refused(authority, first["refresh_token"])
    assert await ended_because(authority) == ["owner"]


async def test_tokens_never_outlive_their_grant(authority: Authority, clock: Clock) -> None:
    first = await connected(authority, expires_at=clock() + 100_000)
    clock.forward(seconds=90)
    second = await refresh(authority, first["refresh_token"])
    assert second["expires_in"] == 10
    clock.forward(seconds=10)
    await refused(authority, second["refresh_token"])


async def test_nothing_that_is_handed_out_stands_in_the_database(authority: Authority) -> None:
    first = await connected(authority)
    second = await refresh(authority, first["refresh_token"])
    kept = str(await rows(authority, "select * from oauth_token")) + str(
        await rows(authority, "select * from oauth_code")
    )
    assert not any(
        str(answer[name]) in kept for answer in (first, second) for name in ("access_token", "refresh_token")
    )
    assert "shoal_" not in kept


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["refresh_token", "resource", "scope"]), st.text(st.characters(exclude_categories=()))
    )
)
async def test_no_form_makes_anything_but_a_refusal(authority: Authority, form: dict[str, str]) -> None:
    with pytest.raises(OAuthError):
        await tokens.refresh(authority, app(), form)
