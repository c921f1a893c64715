"""OAuth on the real Worker: an app is let in, calls, goes on, is shut out; and what interrupts it breaks nothing."""

import re
import time
from collections.abc import Iterator

import pytest
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.internet import Internet
from tests.edge.edge import COFFEE, HOURLY, ORIGIN, OWNER_KEY, Edge
from tests.edge.oauth import SCOPE, Flow, call_tool, form_of, told_at_redirect

DAY_S = 86_400
DOCUMENT = "https://app.example.com/oauth/client.json"
CALLBACK = "https://app.example.com/callback"
"""Where its client is: no host of a documentation's name would be asked."""


@pytest.fixture
def flow(edge: Edge) -> Iterator[Flow]:
    with Flow(edge.rig.url, OWNER_KEY) as flow:
        yield flow


def status(flow: Flow, token: str) -> int:
    """Return what a call with a token is answered."""
    with flow.caller(token) as http:
        return http.get("/api/v1/memories").status_code


def alive(edge: Edge) -> int:
    """Return how many grants let somebody in."""
    return edge.value("select count(*) from oauth_grant where activated_at is not null and revoked_at is null")


# From the first 401 to the end


def test_an_app_finds_the_way_is_let_in_calls_goes_on_and_gives_its_token_back(edge: Edge, flow: Flow):
    resource, server = flow.discover()
    assert resource["authorization_servers"] == [server["issuer"]] == [flow.url]
    tokens = flow.connect()
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, SCOPE)
    with flow.caller(tokens["access_token"]) as http:
        assert call_tool(http, "memory_store", content=COFFEE).json()["result"]["isError"] is False
        found = http.get("/api/v1/search", params={"q": "coffee machine"}).json()["results"]
        assert [row["snippet"] for row in found] == [COFFEE]
    assert edge.rows("select client, action from write_log") == [("An app", "store")]

    again = flow.refresh(tokens["refresh_token"]).json()
    assert status(flow, again["access_token"]) == 200
    assert flow.revoke(again["refresh_token"]).status_code == 200
    assert [status(flow, each["access_token"]) for each in (tokens, again)] == [401, 401]
    assert flow.refresh(again["refresh_token"]).json()["error"] == "invalid_grant"
    # What it has stored is the owner's.
    assert len(edge.find("coffee machine")) == 1


def test_an_app_reaches_only_the_spaces_that_the_owner_has_chosen(edge: Edge, flow: Flow):
    edge.store("The plan is in the cellar.", space="private")
    edge.store(COFFEE, space="work")
    tokens = flow.connect({"work": "memory:read"}, scope="memory:read memory:write memory:admin")
    assert tokens["scope"] == "memory:read"
    with flow.caller(tokens["access_token"]) as http:
        everywhere = {"query": "plan cellar coffee", "space": "*"}
        results = http.post("/api/v1/search", json=everywhere).json()["results"]
        assert [row["snippet"] for row in results] == [COFFEE]
        refused = http.post("/api/v1/search", json={"query": "plan", "space": "private"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
        step_up = http.post("/api/v1/memories", json={"content": "x", "space": "work"})
        assert step_up.status_code == 403
        told = step_up.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in told
        assert 'scope="memory:read memory:write"' in told
        tools = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()["result"]["tools"]
        assert "memory_store" not in [tool["name"] for tool in tools]


def test_the_owner_sees_an_app_on_the_account_page_and_ends_it_at_once(edge: Edge, flow: Flow):
    tokens = flow.connect()
    page = flow.browser.get("/account")
    assert "An app" in page.text
    assert status(flow, tokens["access_token"]) == 200
    assert flow.browser.submit(page, "/account/revoke").status_code == 303
    assert status(flow, tokens["access_token"]) == 401
    assert alive(edge) == 0


def test_without_the_owner_nobody_is_let_in(edge: Edge, flow: Flow):
    flow.register()
    page = flow.ask()
    assert flow.sign_in(page, "MFRG-GZDF-MZTW-Q2LK-NNWG-23TP-OBYX-E43V").status_code == 403
    assert flow.browser.cookies == {}
    assert edge.value("select count(*) from oauth_grant") == 0
    denied = flow.decide(flow.consent_page(), decision="deny")
    assert told_at_redirect(denied)["error"] == "access_denied"
    assert edge.value("select count(*) from oauth_grant") == 0


def test_a_client_is_known_by_the_document_that_its_id_leads_to(edge: Edge, flow: Flow, internet: Internet):
    document = {
        "client_id": DOCUMENT,
        "client_name": "A documented app",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "none",
    }
    internet.put(DOCUMENT, document)
    flow.client_id, flow.redirect_uri = DOCUMENT, CALLBACK
    page = flow.consent_page()
    assert "A documented app" in page.text
    assert "app.example.com" in page.text
    code = told_at_redirect(flow.decide(page), CALLBACK)["code"]
    tokens = flow.exchange(code).json()
    assert status(flow, tokens["access_token"]) == 200
    assert flow.refresh(tokens["refresh_token"]).status_code == 200
    # It was asked for once, with nothing of the request or of its owner.
    (asked,) = internet.asked
    assert (asked.method, asked.url) == ("GET", DOCUMENT)
    assert not asked.headers.keys() & {"cookie", "authorization"}


def test_a_client_whose_document_cant_be_had_is_told_to_the_owner_and_nobody_is_sent_anywhere(
    edge: Edge, flow: Flow, internet: Internet
):
    flow.client_id, flow.redirect_uri = DOCUMENT, CALLBACK
    answer = flow.ask()
    assert answer.status_code in (400, 503)
    assert answer.headers["content-type"].startswith("text/html")


def test_a_device_has_a_token_of_its_own_until_it_is_revoked(edge: Edge, flow: Flow):
    token = edge.token(spaces={"main": ["read"]}, device="laptop")
    assert re.fullmatch("shoal_d_[A-Za-z0-9_-]{43}", token)
    assert status(flow, token) == 200
    (listed,) = edge.ask("GET", "/admin/tokens")["tokens"]
    edge.ask("DELETE", f"/admin/tokens/{listed['id']}")
    assert status(flow, token) == 401


def test_a_web_page_of_an_allowed_origin_exchanges_its_code_and_calls(flow: Flow):
    flow.register()
    code = flow.allowed()
    flow.app.headers["origin"] = ORIGIN
    answer = flow.exchange(code)
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    with flow.caller(answer.json()["access_token"], origin=ORIGIN) as http:
        assert http.get("/api/v1/memories").headers["access-control-allow-origin"] == ORIGIN
    flow.app.headers["origin"] = "https://elsewhere.example"
    assert flow.refresh(answer.json()["refresh_token"]).status_code == 403


# What it costs


def test_no_step_asks_much_of_the_database(edge: Edge, flow: Flow):
    flow.register()
    flow.sign_in()
    since = edge.rig.mark()
    page = flow.consent_page()
    code = told_at_redirect(flow.decide(page))["code"]
    tokens = flow.exchange(code).json()
    flow.refresh(tokens["refresh_token"])
    spent = {run.name: run.d1.round_trips for run in edge.rig.invocations(since)}
    assert spent.keys() == {"/authorize", "/consent", "/token"}
    assert max(spent.values()) <= 6
    assert edge.cost(lambda: flow.app.get("/.well-known/oauth-authorization-server")).d1.statements == 0


# What interrupts it


def test_nothing_of_a_flow_lies_in_the_isolate(edge: Edge, flow: Flow):
    tokens = flow.connect()
    code = flow.allowed()
    page = flow.consent_page()
    edge.restart()
    assert status(flow, tokens["access_token"]) == 200
    assert flow.refresh(tokens["refresh_token"]).status_code == 200
    assert flow.exchange(code).status_code == 200
    another = told_at_redirect(flow.decide(page))["code"]
    assert flow.exchange(another).status_code == 200


@pytest.mark.parametrize("applied", [True, False], ids=["written", "not-written"])
def test_an_exchange_whose_answer_is_lost_never_leaves_two_that_are_let_in(edge: Edge, flow: Flow, applied: bool):
    flow.register()
    code = flow.allowed()
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, applied=applied, on="oauth_token")
    lost = flow.exchange(code)
    assert (lost.status_code, lost.json()["error"]) == (503, "temporarily_unavailable")
    again = flow.exchange(code)
    if applied:
        # Nobody can tell the app from a thief who shows its code a second time: it starts again.
        assert again.json()["error"] == "invalid_grant"
        assert alive(edge) == 0
        again = flow.exchange(flow.allowed())
    assert status(flow, again.json()["access_token"]) == 200
    assert alive(edge) == 1


@pytest.mark.parametrize("applied", [True, False], ids=["written", "not-written"])
def test_a_refresh_whose_answer_is_lost_is_sent_again_with_the_same_token(edge: Edge, flow: Flow, applied: bool):
    tokens = flow.connect()
    edge.rig.fail("d1", D1Fault.NETWORK_LOST, applied=applied, on="insert into oauth_token")
    assert flow.refresh(tokens["refresh_token"]).status_code == 503
    again = flow.refresh(tokens["refresh_token"])
    assert again.status_code == 200
    assert flow.refresh(again.json()["refresh_token"]).status_code == 200
    assert alive(edge) == 1


def test_while_the_database_is_away_apps_are_told_to_come_again_and_people_see_a_page(edge: Edge, flow: Flow):
    tokens = flow.connect()
    edge.rig.fail("d1", D1Fault.DAILY_READS, times=100)
    assert flow.refresh(tokens["refresh_token"]).json()["error"] == "temporarily_unavailable"
    page = flow.browser.get("/account")
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert status(flow, tokens["access_token"]) == 503
    edge.rig.heal()
    assert status(flow, tokens["access_token"]) == 200


def test_a_database_taken_back_knows_neither_what_was_let_in_nor_what_was_shut_out_since(edge: Edge, flow: Flow):
    kept = flow.connect()
    earlier = edge.database.copy()
    flow.revoke(kept["refresh_token"])
    later = flow.connect()
    edge.database.put_back(earlier)
    assert status(flow, later["access_token"]) == 401
    # The owner is told to look at the account page after going back: docs/security.md.
    assert status(flow, kept["access_token"]) == 200


# What time ends


def test_tokens_end_when_their_time_has_come_and_cron_takes_them_away(edge: Edge, flow: Flow):
    tokens = flow.connect()
    edge.rig.set_clock(3_601)
    assert status(flow, tokens["access_token"]) == 401
    tokens = flow.refresh(tokens["refresh_token"]).json()
    assert status(flow, tokens["access_token"]) == 200
    edge.rig.set_clock(3_601 + 31 * DAY_S)
    assert flow.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    edge.rig.set_clock(100 * DAY_S)
    edge.rig.cron(HOURLY, int((time.time() + 100 * DAY_S) * 1000))
    left = {
        table: edge.value(f"select count(*) from {table}")
        for table in ("oauth_token", "oauth_code", "owner_session", "owner_form", "oauth_grant", "oauth_client")
    }
    assert left == dict.fromkeys(left, 0)


def test_cron_expires_thousands_in_steps_that_each_fit_the_plan(edge: Edge):
    edge.rows(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)"
        " insert into oauth_token (sha256, kind, grant_id, scopes, created_at, expires_at)"
        " select printf('%064x', i), 'access', 'x', '', 0, 1 from n"
    )
    since = edge.rig.mark()
    for _ in range(3):
        edge.rig.cron(HOURLY)
    assert edge.value("select count(*) from oauth_token") == 0
    assert all(run.d1.statements <= 50 for run in edge.rig.invocations(since))


# Guessing


def test_a_passphrase_signs_in_beside_the_key_and_guesses_at_it_have_to_wait(edge: Edge, flow: Flow):
    chosen = "seven lanterns drift past the harbour wall"
    flow.sign_in()
    page = flow.browser.get("/account")
    done = flow.browser.submit(page, "/account/passphrase", passphrase=chosen, again=chosen)
    assert done.headers["location"] == "/account?done=set"
    with Flow(flow.url, OWNER_KEY, address="192.0.2.7") as other:
        assert other.sign_in(secret=chosen).status_code == 303
        assert other.browser.get("/account").status_code == 200
    with Flow(flow.url, OWNER_KEY, address="192.0.2.8") as guesser:
        page = guesser.browser.get("/account")
        answers = [guesser.sign_in(page, f"{chosen} {number}") for number in range(8)]
        assert [answer.status_code for answer in answers] == [403] * 5 + [429] * 3
        assert int(answers[-1].headers["retry-after"]) > 0
        assert form_of(answers[-1], "/login")
        assert guesser.sign_in(page, chosen).status_code == 429
        # The key can't be guessed, so it is not shut with the passphrase.
        assert guesser.sign_in(page).status_code == 303
