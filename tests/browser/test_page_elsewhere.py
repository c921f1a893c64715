"""A web page on another origin, which is a public client: registered by itself, let in by the owner, calling REST."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.browser.pages import page_elsewhere
from tests.browser.steps import Console, allow, sign_in
from tests.edge.edge import OWNER_KEY, PLAIN
from tests.edge.rig.rig import Rig

REMEMBERED = "The bicycle is behind the house"
REFUSED = "Failed to fetch"
"""What Chromium tells a page of an answer that it may not see."""


@pytest.fixture
def unlisted() -> Iterator[str]:
    """The same page on an origin that the Worker doesn't know."""
    with page_elsewhere() as origin:
        yield origin


def open_page(page: Page, origin: str, server: str) -> None:
    page.goto(f"{origin}/index.html?server={server}")


def memories(server: str) -> list[str]:
    """Return the contents of all memories, as the owner sees them."""
    headers = {"authorization": f"Bearer {OWNER_KEY}"}
    answer = httpx.get(f"{server}/api/v1/memories", params={"space": "*"}, headers=headers, **PLAIN)
    return [memory["content"] for memory in answer.raise_for_status().json()["memories"]]


def test_it_is_let_in_then_stores_and_finds(live_worker: Rig, page: Page, page_origin: str) -> None:
    console = Console()
    console.watch(page)
    open_page(page, page_origin, live_worker.url)
    page.get_by_role("button", name="Connect").click()
    sign_in(page)
    allow(page)
    expect(page.locator("#state")).to_contain_text("connected: memory:read memory:write")
    page.get_by_label("To remember").fill(REMEMBERED)
    page.get_by_role("button", name="Store").click()
    expect(page.locator("#found li").first).to_have_text(REMEMBERED)
    expect(page.locator("#error")).to_be_empty()
    assert REMEMBERED in memories(live_worker.url)
    assert console.complaints == []


def test_on_an_origin_that_is_not_listed_it_learns_only_where_to_register(
    live_worker: Rig, page: Page, unlisted: str
) -> None:
    open_page(page, unlisted, live_worker.url)
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#error")).to_have_text(f"registration: {REFUSED}")
    assert page.url.startswith(unlisted)


def test_on_an_origin_that_is_not_listed_no_token_helps_it(live_worker: Rig, page: Page, unlisted: str) -> None:
    before = memories(live_worker.url)
    open_page(page, unlisted, live_worker.url)
    page.evaluate("([server, token]) => useToken(server, token)", [live_worker.url, OWNER_KEY])
    page.evaluate("storeAndFind('from nowhere')")
    expect(page.locator("#error")).to_have_text(f"store: {REFUSED}")
    assert memories(live_worker.url) == before


@pytest.mark.parametrize("path", ["/token", "/register", "/revoke", "/mcp", "/api/v1/stats"])
def test_on_an_origin_that_is_not_listed_it_reads_no_answer(
    live_worker: Rig, page: Page, unlisted: str, path: str
) -> None:
    open_page(page, unlisted, live_worker.url)
    # A form's content type needs no preflight: the request arrives, and its answer stays unread.
    read = "url => fetch(url, { method: 'POST', body: new URLSearchParams({ grant_type: 'refresh_token' }) })"
    told = page.evaluate(
        f"url => ({read})(url).then((answer) => answer.text(), (error) => error.message)", f"{live_worker.url}{path}"
    )
    assert told == REFUSED
