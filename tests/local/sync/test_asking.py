"""Which URLs are an edge's, what its refusals mean, and what is not taken for its word."""

import gzip
import json

import httpx
import pytest

from shoal.local.sync import asking
from shoal.local.sync.asking import Answer, ask, edge_url, error_of, new_client, retry_after_s
from shoal.schema.errors import (
    EdgeBusy,
    EdgeRefused,
    EdgeRestored,
    EdgeUnreachable,
    InvalidInput,
    LinkBroken,
    NotAllowed,
    ProtocolMismatch,
    ShoalError,
    SyncError,
)

URL = "https://shoal.example"


def refused(status: int, code: str = "some_code", **headers: str) -> Answer:
    body = {"error": {"code": code, "message": "What happened.", "mend": "What to do."}}
    return Answer(status, httpx.Headers(headers), json.dumps(body).encode())


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://shoal.example", "https://shoal.example"),
        (" https://Shoal.Example:443/mcp/ \n", "https://shoal.example"),
        ("https://shoal.example:8443/", "https://shoal.example:8443"),
        ("http://127.0.0.1:8378", "http://127.0.0.1:8378"),
        ("http://localhost:8378/mcp", "http://localhost:8378"),
        ("http://[::1]:8378", "http://[::1]:8378"),
        ("https://mémoire.example", "https://xn--mmoire-bva.example"),
    ],
)
def test_an_edge_is_named_by_its_address_with_or_without_mcp(given: str, url: str):
    assert edge_url(given) == url


@pytest.mark.parametrize(
    "given",
    [
        "",
        "shoal.example",
        "https://",
        "ftp://shoal.example",
        "https://user:password@shoal.example",
        "https://shoal.example/other",
        "https://shoal.example/?token=x",
        "https://shoal.example/#x",
        "https://[::1",
        "https://shoal.example:99999",
        "https://a b.example",
        "http://shoal.example",
        "http://127.0.0.1.shoal.example",
        "http://192.168.1.2:8378",
        "https://shoal.example:0",
        "\ud800",
    ],
)
def test_other_addresses_are_refused_and_plain_http_beyond_this_machine(given: str):
    with pytest.raises(InvalidInput, match="https://"):
        edge_url(given)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", LinkBroken),
        (403, "insufficient_scope", LinkBroken),
        (403, "not_allowed", NotAllowed),
        (409, "edge_restored", EdgeRestored),
        (409, "protocol_mismatch", ProtocolMismatch),
        (404, "not_found", ProtocolMismatch),
        (405, "method_not_allowed", ProtocolMismatch),
        (400, "malformed_body", EdgeRefused),
        (413, "body_too_large", EdgeRefused),
        (422, "invalid_input", EdgeRefused),
        (429, "rate_limited", EdgeBusy),
        (500, "internal_error", EdgeBusy),
        (503, "storage_busy", EdgeBusy),
    ],
)
def test_each_refusal_of_the_edge_has_its_meaning(status: int, code: str, kind: type[ShoalError]):
    error = error_of(refused(status, code), URL)
    assert type(error) is kind
    assert error.message
    assert error.mend


@pytest.mark.parametrize(("status", "code"), [(403, "origin_not_allowed"), (415, "x"), (421, "host_not_allowed")])
def test_a_refusal_that_is_not_about_what_was_sent_lays_no_cell_aside(status: int, code: str):
    error = error_of(refused(status, code), URL)
    assert type(error) is SyncError
    assert (code in error.message, error.mend) == (True, "What to do.")


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 407, 413, 422, 451])
@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b'{"error": "no"}', b'["x"]', b'{"error": {}}', b"\xff"])
def test_what_a_proxy_or_a_login_page_answers_is_not_taken_for_the_edges_word(status: int, body: bytes):
    error = error_of(Answer(status, httpx.Headers(), body), URL)
    assert type(error) is EdgeUnreachable
    assert str(status) in error.message


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 522, 530])
def test_trouble_at_the_edge_is_worth_another_try_whoever_says_so(status: int):
    error = error_of(Answer(status, httpx.Headers({"retry-after": "7"}), b"<html>"), URL)
    assert type(error) is EdgeBusy
    assert error.details == {"retry_after_s": 7.0}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", 0),
        ("120", 120),
        ("1e9", 0),
        ("-5", 0),
        ("soon", 0),
        ("99999999999", 86_400),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 100),
        ("Wed, 31 Dec 1969 23:59:59 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ],
)
def test_the_edge_says_when_to_come_back_in_seconds_or_by_a_date(given: str, seconds: float):
    assert retry_after_s(Answer(503, httpx.Headers({"Retry-After": given}), b""), now_s=0.0) == seconds


def test_what_comes_from_outside_is_cut_and_can_not_command_a_terminal():
    body = {"error": {"code": "x", "message": "\x1b[2J" + "x" * 5_000, "mend": 5}}
    error = error_of(Answer(422, httpx.Headers(), json.dumps(body).encode()), URL)
    assert "\x1b" not in error.message
    assert len(error.message) < 600


async def test_an_answer_is_bounded_also_when_it_is_packed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "ANSWER_MAX_BYTES", 100_000)
    sent = httpx.Response(200, content=gzip.compress(b"x" * 200_000), headers={"content-encoding": "gzip"})
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: sent)) as http:
        with pytest.raises(EdgeUnreachable, match="over 0 MB"):
            await ask(http, "GET", URL)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (httpx.ConnectTimeout("x"), "no connection within 10 s"),
        (httpx.ReadTimeout("x"), "no answer within 60 s"),
        (httpx.ConnectError("Name or service not known"), "Name or service not known"),
        (httpx.ConnectError(""), "no connection"),
        (httpx.ReadError("x"), "ReadError"),
        (httpx.RemoteProtocolError("x"), "RemoteProtocolError"),
        (httpx.DecodingError("x"), "DecodingError"),
        (httpx.LocalProtocolError("Illegal header value b'Bearer shoal_d_secret'"), "LocalProtocolError"),
    ],
)
async def test_whatever_breaks_on_the_way_leaves_the_outcome_unknown_and_quotes_no_secret(
    failure: httpx.RequestError, words: str
):
    def fail(_: httpx.Request) -> httpx.Response:
        raise failure

    async with httpx.AsyncClient(transport=httpx.MockTransport(fail)) as http:
        with pytest.raises(EdgeUnreachable, match=words) as caught:
            await ask(http, "GET", URL)
    assert "secret" not in str(caught.value)


async def test_a_client_follows_no_redirect_verifies_and_asks_no_proxy_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with new_client("http://127.0.0.1:8378") as http:
        assert not http.follow_redirects
        assert (http.timeout.connect, http.timeout.read) == (10, 60)
        assert not http.trust_env
    made: dict[str, object] = {}
    monkeypatch.setattr(httpx, "AsyncClient", lambda **options: made.update(options))
    new_client(URL)
    assert (made["verify"], made["trust_env"], made["follow_redirects"]) == (True, True, False)
