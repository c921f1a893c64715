"""Attacks on where a code, or a browser, is sent."""

import httpx
import pytest
from tests.attacks.attack import Attack, page_without_a_way_on, refused
from tests.edge.oauth import REDIRECT, form_of, told_at_redirect

EVIL = "evil.example"

NEVER = {
    "a-user": f"https://app.example@{EVIL}/callback",
    "a-user-and-password": f"https://app.example:443@{EVIL}/callback",
    "a-fragment": "https://app.example/callback#x",
    "an-encoded-host": "https://app%2eexample/callback",
    "an-encoded-slash-in-the-host": f"https://{EVIL}%2f.app.example/callback",
    "javascript": "javascript:alert(1)",
    "javascript-with-a-comment": "javascript://app.example/%0aalert(1)",
    "javascript-in-capitals": "JavaScript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "vbscript": "vbscript:x",
    "file": "file:///etc/passwd",
    "blob": "blob:https://app.example/1",
    "view-source": "view-source:https://app.example/",
    "an-app-whose-scheme-is-not-allowed": "myapp://callback",
    "a-scheme-that-begins-as-an-allowed-one": "cursorx://callback",
    "an-allowed-scheme-in-capitals": "CURSOR://callback",
    "plain-http": "http://app.example/callback",
    "a-name-that-begins-as-localhost": f"http://localhost.{EVIL}/callback",
    "a-name-that-begins-as-loopback": f"http://127.0.0.1.{EVIL}/callback",
    "a-user-that-looks-like-loopback": f"http://127.0.0.1:80@{EVIL}/",
    "a-short-address": "http://127.1/callback",
    "a-hexadecimal-address": "http://0x7f000001/callback",
    "a-decimal-address": "http://2130706433/callback",
    "every-address": "http://0.0.0.0/callback",
    "a-mapped-address": "http://[::ffff:127.0.0.1]/callback",
    "a-backslash": f"https://{EVIL}\\@app.example/callback",
    "no-slashes": f"https:{EVIL}/callback",
    "one-slash": f"https:/{EVIL}/callback",
    "three-slashes": f"https:///{EVIL}/callback",
    "no-scheme": f"//{EVIL}/callback",
    "no-host": "https:///callback",
    "a-leading-space": " https://app.example/callback",
    "a-line-break": f"https://app.example/\r\nLocation: https://{EVIL}",
    "a-tab-in-the-scheme": "java\tscript:alert(1)",
    "a-wildcard": "https://*.app.example/callback",
    "another-alphabet": "https://\u0430pp.example/callback",
    "port-zero": "https://app.example:0/callback",
    "a-port-too-large": "https://app.example:65536/callback",
    "a-host-in-capitals": "https://APP.example/callback",
    "no-text-at-all": "",
}


@pytest.mark.parametrize("uri", NEVER.values(), ids=NEVER)
def test_a_redirect_that_two_parsers_could_read_differently_is_never_registered(attack: Attack, uri: str):
    flow = attack.flow()
    before = attack.count("oauth_client")
    refused(flow.register(redirect_uris=[REDIRECT, uri]), "invalid_redirect_uri")
    assert attack.count("oauth_client") == before


@pytest.mark.parametrize("path", ["/callback", "/authorize", "/mcp"])
def test_an_app_cant_have_codes_sent_to_this_server(attack: Attack, path: str):
    refused(attack.flow().register(redirect_uris=[attack.url + path]), "invalid_redirect_uri")


NEARLY = {
    "only-begins-like-it": f"{REDIRECT}.{EVIL}",
    "goes-on-below-it": f"{REDIRECT}/more",
    "ends-with-a-slash": f"{REDIRECT}/",
    "climbs-out-of-it": f"{REDIRECT}/../elsewhere",
    "climbs-in-code": f"{REDIRECT}/%2e%2e/elsewhere",
    "has-a-query": f"{REDIRECT}?next=https://{EVIL}",
    "has-a-fragment": f"{REDIRECT}#x",
    "has-a-host-that-begins-like-it": f"https://app.example.{EVIL}/callback",
    "has-a-host-that-ends-like-it": "https://evilapp.example/callback",
    "has-a-subdomain": "https://evil.app.example/callback",
    "has-it-as-a-user": f"https://app.example@{EVIL}/callback",
    "has-a-user": "https://x@app.example/callback",
    "is-of-another-port": "https://app.example:8443/callback",
    "says-the-default-port": "https://app.example:443/callback",
    "is-plain-http": "http://app.example/callback",
    "has-a-scheme-in-capitals": "HTTPS://app.example/callback",
    "has-a-host-in-capitals": "https://APP.EXAMPLE/callback",
    "has-a-dot-after-the-host": "https://app.example./callback",
    "is-encoded": "https://app.example/%63allback",
    "ends-with-nul": f"{REDIRECT}%00",
    "begins-with-a-space": f" {REDIRECT}",
    "holds-it-in-its-query": f"https://{EVIL}/?{REDIRECT}",
    "names-no-scheme": "//app.example/callback",
    "has-a-backslash": f"https://{EVIL}\\@app.example/callback",
    "is-a-script": "javascript:alert(document.domain)",
    "is-data": "data:text/html,x",
    "is-another-host": f"https://{EVIL}/callback",
    "is-loopback": "http://127.0.0.1/callback",
    "is-this-server": "/account",
}


@pytest.mark.parametrize("uri", NEARLY.values(), ids=[f"one-that-{name}" for name in NEARLY])
def test_only_the_registered_redirect_is_taken_and_the_owner_is_told(attack: Attack, uri: str):
    flow = attack.flow(registered=True)
    with attack.letting_nobody_in():
        page_without_a_way_on(flow.ask(redirect_uri=uri))
        # Nor is an error sent there.
        page_without_a_way_on(flow.ask(redirect_uri=uri, response_type="token"))


@pytest.mark.parametrize(
    "uri",
    [
        f"http://127.0.0.1:1@{EVIL}/callback",
        f"http://127.0.0.1.{EVIL}/callback",
        f"http://127.0.0.1:80.{EVIL}/callback",
        "http://localhost/callback",
        "http://[::1]/callback",
        "https://127.0.0.1/callback",
        "http://127.0.0.1:8080/elsewhere",
        "http://127.0.0.1:/callback",
        "http://127.0.0.1:08080/callback",
        f"http://127.0.0.1\\.{EVIL}/callback",
    ],
)
def test_loopback_is_free_in_its_port_and_in_nothing_else(attack: Attack, uri: str):
    flow = attack.flow(registered=True, redirect_uri="http://127.0.0.1/callback")
    page_without_a_way_on(flow.ask(redirect_uri=uri))


def test_two_redirects_in_one_request_go_nowhere(attack: Attack):
    flow = attack.flow(registered=True)
    for pair in ([REDIRECT, f"https://{EVIL}/"], [f"https://{EVIL}/", REDIRECT]):
        page_without_a_way_on(flow.browser.get("/authorize", params={**flow.request(), "redirect_uri": pair}))


def test_a_redirect_of_another_app_is_refused(attack: Attack):
    flow, other = attack.flow(), attack.flow(redirect_uri=f"https://{EVIL}/callback")
    flow.register()
    other.register()
    page_without_a_way_on(flow.ask(redirect_uri=other.redirect_uri))
    page_without_a_way_on(other.ask(client_id=flow.client_id))


@pytest.mark.parametrize("different", [f"https://{EVIL}/callback", f"{REDIRECT}/", "https://app.example/", ""])
def test_a_redirect_that_changes_at_the_token_endpoint_gets_no_tokens(attack: Attack, different: str):
    flow = attack.flow(registered=True, signed_in=True)
    code = flow.allowed()
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": flow.pkce.verifier}
    refused(flow.token(**form, redirect_uri=different), "invalid_grant")


def test_a_form_cant_change_where_the_code_goes(attack: Attack):
    flow = attack.flow(registered=True, signed_in=True)
    evil = f"https://{EVIL}/callback"
    answer = flow.decide(flow.consent_page(), redirect_uri=evil, client_id="x", state="theirs")
    assert told_at_redirect(answer)["state"] == "a state"


def test_nobody_is_led_through_this_server_to_a_page_that_anyone_may_register(attack: Attack):
    flow = attack.flow(redirect_uri=f"https://{EVIL}/phishing")
    flow.register()
    # The request is one that fails; its answer would be a redirect without the owner having done anything.
    for wrong in ({"response_type": "token"}, {"scope": "nothing"}, {"code_challenge": ""}, {"prompt": "none"}):
        answer = flow.ask(**wrong)
        assert answer.status_code != 303 and "location" not in answer.headers
        assert form_of(answer, "/login")


NEXT = [
    f"//{EVIL}",
    f"/\\{EVIL}",
    f"\\\\{EVIL}",
    f"https:{EVIL}",
    f"https://{EVIL}/authorize?x",
    f"%2f%2f{EVIL}",
    f"/authorize@{EVIL}",
    f"/authorize/..//{EVIL}",
    f"/account/../\\{EVIL}",
    f"/account\r\nLocation: https://{EVIL}",
    "/authorize?x\r\nSet-Cookie: a=b",
    "/authorizeX?x",
    f"@{EVIL}",
    f".{EVIL}",
    f"//{EVIL}/authorize?client_id=x",
    "javascript:alert(1)",
    f" //{EVIL}",
    f"\t//{EVIL}",
    "/register",
    "/mcp",
]


@pytest.mark.parametrize("given", NEXT, ids=ascii)
def test_signing_in_leads_to_no_other_place(attack: Attack, given: str):
    flow = attack.flow()
    answer = flow.browser.submit(flow.browser.get("/account"), "/login", secret=flow.owner_key, next=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    assert set(answer.headers.get_list("set-cookie")[0].split("=")[:1]) == {"__Host-shoal"}


def test_what_follows_the_sign_in_is_judged_anew(attack: Attack):
    flow = attack.flow(registered=True)
    query = str(httpx.QueryParams(flow.request(redirect_uri=f"https://{EVIL}/")))
    page = flow.browser.get("/account")
    answer = flow.browser.submit(page, "/login", secret=flow.owner_key, next=f"/authorize?{query}")
    page_without_a_way_on(flow.browser.get(answer.headers["location"]))
