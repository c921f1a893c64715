"""What has had its time goes; what still tells of a misuse, or lets someone in, stays."""

import json
from dataclasses import replace

import pytest
from tests.api.oauth.doubles import Clock
from tests.api.oauth.flow import (
    MAIN,
    Counting,
    app,
    approve,
    connected,
    ended_because,
    exchange,
    refresh,
    register,
    rows,
)

from shoal.api.oauth import attempts, expiring, grants, handles, sessions
from shoal.api.oauth.attempts import Way
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.gate import TokenGate
from shoal.api.oauth.sessions import Method
from shoal.core.protocols import Statement


async def expire(authority: Authority) -> int:
    return await expiring.expire(authority.database, authority.clock(), authority.settings)


async def count(authority: Authority, table: str) -> int:
    return len(await rows(authority, f"select 1 from {table}"))


async def test_nothing_goes_from_an_empty_database_or_before_its_time(authority: Authority) -> None:
    assert await expire(authority) == 0
    await connected(authority)
    await approve(authority)
    await grants.make_device_token(authority, "a", "", MAIN)
    assert await expire(authority) == 0


async def test_a_code_is_kept_an_hour_longer_so_that_its_second_use_is_noticed(
    authority: Authority, clock: Clock
) -> None:
    code = await approve(authority)
    await exchange(authority, code)
    clock.forward(seconds=60 + 3_599)
    await expire(authority)
    with pytest.raises(OAuthError):
        await exchange(authority, code)
    assert await ended_because(authority) == ["code_reused"]
    clock.forward(seconds=1)
    await expire(authority)
    assert await count(authority, "oauth_code") == 0


async def test_an_access_token_goes_with_its_hour(authority: Authority, clock: Clock) -> None:
    await connected(authority)
    clock.forward(seconds=3_600)
    await expire(authority)
    assert [row["kind"] for row in await rows(authority, "select kind from oauth_token")] == ["refresh"]


async def test_a_refresh_token_is_kept_while_one_made_from_it_may_still_come(
    authority: Authority, clock: Clock
) -> None:
    first = await connected(authority)
    clock.forward(days=29)
    one = await refresh(authority, first["refresh_token"])
    other = await refresh(authority, first["refresh_token"])
    await refresh(authority, one["refresh_token"])
    clock.forward(days=29)
    await expire(authority)
    with pytest.raises(OAuthError):
        await refresh(authority, other["refresh_token"])
    assert await ended_because(authority) == ["token_reused"]


async def test_a_connection_that_nobody_used_any_more_goes_in_the_end(authority: Authority, clock: Clock) -> None:
    await connected(authority)
    clock.forward(days=61)
    await expire(authority)
    assert (await count(authority, "oauth_grant"), await count(authority, "oauth_token")) == (0, 0)


async def test_a_grant_that_was_never_used_goes_after_a_day(authority: Authority, clock: Clock) -> None:
    await approve(authority)
    clock.forward(days=0.99)
    await expire(authority)
    assert await count(authority, "oauth_grant") == 1
    clock.forward(days=0.01)
    await expire(authority)
    assert await count(authority, "oauth_grant") == 0


async def test_a_revoked_grant_goes_after_thirty_days_with_its_tokens(authority: Authority, clock: Clock) -> None:
    grant_id, _ = await grants.make_device_token(authority, "a", "", MAIN)
    _, kept = await grants.make_device_token(authority, "b", "", MAIN)
    await grants.revoke(authority, grant_id, grants.Because.OWNER)
    clock.forward(days=29)
    await expire(authority)
    assert await count(authority, "oauth_grant") == 2
    clock.forward(days=1)
    assert await expire(authority) == 2
    assert [row["name"] for row in await rows(authority, "select name from oauth_grant")] == ["b"]
    scope = {"type": "http", "headers": [(b"authorization", f"Bearer {kept}".encode())]}
    assert (await TokenGate(lambda _scope: authority).admit(scope)).client == "b"


async def test_sessions_forms_and_attempts_go_with_their_time(authority: Authority, clock: Clock) -> None:
    await sessions.begin(authority, Method.KEY)
    (row,) = await rows(authority, "select * from owner_session")
    await handles.show(authority, sessions.session_of(row), "consent", {})
    await attempts.claim(authority, Way.KEY)
    clock.forward(seconds=600)
    await expire(authority)
    assert await count(authority, "owner_form") == 0
    assert await count(authority, "owner_session") == 1
    clock.forward(days=1)
    await expire(authority)
    assert await count(authority, "owner_session") == 0
    assert await count(authority, "owner_attempt") == 0


async def test_clients_that_were_away_too_long_go(authority: Authority, clock: Clock) -> None:
    await register(authority, app())
    clock.forward(days=91)
    assert await expire(authority) == 1
    assert await count(authority, "oauth_client") == 0


async def test_the_log_of_writes_is_kept_for_its_days(authority: Authority, clock: Clock) -> None:
    entry = (
        "insert into write_log (at, action, space, client, token, device, ids)"
        " values (?1, 'store', 'main', '', '', '', '[]')"
    )
    await authority.database.batch([Statement(entry, (clock(),))])
    clock.forward(days=90)
    brief = replace(authority, settings=replace(authority.settings, log_days=91))
    assert await expire(brief) == 0
    clock.forward(seconds=1)
    assert await expire(authority) == 1


async def test_a_call_is_bounded_in_rows_and_statements(authority: Authority, clock: Clock) -> None:
    await authority.database.batch(
        [
            Statement(
                "insert into owner_form (sha256, session_sha256, purpose, payload, expires_at)"
                " select value, '', '', '', ?2 from json_each(?1)",
                (json.dumps([str(n) for n in range(expiring.ROWS_MAX + 1)]), clock()),
            )
        ]
    )
    counting = Counting(authority.database)
    there = replace(authority, database=counting)
    assert await expire(there) == expiring.ROWS_MAX
    assert await expire(there) == 1
    assert len(counting.batches) == 4 and sum(counting.batches[:2]) <= 12
