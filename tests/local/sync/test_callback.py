"""What the browser brings back: to the server on this machine, or pasted by a person."""

import asyncio
import logging
import socket
from urllib.parse import urlencode

import httpx
import pytest

from shoal.local.sync.callback import Approved, Callback, NotForUs, read_answer
from shoal.schema.errors import NotAllowed, SyncError

STATE = "the-state"
GOOD = {"code": "shoal_c_x", "state": STATE, "iss": "https://shoal.example"}


def address(**values: str) -> str:
    return f"http://127.0.0.1:1234/callback?{urlencode(values)}"


def test_an_approval_is_read_from_the_whole_address_or_what_follows_the_question_mark():
    expected = Approved("shoal_c_x", "https://shoal.example")
    assert read_answer(address(**GOOD), STATE) == expected
    assert read_answer(f" {address(**GOOD)}\n", STATE) == expected
    assert read_answer(f"?{urlencode(GOOD)}", STATE) == expected
    assert read_answer(address(code="x", state=STATE), STATE) == Approved("x", None)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "hello",
        "http://[::1",
        address(code="x"),
        address(state=STATE),
        address(state=STATE, code="", error=""),
        f"https://shoal.example/authorize?client_id=x&state={STATE}",
        address(code="x", state="another"),
        address(code="x", state="状态"),
        address(code="x", state=STATE) + f"&state={STATE}",
        "\ud800",
    ],
)
def test_what_does_not_have_our_state_is_not_for_us(given: str):
    with pytest.raises(NotForUs, match="whole address"):
        read_answer(given, STATE)


def test_a_refusal_is_told_as_what_it_is():
    with pytest.raises(NotAllowed, match="You have not let this device in"):
        read_answer(address(error="access_denied", state=STATE), STATE)
    with pytest.raises(SyncError, match="out of order"):
        read_answer(address(error="server_error", error_description="out\x1bof order", state=STATE), STATE)


async def get(url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False) as http:
        return await http.get(url, headers=headers)


async def test_the_browser_is_told_in_english_and_chinese_that_the_window_may_be_closed(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    with caplog.at_level(logging.DEBUG, "shoal"):
        async with Callback(STATE) as callback:
            page = await get(f"{callback.redirect_uri}?{urlencode(GOOD)}")
            assert await callback.answer(5) == Approved("shoal_c_x", "https://shoal.example")
    assert page.status_code == 200
    assert "You may close this window" in page.text
    assert "可以关闭此窗口" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
    told = capfd.readouterr()
    assert "shoal_c_x" not in told.out + told.err
    assert "Python" not in page.headers["server"]


async def test_a_refusal_ends_the_waiting_and_sends_the_person_to_the_terminal():
    async with Callback(STATE) as callback:
        page = await get(f"{callback.redirect_uri}?{urlencode({'error': 'access_denied', 'state': STATE})}")
        assert "the terminal says why" in page.text
        with pytest.raises(NotAllowed):
            await callback.answer(5)


async def test_others_neither_end_the_waiting_nor_learn_anything():
    async with Callback(STATE) as callback:
        root = callback.redirect_uri.removesuffix("/callback")
        assert (await get(f"{callback.redirect_uri}?{urlencode({**GOOD, 'state': 'x'})}")).status_code == 400
        assert (await get(f"{callback.redirect_uri}?error=access_denied")).status_code == 400
        assert (await get(f"{root}/?{urlencode(GOOD)}")).status_code == 404
        assert (await get(f"{callback.redirect_uri}?{urlencode(GOOD)}", host="evil.example")).status_code == 404
        async with httpx.AsyncClient(verify=False, trust_env=False) as http:
            assert (await http.post(f"{callback.redirect_uri}?{urlencode(GOOD)}")).status_code == 501
        with pytest.raises(SyncError, match="Nobody has let this device in"):
            await callback.answer(0.01)
        assert (await get(f"{callback.redirect_uri}?{urlencode(GOOD)}")).status_code == 200
        assert (await callback.answer(5)).code == "shoal_c_x"


async def test_a_second_answer_changes_nothing():
    async with Callback(STATE) as callback:
        await get(f"{callback.redirect_uri}?{urlencode(GOOD)}")
        await get(f"{callback.redirect_uri}?{urlencode({**GOOD, 'code': 'another'})}")
        assert (await callback.answer(5)).code == "shoal_c_x"


async def test_a_connection_that_says_nothing_keeps_no_other_waiting():
    async with Callback(STATE) as callback:
        host, _, port = callback.authority.partition(":")
        with socket.create_connection((host, int(port))):
            await asyncio.wait_for(get(f"{callback.redirect_uri}?{urlencode(GOOD)}"), 5)
        assert (await callback.answer(5)).code == "shoal_c_x"


async def test_a_pasted_address_is_taken_too_and_a_wrong_one_may_be_corrected():
    async with Callback(STATE) as callback:
        with pytest.raises(NotForUs):
            callback.paste("https://shoal.example/consent")
        callback.paste(address(**GOOD))
        assert (await callback.answer(5)).code == "shoal_c_x"
