"""The edge over HTTP: what is sent, what is read, and when a token is refreshed."""

import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from shoal.local.sync.credentials import OneToken
from shoal.local.sync.transport import HttpTransport
from shoal.schema.errors import EdgeUnreachable, LinkBroken, ProtocolMismatch
from shoal.schema.wire import PullRequest, PushRequest, RefusalCode

URL = "https://shoal.example"
TOKEN = "shoal_d_secret"
REPLY = {"server_time": 1, "clock": "0" * 19, "spaces": ["main"], "writable": "*", "and_more": 1}
HEAD = {"seq": 3, "batch": "0" * 16}
STATUS = {**REPLY, "proto": 1, "schema_version": 4, "model": None}
PUSHED = {**REPLY, "head": HEAD, "refused": [{"index": 0, "code": "clock_ahead", "message": "m"}]}
CELL = ["id", "main", "init", 1, "x-y", {"内": "容"}]
PULLED = {**REPLY, "head": HEAD, "cells": [CELL], "cursor": 3, "batch": "0" * 16, "more": True}
ABOUT: dict[str, Any] = {"proto": 1, "schema_version": 4, "device": "aaaa"}
PUSH = PushRequest(**ABOUT, cells=[["id", "main", "init", 1, "x-y", {"content": "喝茶 tea"}]])
PULL = PullRequest(**ABOUT, spaces="*", cursor=0, batch=None)
UNAUTHORIZED = {"error": {"code": "unauthorized", "message": "m", "mend": "m"}}


def transport(handle: Callable[[httpx.Request], httpx.Response], credentials: Any = None) -> HttpTransport:
    client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return HttpTransport(URL, credentials or OneToken(URL, TOKEN), client)


def answering(told: object, status: int = 200) -> HttpTransport:
    content = told if isinstance(told, bytes) else json.dumps(told).encode()
    return transport(lambda _: httpx.Response(status, content=content))


async def test_cells_travel_packed_with_the_token_in_the_header_alone():
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=PUSHED)

    answer = await transport(handle).push(PUSH)
    assert [(refusal.index, refusal.code) for refusal in answer.refused] == [(0, RefusalCode.CLOCK_AHEAD)]
    (request,) = asked
    assert (request.method, str(request.url)) == ("POST", f"{URL}/sync/push")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert (request.headers["content-type"], request.headers["content-encoding"]) == ("application/json", "gzip")
    assert PushRequest.model_validate_json(gzip.decompress(request.content)) == PUSH


async def test_a_page_is_read_as_the_edge_has_written_it_and_what_is_new_in_it_passed_over():
    answer = await answering(PULLED).pull(PULL)
    assert answer.cells == [CELL]
    assert (answer.cursor, answer.more, answer.spaces, answer.writable) == (3, True, ["main"], "*")


async def test_the_status_is_asked_without_a_body():
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=STATUS)

    assert (await transport(handle).status()).proto == 1
    assert (asked[0].method, asked[0].url.path, asked[0].content) == ("GET", "/sync/status", b"")


class TwoTokens:
    """Hands out another token once the first was refused."""

    def __init__(self) -> None:
        self.refused: list[str | None] = []

    async def bearer(self, refused: str | None = None) -> str:
        self.refused.append(refused)
        return "old" if refused is None else "new"


async def test_a_token_that_is_refused_is_replaced_once_and_the_request_repeated():
    bodies: list[bytes] = []

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        if request.headers["authorization"] == "Bearer old":
            return httpx.Response(401, json=UNAUTHORIZED)
        return httpx.Response(200, json=PULLED)

    credentials = TwoTokens()
    await transport(handle, credentials).pull(PULL)
    assert credentials.refused == [None, "old"]
    assert bodies[0] == bodies[1]


async def test_a_second_refusal_means_that_the_link_is_broken():
    credentials = TwoTokens()
    with pytest.raises(LinkBroken, match=f"shoal link {URL}"):
        await transport(lambda _: httpx.Response(401, json=UNAUTHORIZED), credentials).pull(PULL)
    assert credentials.refused == [None, "old"]


async def test_a_login_page_of_the_network_does_not_break_the_link():
    credentials = TwoTokens()
    with pytest.raises(EdgeUnreachable):
        await transport(lambda _: httpx.Response(401, html="<h1>Log in</h1>"), credentials).pull(PULL)
    with pytest.raises(EdgeUnreachable, match="no edge of shoal"):
        await answering(b"<h1>Welcome to the hotel</h1>").status()
    assert credentials.refused == [None]


async def test_a_redirect_is_not_followed_with_the_token():
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(307, headers={"location": "https://evil.example/sync/status"})

    with pytest.raises(EdgeUnreachable, match="307"):
        await transport(handle).status()
    assert asked == ["shoal.example"]


async def test_an_answer_of_another_form_says_that_one_of_the_two_is_too_old():
    with pytest.raises(ProtocolMismatch, match="Update shoal on this device") as caught:
        await answering({**PULLED, "cursor": "content of a memory"}).pull(PULL)
    assert "content of a memory" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_neither_tokens_nor_contents_are_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        await answering(PUSHED).push(PUSH)
        with pytest.raises(ProtocolMismatch):
            await answering({**PULLED, "more": "喝茶"}).pull(PULL)
    assert TOKEN not in caplog.text
    assert "喝茶" not in caplog.text


async def test_it_may_be_closed_twice_and_before_any_use():
    closed = HttpTransport(URL, OneToken(URL, TOKEN))
    await closed.aclose()
    used = answering(STATUS)
    await used.status()
    await used.aclose()
    await used.aclose()
