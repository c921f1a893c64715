from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import Headers
from tests.api.oauth.doubles import Clock

from shoal.api.oauth import handles, sessions
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.sessions import COOKIE, Method, Session


def with_cookies(*pairs: str) -> Headers:
    return Headers(raw=[(b"cookie", pair.encode("latin-1")) for pair in pairs])


async def signed_in(authority: Authority) -> Session:
    value = await sessions.begin(authority, Method.KEY)
    found = await sessions.current(authority, with_cookies(f"{COOKIE}={value}"))
    assert found is not None
    return found


class Untouchable:
    """A database that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the database was asked: {name}")


def test_the_cookie_is_for_this_host_over_https_and_out_of_reach_of_scripts():
    assert sessions.cookie("v", 60) == "__Host-shoal=v; Max-Age=60; Path=/; Secure; HttpOnly; SameSite=Lax"
    assert sessions.no_cookie() == "__Host-shoal=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax"
    # Browsers refuse the prefix __Host- with a domain.
    assert "domain" not in sessions.cookie("v", 60).lower()


async def test_a_session_is_found_by_its_cookie_and_only_its_hash_is_kept(authority: Authority, clock: Clock):
    value = await sessions.begin(authority, Method.PASSPHRASE)
    found = await sessions.current(authority, with_cookies(f"a=b; {COOKIE}={value}; c=d"))
    assert found == Session(sha256(value), Method.PASSPHRASE, clock(), clock() + 12 * 3_600_000)
    (row,) = await authority.database.query("select * from owner_session")
    assert row["network"] == authority.network
    assert value not in repr(row)
    assert await sessions.begin(authority, Method.PASSPHRASE) != value


async def test_a_session_ends_twelve_hours_after_the_sign_in_however_much_it_is_used(
    authority: Authority, clock: Clock
):
    headers = with_cookies(f"{COOKIE}={await sessions.begin(authority, Method.KEY)}")
    for _ in range(11):
        clock.forward(seconds=3_600)
        assert await sessions.current(authority, headers)
    clock.forward(seconds=3_599.999)
    assert await sessions.current(authority, headers)
    clock.forward(seconds=0.001)
    assert await sessions.current(authority, headers) is None


async def test_two_cookies_of_the_name_are_none(authority: Authority):
    value = await sessions.begin(authority, Method.KEY)
    asked = replace(authority, database=Untouchable())
    assert await sessions.current(asked, with_cookies(f"{COOKIE}={value}; {COOKIE}={value}")) is None
    assert await sessions.current(asked, with_cookies(f"{COOKIE}={value}", f"{COOKIE}=x")) is None
    assert await sessions.current(authority, with_cookies("a=b", f"{COOKIE}={value}"))


@pytest.mark.parametrize(
    "cookies",
    [
        "", ";", "=", COOKIE, f"{COOKIE}=", f"{COOKIE}=x", f"{COOKIE}=shoal_b_{'A' * 42}",
        f"{COOKIE}=shoal_b_{'A' * 44}",
        f"{COOKIE}=shoal_a_{'A' * 43}", f'{COOKIE}="shoal_b_{"A" * 43}"', f"{COOKIE.lower()}=shoal_b_{'A' * 43}",
        f"shoal=shoal_b_{'A' * 43}", f"{COOKIE}=shoal_b_{'A' * 43}" + "; a=" + "b" * 20_000, "\xff=\xfe; \x00",
    ],
)  # fmt: skip
async def test_what_cannot_be_a_session_asks_the_database_nothing(authority: Authority, cookies: str):
    asked = replace(authority, database=Untouchable())
    assert await sessions.current(asked, with_cookies(cookies)) is None
    assert await sessions.current(asked, Headers()) is None


async def test_an_unknown_session_is_none(authority: Authority):
    assert await sessions.current(authority, with_cookies(f"{COOKIE}=shoal_b_{'A' * 43}")) is None


async def test_an_ended_session_takes_its_forms_with_it(authority: Authority):
    mine, other = await signed_in(authority), await signed_in(authority)
    for session in (mine, other):
        await handles.show(authority, session, "consent", {})
    await sessions.end(authority, mine)
    for table, column in (("owner_session", "sha256"), ("owner_form", "session_sha256")):
        rows = await authority.database.query(f"select {column} as s from {table}")
        assert [row["s"] for row in rows] == [other.sha256]


async def test_all_sessions_end_or_all_but_one(authority: Authority):
    mine, *_ = [await signed_in(authority) for _ in range(3)]
    await sessions.end_all(authority, but=mine)
    rows = await authority.database.query("select sha256 from owner_session")
    assert [row["sha256"] for row in rows] == [mine.sha256]
    await sessions.end_all(authority)
    assert await authority.database.query("select sha256 from owner_session") == []
