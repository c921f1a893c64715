import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.api.oauth.doubles import Clock
from tests.api.oauth.test_sessions import Untouchable, signed_in

from shoal.api.oauth import handles, sessions
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.sessions import Session


async def refused(authority: Authority, session: Session, purpose: str, handle: str) -> None:
    with pytest.raises(HandleRefused, match="Open the page again"):
        await handles.take(authority, session, purpose, handle)


async def test_a_handle_brings_back_what_was_shown_once(authority: Authority):
    session = await signed_in(authority)
    payload: dict[str, Any] = {"state": "ж" * 4096, "broken": "\udce9", "n": 2**40, "list": [1, None, True]}
    handle = await handles.show(authority, session, "consent", payload)
    assert await handles.take(authority, session, "consent", handle) == payload
    await refused(authority, session, "consent", handle)


async def test_only_the_hash_is_kept(authority: Authority):
    handle = await handles.show(authority, await signed_in(authority), "consent", {})
    assert handle not in repr(await authority.database.query("select * from owner_form"))


async def test_of_two_who_take_it_at_once_one_gets_it(authority: Authority):
    session = await signed_in(authority)
    handle = await handles.show(authority, session, "consent", {"a": 1})
    found = await asyncio.gather(
        *(handles.take(authority, session, "consent", handle) for _ in range(5)), return_exceptions=True
    )
    assert found.count({"a": 1}) == 1
    assert sum(isinstance(answer, HandleRefused) for answer in found) == 4


async def test_another_session_or_purpose_can_neither_take_it_nor_use_it_up(authority: Authority):
    session, other = await signed_in(authority), await signed_in(authority)
    handle = await handles.show(authority, session, "consent", {"a": 1})
    await refused(authority, other, "consent", handle)
    await refused(authority, session, "revoke", handle)
    assert await handles.take(authority, session, "consent", handle) == {"a": 1}


async def test_it_expires(authority: Authority, clock: Clock):
    session = await signed_in(authority)
    handles_shown = [await handles.show(authority, session, "consent", {}) for _ in range(2)]
    clock.forward(seconds=authority.settings.form_s - 0.001)
    assert await handles.take(authority, session, "consent", handles_shown[0]) == {}
    clock.forward(seconds=0.001)
    await refused(authority, session, "consent", handles_shown[1])


async def test_it_ends_with_its_session(authority: Authority, clock: Clock):
    session = await signed_in(authority)
    handle = await handles.show(authority, session, "consent", {})
    await sessions.end_all(authority)
    await refused(authority, session, "consent", handle)
    session = await signed_in(authority)
    clock.forward(seconds=authority.settings.session_s - 1)
    handle = await handles.show(authority, session, "consent", {})
    clock.forward(seconds=1)
    await refused(authority, session, "consent", handle)


async def test_a_session_has_fifty_forms_open_and_the_oldest_goes(authority: Authority, clock: Clock):
    session, other = await signed_in(authority), await signed_in(authority)
    others = await handles.show(authority, other, "consent", {})
    shown: list[str] = []
    for n in range(52):
        clock.forward(seconds=1)
        shown.append(await handles.show(authority, session, "consent", {"n": n}))
    for handle in shown[:2]:
        await refused(authority, session, "consent", handle)
    for n in range(2, 52):
        assert await handles.take(authority, session, "consent", shown[n]) == {"n": n}
    assert await handles.take(authority, other, "consent", others) == {}


async def test_of_many_in_one_moment_the_newest_stays(authority: Authority):
    session = await signed_in(authority)
    for n in range(60):
        handle = await handles.show(authority, session, "consent", {"n": n})
    assert await handles.take(authority, session, "consent", handle) == {"n": 59}


@pytest.mark.parametrize("handle", ["", "x", f"shoal_b_{'A' * 43}", f"shoal_f_{'A' * 42}", "\udce9", "A" * 1_000_000])
async def test_what_cannot_be_a_handle_asks_the_database_nothing(authority: Authority, handle: str):
    session = await signed_in(authority)
    await refused(replace(authority, database=Untouchable()), session, "consent", handle)


async def test_an_unknown_handle_is_refused(authority: Authority):
    await refused(authority, await signed_in(authority), "consent", f"shoal_f_{'A' * 43}")
