"""A code is exchanged once, by whom it was given to, with what the authorization request said."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.oauth.doubles import Clock
from tests.api.oauth.flow import (
    CHALLENGE,
    REDIRECT,
    VERIFIER,
    Counting,
    Together,
    app,
    approve,
    ended_because,
    exchange,
    register,
    rows,
)

from shoal.api.oauth import codes, grants, secrets
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError


async def refused(authority: Authority, code: str, error: Code, **different: Any) -> None:
    with pytest.raises(OAuthError) as caught:
        await exchange(authority, code, **different)
    assert caught.value.code is error
    assert code not in caught.value.description


async def test_a_code_is_exchanged_for_a_pair_of_tokens(authority: Authority) -> None:
    answer = await exchange(authority, await approve(authority))
    assert answer["token_type"] == "Bearer"
    assert answer["expires_in"] == 3600
    assert answer["scope"] == "memory:read memory:write"
    assert secrets.is_well_formed(str(answer["access_token"]), secrets.Secret.ACCESS)
    assert secrets.is_well_formed(str(answer["refresh_token"]), secrets.Secret.REFRESH)


async def test_the_exchange_activates_the_grant(authority: Authority) -> None:
    code = await approve(authority)
    assert await grants.listed(authority) == []
    await exchange(authority, code)
    (grant,) = await grants.listed(authority)
    assert (grant.client_id, grant.name) == ("app-id", "App")


async def test_the_exchange_renews_the_client(authority: Authority, clock: Clock) -> None:
    await register(authority, app())
    await exchange(authority, await approve(authority))
    (row,) = await rows(authority, "select used_at, expires_at from oauth_client")
    assert row["used_at"] == clock()
    assert row["expires_at"] == clock() + authority.settings.client_s * 1000


async def test_an_exchange_takes_one_question_and_one_batch(authority: Authority) -> None:
    code = await approve(authority)
    counting = Counting(authority.database)
    await exchange(replace(authority, database=counting), code)
    assert (counting.queries, counting.batches) == (1, [6])


async def test_an_unknown_code_is_refused(authority: Authority) -> None:
    await refused(authority, secrets.make(secrets.Secret.CODE, authority.random), Code.INVALID_GRANT)


@pytest.mark.parametrize(
    "code", ["x-1", "shoal_c_", "shoal_r_" + "a" * 43, "shoal_c_" + "a" * 43 + "\n", "\ud800", "码"]
)
async def test_what_cannot_be_a_code_is_not_looked_up(authority: Authority, code: str) -> None:
    counting = Counting(authority.database)
    await refused(replace(authority, database=counting), code, Code.INVALID_GRANT)
    assert counting.queries == 0


@pytest.mark.parametrize("missing", ["code", "code_verifier"])
async def test_a_missing_parameter_is_named(authority: Authority, missing: str) -> None:
    form = {"code": await approve(authority), "redirect_uri": REDIRECT, "code_verifier": VERIFIER}
    del form[missing]
    with pytest.raises(OAuthError, match=missing) as caught:
        await codes.exchange(authority, app(), form)
    assert caught.value.code is Code.INVALID_REQUEST


async def test_a_code_is_good_for_a_minute(authority: Authority, clock: Clock) -> None:
    early, late = await approve(authority), await approve(authority)
    clock.now_ms += 59_999
    await exchange(authority, early)
    clock.now_ms += 1
    await refused(authority, late, Code.INVALID_GRANT)


async def test_another_clients_code_is_refused_and_stays_good(authority: Authority) -> None:
    code = await approve(authority)
    await refused(authority, code, Code.INVALID_GRANT, client=app("other"))
    assert await exchange(authority, code)


@pytest.mark.parametrize("sent", [REDIRECT + "/", REDIRECT + "?a=b", REDIRECT.upper(), "https://evil.example/", ""])
async def test_another_redirect_uri_is_refused_and_the_code_stays_good(authority: Authority, sent: str) -> None:
    code = await approve(authority)
    await refused(authority, code, Code.INVALID_GRANT, redirect_uri=sent)
    assert await exchange(authority, code)


async def test_the_redirect_uri_may_be_left_out_if_it_was_before(authority: Authority) -> None:
    assert await exchange(authority, await approve(authority, redirect_uri_given=False), redirect_uri="")
    assert await exchange(authority, await approve(authority, redirect_uri_given=False))
    code = await approve(authority, redirect_uri_given=False)
    await refused(authority, code, Code.INVALID_GRANT, redirect_uri="https://evil.example/")


@pytest.mark.parametrize("verifier", ["w" * 43, "v" * 44, "short", CHALLENGE, VERIFIER + "\n", "é" * 43, "v" * 129])
async def test_a_wrong_verifier_is_refused_and_uses_the_code_up(authority: Authority, verifier: str) -> None:
    code = await approve(authority)
    await refused(authority, code, Code.INVALID_GRANT, code_verifier=verifier)
    await refused(authority, code, Code.INVALID_GRANT)
    assert await rows(authority, "select * from oauth_token") == []


async def test_the_verifier_of_rfc_7636_fits_its_challenge() -> None:
    # Appendix B.
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert codes.verifies("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", challenge)
    assert not codes.verifies(challenge, challenge)


async def test_a_plain_challenge_is_never_met_by_itself(authority: Authority) -> None:
    code = await approve(authority, challenge=VERIFIER)
    await refused(authority, code, Code.INVALID_GRANT)


@pytest.mark.parametrize("resource", ["https://other.example/mcp", "https://memory.example/other", "x", "\ud800"])
async def test_another_resource_is_refused_and_the_code_stays_good(authority: Authority, resource: str) -> None:
    code = await approve(authority)
    await refused(authority, code, Code.INVALID_TARGET, resource=resource)
    assert await exchange(authority, code)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "", "/"])
async def test_the_servers_other_names_for_the_resource_are_taken(authority: Authority, path: str) -> None:
    assert await exchange(authority, await approve(authority), resource=authority.issuer + path)


async def test_a_code_for_one_host_is_no_good_at_another(authority: Authority) -> None:
    code = await approve(authority)
    await refused(replace(authority, issuer="https://other.example"), code, Code.INVALID_TARGET)


@pytest.mark.parametrize("by", ["app", "other"])
async def test_a_second_use_ends_the_grant_whoever_makes_it(authority: Authority, by: str) -> None:
    code = await approve(authority)
    await exchange(authority, code)
    await refused(authority, code, Code.INVALID_GRANT, client=app(by))
    assert await ended_because(authority) == ["code_reused"]
    assert await grants.listed(authority) == []


async def test_a_second_use_is_noticed_after_the_codes_time(authority: Authority, clock: Clock) -> None:
    code = await approve(authority)
    await exchange(authority, code)
    clock.forward(seconds=600)
    await refused(authority, code, Code.INVALID_GRANT)
    assert await ended_because(authority) == ["code_reused"]


async def test_of_two_exchanges_at_once_one_gets_tokens_and_then_the_grant_ends(authority: Authority) -> None:
    code = await approve(authority)
    both = replace(authority, database=Together(authority.database))
    results = await asyncio.gather(exchange(both, code), exchange(both, code), return_exceptions=True)
    refusals = [result for result in results if isinstance(result, OAuthError)]
    assert len(refusals) == 1 and refusals[0].code is Code.INVALID_GRANT
    assert len(await rows(authority, "select * from oauth_token")) == 2
    assert await ended_because(authority) == ["code_reused"]


@pytest.mark.parametrize("wrong_first", [True, False])
async def test_a_wrong_verifier_beside_the_right_one_ends_the_grant(authority: Authority, wrong_first: bool) -> None:
    code = await approve(authority)
    both = replace(authority, database=Together(authority.database))
    verifiers = ["w" * 43, VERIFIER] if wrong_first else [VERIFIER, "w" * 43]
    await asyncio.gather(*(exchange(both, code, code_verifier=v) for v in verifiers), return_exceptions=True)
    assert await ended_because(authority) == ["code_reused"]


async def test_the_code_of_an_ended_grant_is_refused(authority: Authority) -> None:
    code = await approve(authority)
    ((grant,), *_) = [await rows(authority, "select id from oauth_grant")]
    await grants.revoke(authority, str(grant["id"]), grants.Because.OWNER)
    await refused(authority, code, Code.INVALID_GRANT)


async def test_tokens_end_with_their_grant(authority: Authority, clock: Clock) -> None:
    code = await approve(authority, expires_at=clock() + 90_000)
    assert (await exchange(authority, code))["expires_in"] == 90


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["code", "code_verifier", "redirect_uri", "resource", "scope"]),
        st.text(st.characters(exclude_categories=()), max_size=80),
    )
)
async def test_no_form_makes_anything_but_a_refusal(authority: Authority, form: dict[str, str]) -> None:
    with pytest.raises(OAuthError):
        await codes.exchange(authority, app(), form)
