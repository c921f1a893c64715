"""WebCrypto and fetch of the real runtime, behind OAuth's ports: as their doubles in tests/worker, and as CPython's."""

import base64
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.edge.doubles.internet import Internet
from tests.edge.edge import PLAIN, ROOT
from tests.edge.rig.rig import Rig
from tests.worker.test_webcrypto import written
from worker.stage import stage

URL = "https://app.example/client.json"


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet() as internet:
        yield internet


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, internet: Internet) -> Iterator[Rig]:
    """A Worker of our sources with an entry that does what it is asked to."""
    folder = tmp_path_factory.mktemp("runtime")
    stage(ROOT, folder / "worker")
    entry = Path(__file__).with_name("runtime_entry.py").read_text(encoding="utf-8")
    (folder / "worker" / "entry.py").write_text(entry, encoding="utf-8")
    with Rig(ROOT, folder / "state", sources=folder / "worker", internet=internet.url) as rig:
        yield rig


@pytest.fixture
def rig(started: Rig, internet: Internet) -> Iterator[Rig]:
    internet.clear()
    with started.watched():
        yield started


def do(rig: Rig, action: str, **arguments: Any) -> Any:
    return httpx.post(f"{rig.url}/{action}", json=arguments, **PLAIN).json()


def test_pbkdf2_gives_what_hashlib_gives(rig: Rig):
    expected = hashlib.pbkdf2_hmac("sha256", "a pass phrase 密".encode(), b"salt", 100_000).hex()
    assert do(rig, "pbkdf2", secret="a pass phrase 密", salt="salt", iterations=100_000) == expected


def test_more_iterations_than_production_takes_are_refused(rig: Rig):
    with rig.breaking("pbkdf2-iterations"):
        assert "not supported" in do(rig, "pbkdf2", secret="x", salt="y", iterations=100_001)["text"]


def test_a_signature_is_right_only_for_its_key_and_its_text(rig: Rig):
    private = rsa.generate_private_key(65_537, 2048)
    numbers = private.public_key().public_numbers()
    key = {"kty": "RSA", "n": written(numbers.n), "e": written(numbers.e), "alg": "RS256", "use": "sig", "kid": "1"}
    signature = base64.b64encode(private.sign(b"text", padding.PKCS1v15(), SHA256())).decode()
    assert do(rig, "verify", key=key, signed="text", signature=signature) is True
    assert do(rig, "verify", key=key, signed="another", signature=signature) is False
    assert do(rig, "verify", key=key, signed="text", signature=signature[:-4]) is False


def test_a_document_is_asked_for_without_anything_that_tells_who_asks(rig: Rig, internet: Internet):
    internet.put(URL, {"client_id": URL}, headers={"cache-control": "max-age=60"})
    since = rig.mark()
    told = do(rig, "get", url=URL)
    assert (told["status"], told["body"], told["calls"]) == (200, '{"client_id": "https://app.example/client.json"}', 1)
    assert told["headers"].items() >= {"content-type": "application/json", "cache-control": "max-age=60"}.items()
    ((method, url, headers),) = [(one.method, one.url, one.headers) for one in internet.asked]
    assert (method, url, headers["accept"]) == ("GET", URL, "application/json")
    assert not headers.keys() & {"cookie", "authorization", "referer"}
    (run,) = rig.invocations(since)
    assert (run.fetches, run.subrequests) == (1, 1)


def test_a_redirect_is_told_and_not_followed(rig: Rig, internet: Internet):
    internet.redirect(URL, "https://elsewhere.example/")
    internet.put("https://elsewhere.example/", "there")
    told = do(rig, "get", url=URL)
    assert (told["status"], told["headers"]["location"]) == (302, "https://elsewhere.example/")
    assert [one.url for one in internet.asked] == [URL]


def test_of_an_endless_body_one_byte_more_is_read_than_was_asked_for(rig: Rig, internet: Internet):
    internet.put(URL, "start", endless=True)
    body = do(rig, "get", url=URL, max_bytes=100_000)["body"]
    assert len(body) == 100_001
    assert body.startswith("start ")


def test_an_answer_that_does_not_come_in_time_is_a_failure(rig: Rig, internet: Internet):
    internet.put(URL, "late", delay_s=30)
    began = time.monotonic()
    assert do(rig, "get", url=URL, timeout_s=0.2)["error"] == "FetchFailed"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "url", ["https://nowhere.example/", "https://127.0.0.1/", "http://app.example/client.json", "data:,x", "no url"]
)
def test_what_leads_nowhere_is_a_failure_and_reaches_nothing_of_this_machine(rig: Rig, internet: Internet, url: str):
    internet.put(URL, "there")
    told = do(rig, "get", url=url)
    assert told == {"error": "FetchFailed", "text": "no answer came"}


def test_what_the_budget_does_not_allow_is_not_asked(rig: Rig, internet: Internet):
    internet.put(URL, "there")
    assert do(rig, "get", url=URL, times=51)["error"] == "FetchFailed"
    assert len(internet.asked) == 50
