"""The stand-in for the internet has what a test has put there, and tells what was asked."""

from collections.abc import Iterator

import httpx
import pytest
from tests.edge.doubles.internet import Internet

URL = "https://app.example/x"


@pytest.fixture
def internet() -> Iterator[Internet]:
    with Internet() as internet:
        yield internet


def get(internet: Internet, url: str = URL, **options: float) -> httpx.Response:
    return httpx.get(internet.url, headers={"x-original-url": url, "accept": "a/b"}, verify=False, **options)


def test_a_document_is_served_with_its_status_and_headers(internet: Internet):
    internet.put(URL, {"a": 1}, status=203, headers={"etag": "1"})
    answer = get(internet)
    assert (answer.status_code, answer.json(), answer.headers["etag"]) == (203, {"a": 1}, "1")
    assert answer.headers["content-type"] == "application/json"
    internet.put(URL, "text", headers={"content-type": "text/plain"})
    assert get(internet).headers["content-type"] == "text/plain"


def test_what_was_asked_is_told_until_it_is_cleared(internet: Internet):
    get(internet)
    (asked,) = internet.asked
    assert (asked.method, asked.url, asked.headers["accept"]) == ("GET", URL, "a/b")
    assert "x-original-url" not in asked.headers
    internet.put(URL)
    internet.clear()
    assert internet.asked == []
    assert "x-no-such-host" in get(internet).headers


def test_a_document_can_lead_elsewhere_come_late_or_never_end(internet: Internet):
    internet.redirect(URL, "https://b.example/")
    assert (get(internet).status_code, get(internet).headers["location"]) == (302, "https://b.example/")
    internet.put(URL, "late", delay_s=30)
    with pytest.raises(httpx.ReadTimeout):
        get(internet, timeout=0.1)
    internet.put(URL, endless=True)
    with httpx.stream("GET", internet.url, headers={"x-original-url": URL}, verify=False) as answer:
        pieces = answer.iter_raw()
        assert sum(len(next(pieces)) for _ in range(3)) > 0
