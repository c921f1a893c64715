"""A grant is written with its code, listed while someone can come in by it, and ended by one change."""

import pytest
from tests.api.oauth.doubles import Clock
from tests.api.oauth.flow import MAIN, REDIRECT, app, approve, connected, exchange, refresh, rows

from shoal.api.oauth import grants, secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.grants import Because
from shoal.api.oauth.records import GrantKind, Reach
from shoal.core.caller import Scope


async def test_an_approval_writes_an_inactive_grant_and_its_code(authority: Authority, clock: Clock) -> None:
    code = await approve(authority)
    assert secrets.is_well_formed(code, secrets.Secret.CODE)
    (grant,) = await rows(authority, "select * from oauth_grant")
    (kept,) = await rows(authority, "select * from oauth_code")
    assert (grant["kind"], grant["client_id"], grant["activated_at"]) == ("app", "app-id", None)
    assert kept["sha256"] == sha256(code)
    assert (kept["grant_id"], kept["redirect_uri"], kept["expires_at"]) == (grant["id"], REDIRECT, clock() + 60_000)
    assert code not in str(kept)


async def test_a_grant_is_listed_as_it_was_approved(authority: Authority, clock: Clock) -> None:
    reach = Reach({"*": frozenset({Scope.READ}), "家": frozenset({Scope.WRITE, Scope.ADMIN})}, sync=True)
    await connected(authority, reach=reach, expires_at=clock() + 1_000_000)
    (row,) = await grants.listed(authority)
    assert (row.kind, row.client_id, row.name, row.device) == (GrantKind.APP, "app-id", "App", None)
    assert row.reach == reach
    assert (row.created_at, row.used_at, row.expires_at) == (clock(), clock(), clock() + 1_000_000)


async def test_a_device_token_is_listed_without_itself(authority: Authority) -> None:
    grant_id, token = await grants.make_device_token(authority, "backup", "laptop", MAIN)
    assert secrets.is_well_formed(token, secrets.Secret.DEVICE)
    (row,) = await grants.listed(authority)
    assert (row.id, row.kind, row.name, row.device) == (grant_id, GrantKind.DEVICE, "backup", "laptop")
    assert token not in str(await rows(authority, "select * from oauth_token"))


async def test_the_last_used_comes_first(authority: Authority, clock: Clock) -> None:
    older = await connected(authority, client=app())
    clock.forward(seconds=1)
    await grants.make_device_token(authority, "newer", "", MAIN)
    assert [row.name for row in await grants.listed(authority)] == ["newer", "App"]
    clock.forward(seconds=1)
    await refresh(authority, older["refresh_token"])
    assert [row.name for row in await grants.listed(authority)] == ["App", "newer"]


async def test_what_nobody_can_come_in_by_is_not_listed(authority: Authority, clock: Clock) -> None:
    await approve(authority)
    await connected(authority)
    await grants.make_device_token(authority, "brief", "", MAIN, clock() + 1000)
    assert len(await grants.listed(authority)) == 2
    clock.forward(seconds=2)
    assert [row.name for row in await grants.listed(authority)] == ["App"]
    clock.forward(days=30)
    assert await grants.listed(authority) == []


async def test_a_grant_is_revoked_once(authority: Authority, clock: Clock) -> None:
    await exchange(authority, await approve(authority))
    (row,) = await grants.listed(authority)
    assert await grants.revoke(authority, row.id, Because.OWNER)
    revoked_at = clock()
    clock.forward(seconds=1)
    assert not await grants.revoke(authority, row.id, Because.CLIENT)
    assert await grants.listed(authority) == []
    (kept,) = await rows(authority, "select revoked_at, revoked_because from oauth_grant")
    assert kept == {"revoked_at": revoked_at, "revoked_because": "owner"}


@pytest.mark.parametrize("unknown", ["", "x", "0" * 32])
async def test_an_unknown_grant_is_not_revoked(authority: Authority, unknown: str) -> None:
    assert not await grants.revoke(authority, unknown, Because.OWNER)
