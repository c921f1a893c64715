"""A token for each request: refreshed in time, kept before it is used, and never by two at once."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from tests.local.sync.conftest import OwnKeyring
from tests.local.sync.owner import browser, device_token
from tests.local.sync.rig import Asked, LocalEdge

from shoal.local.runtime import clock_ms
from shoal.local.sync import credentials as module
from shoal.local.sync import linking, vault
from shoal.local.sync.credentials import Credentials
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.transport import HttpTransport
from shoal.local.sync.vault import Link, Tokens
from shoal.schema.errors import EdgeBusy, EdgeUnreachable, LinkBroken, ShoalError, SyncError

SOON_MS = 3_600_000 - 59_000
"""From the start of an access token until it is refreshed."""


class Later:
    """This device's clock."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return clock_ms() + self.ahead_ms


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
async def linked(edge: LocalEdge, files: SyncFiles) -> Tokens:
    """The tokens by which the edge lets this device in; they lie where they should."""
    entry = await linking.sign_in(edge.url, "a laptop", browser(edge))
    vault.store(files, entry.link, entry.tokens)
    edge.asked.clear()
    return entry.tokens


def kept(files: SyncFiles) -> Tokens:
    found = vault.read(files)
    assert found is not None
    return found[1]


async def test_a_token_that_is_good_is_used_as_it_is(edge: LocalEdge, files: SyncFiles, linked: Tokens):
    credentials = Credentials(files, edge.url)
    assert [await credentials.bearer() for _ in range(3)] == [linked.access_token] * 3
    assert edge.asked == []


async def test_a_token_that_ends_within_a_minute_is_refreshed_and_kept_before_it_is_used(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later
):
    credentials = Credentials(files, edge.url, clock_ms=later)
    later.ahead_ms = SOON_MS - 5_000
    assert await credentials.bearer() == linked.access_token
    later.ahead_ms = SOON_MS + 5_000
    token = await credentials.bearer()
    newer = kept(files)
    assert token == newer.access_token != linked.access_token
    assert newer.refresh_token != linked.refresh_token
    assert await Credentials(files, edge.url, clock_ms=later).bearer() == token
    assert edge.paths() == ["POST /token"]
    assert edge.asked[0].form["resource"] == f"{edge.url}/mcp"


async def test_a_token_that_the_edge_refuses_is_refreshed_once_for_all_who_met_that(
    edge: LocalEdge, files: SyncFiles, linked: Tokens
):
    one, other = Credentials(files, edge.url), Credentials(files, edge.url)
    old = await one.bearer()
    assert await other.bearer() == old
    newer = await one.bearer(refused=old)
    assert await other.bearer(refused=old) == newer
    assert len(edge.of("/token")) == 1


async def test_an_access_token_that_has_ended_at_the_edge_costs_one_more_request(
    edge: LocalEdge, files: SyncFiles, linked: Tokens
):
    edge.clock.forward(seconds=3_700)
    transport = HttpTransport(edge.url, Credentials(files, edge.url))
    await transport.status()
    await transport.status()
    await transport.aclose()
    assert edge.paths() == ["GET /sync/status", "POST /token", "GET /sync/status", "GET /sync/status"]


async def test_many_who_refresh_at_once_ask_once(edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later):
    later.ahead_ms = SOON_MS
    several = [Credentials(files, edge.url, clock_ms=later) for _ in range(5)]
    tokens = await asyncio.gather(*(each.bearer() for each in several))
    assert len(set(tokens)) == 1
    assert len(edge.of("/token")) == 1


class LostPower(Exception):
    """The process ends here."""


async def test_a_process_that_ends_before_the_new_token_is_kept_does_not_lose_the_link(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, monkeypatch: pytest.MonkeyPatch
):
    later.ahead_ms = SOON_MS

    def fail(*_: object) -> None:
        raise LostPower

    for _ in range(2):
        with monkeypatch.context() as cut:
            cut.setattr(vault, "replace", fail)
            with pytest.raises(LostPower):
                await Credentials(files, edge.url, clock_ms=later).bearer()
    transport = HttpTransport(edge.url, Credentials(files, edge.url, clock_ms=later))
    await transport.status()
    later.ahead_ms += 3_600_000
    await transport.status()
    await transport.aclose()
    assert len(edge.of("/token")) == 4


async def test_an_answer_that_is_lost_on_its_way_does_not_lose_the_link(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later
):
    later.ahead_ms = SOON_MS

    def lose(asked: Asked) -> None:
        if asked.path == "/token":
            edge.after = lambda _: None
            raise LostPower

    edge.after = lose
    with pytest.raises(ShoalError):
        await Credentials(files, edge.url, clock_ms=later).bearer()
    assert kept(files) == linked
    token = await Credentials(files, edge.url, clock_ms=later).bearer()
    assert token == kept(files).access_token != linked.access_token


async def test_a_token_that_can_not_be_kept_is_not_used(
    edge: LocalEdge, files: SyncFiles, own_keyring: OwnKeyring, linked: Tokens, later: Later
):
    later.ahead_ms = SOON_MS
    credentials = Credentials(files, edge.url, clock_ms=later)
    await asyncio.to_thread(vault.read, files)

    def fail(_asked: Asked) -> None:
        own_keyring.failure = RuntimeError("locked")

    edge.after = fail
    with pytest.raises(SyncError, match="keyring"):
        await credentials.bearer()
    own_keyring.failure, edge.after = None, lambda _: None
    assert kept(files) == linked
    assert await credentials.bearer() != linked.access_token


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client", "invalid_target"])
async def test_a_refusal_of_the_token_endpoint_breaks_the_link_and_says_how_to_mend_it(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, error: str
):
    later.ahead_ms = SOON_MS
    told = {"error": error, "error_description": "Connect again."}
    edge.before = lambda asked: JSONResponse(told, 400) if asked.path == "/token" else None
    with pytest.raises(LinkBroken, match="Connect again") as caught:
        await Credentials(files, edge.url, clock_ms=later).bearer()
    assert f"shoal link {edge.url}" in caught.value.mend
    assert kept(files) == linked


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (JSONResponse({"error": "temporarily_unavailable"}, 503, {"Retry-After": "9"}), EdgeBusy),
        (JSONResponse({"error": "server_error"}, 500), EdgeBusy),
        (JSONResponse({"error": "invalid_request"}, 429), EdgeBusy),
        (HTMLResponse("Log in", 400), EdgeUnreachable),
        (HTMLResponse("Log in", 200), EdgeUnreachable),
        (Response(status_code=302, headers={"location": "https://hotel.example"}), EdgeUnreachable),
        (JSONResponse({"access_token": "a b", "token_type": "Bearer"}), EdgeUnreachable),
        (JSONResponse({"access_token": "a\nb", "token_type": "Bearer"}), EdgeUnreachable),
        (JSONResponse({"access_token": "ab", "token_type": "mac"}), EdgeUnreachable),
    ],
)
async def test_trouble_at_the_token_endpoint_is_worth_another_try(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, answer: Response, kind: type[ShoalError]
):
    later.ahead_ms = SOON_MS
    credentials = Credentials(files, edge.url, clock_ms=later)
    edge.before = lambda asked: answer if asked.path == "/token" else None
    with pytest.raises(kind) as caught:
        await credentials.bearer()
    assert type(caught.value) is kind
    edge.before = lambda _: None
    assert await credentials.bearer() != linked.access_token


async def test_an_edge_that_hands_out_no_new_refresh_token_goes_on_with_the_old_one(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later
):
    later.ahead_ms = SOON_MS
    edge.before = lambda _: JSONResponse({"access_token": "new", "token_type": "bearer"})
    assert await Credentials(files, edge.url, clock_ms=later).bearer() == "new"
    assert kept(files).refresh_token == linked.refresh_token


async def test_what_the_owner_has_revoked_breaks_the_link(edge: LocalEdge, files: SyncFiles, linked: Tokens):
    with edge.flow() as flow:
        flow.sign_in()
        assert flow.browser.submit(flow.browser.get("/account"), "/account/revoke").status_code == 303
    transport = HttpTransport(edge.url, Credentials(files, edge.url))
    with pytest.raises(LinkBroken, match="shoal link"):
        await transport.status()
    await transport.aclose()


async def test_a_device_token_lasts_until_it_is_refused(edge: LocalEdge, files: SyncFiles):
    token = device_token(edge)
    vault.store(files, Link(url=edge.url), Tokens(access_token=token))
    credentials = Credentials(files, edge.url)
    transport = HttpTransport(edge.url, credentials)
    assert (await transport.status()).spaces == ["main"]
    await transport.aclose()
    with pytest.raises(LinkBroken, match="its token is unknown"):
        await credentials.bearer(refused=token)


async def test_a_link_that_is_made_anew_is_noticed(edge: LocalEdge, files: SyncFiles, linked: Tokens):
    credentials = Credentials(files, edge.url)
    await credentials.bearer()
    vault.store(files, Link(url=edge.url), Tokens(access_token="shoal_d_other"))
    assert await credentials.bearer() == "shoal_d_other"
    vault.forget(files)
    with pytest.raises(LinkBroken, match=f"shoal link {edge.url}"):
        await credentials.bearer()


async def test_a_link_that_is_replaced_while_it_is_read_is_read_anew(
    files: SyncFiles, own_keyring: OwnKeyring, monkeypatch: pytest.MonkeyPatch
):
    url, read = "https://shoal.example", vault.read
    vault.store(files, Link(url=url), Tokens(access_token="shoal_d_old"))

    def slow(files: SyncFiles) -> Any:
        monkeypatch.setattr(vault, "read", read)
        own_keyring.kept.clear()
        try:
            return read(files)
        finally:
            vault.store(files, Link(url=url), Tokens(access_token="shoal_d_new"))

    monkeypatch.setattr(vault, "read", slow)
    assert await Credentials(files, url).bearer() == "shoal_d_new"


async def test_credentials_of_another_edge_are_not_sent_to_this_one(files: SyncFiles):
    vault.store(files, Link(url="https://other.example"), Tokens(access_token="shoal_d_other"))
    with pytest.raises(LinkBroken, match="no token for shoal"):
        await Credentials(files, "https://shoal.example").bearer()


async def test_a_link_that_becomes_a_device_token_while_another_is_refreshed_is_used_as_it_is(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, monkeypatch: pytest.MonkeyPatch
):
    credentials = Credentials(files, edge.url, clock_ms=later)
    await credentials.bearer()
    later.ahead_ms = SOON_MS
    async with module.held(files.link_lock, 1, "linking"):
        waiting = asyncio.create_task(credentials.bearer())
        await asyncio.sleep(0)
        vault.store(files, Link(url=edge.url), Tokens(access_token="shoal_d_other"))
    assert await waiting == "shoal_d_other"
    assert edge.asked == []


async def test_whoever_refreshes_too_long_is_not_waited_for(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    later.ahead_ms = SOON_MS
    async with module.held(files.link_lock, 1, "linking"):
        with pytest.raises(SyncError, match="refreshing the token"):
            await Credentials(files, edge.url, clock_ms=later).bearer()


async def test_no_token_is_logged(
    edge: LocalEdge, files: SyncFiles, linked: Tokens, later: Later, caplog: pytest.LogCaptureFixture
):
    later.ahead_ms = SOON_MS
    with caplog.at_level(logging.DEBUG):
        token = await Credentials(files, edge.url, clock_ms=later).bearer()
    secrets: list[Any] = [token, linked.access_token, linked.refresh_token, kept(files).refresh_token]
    assert not [secret for secret in secrets if secret in caplog.text]
