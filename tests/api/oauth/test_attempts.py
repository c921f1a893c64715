import asyncio
from dataclasses import replace

import pytest
from tests.api.oauth.doubles import Clock

from shoal.api.oauth import attempts
from shoal.api.oauth.attempts import Locked, Way
from shoal.api.oauth.authority import Authority


async def waits(authority: Authority, way: Way, count: int) -> list[int]:
    """Return the waits in seconds that so many failures in a row bring."""
    return [await attempts.claim(authority, way) // 1000 for _ in range(count)]


async def refused(authority: Authority, way: Way) -> Locked:
    with pytest.raises(Locked) as locked:
        await attempts.claim(authority, way)
    return locked.value


async def test_five_passphrases_are_free_then_the_wait_doubles_up_to_an_hour(authority: Authority, clock: Clock):
    assert await waits(authority, Way.PASSPHRASE, 5) == [0, 0, 0, 0, 60]
    for minutes in (2, 4, 8, 16, 32, 60, 60):
        locked = await refused(authority, Way.PASSPHRASE)
        assert not locked.everywhere
        clock.forward(seconds=locked.wait_ms / 1000 - 0.001)
        assert (await refused(authority, Way.PASSPHRASE)).wait_ms == 1
        clock.forward(seconds=0.001)
        assert await waits(authority, Way.PASSPHRASE, 1) == [minutes * 60]


async def test_trying_while_locked_makes_the_wait_no_longer(authority: Authority, clock: Clock):
    await waits(authority, Way.PASSPHRASE, 5)
    for _ in range(50):
        assert (await refused(authority, Way.PASSPHRASE)).wait_ms == 60_000
    clock.forward(seconds=60)
    assert await waits(authority, Way.PASSPHRASE, 1) == [120]


async def test_the_key_has_twenty_free_and_a_count_of_its_own(authority: Authority):
    await waits(authority, Way.PASSPHRASE, 5)
    assert await waits(authority, Way.KEY, 20) == [0] * 19 + [60]
    assert not (await refused(authority, Way.KEY)).everywhere


async def test_another_network_does_not_wait(authority: Authority):
    await waits(authority, Way.PASSPHRASE, 5)
    assert await waits(replace(authority, network="2001:db8::/64"), Way.PASSPHRASE, 4) == [0] * 4
    await refused(authority, Way.PASSPHRASE)


async def test_of_guesses_sent_at_once_no_more_are_looked_at_than_are_free(authority: Authority):
    found = await asyncio.gather(
        *(attempts.claim(authority, Way.PASSPHRASE) for _ in range(40)), return_exceptions=True
    )
    assert sorted(wait for wait in found if isinstance(wait, int)) == [0, 0, 0, 0, 60_000]
    assert all(isinstance(wait, int | Locked) for wait in found)


async def test_two_guesses_at_once_at_the_limit_are_not_both_looked_at(authority: Authority):
    await waits(authority, Way.PASSPHRASE, 4)
    found = await asyncio.gather(*(attempts.claim(authority, Way.PASSPHRASE) for _ in range(2)), return_exceptions=True)
    assert [type(wait) for wait in found] == [int, Locked]


async def test_a_hundred_from_everywhere_in_an_hour_leave_only_the_key(authority: Authority, clock: Clock):
    networks = [replace(authority, network=f"192.0.2.{n}") for n in range(26)]
    for network in networks[:25]:
        await waits(network, Way.PASSPHRASE, 4)
    locked = await refused(networks[25], Way.PASSPHRASE)
    assert (locked.everywhere, locked.wait_ms) == (True, 3_600_000)
    assert await waits(networks[25], Way.KEY, 1) == [0]
    clock.forward(seconds=3_599)
    assert (await refused(networks[25], Way.PASSPHRASE)).wait_ms == 1_000
    clock.forward(seconds=1)
    assert await waits(networks[25], Way.PASSPHRASE, 1) == [0]


async def test_a_locked_network_cannot_use_up_everybodys_hundred(authority: Authority):
    await waits(authority, Way.PASSPHRASE, 5)
    for _ in range(200):
        await refused(authority, Way.PASSPHRASE)
    assert await waits(replace(authority, network="192.0.2.9"), Way.PASSPHRASE, 4) == [0] * 4


async def test_fewer_than_a_hundred_an_hour_lock_nobody_else(authority: Authority, clock: Clock):
    for hour in range(5):
        for n in range(24):
            await waits(replace(authority, network=f"{hour}.{n}"), Way.PASSPHRASE, 4)
        clock.forward(seconds=3_600)
    assert await waits(authority, Way.PASSPHRASE, 1) == [0]


async def test_the_hour_of_all_networks_runs_from_its_first_failure(authority: Authority, clock: Clock):
    for part in range(3):
        for n in range(10):
            assert await waits(replace(authority, network=f"{part}.{n}"), Way.PASSPHRASE, 4) == [0] * 4
        clock.forward(seconds=2_400)


async def test_at_the_hundredth_two_at_once_are_not_both_looked_at(authority: Authority):
    for n in range(99):
        await waits(replace(authority, network=f"10.0.0.{n}"), Way.PASSPHRASE, 1)
    found = await asyncio.gather(
        *(attempts.claim(replace(authority, network=f"10.0.1.{n}"), Way.PASSPHRASE) for n in range(2)),
        return_exceptions=True,
    )
    assert [type(wait) for wait in found] == [int, Locked]


async def test_success_forgives_the_network_and_takes_back_its_own_claim(authority: Authority):
    await waits(authority, Way.KEY, 3)
    await waits(authority, Way.PASSPHRASE, 5)
    await attempts.forgive(authority, Way.PASSPHRASE)
    rows = await authority.database.query("select key, failures from owner_attempt")
    assert [tuple(row.values()) for row in rows] == [("passphrase", 4)]
    assert await waits(authority, Way.PASSPHRASE, 5) == [0, 0, 0, 0, 60]


async def test_success_at_the_hundredth_lifts_the_lock_that_its_claim_set(authority: Authority):
    for n in range(99):
        await waits(replace(authority, network=f"10.0.0.{n}"), Way.PASSPHRASE, 1)
    assert await waits(authority, Way.PASSPHRASE, 1) == [3_600]
    await attempts.forgive(authority, Way.PASSPHRASE)
    assert await waits(authority, Way.PASSPHRASE, 1) == [3_600]
    assert (await refused(replace(authority, network="x"), Way.PASSPHRASE)).everywhere


async def test_the_keys_success_leaves_the_count_of_all(authority: Authority):
    await waits(authority, Way.PASSPHRASE, 3)
    await attempts.forgive(authority, Way.KEY)
    rows = await authority.database.query("select key, failures from owner_attempt")
    assert [tuple(row.values()) for row in rows] == [("passphrase", 3)]


async def test_a_day_after_the_last_failure_all_is_forgotten(authority: Authority, clock: Clock):
    await waits(authority, Way.PASSPHRASE, 5)
    clock.forward(days=1)
    assert await waits(authority, Way.PASSPHRASE, 4) == [0] * 4
    clock.forward(days=1)
    await waits(replace(authority, network="later"), Way.PASSPHRASE, 1)
    await authority.database.batch([attempts.forgetting(clock())])
    rows = await authority.database.query("select key from owner_attempt order by key")
    assert [row["key"] for row in rows] == ["passphrase", "passphrase:later"]


async def test_a_network_with_any_name_is_counted(authority: Authority):
    for network in ("", "'; drop table owner_attempt; --", '{"a": 1}', "网络"):
        named = replace(authority, network=network)
        assert await waits(named, Way.PASSPHRASE, 5) == [0, 0, 0, 0, 60]
        await refused(named, Way.PASSPHRASE)
