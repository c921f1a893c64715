from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from tests.api.oauth.doubles import request_of

from shoal.api.messages import Language
from shoal.api.oauth import handles, sent_form, sessions
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.sessions import Method, Session

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def signed_in(authority: Authority) -> tuple[str, Session]:
    """Return a browser's cookie and the session that it stands for."""
    value = await sessions.begin(authority, Method.KEY)
    cookie = f"{sessions.COOKIE}={value}"
    session = await sessions.current(authority, request_of(authority, headers={"Cookie": cookie}).headers)
    assert session is not None
    return cookie, session


def sent(authority: Authority, body: str, headers: Mapping[str, str]) -> Request:
    return request_of(authority, body, headers={**FORM, **headers})


async def taken(request: Request, purpose: str = "test") -> Any:
    return await sent_form.take(request, purpose)


async def test_a_form_comes_with_its_fields_and_with_what_its_handle_holds(authority: Authority):
    cookie, session = await signed_in(authority)
    handle = await handles.show(authority, session, "test", {"asked": 1})
    headers = {"Cookie": cookie, "Accept-Language": "zh"}
    form = await taken(sent(authority, f"handle={handle}&name=x", headers))
    assert (form.session, form.language) == (session, Language.CHINESE)
    assert form.fields == {"handle": handle, "name": "x"}
    assert form.payload == {"asked": 1}


async def test_a_form_is_taken_once(authority: Authority):
    cookie, session = await signed_in(authority)
    handle = await handles.show(authority, session, "test", {})
    await taken(sent(authority, f"handle={handle}", {"Cookie": cookie}))
    with pytest.raises(HandleRefused):
        await taken(sent(authority, f"handle={handle}", {"Cookie": cookie}))


async def test_who_is_not_signed_in_uses_up_no_form(authority: Authority):
    cookie, session = await signed_in(authority)
    handle = await handles.show(authority, session, "test", {})
    other, _ = await signed_in(authority)
    for headers in ({}, {"Cookie": other}):
        with pytest.raises(HandleRefused):
            await taken(sent(authority, f"handle={handle}", headers))
    assert (await taken(sent(authority, f"handle={handle}", {"Cookie": cookie}))).session == session


async def test_a_form_for_something_else_is_refused(authority: Authority):
    cookie, session = await signed_in(authority)
    handle = await handles.show(authority, session, "another", {})
    with pytest.raises(HandleRefused):
        await taken(sent(authority, f"handle={handle}", {"Cookie": cookie}))


async def test_a_form_without_a_handle_is_refused(authority: Authority):
    cookie, _ = await signed_in(authority)
    with pytest.raises(HandleRefused):
        await taken(sent(authority, "name=x", {"Cookie": cookie}))


async def test_what_is_no_form_is_refused_before_anybody_is_looked_up(authority: Authority):
    with pytest.raises(OAuthError):
        await taken(request_of(authority, "{}", headers={"Content-Type": "application/json"}))
