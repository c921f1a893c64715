"""Fetching from the internet, on a double of JavaScript's fetch; tests/edge asks the real one."""

import pytest
from tests.edge.doubles.sdk import JsError
from tests.worker.javascript import Body, Web, runtime

from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.worker.budget import Budget
from shoal.worker.fetching import RuntimeFetcher

URL = "https://app.example/client.json"


@pytest.fixture
def web() -> Web:
    return Web()


async def fetch(web: Web, budget: Budget | None = None, *, url: str = URL, max_bytes: int = 100) -> Fetched:
    made = runtime(web)
    fetcher = RuntimeFetcher(made.js, made.to_js, budget or Budget())
    return await fetcher.fetch(url, accept="application/json", timeout_s=2.5, max_bytes=max_bytes)


async def test_an_answer_comes_with_its_status_and_headers(web: Web):
    web.put(URL, Body(b"{", b"}"), 404, content_type="application/json", cache_control="no-store")
    assert await fetch(web) == Fetched(404, {"content-type": "application/json", "cache-control": "no-store"}, b"{}")


async def test_it_is_asked_for_with_nothing_but_what_is_accepted_and_redirects_are_not_followed(web: Web):
    web.put(URL, None, 302, location="https://elsewhere.example/")
    assert await fetch(web) == Fetched(302, {"location": "https://elsewhere.example/"}, b"")
    ((url, options),) = web.asked
    assert url == URL
    assert {**options, "signal": list(options["signal"])} == {
        "method": "GET",
        "headers": {"accept": "application/json"},
        "redirect": "manual",
        "signal": [2500],
    }


@pytest.mark.parametrize(
    ("pieces", "read", "cancelled"),
    [
        ([b"12345"], b"12345", False),
        ([b"123", b"", b"45"], b"12345", False),
        ([b"123", b"456", b"never"], b"123456", True),
        ([b"123456789"], b"123456", True),
    ],
)
async def test_of_a_body_no_more_is_read_than_was_asked_for_and_one_byte(
    web: Web, pieces: list[bytes], read: bytes, cancelled: bool
):
    body = Body(*pieces)
    web.put(URL, body)
    assert (await fetch(web, max_bytes=5)).body == read
    assert body.cancelled is cancelled


@pytest.mark.parametrize(
    "body", [JsError("Network connection lost."), JsError("The operation was aborted", "TimeoutError")]
)
async def test_a_body_that_breaks_off_is_a_failure(web: Web, body: Exception):
    web.put(URL, Body(b"1", body))
    with pytest.raises(FetchFailed):
        await fetch(web)


async def test_a_host_that_is_not_there_is_a_failure_which_does_not_tell_the_address(web: Web):
    with pytest.raises(FetchFailed) as failed:
        await fetch(web, url="https://nowhere.example/secret")
    assert "nowhere" not in str(failed.value)


async def test_each_fetch_is_a_call_of_the_budget_and_none_is_made_beyond_it(web: Web):
    web.put(URL, None)
    budget = Budget(calls_max=2)
    for _ in range(2):
        await fetch(web, budget)
    assert budget.calls == {"fetch": 2}
    with pytest.raises(FetchFailed):
        await fetch(web, budget)
    assert len(web.asked) == 2
