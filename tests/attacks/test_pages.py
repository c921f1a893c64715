"""Attacks on the owner's browser: forged forms, framed pages, planted sessions, text that would be markup."""

from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from tests.attacks.attack import Attack, page_without_a_way_on
from tests.edge.oauth import Flow, form_of, told_at_redirect

EVIL = "https://evil.example"


@pytest.fixture
def flow(attack: Attack) -> Flow:
    return attack.flow(registered=True)


# Forged forms (CSRF)


def test_consent_without_a_session_is_not_taken(attack: Attack, flow: Flow):
    form = {**form_of(flow.consent_page(), "/consent").fields, "decision": "allow"}
    flow.browser.cookies.clear()
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.browser.post("/consent", form), 403)


def test_consent_with_the_handle_of_another_session_is_not_taken(attack: Attack, flow: Flow):
    other = attack.flow()
    other.register(client_name="Theirs")
    form = {**form_of(other.consent_page(), "/consent").fields, "decision": "allow"}
    flow.consent_page()
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.browser.post("/consent", form), 403)


def test_a_handle_is_good_once_also_for_ten_at_once(attack: Attack, flow: Flow):
    page = flow.consent_page()
    form = {**form_of(page, "/consent").fields, "decision": "allow"}
    before = attack.count("oauth_grant")
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: flow.browser.post("/consent", form), range(10)))
    assert sorted(answer.status_code for answer in answers) == [303] + [403] * 9
    assert attack.count("oauth_grant") == before + 1


def test_a_handle_of_one_page_serves_no_other(attack: Attack, flow: Flow):
    flow.sign_in()
    account = form_of(flow.browser.get("/account"), "/account/token").fields
    consent = form_of(flow.consent_page(), "/consent").fields
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.browser.post("/consent", {**account, "decision": "allow"}), 403)
        token = {**consent, "name": "x", "0-read": "1"}
        page_without_a_way_on(flow.browser.post("/account/token", token), 403)


@pytest.mark.parametrize("handle", ["", "x", "shoal_f_" + "x" * 43, "%", "' or 1=1 --", "x" * 30_000])
def test_a_guessed_handle_is_none(attack: Attack, flow: Flow, handle: str):
    page = flow.consent_page()
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.browser.submit(page, "/consent", decision="allow", handle=handle), 403)


FORGED = {
    "another-site": EVIL,
    "nobody": "null",
    "a-name-that-begins-as-this": "{url}.evil.example",
    "this-host-over-https": "https://127.0.0.1",
    "another-port": "http://127.0.0.1:1",
    "a-user": "{url}@evil.example",
    "a-path": "{url}/x",
}
POSTS = ["/login", "/consent", "/logout", "/account/revoke", "/account/token", "/account/passphrase"]


@pytest.mark.parametrize("path", POSTS)
def test_a_form_of_another_origin_is_refused_before_it_is_read(attack: Attack, flow: Flow, path: str):
    if path == "/consent":
        page = flow.consent_page()
    elif path == "/login":
        page = flow.browser.get("/account")
    else:
        flow.connect()
        page = flow.browser.get("/account")
    form = {**form_of(page, path).fields, "secret": flow.owner_key, "decision": "allow", "name": "x", "0-read": "1"}
    cookies = dict(flow.browser.cookies)
    with attack.letting_nobody_in():
        for origin in FORGED.values():
            answer = flow.browser.post(path, form, origin=origin.format(url=attack.url))
            page_without_a_way_on(answer, 403)
            assert "set-cookie" not in answer.headers
    assert flow.browser.cookies == cookies
    # It was good, and is so still.
    assert flow.browser.post(path, form).status_code in (200, 303, 400)


def test_a_page_that_may_call_the_memory_may_not_sign_anybody_in(attack: Attack, page_origin: str):
    browser = attack.flow().browser
    answer = browser.post("/login", {"secret": "x"}, origin=page_origin)
    page_without_a_way_on(answer, 403)
    assert (
        attack.flow()
        .browser.get("/account", headers={"origin": page_origin})
        .headers.get("access-control-allow-credentials")
        is None
    )


@pytest.mark.parametrize("path", POSTS)
def test_what_changes_something_is_done_by_post_alone(attack: Attack, flow: Flow, path: str):
    page = flow.consent_page()
    form = {**form_of(page, "/consent").fields, "decision": "allow", "secret": flow.owner_key}
    said = {"cookie": "; ".join(f"{name}={value}" for name, value in flow.browser.cookies.items())}
    with attack.letting_nobody_in():
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
            answer = flow.browser.http.request(method, path, params=form, headers=said)
            assert answer.status_code == 405, method
            assert "set-cookie" not in answer.headers
    assert flow.decide(page).status_code == 303


def test_forms_are_not_taken_in_other_shapes(attack: Attack, flow: Flow):
    form = {**form_of(flow.consent_page(), "/consent").fields, "decision": "allow"}
    said = {"cookie": "; ".join(f"{name}={value}" for name, value in flow.browser.cookies.items())}
    http = flow.browser.http
    with attack.letting_nobody_in():
        assert http.post("/consent", json=form, headers=said).status_code in (400, 415)
        assert http.post("/consent", files={k: (None, v) for k, v in form.items()}, headers=said).status_code in (
            400,
            415,
        )
        text = {**said, "content-type": "text/plain"}
        assert http.post("/consent", content=str(httpx.QueryParams(form)), headers=text).status_code in (400, 415)


# Framed pages, cookies, sessions


def test_no_page_can_be_framed_or_run_a_script(attack: Attack, flow: Flow):
    login = flow.browser.get("/account")
    pages = [login, flow.ask(), flow.consent_page(), flow.browser.get("/account"), flow.ask(redirect_uri=f"{EVIL}/")]
    pages.append(flow.browser.post("/consent", {"handle": "x"}))
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy and "default-src 'none'" in policy and "base-uri 'none'" in policy
        assert "script" not in policy and "form-action" in policy
        assert EVIL not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert "<script" not in page.text and "access-control-allow-origin" not in page.headers


def test_the_cookie_is_for_this_host_over_https_and_no_script(attack: Attack, flow: Flow):
    answer = flow.sign_in()
    (said,) = answer.headers.get_list("set-cookie")
    name, *attributes = [part.strip() for part in said.split(";")]
    assert name.startswith("__Host-shoal=shoal_b_")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes)
    assert not any(part.lower().startswith("domain") for part in attributes)


@pytest.mark.parametrize("theirs", ["shoal_b_" + "x" * 43, "x", ""])
def test_a_session_planted_before_the_sign_in_is_not_taken_over(attack: Attack, flow: Flow, theirs: str):
    flow.browser.cookies = {"__Host-shoal": theirs}
    flow.sign_in()
    assert flow.browser.cookies["__Host-shoal"] != theirs
    assert "/login" in _with(attack, f"__Host-shoal={theirs}").get("/account").text


def test_signing_in_again_gives_another_session(attack: Attack, flow: Flow):
    page = flow.browser.get("/account")
    flow.sign_in(page)
    first = dict(flow.browser.cookies)
    flow.sign_in(page)
    assert flow.browser.cookies != first


def test_two_cookies_of_the_name_are_none(attack: Attack, flow: Flow):
    flow.sign_in()
    own = flow.browser.cookies["__Host-shoal"]
    for both in (f"__Host-shoal=x; __Host-shoal={own}", f"__Host-shoal={own}; __Host-shoal=x"):
        assert "/login" in _with(attack, both).get("/account").text
    for other in (f"__host-shoal={own}", f"shoal={own}", f"__Secure-shoal={own}"):
        assert "/login" in _with(attack, other).get("/account").text
    assert "/account/token" in _with(attack, f"__Host-shoal={own}").get("/account").text


@pytest.mark.parametrize("everywhere", ["", "1"], ids=["here", "everywhere"])
def test_signing_out_ends_the_session_and_its_forms(attack: Attack, flow: Flow, everywhere: str):
    consent = flow.consent_page()
    form = {**form_of(consent, "/consent").fields, "decision": "allow"}
    other = attack.flow()
    other.sign_in()
    kept = dict(flow.browser.cookies)
    assert flow.browser.submit(flow.browser.get("/account"), "/logout", everywhere=everywhere).status_code == 200
    flow.browser.cookies = kept
    assert form_of(flow.browser.get("/account"), "/login")
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.browser.post("/consent", form), 403)
    assert ("/login" in other.browser.get("/account").text) is bool(everywhere)


def test_a_session_ends_with_its_time(attack: Attack, flow: Flow):
    page = flow.consent_page()
    attack.rig.set_clock(31 * 86_400)
    assert form_of(flow.browser.get("/account"), "/login")
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.decide(page), 403)


def _with(attack: Attack, cookie: str) -> httpx.Client:
    return attack.client(None, cookie=cookie)


# Text that would be markup


class Bones(HTMLParser):
    """Elements and the names of their attributes, and whether any could run or load something."""

    def __init__(self, page: httpx.Response) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(page.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        assert tag not in {"script", "img", "iframe", "object", "base", "svg", "embed"}
        for name, value in attrs:
            assert not name.startswith("on")
            assert not (value or "").lower().strip().startswith(("javascript:", "data:")) or name == "value"

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = {
    "an-element": "<script>alert(1)</script>",
    "an-image": "<img src=x onerror=alert(1)>",
    "an-attribute": "\" autofocus onfocus=alert(1) x=\"' onclick='x",
    "an-end": "</title></style></form></main><form action=//evil.example>",
    "a-comment": "--><!--",
    "references": "&lt;b&gt;&#60;b&#62;",
    "a-template": "{{7*7}} ${7*7} {0.__class__} %s",
}


def bones(answers: list[httpx.Response]) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Return the bones of pages."""
    return [Bones(answer).found for answer in answers]


def pages_of(attack: Attack, text: str) -> list[httpx.Response]:
    """Return the consent and the account page of a Worker that is full of a text."""
    owner, flow = attack.owner(), attack.flow()
    attack.database.rows("delete from oauth_grant")
    body: dict[str, Any] = {"content": f"{text} stored", "tags": [text], "metadata": {text: text}, "source": text}
    owner.post("/api/v1/memories", json={**body, "space": text}).raise_for_status()
    device = {"name": text, "device": text, "spaces": {text: ["read"]}}
    owner.post("/api/v1/admin/tokens", json=device).raise_for_status()
    assert flow.register(client_name=text).status_code == 201
    asking = flow.consent_page(state=text, scope=f"memory:read {text}")
    assert told_at_redirect(flow.decide(asking))["state"] == text
    login = attack.client().get("/authorize", params=flow.request(state=text))
    wrong = flow.ask(redirect_uri=f"https://{text}/")
    account = flow.browser.get("/account")
    return [flow.ask(state=text), login, wrong, account]


@pytest.fixture(scope="module")
def plain() -> list[list[tuple[str, tuple[str, ...]]]]:
    """The bones of pages full of plain words, once they were asked for."""
    return []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_of_an_app_a_memory_or_a_request_becomes_markup(
    attack: Attack, plain: list[list[tuple[str, tuple[str, ...]]]], text: str
):
    plain += [] if plain else bones(pages_of(attack, "plain words"))
    hostile = pages_of(attack, text)
    for one, other in zip(plain, bones(hostile), strict=True):
        assert set(other) <= set(one)
    for page in hostile[0], hostile[3]:
        # It is there, as text: of the app and of the space.
        shown = " ".join(Bones(page).text.split())
        assert shown.count(text) >= 2, shown


def test_a_state_comes_back_as_it_was_and_splits_no_header(attack: Attack, flow: Flow):
    state = "a\r\nSet-Cookie: x=y\r\n\r\n<html>&code=theirs&iss=theirs#x"
    answer = flow.decide(flow.consent_page(state=state))
    told = told_at_redirect(answer)
    assert told["state"] == state
    assert (told["iss"], "set-cookie" in answer.headers) == (attack.url, False)
