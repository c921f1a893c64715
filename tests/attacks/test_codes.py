"""Attacks with authorization codes: used twice, by others, elsewhere, too late, guessed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.attacks.attack import Attack, refused
from tests.edge.oauth import Flow, told_at_redirect


@pytest.fixture
def flow(attack: Attack) -> Flow:
    return attack.flow(registered=True, signed_in=True)


def status(attack: Attack, token: str) -> int:
    """Return what a call with a token is answered."""
    return attack.client(token).get("/api/v1/stats").status_code


def test_a_code_used_twice_ends_all_that_came_of_it(attack: Attack, flow: Flow):
    code = flow.allowed()
    tokens = flow.exchange(code).json()
    assert status(attack, tokens["access_token"]) == 200
    refused(flow.exchange(code), "invalid_grant")
    assert status(attack, tokens["access_token"]) == 401
    refused(flow.refresh(tokens["refresh_token"]), "invalid_grant")


def test_of_ten_who_use_a_code_at_once_at_most_one_gets_tokens_and_none_keeps_them(attack: Attack, flow: Flow):
    code = flow.allowed()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: flow.exchange(code), range(10)))
    won = [answer.json()["access_token"] for answer in answers if answer.is_success]
    assert len(won) <= 1
    assert all(answer.json()["error"] == "invalid_grant" for answer in answers if answer.is_error)
    assert [status(attack, token) for token in won] == [401] * len(won)


def test_another_app_cant_redeem_a_stolen_code(attack: Attack, flow: Flow):
    thief = attack.flow()
    thief.register()
    code = flow.allowed()
    thief.pkce = flow.pkce
    refused(thief.exchange(code), "invalid_grant")
    # Nor does it use the code up for whom it is.
    assert flow.exchange(code).status_code == 200


def test_a_code_injected_into_another_apps_flow_fits_no_verifier(attack: Attack, flow: Flow):
    victim = attack.flow()
    victim.register()
    code = flow.allowed()
    victim.allowed()
    refused(victim.exchange(code), "invalid_grant")


def test_a_code_injected_into_another_session_of_the_same_app_fits_no_verifier(attack: Attack, flow: Flow):
    victim = attack.flow()
    victim.client_id = flow.client_id
    refused(victim.exchange(flow.allowed()), "invalid_grant")


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_code_of_an_app_with_a_secret_is_worth_nothing_without_it(attack: Attack, method: str):
    flow = attack.flow()
    flow.register(token_endpoint_auth_method=method)
    code, secret = flow.allowed(), flow.client_secret or ""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": flow.redirect_uri,
        "code_verifier": flow.pkce.verifier,
    }
    own = {"client_id": flow.client_id}
    tries: list[Callable[[], httpx.Response]] = [
        lambda: flow.app.post("/token", data={**form, **own}),
        lambda: flow.app.post("/token", data={**form, **own, "client_secret": ""}),
        lambda: flow.app.post("/token", data={**form, **own, "client_secret": "x"}),
        lambda: flow.app.post("/token", data={**form, **own, "client_secret": secret[:-1]}),
        lambda: flow.app.post("/token", data={**form, **own, "client_secret": secret.upper()}),
        lambda: flow.app.post("/token", data=form, auth=(flow.client_id, "x")),
        lambda: flow.app.post("/token", data=form, auth=(flow.client_id, "")),
        lambda: flow.app.post("/token", data=form, auth=(flow.client_id, "0" * 64)),
        lambda: flow.app.post("/token", data=form, headers={"authorization": f"Bearer {secret}"}),
    ]
    if method == "client_secret_basic":  # the secret in the other place
        tries.append(lambda: flow.app.post("/token", data={**form, **own, "client_secret": secret}))
    else:
        tries.append(lambda: flow.app.post("/token", data=form, auth=(flow.client_id, secret)))
    for attempt in tries:
        refused(attempt(), "invalid_client", 401)
    both = flow.app.post("/token", data={**form, **own, "client_secret": secret}, auth=(flow.client_id, secret))
    refused(both, "invalid_request")
    # After all that, the code is still good for whom it is.
    if method == "client_secret_basic":
        assert flow.app.post("/token", data=form, auth=(flow.client_id, secret)).status_code == 200
    else:
        assert flow.app.post("/token", data={**form, **own, "client_secret": secret}).status_code == 200


def test_the_redirect_names_the_issuer_that_the_metadata_names(attack: Attack, flow: Flow):
    theirs = "https://evil.example"
    answer = told_at_redirect(flow.decide(flow.consent_page(iss=theirs, issuer=theirs)))
    _, server = flow.discover()
    assert answer["iss"] == server["issuer"] == attack.url
    assert server["authorization_response_iss_parameter_supported"] is True
    denied = told_at_redirect(flow.decide(flow.consent_page(), decision="deny"))
    assert denied["iss"] == server["issuer"]


def test_an_expired_code_is_worth_nothing(attack: Attack, flow: Flow):
    code = flow.allowed()
    attack.rig.set_clock(61)
    refused(flow.exchange(code), "invalid_grant")


def test_a_code_of_a_connection_that_the_owner_has_ended_is_worth_nothing(attack: Attack, flow: Flow):
    code = flow.allowed()
    attack.database.rows("update oauth_grant set revoked_at = 1 where activated_at is null")
    refused(flow.exchange(code), "invalid_grant")


def test_a_denied_request_leaves_no_code(attack: Attack, flow: Flow):
    with attack.letting_nobody_in():
        told = told_at_redirect(flow.decide(flow.consent_page(), decision="deny"))
    assert (told["error"], "code" in told) == ("access_denied", False)


CHANGED: dict[str, Callable[[str], str]] = {
    "in-capitals": str.upper,
    "in-lower-case": str.lower,
    "its-beginning": lambda code: code[:-1],
    "with-more": lambda code: f"{code}A",
    "with-another-end": lambda code: code[:-1] + ("A" if code[-1] != "A" else "B"),
    "with-a-space": lambda code: f"{code} ",
    "with-a-line-break": lambda code: f"{code}\n",
    "as-a-pattern": lambda code: f"{code[:12]}%",
    "as-another-kind": lambda code: code.replace("shoal_c_", "shoal_r_"),
    "as-its-own-hash": lambda _: "0" * 64,
    "as-sql": lambda _: "' or 1=1 --",
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_nothing_like_a_code_is_one(attack: Attack, flow: Flow, change: Callable[[str], str]):
    code = flow.allowed()
    refused(flow.exchange(change(code)), "invalid_grant")
    assert flow.exchange(code).status_code == 200


def test_the_database_holds_no_code_and_no_token_that_could_be_used(attack: Attack, flow: Flow):
    code = flow.allowed()
    tokens = flow.exchange(code).json()
    kept = repr(
        [
            attack.database.rows(f"select * from {table}")
            for table in ("oauth_code", "oauth_token", "oauth_grant", "oauth_client", "owner_session", "owner_form")
        ]
    )
    for secret in (code, tokens["access_token"], tokens["refresh_token"], *flow.browser.cookies.values()):
        assert secret not in kept and secret[8:] not in kept
    for (digest,) in attack.database.rows("select sha256 from oauth_code union all select sha256 from oauth_token"):
        assert status(attack, digest) == 401


@pytest.mark.parametrize("resource", ["https://evil.example/mcp", "/mcp", "{url}/mcp/x", "{url}/mcp#x", "{url}/mcp?x"])
def test_a_code_for_another_resource_is_never_made_nor_exchanged(attack: Attack, flow: Flow, resource: str):
    wanted = resource.format(url=attack.url)
    with attack.letting_nobody_in():
        assert told_at_redirect(flow.ask(resource=wanted))["error"] == "invalid_target"
    code = flow.allowed()
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": flow.redirect_uri}
    refused(flow.token(**form, code_verifier=flow.pkce.verifier, resource=wanted), "invalid_target")


@pytest.mark.parametrize(
    "grant_type",
    ["password", "client_credentials", "implicit", "urn:ietf:params:oauth:grant-type:device_code", "", "REFRESH_TOKEN"],
)
def test_no_other_grant_type_hands_out_tokens(attack: Attack, flow: Flow, grant_type: str):
    answer = flow.token(grant_type=grant_type, username="owner", password=flow.owner_key, code=flow.allowed())
    assert answer.json()["error"] in ("unsupported_grant_type", "invalid_request")
    assert "access_token" not in answer.text
