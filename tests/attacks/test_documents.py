"""Attacks through Client ID Metadata Documents: whom the server calls (SSRF), and for whom it takes them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.attacks.attack import Attack, page_without_a_way_on
from tests.edge.doubles.internet import Internet
from tests.edge.oauth import Flow

from shoal.api.oauth.documents import NETWORK_HOURLY

URL = "https://app.shoal-attacks.com/oauth/client.json"
CALLBACK = "https://app.shoal-attacks.com/callback"
DOCUMENT: dict[str, Any] = {"client_id": URL, "client_name": "An app", "redirect_uris": [CALLBACK]}
INNER = {
    "plain-http": "http://app.shoal-attacks.com/client.json",
    "no-path": "https://app.shoal-attacks.com",
    "only-a-slash": "https://app.shoal-attacks.com/",
    "only-a-query": "https://app.shoal-attacks.com/?x",
    "loopback": "https://127.0.0.1/client.json",
    "loopback-by-name": "https://localhost/client.json",
    "loopback-below-a-name": "https://app.localhost/client.json",
    "ipv6": "https://[::1]/client.json",
    "a-mapped-address": "https://[::ffff:169.254.169.254]/client.json",
    "the-metadata-service": "https://169.254.169.254/latest/meta-data",
    "the-metadata-service-by-name": "https://metadata.google.internal/computeMetadata/v1",
    "a-private-address": "https://10.0.0.1/client.json",
    "a-decimal-address": "https://2130706433/client.json",
    "a-hexadecimal-address": "https://0x7f000001/client.json",
    "a-hexadecimal-octet": "https://127.0.0.0x1/client.json",
    "an-octal-address": "https://0177.0.0.1/client.json",
    "a-short-address": "https://127.1/client.json",
    "an-address-with-a-dot": "https://127.0.0.1./client.json",
    "an-address-in-other-digits": "https://\u2460\u2461\u2466.0.0.1/client.json",
    "a-local-name": "https://printer.local/client.json",
    "an-internal-name": "https://db.internal/client.json",
    "a-name-without-a-dot": "https://intranet/client.json",
    "a-port": "https://app.shoal-attacks.com:22/client.json",
    "the-default-port": "https://app.shoal-attacks.com:443/client.json",
    "a-user": "https://app.shoal-attacks.com@127.0.0.1/client.json",
    "a-password": "https://a:b@app.shoal-attacks.com/client.json",
    "a-fragment": "https://app.shoal-attacks.com/client.json#x",
    "dot-segments": "https://app.shoal-attacks.com/a/../client.json",
    "encoded-dot-segments": "https://app.shoal-attacks.com/a/%2e%2E/client.json",
    "encoded-slashes": "https://app.shoal-attacks.com/a%2f..%2fclient.json",
    "a-backslash": "https://app.shoal-attacks.com\\@127.0.0.1/client.json",
    "a-backslash-in-the-path": "https://app.shoal-attacks.com/a\\..\\client.json",
    "capitals": "HTTPS://APP.SHOAL-ATTACKS.COM/client.json",
    "a-line-break": "https://app.shoal-attacks.com/client.json\r\nHost: x",
    "a-null-character": "https://app.shoal-attacks.com/client.json\x00",
    "a-space": "https://app.shoal-attacks.com/client .json",
    "another-scheme": "file://app.shoal-attacks.com/etc/passwd",
    "gopher": "gopher://app.shoal-attacks.com/1",
    "data": "data://text/html,x",
    "an-encoded-host": "https://127%2e0.0.1/client.json",
    "too-long": "https://app.shoal-attacks.com/" + "x" * 600,
    "this-server": "{url}/client.json",
}


@pytest.fixture
def web(attack: Attack, live_web: Internet) -> Internet:
    live_web.clear()
    attack.database.rows("delete from oauth_client where kind = 'document'")
    return live_web


@pytest.fixture
def flow(attack: Attack) -> Flow:
    flow = attack.flow(redirect_uri=CALLBACK)
    flow.client_id = URL
    return flow


@pytest.mark.parametrize("url", INNER.values(), ids=INNER)
def test_nothing_is_fetched_from_a_url_that_is_not_plainly_public(attack: Attack, flow: Flow, web: Internet, url: str):
    flow.client_id = url.format(url=attack.url)
    page_without_a_way_on(flow.ask())
    flow.token(grant_type="authorization_code", code="x", code_verifier="x")
    flow.revoke("x")
    assert web.asked == []
    assert attack.count("oauth_client", "kind = 'document'") == 0


Put = Callable[[Internet], object]
WRONG: dict[str, Put] = {
    "leads-elsewhere": lambda web: web.redirect(URL, "https://app.shoal-attacks.com/other.json"),
    "leads-to-the-metadata-service": lambda web: web.redirect(URL, "http://169.254.169.254/latest/meta-data", 307),
    "leads-to-itself": lambda web: web.redirect(URL, URL, 301),
    "never-ends": lambda web: web.put(URL, b"{", endless=True),
    "is-too-long": lambda web: web.put(URL, {**DOCUMENT, "x": "x" * 6_000}),
    "names-another-client": lambda web: web.put(URL, {**DOCUMENT, "client_id": "https://claude.ai/client.json"}),
    "names-itself-with-a-slash-more": lambda web: web.put(URL, {**DOCUMENT, "client_id": f"{URL}/"}),
    "names-nobody": lambda web: web.put(URL, {"redirect_uris": [CALLBACK]}),
    "names-a-list": lambda web: web.put(URL, {**DOCUMENT, "client_id": [URL]}),
    "has-a-secret-method": lambda web: web.put(URL, {**DOCUMENT, "token_endpoint_auth_method": "client_secret_post"}),
    "redirects-to-a-script": lambda web: web.put(URL, {**DOCUMENT, "redirect_uris": ["javascript:alert(1)", CALLBACK]}),
    "redirects-to-plain-http": lambda web: web.put(URL, {**DOCUMENT, "redirect_uris": ["http://evil.example/"]}),
    "has-no-redirects": lambda web: web.put(URL, {**DOCUMENT, "redirect_uris": []}),
    "is-html": lambda web: web.put(URL, "<html>", headers={"content-type": "text/html"}),
    "is-a-list": lambda web: web.put(URL, [DOCUMENT]),
    "is-deep": lambda web: web.put(URL, "[" * 5_000),
    "is-empty": lambda web: web.put(URL, ""),
    "is-no-utf-8": lambda web: web.put(URL, b'{"client_id":"\xff"}'),
    "is-an-error": lambda web: web.put(URL, DOCUMENT, status=500),
    "is-created": lambda web: web.put(URL, DOCUMENT, status=201),
    "is-nowhere": lambda web: None,
}


@pytest.mark.parametrize("put", WRONG.values(), ids=[f"one-that-{name}" for name in WRONG])
def test_a_document_that_is_wrong_makes_no_client(attack: Attack, flow: Flow, web: Internet, put: Put):
    put(web)
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.ask())
    # Asked once, of nobody else, with nothing of whoever asked us.
    (asked,) = web.asked
    assert (asked.method, asked.url) == ("GET", URL)
    assert not asked.headers.keys() & {"cookie", "authorization", "referer", "origin"}
    # The next minute nobody makes us ask again.
    flow.ask()
    assert len(web.asked) == 1


def test_a_document_says_only_where_its_own_answers_go(attack: Attack, flow: Flow, web: Internet):
    web.put(URL, DOCUMENT)
    flow.consent_page()
    page_without_a_way_on(flow.ask(redirect_uri="https://evil.example/callback"))
    page_without_a_way_on(flow.ask(redirect_uri=f"{CALLBACK}/x"))


def test_whoever_calls_itself_claude_is_shown_with_the_host_that_it_has(attack: Attack, flow: Flow, web: Internet):
    theirs = {"client_uri": "https://claude.ai", "logo_uri": "https://claude.ai/logo.png"}
    web.put(URL, {**DOCUMENT, **theirs, "client_name": "Claude"})
    page = flow.consent_page()
    assert "app.shoal-attacks.com" in page.text
    assert "claude.ai" not in page.text


def test_a_flood_of_documents_makes_the_server_call_only_so_often(attack: Attack, web: Internet):
    flow = attack.flow(redirect_uri=CALLBACK)
    attack.flooding = True
    for number in range(NETWORK_HOURLY + 5):
        flow.client_id = f"https://app.shoal-attacks.com/{number}.json"
        page_without_a_way_on(flow.ask(), 400 if number < NETWORK_HOURLY else 503)
    assert len(web.asked) == NETWORK_HOURLY


def test_the_internet_of_these_tests_would_tell(attack: Attack, flow: Flow, web: Internet):
    web.put(URL, json.dumps(DOCUMENT))
    assert "An app" in flow.consent_page().text
    assert [asked.url for asked in web.asked] == [URL]
