import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.oauth.doubles import Clock, ScriptedFetcher, made_authority
from tests.api.oauth.flow import ended_because, rows

from shoal.api.oauth import clients, expiring
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.ports import Fetched
from shoal.api.oauth.records import AuthMethod, ClientKind, GrantKind
from shoal.core.protocols import Statement

REDIRECTS = ("https://app.example/cb", "http://127.0.0.1/cb")
URL = "https://app.example/client.json"
DAY_S = 86_400


async def registered(authority: Authority, name: str = "one") -> str:
    """Have a client as it is on the day of its registration."""
    now = authority.clock()
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_client (id, kind, name, redirect_uris, auth_method, created_at, expires_at)"
                " values (?1, 'registered', 'App', ?2, 'none', ?3, ?4)",
                (name, json.dumps(REDIRECTS), now, now + DAY_S * 1000),
            )
        ]
    )
    return name


async def granted(authority: Authority, client_id: str) -> None:
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_grant (id, kind, client_id, name, reach, created_at)"
                " values (?1, ?2, ?1, '', '{}', 1)",
                (client_id, str(GrantKind.APP)),
            )
        ]
    )


async def is_known(authority: Authority, client_id: str) -> bool:
    try:
        await clients.find(authority, client_id)
    except OAuthError as error:
        assert error.code is Code.INVALID_CLIENT
        return False
    return True


@pytest.mark.parametrize("method", AuthMethod)
async def test_what_the_owner_registers_is_found_as_it_was(authority: Authority, clock: Clock, method: AuthMethod):
    client, secret = await clients.give(authority, "App", REDIRECTS, method)
    assert (secret is None) == (method is AuthMethod.NONE)
    assert (client.kind, client.redirect_uris, client.auth_method) == (ClientKind.GIVEN, REDIRECTS, method)
    clock.forward(days=4000)
    await expiring.expire(authority.database, clock(), authority.settings)
    assert await clients.find(authority, client.id) == client
    assert await clients.given(authority) == [client]


async def test_no_secret_stands_in_the_database(authority: Authority):
    _, secret = await clients.give(authority, "App", REDIRECTS, AuthMethod.BASIC)
    assert secret is not None and secret not in str(await rows(authority, "select * from oauth_client"))


async def test_a_registration_that_nobody_let_in_goes_after_a_day(authority: Authority, clock: Clock):
    client_id = await registered(authority)
    clock.forward(seconds=DAY_S - 1)
    assert await is_known(authority, client_id)
    clock.forward(seconds=1)
    assert not await is_known(authority, client_id)
    assert await rows(authority, "select id from oauth_client")
    await expiring.expire(authority.database, clock(), authority.settings)
    assert await rows(authority, "select id from oauth_client") == []


async def test_each_use_keeps_a_registration_for_ninety_days(authority: Authority, clock: Clock):
    client_id = await registered(authority)
    for _ in range(3):
        await authority.database.batch([clients.note_use(client_id, clock(), authority.settings)])
        clock.forward(days=90, seconds=-1)
        assert await is_known(authority, client_id)
    clock.forward(seconds=1)
    assert not await is_known(authority, client_id)


async def test_use_gives_what_the_owner_registered_no_end(authority: Authority):
    client, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    await authority.database.batch([clients.note_use(client.id, authority.clock(), authority.settings)])
    (row,) = await rows(authority, "select used_at, expires_at from oauth_client")
    assert row == {"used_at": authority.clock(), "expires_at": None}


async def test_use_brings_no_registration_back(authority: Authority, clock: Clock):
    client_id = await registered(authority)
    assert await clients.remove(authority, client_id)
    await authority.database.batch([clients.note_use(client_id, clock(), authority.settings)])
    assert not await is_known(authority, client_id)


async def test_removing_ends_what_the_client_was_allowed_and_nothing_else(authority: Authority):
    removed, kept = await registered(authority), await registered(authority, "two")
    for client_id in (removed, kept):
        await granted(authority, client_id)
    assert await clients.remove(authority, removed)
    assert not await is_known(authority, removed) and await is_known(authority, kept)
    assert sorted(await ended_because(authority), key=str) == [None, "client_removed"]
    assert not await clients.remove(authority, removed)
    given, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    assert await clients.remove(authority, given.id) and await clients.given(authority) == []


async def test_what_a_lapsed_client_was_allowed_can_still_be_ended(authority: Authority, clock: Clock):
    client_id = await registered(authority)
    await granted(authority, client_id)
    clock.forward(days=1)
    assert await clients.remove(authority, client_id)
    assert await ended_because(authority) == ["client_removed"]
    assert not await clients.remove(authority, client_id)


@pytest.mark.parametrize("text", ["", "0" * 31, "0" * 33, "A" * 32, "g" * 32, "０" * 32, "0" * 32 + "\n", "\ud800"])
async def test_an_id_is_known_by_its_form(authority: Authority, text: str):
    client, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    assert clients.is_id(client.id) and not clients.is_id(text)


async def test_the_upkeep_takes_a_bounded_number_of_clients(authority: Authority, clock: Clock):
    for n in range(3):
        await registered(authority, str(n))
    clock.forward(days=2)
    await registered(authority, "young")
    went: set[object] = set()
    for count in (2, 1, 0):
        rows, documents_went = await authority.database.batch(clients.expiring(clock(), 2))
        assert len(rows) == count and documents_went == []
        went |= {row["id"] for row in rows}
    assert went == {"0", "1", "2"}


async def test_a_url_leads_to_its_document(authority: Authority, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = Fetched(
        200, {"content-type": "application/json"}, json.dumps({"client_id": URL, "redirect_uris": REDIRECTS}).encode()
    )
    assert (await clients.find(authority, URL)).kind is ClientKind.DOCUMENT


@given(st.text())
async def test_no_other_id_is_any_clients(client_id: str):
    authority = await made_authority()
    await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    assert not await is_known(authority, client_id)
