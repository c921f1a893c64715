"""Attacks with tokens: elsewhere, used twice, of others, widened, taken for another kind, dead."""

from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from tests.attacks.attack import SHELF, Attack, calls, refused
from tests.edge.edge import OWNER_KEY
from tests.edge.oauth import Flow

DAY_S = 86_400
Said = dict[str, str]


@pytest.fixture
def flow(attack: Attack) -> Flow:
    return attack.flow(signed_in=True)


def status(attack: Attack, token: str, **headers: str) -> int:
    """Return what a call with a token is answered, the same over REST and MCP."""
    http = attack.client(token, **headers)
    one, other = http.get("/api/v1/memories"), calls(http, "memory_stats")
    assert one.status_code == other.status_code
    return one.status_code


def test_a_token_is_of_no_use_under_another_name_of_the_server(attack: Attack, flow: Flow):
    tokens = flow.connect()
    port = urlsplit(attack.url).port
    assert status(attack, tokens["access_token"], host=f"localhost:{port}") == 401
    answer = flow.app.post(
        "/token",
        data={"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": flow.client_id},
        headers={"host": f"localhost:{port}"},
    )
    refused(answer, "invalid_target")
    assert status(attack, tokens["access_token"]) == 200


def test_forwarding_headers_make_no_other_issuer(attack: Attack, flow: Flow):
    said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "forwarded": "host=evil.example"}
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"):
        assert "evil.example" not in flow.app.get(path, headers=said).text
    assert "evil.example" not in str(flow.app.post("/mcp", headers=said).headers)


def test_a_refresh_token_whose_successor_was_used_ends_the_connection(attack: Attack, flow: Flow):
    first = flow.connect()
    second = flow.refresh(first["refresh_token"]).json()
    third = flow.refresh(second["refresh_token"]).json()
    refused(flow.refresh(first["refresh_token"]), "invalid_grant")
    for tokens in (first, second, third):
        assert status(attack, tokens["access_token"]) == 401
        refused(flow.refresh(tokens["refresh_token"]), "invalid_grant")


def test_a_thief_and_the_app_who_both_go_on_from_one_refresh_token_are_both_shut_out(attack: Attack, flow: Flow):
    first = flow.connect()
    thiefs, apps = flow.refresh(first["refresh_token"]).json(), flow.refresh(first["refresh_token"]).json()
    stolen = flow.refresh(thiefs["refresh_token"]).json()
    refused(flow.refresh(apps["refresh_token"]), "invalid_grant")
    assert [status(attack, each["access_token"]) for each in (thiefs, apps, stolen)] == [401] * 3


def test_another_app_cant_refresh_with_a_stolen_token(attack: Attack, flow: Flow):
    tokens, thief = flow.connect(), attack.flow()
    thief.register()
    refused(thief.refresh(tokens["refresh_token"]), "invalid_grant")
    assert flow.refresh(tokens["refresh_token"]).status_code == 200


def test_without_a_client_id_nobody_refreshes(attack: Attack, flow: Flow):
    tokens = flow.connect()
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    refused(flow.app.post("/token", data=form), "invalid_client", 401)


@pytest.mark.parametrize(
    "wider",
    [
        "memory:read memory:write memory:admin",
        "memory:admin",
        "sync",
        "memory:read sync",
        "*",
        "memory:*",
        "MEMORY:READ",
        "openid",
        "memory:read,memory:write",
    ],
)
def test_a_refresh_widens_nothing(attack: Attack, flow: Flow, wider: str):
    tokens = flow.connect({SHELF: "memory:read"}, scope="memory:read memory:write memory:admin")
    refused(flow.refresh(tokens["refresh_token"], scope=wider), "invalid_scope")
    again = flow.refresh(tokens["refresh_token"])
    assert again.json()["scope"] == "memory:read"


def test_a_narrowed_access_token_does_no_more_than_it_says(attack: Attack, flow: Flow):
    tokens = flow.connect({SHELF: "memory:read memory:write"})
    narrow = flow.refresh(tokens["refresh_token"], scope="memory:read").json()["access_token"]
    http = attack.client(narrow)
    assert http.post("/api/v1/memories", json={"content": "x", "space": SHELF}).status_code == 403
    assert calls(http, "memory_store", content="x", space=SHELF).status_code == 403
    assert http.get("/api/v1/memories", params={"space": SHELF}).status_code == 200


def test_the_owner_allows_less_than_was_asked_and_the_token_holds_no_more(attack: Attack, flow: Flow):
    tokens = flow.connect({SHELF: "memory:read"}, scope="memory:read memory:write memory:admin sync")
    assert tokens["scope"] == "memory:read"
    http = attack.client(tokens["access_token"])
    assert http.post("/api/v1/memories", json={"content": "x", "space": SHELF}).status_code == 403
    purge = {"ids": attack.shown, "purge": True, "confirm": True}
    assert http.post("/api/v1/memories/delete", json=purge).status_code == 403


def test_no_kind_of_secret_is_taken_for_another(attack: Attack, flow: Flow):
    registered = flow.register(token_endpoint_auth_method="client_secret_post").json()
    code = flow.allowed()
    tokens = flow.exchange(code).json()
    next_code = flow.allowed()
    (cookie,) = flow.browser.cookies.values()
    others = [
        tokens["refresh_token"],
        next_code,
        cookie,
        registered["client_secret"],
        registered["registration_access_token"],
        flow.client_id,
    ]
    for secret in others:
        with attack.asking_nothing():
            assert status(attack, secret) == 401
    for secret in (tokens["access_token"], next_code, cookie, registered["client_secret"]):
        refused(flow.refresh(secret), "invalid_grant")
    for secret in (tokens["access_token"], tokens["refresh_token"], cookie):
        refused(flow.exchange(secret), "invalid_grant")
        assert flow.app.get(f"/register/{flow.client_id}", headers={"authorization": f"Bearer {secret}"}).is_error
        fresh = attack.flow()
        fresh.browser.cookies = {"__Host-shoal": secret}
        if secret != cookie:
            assert "/login" in fresh.browser.get("/account").text


def test_an_access_token_is_taken_from_the_authorization_header_alone(attack: Attack, flow: Flow):
    token = flow.connect()["access_token"]
    http = attack.client()
    places: list[Callable[[str], httpx.Response]] = [
        lambda secret: http.get("/api/v1/memories", params={"access_token": secret}),
        lambda secret: http.get("/api/v1/memories", params={"token": secret, "key": secret}),
        lambda secret: http.get(
            "/api/v1/memories", headers={"cookie": f"access_token={secret}; __Host-shoal={secret}"}
        ),
        lambda secret: http.get("/api/v1/memories", headers={"x-api-key": secret, "x-access-token": secret}),
        lambda secret: http.get("/api/v1/memories", headers={"proxy-authorization": f"Bearer {secret}"}),
        lambda secret: http.post("/api/v1/search", data={"access_token": secret, "query": "x"}),
        lambda secret: http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping", "access_token": secret}),
        lambda secret: http.post("/mcp", params={"access_token": secret}, json={}),
        lambda secret: http.get("/api/v1/memories", headers={"authorization": f"Basic {secret}"}),
        lambda secret: http.get("/api/v1/memories", headers={"authorization": secret}),
        lambda secret: http.get("/api/v1/memories", headers=[("authorization", f"Bearer {secret}")] * 2),
        lambda secret: http.get("/api/v1/memories", headers={"authorization": f"Bearer x, Bearer {secret}"}),
        lambda secret: http.get("/api/v1/memories", headers={"authorization": f"Bearer {secret},x"}),
    ]
    for secret in (token, OWNER_KEY):
        for place in places:
            assert place(secret).status_code == 401


def test_a_session_of_the_browser_calls_nothing_but_pages(attack: Attack, flow: Flow):
    for path in ("/api/v1/memories", "/api/v1/admin/tokens", "/api/v1/admin/log"):
        assert flow.browser.get(path).status_code == 401
    assert flow.browser.get("/account").status_code == 200
    answer = flow.browser.post("/introspect", {"token": "shoal_a_" + "x" * 43})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")


End = Callable[[Attack, Flow, Said], object]
DEAD: dict[str, End] = {
    "expired": lambda attack, flow, own: attack.rig.set_clock(3_601),
    "given-back": lambda attack, flow, own: flow.revoke(own["access_token"]),
    "given-back-by-its-refresh-token": lambda attack, flow, own: flow.revoke(own["refresh_token"]),
    "ended-by-the-owner": lambda attack, flow, own: flow.browser.submit(
        flow.browser.get("/account"), "/account/revoke"
    ),
    "of-an-app-that-was-removed": lambda attack, flow, own: flow.app.delete(
        f"/register/{flow.client_id}", headers={"authorization": f"Bearer {own['registration_access_token']}"}
    ),
}


@pytest.mark.parametrize("end", DEAD.values(), ids=DEAD)
def test_a_dead_token_opens_nothing(attack: Attack, flow: Flow, end: End):
    own: Said = {**flow.register().json(), **flow.connect()}
    assert status(attack, own["access_token"]) == 200
    end(attack, flow, own)
    assert status(attack, own["access_token"]) == 401


def test_an_app_that_was_removed_is_none_any_more(attack: Attack, flow: Flow):
    management = flow.register().json()["registration_access_token"]
    tokens, code = flow.connect(), flow.allowed()
    page = flow.consent_page()
    said = {"authorization": f"Bearer {management}"}
    assert flow.app.delete(f"/register/{flow.client_id}", headers=said).status_code == 204
    refused(flow.refresh(tokens["refresh_token"]), "invalid_client", 401)
    refused(flow.exchange(code), "invalid_client", 401)
    with attack.letting_nobody_in():
        assert flow.decide(page).status_code == 400
        assert flow.ask().status_code == 400
    assert flow.app.get(f"/register/{flow.client_id}", headers=said).status_code == 401


def test_nobody_removes_or_reads_the_registration_of_another(attack: Attack, flow: Flow):
    flow.register()
    own = attack.flow().register().json()["registration_access_token"]
    for secret in (own, "shoal_m_" + "x" * 43, OWNER_KEY, "x"):
        said = {"authorization": f"Bearer {secret}"}
        for method in ("GET", "DELETE"):
            answer = flow.app.request(method, f"/register/{flow.client_id}", headers=said)
            refused(answer, "invalid_token", 401)
    assert flow.consent_page().status_code == 200


def test_nobody_revokes_the_token_of_another(attack: Attack, flow: Flow):
    tokens, other = flow.connect(), attack.flow()
    other.register()
    for token in tokens["access_token"], tokens["refresh_token"]:
        answer = other.revoke(token)
        assert (answer.status_code, answer.json()) == (200, {})
    assert status(attack, tokens["access_token"]) == 200
    # What is told is the same for one that is not there.
    assert other.revoke("shoal_a_" + "x" * 43).json() == {}


def test_nobody_but_the_owner_asks_about_a_token(attack: Attack, flow: Flow):
    tokens = flow.connect({SHELF: "memory:read memory:write memory:admin"}, scope="memory:read memory:admin")
    asked = {"token": tokens["access_token"]}
    for secret in (tokens["access_token"], tokens["refresh_token"], "x", attack.token({"*": ["read", "admin"]})):
        said = {"authorization": f"Bearer {secret}"}
        refused(flow.app.post("/introspect", data=asked, headers=said), "invalid_token", 401)
    refused(flow.app.post("/introspect", data=asked), "invalid_token", 401)


@pytest.mark.parametrize("path", ["tokens", "clients", "log"])
def test_no_token_however_wide_is_the_owner(attack: Attack, path: str):
    http = attack.client(attack.token({"*": ["read", "write", "admin"]}))
    assert http.get(f"/api/v1/admin/{path}").status_code == 403
    body = {"name": "more", "spaces": {"*": ["read"]}, "redirect_uris": ["https://evil.example/"]}
    assert http.post(f"/api/v1/admin/{path}", json=body).status_code in (403, 405)
    assert http.delete(f"/api/v1/admin/{path}/{'0' * 32}").status_code in (403, 404, 405)


@pytest.mark.parametrize(
    "guess", ["shoal_a_short", "shoal_a_" + "x" * 44, "shoal_z_" + "x" * 43, "x" * 8000, "null", "é"]
)
def test_what_can_be_no_token_is_not_looked_up(attack: Attack, guess: str):
    with attack.asking_nothing():
        said = [(b"authorization", f"Bearer {guess}".encode())]
        assert attack.client().get("/api/v1/memories", headers=said).status_code == 401


def test_an_idle_refresh_token_dies(attack: Attack, flow: Flow):
    tokens = flow.connect()
    attack.rig.set_clock(31 * DAY_S)
    refused(flow.refresh(tokens["refresh_token"]), "invalid_grant")
