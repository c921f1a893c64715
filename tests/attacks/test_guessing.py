"""Attacks by numbers: guessing at the owner's secrets, many at once and from everywhere; floods; timing."""

import ast
import inspect
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from tests.attacks.attack import Attack, new_address, refused
from tests.edge.edge import OWNER_KEY
from tests.edge.oauth import Flow

from shoal.api import gate
from shoal.api.oauth import client_auth, codes, handles, owner_key, passphrase, registration, sessions, tokens

WRONG_KEY = "A" * 32
CHOSEN = "seven lanterns drift past the harbour wall"


@pytest.fixture(autouse=True)
def no_attempts(attack: Attack) -> Iterator[None]:
    """Nobody has tried before; what was counted here locks nobody out elsewhere."""
    attack.database.rows("delete from owner_attempt")
    yield
    attack.database.rows("delete from owner_attempt")


@pytest.fixture(scope="module")
def chosen() -> list[tuple[Any, ...]]:
    """The stored passphrase, once it was set."""
    return []


@pytest.fixture
def secret(attack: Attack, chosen: list[tuple[Any, ...]]) -> Iterator[str]:
    """A passphrase that the owner has set."""
    if chosen:
        # As it was stored: to stretch it again would take longer than most attacks.
        attack.database.rows(f"insert into owner_passphrase values ({', '.join('?' * len(chosen[0]))})", *chosen[0])
    else:
        flow = attack.flow()
        flow.sign_in()
        flow.browser.submit(flow.browser.get("/account"), "/account/passphrase", passphrase=CHOSEN, again=CHOSEN)
        chosen += attack.database.rows("select * from owner_passphrase")
    yield CHOSEN
    attack.database.rows("delete from owner_passphrase")


def at_once(flow: Flow, secrets: list[str]) -> list[int]:
    """Try secrets all at once; return the statuses."""
    page = flow.browser.get("/account")
    with ThreadPoolExecutor(len(secrets)) as pool:
        return [answer.status_code for answer in pool.map(lambda one: flow.sign_in(page, one), secrets)]


def test_of_twenty_passphrases_at_once_five_are_looked_at(attack: Attack, secret: str):
    statuses = at_once(attack.flow(), [f"{secret} {number}" for number in range(20)])
    assert sorted(statuses) == [403] * 5 + [429] * 15


def test_the_right_passphrase_among_the_refused_does_not_show(attack: Attack, secret: str):
    flow = attack.flow()
    at_once(flow, [f"{secret} {number}" for number in range(8)])
    wrong, right = (flow.sign_in(secret=one) for one in ("wrong wrong wrong", secret))
    assert wrong.status_code == right.status_code == 429
    assert wrong.text == right.text
    assert flow.browser.cookies == {}


def test_of_thirty_keys_at_once_twenty_are_looked_at(attack: Attack):
    statuses = at_once(attack.flow(), [WRONG_KEY] * 30)
    assert sorted(statuses) == [403] * 20 + [429] * 10


def test_waiting_gets_longer_with_each_failure_and_no_longer_by_trying(attack: Attack, secret: str):
    flow = attack.flow()
    page = flow.browser.get("/account")
    waits: list[int] = []
    ahead_s = 0.0
    for _ in range(5):
        flow.sign_in(page, "wrong wrong wrong")
    for _ in range(4):
        answer = flow.sign_in(page, "wrong wrong wrong")
        assert answer.status_code == 429
        waits.append(int(answer.headers["retry-after"]))
        assert int(flow.sign_in(page, "wrong wrong wrong").headers["retry-after"]) <= waits[-1]
        ahead_s += waits[-1] + 1
        attack.rig.set_clock(ahead_s)
        assert flow.sign_in(page, "wrong wrong wrong").status_code == 403
    assert waits[0] <= 60
    assert all(1.8 * one <= other for one, other in pairwise(waits))


def test_from_a_hundred_addresses_passphrases_are_shut_everywhere_and_the_key_still_serves(attack: Attack, secret: str):
    statuses: list[int] = []
    for number in range(3):
        flow = attack.flow(new_address())
        page = flow.browser.get("/account")
        statuses += [flow.sign_in(page, "wrong wrong wrong").status_code for _ in range(5)]
        if number == 0:
            # Seventeen more addresses have done the same meanwhile: to let them would take long.
            attack.database.rows("update owner_attempt set failures = failures + 85 where key = 'passphrase'")
    assert statuses == [403] * 15
    elsewhere = attack.flow(new_address())
    assert elsewhere.sign_in(secret=secret).status_code == 429
    assert elsewhere.sign_in().status_code == 303
    assert elsewhere.browser.get("/account").status_code == 200


def test_another_address_of_the_same_ipv6_network_is_no_other_attacker(attack: Attack, secret: str):
    statuses: list[int] = []
    for number in range(8):
        flow = attack.flow(f"2001:db8:0:1::{number + 1}")
        statuses.append(flow.sign_in(secret="wrong wrong wrong").status_code)
    assert statuses == [403] * 5 + [429] * 3


def test_an_address_that_the_attacker_writes_himself_is_not_believed(attack: Attack, secret: str):
    flow = attack.flow()
    page = flow.browser.get("/account")
    statuses: list[int] = []
    for header in ("x-forwarded-for", "x-real-ip", "true-client-ip", "forwarded", "x-client-ip", "cf-connecting-ipv6"):
        flow.browser.http.headers[header] = f"203.0.113.{len(statuses)}"
        statuses.append(flow.sign_in(page, "wrong wrong wrong").status_code)
    assert statuses == [403] * 5 + [429]


@pytest.mark.parametrize(
    "given", ["", " ", "x", "\u0000", OWNER_KEY[:-1], f"{OWNER_KEY}A", OWNER_KEY[::-1], "0" * 32, "é" * 40]
)
def test_nothing_near_the_key_signs_in(attack: Attack, given: str):
    flow = attack.flow()
    page = flow.browser.get("/account")
    answer = flow.browser.post("/login", {"secret": given, "next": "/account"})
    assert answer.status_code in (400, 403)
    assert flow.browser.cookies == {}
    assert page.status_code == 200


def test_the_answer_does_not_tell_whether_there_is_a_passphrase(attack: Attack):
    one = attack.flow().sign_in(secret="wrong wrong wrong")
    flow = attack.flow()
    flow.sign_in()
    flow.browser.submit(flow.browser.get("/account"), "/account/passphrase", passphrase=CHOSEN, again=CHOSEN)
    other = attack.flow().sign_in(secret="wrong wrong wrong")
    attack.database.rows("delete from owner_passphrase")
    assert (one.status_code, one.text) == (other.status_code, other.text)


def test_the_owners_key_is_no_secret_of_any_app(attack: Attack):
    flow = attack.flow()
    flow.register(token_endpoint_auth_method="client_secret_post")
    refused(flow.token(grant_type="refresh_token", refresh_token="x", client_secret=OWNER_KEY), "invalid_client", 401)


def test_a_flood_of_registrations_from_one_address_stops_that_address_alone(attack: Attack):
    attack.flooding = True
    flow = attack.flow()
    statuses = [flow.register().status_code for _ in range(registration.NETWORK_HOURLY + 5)]
    assert statuses[: registration.NETWORK_HOURLY] == [201] * registration.NETWORK_HOURLY
    assert set(statuses[registration.NETWORK_HOURLY :]) <= {429, 503}
    assert attack.flow().register().status_code == 201


def test_thirty_registrations_at_once_get_no_further(attack: Attack):
    attack.flooding = True
    flow = attack.flow()
    with ThreadPoolExecutor(10) as pool:
        answers = list(
            pool.map(lambda _: flow.app.post("/register", json={"redirect_uris": ["https://a.example/"]}), range(40))
        )
    assert [answer.status_code for answer in answers].count(201) == registration.NETWORK_HOURLY


def test_looking_at_the_consent_page_writes_nothing_for_a_stranger(attack: Attack):
    flow = attack.flow()
    flow.register()
    since = attack.rig.mark()
    for _ in range(5):
        flow.ask()
        flow.ask(redirect_uri="https://evil.example/")
        flow.ask(client_id="0" * 32)
    assert sum(run.d1.rows_written for run in attack.rig.invocations(since)) == 0


MALFORMED = [
    "",
    "x",
    "shoal_c_" + "x" * 42,
    "shoal_c_" + "x" * 44,
    "shoal_c_" + "é" * 43,
    "x" * 10_000,
    "shoal_a_" + "x" * 43,
]


@pytest.mark.parametrize("code", MALFORMED, ids=range(len(MALFORMED)))
def test_what_can_be_no_code_or_refresh_token_is_not_looked_up(attack: Attack, code: str):
    flow = attack.flow(registered=True)
    since = attack.rig.mark()
    flow.exchange(code)
    flow.refresh(code)
    # Only who asks is looked up.
    assert sum(run.d1.statements for run in attack.rig.invocations(since)) <= 2


# What takes as long whatever is wrong


def source(module: ModuleType) -> str:
    """Return a module's code."""
    return inspect.getsource(module)


@pytest.mark.parametrize(
    "module", [owner_key, client_auth, codes, passphrase, gate], ids=lambda module: module.__name__
)
def test_secrets_are_compared_in_constant_time(module: ModuleType):
    calls = [node for node in ast.walk(ast.parse(source(module))) if isinstance(node, ast.Attribute)]
    assert "compare_digest" in {call.attr for call in calls}
    for node in ast.walk(ast.parse(source(module))):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            assert not names & {"secret", "digest", "verifier", "made", "key_sha256", "known", "token"}, ast.unparse(
                node
            )


@pytest.mark.parametrize("module", [codes, tokens, sessions, handles, registration], ids=lambda module: module.__name__)
def test_secrets_are_looked_up_by_their_whole_hash_alone(module: ModuleType):
    assert not re.search(r"\b(like|glob|substr|instr)\b", source(module))
    assert re.search(r"sha256 = \?\d", source(module))
