"""Who is let in: nobody until there is a token, then whoever sends it, and not too often."""

import re
from collections.abc import Iterator

import httpx
import pytest
from tests.edge.doubles.standin import Standin
from tests.edge.edge import COFFEE, OFTEN, OWNER_KEY, Edge, secrets, worker
from tests.edge.rig.rig import Rig

LIMIT = 600
"""Requests a minute, in wrangler.toml."""
ROUTES = [
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/api/v1/stats"),
    ("GET", "/api/v1/memories"),
    ("POST", "/api/v1/memories"),
    ("POST", "/api/v1/search"),
    ("POST", "/api/v1/admin/requeue"),
    ("POST", "/mcp"),
    ("POST", "/mcp/"),
    ("GET", "/mcp"),
    ("GET", "/nothing"),
    ("PUT", "/healthz/"),
]


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, str]:
    """Return the error of an answer, which must have the one shape."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"] and error["mend"]
    assert error["request_id"] == answer.headers["x-request-id"]
    return error


# Without a token's hash


@pytest.fixture(scope="module")
def unconfigured(tmp_path_factory: pytest.TempPathFactory, standin: Standin) -> Iterator[Rig]:
    """A Worker as it is deployed before anybody has set its secret."""
    with worker(tmp_path_factory.mktemp("unconfigured"), standin) as rig:
        yield rig


def test_without_the_secret_nothing_but_health_is_served(unconfigured: Rig):
    with unconfigured.watched(), httpx.Client(base_url=unconfigured.url, timeout=30) as client:
        for method, path in ROUTES:
            for headers in ({}, {"authorization": f"Bearer {OWNER_KEY}"}):
                answer = client.request(method, path, headers=headers, json={"content": "x", "query": "x"})
                assert "OWNER_KEY_SHA256" in error_of(answer, 503, "not_configured")["mend"]
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.options("/api/v1/memories").status_code == 503
        # What needs no caller goes on.
        unconfigured.cron(OFTEN)


# With it


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": OWNER_KEY},
        {"authorization": f"Basic {OWNER_KEY}"},
        {"authorization": f"Token {OWNER_KEY}"},
        {"authorization": f"Bearer {OWNER_KEY}x"},
        {"authorization": f"Bearer {OWNER_KEY[:-1]}"},
        {"authorization": f"Bearer {OWNER_KEY[1:]}{OWNER_KEY[0]}"},
        {"authorization": "Bearer shoal_r_" + 43 * "x"},
        {"authorization": f"Bearer {secrets()['OWNER_KEY_SHA256']}"},
        {"authorization": f"Bearer {OWNER_KEY}, Bearer {OWNER_KEY}"},
        {"x-api-key": OWNER_KEY},
        {"cookie": f"token={OWNER_KEY}"},
    ],
    ids=str,
)
def test_without_exactly_the_key_nobody_comes_in_and_nothing_is_asked(edge: Edge, said: dict[str, str]):
    since = edge.rig.mark()
    with edge.client(None) as client:
        for method, path in [
            ("POST", "/api/v1/memories"),
            ("POST", "/mcp"),
            ("GET", f"/api/v1/stats?token={OWNER_KEY}"),
        ]:
            answer = client.request(method, path, json={"content": "x"}, headers=said)
            error_of(answer, 401, "unauthorized")
            error = 'error="invalid_token", ' if said.get("authorization") else ""
            assert answer.headers["www-authenticate"] == (
                f'Bearer {error}resource_metadata="{edge.rig.url}/.well-known/oauth-protected-resource/mcp",'
                ' scope="memory:read memory:write"'
            )
    assert sum(run.d1.statements for run in edge.rig.invocations(since)) == 0
    assert edge.stats()["total"] == 0


@pytest.mark.parametrize("kind", ["a", "d"])
def test_a_token_that_is_none_costs_one_row_that_is_not_there(edge: Edge, kind: str):
    with edge.client(f"shoal_{kind}_{43 * 'x'}") as client:
        run = edge.cost(lambda: error_of(client.get("/api/v1/stats"), 401, "unauthorized"))
    assert (run.d1.statements, run.d1.rows_read, run.subrequests) == (1, 0, 1)


@pytest.mark.parametrize(
    "form", [OWNER_KEY.lower(), "-".join(re.findall("....", OWNER_KEY)), f" {OWNER_KEY[:9]} {OWNER_KEY[9:]}"]
)
def test_the_owners_key_is_known_however_it_is_written(edge: Edge, form: str):
    with edge.client(form) as client:
        run = edge.cost(lambda: client.get("/api/v1/stats").raise_for_status())
    assert run.d1.statements == 1


def test_two_authorization_headers_are_none(edge: Edge):
    with edge.client(None) as client:
        twice = [("authorization", f"Bearer {OWNER_KEY}")] * 2
        error_of(client.get("/api/v1/stats", headers=twice), 401, "unauthorized")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_schemes_case_does_not_count(edge: Edge, scheme: str):
    with edge.client(None) as client:
        assert client.get("/api/v1/stats", headers={"authorization": f"{scheme}  {OWNER_KEY}"}).status_code == 200


def test_health_and_documents_are_for_anyone_and_tell_nothing_of_what_is_stored(edge: Edge):
    edge.store("The secret plan.", tags="hush", space="cellar")
    edge.rig.drain()
    with edge.client(None) as client:
        for path in ("/healthz", "/openapi.json", "/docs"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert not any(word in answer.text for word in ("secret plan", "hush", "cellar"))
        assert set(client.get("/healthz").json()) == {"status", "version", "model", "pending", "degraded"}


def counted(edge: Edge) -> dict[str, int]:
    """Return how many requests were counted of each caller."""
    return dict(edge.counted.rows("select key, count from _mf_ratelimit_buckets"))


def exhaust(edge: Edge) -> None:
    """Let every caller that is known so far have made as many requests as are allowed."""
    edge.counted.rows(f"update _mf_ratelimit_buckets set count = {LIMIT}")


def test_a_token_that_is_used_too_often_has_to_wait_and_others_have_not(edge: Edge):
    edge.stats()
    exhaust(edge)
    for method, path in [("GET", "/api/v1/stats"), ("POST", "/api/v1/memories"), ("POST", "/mcp")]:
        answer = edge.http.request(method, path, json={"content": "x"})
        assert answer.headers["retry-after"] == "60"
        error_of(answer, 429, "rate_limited")
    with edge.client(None) as client:
        assert client.get("/healthz").status_code == 200
    edge.counted.rows("delete from _mf_ratelimit_buckets")
    assert edge.stats()["total"] == 0


def test_guesses_are_counted_by_address_and_no_token_stands_among_the_counts(edge: Edge):
    guesses = {"authorization": "Bearer guess", "cf-connecting-ip": "192.0.2.7"}
    with edge.client(None) as client:
        error_of(client.get("/api/v1/stats", headers=guesses), 401, "unauthorized")
        assert list(counted(edge)) == ["address 192.0.2.7"]
        exhaust(edge)
        answer = client.get("/api/v1/stats", headers=guesses)
        assert answer.headers["retry-after"] == "60"
        error_of(answer, 429, "rate_limited")
        # Public paths count too, and other addresses have not guessed.
        assert client.get("/healthz", headers=guesses).status_code == 429
        other = client.get("/api/v1/stats", headers={**guesses, "cf-connecting-ip": "192.0.2.8"})
        error_of(other, 401, "unauthorized")
    # From the same address, whoever has the token comes in.
    assert edge.http.get("/api/v1/stats", headers={"cf-connecting-ip": "192.0.2.7"}).status_code == 200
    assert not any(OWNER_KEY in key or secrets()["OWNER_KEY_SHA256"] in key for key in counted(edge))


def test_the_limit_of_wrangler_toml_is_the_one_that_counts(edge: Edge):
    edge.store(COFFEE)
    edge.counted.rows(f"update _mf_ratelimit_buckets set count = {LIMIT - 1}")
    assert edge.http.get("/api/v1/stats").status_code == 200
    assert edge.http.get("/api/v1/stats").status_code == 429
