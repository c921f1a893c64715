from dataclasses import replace

import pytest
from tests.api.oauth.doubles import ISSUER
from tests.api.oauth.visits import Seen, told_by

from shoal.api.messages import Language
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.returning import answer_url, answered, form_actions, refused

APP = "cursor://anysphere.cursor-mcp/oauth/callback"


@pytest.mark.parametrize(
    ("redirect_uri", "url"),
    [
        ("https://a.example/cb", "https://a.example/cb?code=x"),
        ("https://a.example/cb?", "https://a.example/cb?code=x"),
        ("https://a.example/cb?a=1%20&b=", "https://a.example/cb?a=1%20&b=&code=x"),
        ("https://a.example/cb?a&", "https://a.example/cb?a&code=x"),
        ("http://127.0.0.1:99/", "http://127.0.0.1:99/?code=x"),
        (APP, APP + "?code=x"),
    ],
)
def test_a_redirect_keeps_its_own_query(redirect_uri: str, url: str):
    assert answer_url(redirect_uri, {"code": "x"}) == url


def test_an_answer_is_encoded_so_that_nothing_of_it_reads_as_more():
    state = "a&code=stolen#=+ %\r\n/?\"'<>é中"
    url = answer_url("https://a.example/cb", {"code": "x", "state": state})
    assert url.isascii()
    assert "\n" not in url and "#" not in url and "+" not in url
    assert told_by(url, "https://a.example/cb") == {"code": "x", "state": state}


def test_a_state_that_is_no_utf8_goes_back_byte_by_byte():
    state = b"\xff\x00a".decode(errors="surrogateescape")
    assert answer_url("https://a.example/", {"state": state}) == "https://a.example/?state=%FF%00a"


@pytest.mark.parametrize("redirect_uri", ["https://a.example/cb", "http://localhost:99/cb", "http://[::1]:9/cb"])
def test_pages_and_programs_get_a_303_with_state_and_issuer(authority: Authority, redirect_uri: str):
    answer = answered(authority, Language.ENGLISH, redirect_uri, "s", {"code": "c"})
    assert answer.status_code == 303
    assert answer.headers["Cache-Control"] == "no-store"
    told = told_by(answer.headers["Location"], redirect_uri)
    assert told == {"code": "c", "state": "s", "iss": ISSUER}


def test_no_state_is_told_when_none_was_sent(authority: Authority):
    answer = answered(authority, Language.ENGLISH, "https://a.example/", None, {"code": "c"})
    assert "state" not in answer.headers["Location"]


def test_an_app_is_opened_from_a_page_with_a_link(authority: Authority):
    answer = answered(authority, Language.CHINESE, APP, "s", {"code": "c"})
    assert answer.status_code == 200
    page = Seen(bytes(answer.body).decode())
    (link,) = page.of("a")
    assert told_by(str(link["href"]), APP) == {"code": "c", "state": "s", "iss": ISSUER}
    assert {"http-equiv": "refresh", "content": f"0;url={link['href']}"} in page.of("meta")


def test_a_refusal_says_why(authority: Authority):
    error = OAuthError(Code.INVALID_SCOPE, "Ask for another.")
    answer = refused(authority, Language.ENGLISH, "https://a.example/", "s", error)
    assert told_by(answer.headers["Location"], "https://a.example/") == {
        "error": "invalid_scope",
        "error_description": "Ask for another.",
        "state": "s",
        "iss": ISSUER,
    }


def test_forms_may_lead_to_the_redirect_and_from_there_to_an_app(authority: Authority):
    authority = replace(authority, settings=replace(authority.settings, app_schemes=("claude", "zed")))
    assert form_actions(authority, "https://a.example/cb") == ("https://a.example", "claude:", "zed:")
    assert form_actions(authority, APP) == ("cursor:",)
    (own,) = form_actions(authority, "http://127.0.0.1:99/cb")
    assert own == "http://127.0.0.1:99"
    assert form_actions(authority, "http://[::1]:99/cb") == ("http:",), "a source can't name an IPv6 address"
