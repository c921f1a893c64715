"""The login, consent and account pages, as Chromium shows and guards them."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.conftest import STEP_MS
from tests.browser.steps import NARROW, Console, allow, authorize_url, overflow, picture, register, sign_in
from tests.edge.edge import OWNER_KEY, PLAIN
from tests.edge.rig.rig import Rig

from shoal.api.messages import Language
from shoal.api.oauth.words import Line, said

LOCALES = {Language.ENGLISH: "en-GB", Language.CHINESE: "zh-CN"}
LONG_NAME = "AnAppWhoseNameHasNoSpaceInItAtAll" * 3
LONG_SPACE = "a-space-with-a-name-as-long-as-some-people-like-names-to-be"


@pytest.fixture
def redirect_uri(page_origin: str) -> str:
    """Where an app gets its code; the page there does nothing with it."""
    return f"{page_origin}/"


@pytest.fixture
def asked(live_worker: Rig, redirect_uri: str) -> str:
    """Where an app sends the owner."""
    return authorize_url(live_worker.url, register(live_worker.url, redirect_uri), redirect_uri)


def test_signing_in_and_letting_in_need_no_script(browser: Browser, asked: str, redirect_uri: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(STEP_MS)
    page = context.new_page()
    page.goto(asked)
    sign_in(page)
    allow(page)
    page.wait_for_url(f"{redirect_uri}?*code=*")
    context.close()


def test_chromium_blocks_nothing_on_the_way(page: Page, live_worker: Rig, asked: str, redirect_uri: str) -> None:
    console = Console()
    console.watch(page)
    page.goto(asked)
    sign_in(page)
    allow(page)
    page.wait_for_url(f"{redirect_uri}?*code=*")
    page.goto(f"{live_worker.url}/account")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert console.complaints == []


def test_the_session_is_a_cookie_of_this_host_alone_that_no_script_reads(
    context: BrowserContext, page: Page, live_worker: Rig, asked: str
) -> None:
    page.goto(asked)
    assert context.cookies() == [], "a visitor has a cookie before signing in"
    sign_in(page)
    expect(page.get_by_role("button", name=said(Line.ALLOW, Language.ENGLISH), exact=True)).to_be_visible()
    (cookie,) = context.cookies()
    flags: dict[str, Any] = {
        name: cookie.get(name) for name in ("name", "path", "secure", "httpOnly", "sameSite", "domain")
    }
    assert flags == {
        "name": "__Host-shoal",
        "path": "/",
        "secure": True,
        "httpOnly": True,
        "sameSite": "Lax",
        # Without a dot: of this host, of none below it.
        "domain": "127.0.0.1",
    }
    assert page.evaluate("document.cookie") == ""


@pytest.mark.parametrize("signed_in", [False, True])
def test_a_page_elsewhere_can_not_frame_them(
    page: Page, live_worker: Rig, page_origin: str, asked: str, signed_in: bool
) -> None:
    if signed_in:
        page.goto(asked)
        sign_in(page)
        expect(page.get_by_role("button", name=said(Line.ALLOW, Language.ENGLISH), exact=True)).to_be_visible()
    page.goto(f"{page_origin}/index.html")
    for url in (asked, f"{live_worker.url}/account"):
        with page.expect_console_message(lambda message: "frame" in message.text.lower()):
            page.evaluate(
                "url => document.body.append(Object.assign(document.createElement('iframe'), { src: url }))", url
            )
    for frame in page.frames[1:]:
        frame.wait_for_load_state()
        assert frame.locator("form").count() == 0
        assert frame.url.startswith("chrome-error:"), frame.url


def test_enter_in_a_field_of_the_consent_page_decides_nothing(page: Page, asked: str) -> None:
    page.goto(asked)
    sign_in(page)
    expect(page.get_by_role("button", name=said(Line.ALLOW, Language.ENGLISH), exact=True)).to_be_visible()
    # The button that Enter presses instead: it does nothing, and nobody sees it.
    expect(page.locator("form button").first).to_be_hidden()
    consents: list[str] = []
    page.on("request", lambda request: consents.append(request.url))
    page.get_by_role("textbox", name=said(Line.OTHER_SPACE, Language.ENGLISH)).press("Enter")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert consents == []


@pytest.mark.parametrize("language", LOCALES)
def test_nothing_stands_out_of_a_phone_s_narrow_page(
    browser: Browser, live_worker: Rig, redirect_uri: str, language: Language
) -> None:
    headers = {"authorization": f"Bearer {OWNER_KEY}"}
    for space in (LONG_SPACE, "工作与生活中的各种各样的事情"):
        memory = {"content": f"Something of {space}", "space": space}
        httpx.post(f"{live_worker.url}/api/v1/memories", json=memory, headers=headers, **PLAIN).raise_for_status()
    client = register(live_worker.url, redirect_uri, LONG_NAME)
    context = browser.new_context(viewport=NARROW, locale=LOCALES[language])
    context.set_default_timeout(STEP_MS)
    page = context.new_page()
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        picture(page, f"{name}-{LOCALES[language]}")
        found[name] = overflow(page)

    page.goto(authorize_url(live_worker.url, client, redirect_uri))
    look("sign-in")
    sign_in(page, language)
    expect(page.get_by_role("button", name=said(Line.ALLOW, language), exact=True)).to_be_visible()
    look("consent")
    allow(page, language)
    page.wait_for_url(f"{redirect_uri}?*code=*")
    page.goto(f"{live_worker.url}/account")
    look("account")
    page.goto(authorize_url(live_worker.url, "nobody", redirect_uri))
    look("unknown-app")
    context.close()
    assert not any(found.values()), found
