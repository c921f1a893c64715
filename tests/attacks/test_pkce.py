"""Attacks that leave PKCE out, or weaken it (RFC 7636; RFC 9700, 4.8)."""

from typing import Any

import pytest
from tests.attacks.attack import Attack, refused
from tests.edge.oauth import Flow, Pkce, told_at_redirect

WEAK: dict[str, dict[str, Any]] = {
    "no-pkce-at-all": {"code_challenge": "", "code_challenge_method": ""},
    "no-challenge": {"code_challenge": ""},
    "no-method-which-would-be-plain": {"code_challenge_method": ""},
    "plain": {"code_challenge_method": "plain"},
    "an-unknown-method": {"code_challenge_method": "S512"},
    "the-method-in-lower-case": {"code_challenge_method": "s256"},
    "the-method-none": {"code_challenge_method": "none"},
    "a-short-challenge": {"code_challenge": "a" * 42},
    "a-long-challenge": {"code_challenge": "a" * 44},
    "a-padded-challenge": {"code_challenge": "a" * 42 + "="},
    "a-challenge-of-other-characters": {"code_challenge": "+" * 43},
    "a-challenge-with-a-line-break": {"code_challenge": "a" * 43 + "\n"},
    "two-challenges": {"code_challenge": ["a" * 43, "b" * 43]},
    "two-methods": {"code_challenge_method": ["S256", "plain"]},
    "two-methods-the-other-way-round": {"code_challenge_method": ["plain", "S256"]},
}


@pytest.fixture
def flow(attack: Attack) -> Flow:
    return attack.flow(registered=True, signed_in=True)


@pytest.mark.parametrize("different", WEAK.values(), ids=WEAK)
def test_a_request_without_strong_pkce_is_never_put_to_the_owner(attack: Attack, flow: Flow, different: dict[str, Any]):
    asked = {name: value for name, value in {**flow.request(), **different}.items() if value}
    with attack.letting_nobody_in():
        told = told_at_redirect(flow.browser.get("/authorize", params=asked))
    assert told["error"] == "invalid_request"
    assert "code" not in told
    assert told["iss"] == attack.url


VERIFIERS = {
    "of-another-flow": Pkce.new().verifier,
    "too-short": "a" * 42,
    "too-long": "a" * 129,
    "of-other-characters": "+" * 43,
    "one-character": "a",
}


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=VERIFIERS)
def test_a_verifier_that_does_not_fit_gets_nothing_and_uses_the_code_up(attack: Attack, flow: Flow, verifier: str):
    code, own = flow.allowed(), flow.pkce
    flow.pkce = Pkce(verifier, own.challenge)
    refused(flow.exchange(code), "invalid_grant")
    flow.pkce = own
    refused(flow.exchange(code), "invalid_grant")


def test_the_challenge_is_not_its_own_verifier(attack: Attack, flow: Flow):
    code = flow.allowed()
    flow.pkce = Pkce(flow.pkce.challenge, flow.pkce.challenge)
    refused(flow.exchange(code), "invalid_grant")


def test_a_verifier_with_its_last_character_changed_does_not_fit(attack: Attack, flow: Flow):
    code, verifier = flow.allowed(), flow.pkce.verifier
    flow.pkce = Pkce(verifier[:-1] + ("A" if verifier[-1] != "A" else "B"), flow.pkce.challenge)
    refused(flow.exchange(code), "invalid_grant")


def test_a_code_without_a_verifier_is_worth_nothing(attack: Attack, flow: Flow):
    code = flow.allowed()
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": flow.redirect_uri}
    refused(flow.token(**form), "invalid_request")
    refused(flow.token(**form, code_challenge_method="plain"), "invalid_request")
    refused(
        flow.app.post("/token", data={**form, "client_id": flow.client_id, "code_verifier": ["a", "b"]}),
        "invalid_request",
    )


def test_two_verifiers_are_none(attack: Attack, flow: Flow):
    form = {"grant_type": "authorization_code", "code": flow.allowed(), "redirect_uri": flow.redirect_uri}
    both = [flow.pkce.verifier, Pkce.new().verifier]
    refused(
        flow.app.post("/token", data={**form, "client_id": flow.client_id, "code_verifier": both}), "invalid_request"
    )


def test_a_form_cant_bring_a_challenge_of_its_own(attack: Attack, flow: Flow):
    theirs = Pkce.new()
    page = flow.consent_page()
    answer = flow.decide(page, code_challenge=theirs.challenge, code_challenge_method="S256")
    code, own = told_at_redirect(answer)["code"], flow.pkce
    flow.pkce = theirs
    refused(flow.exchange(code), "invalid_grant")
    flow.pkce = own
    refused(flow.exchange(code), "invalid_grant")
