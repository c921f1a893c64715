import base64
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from starlette.datastructures import Headers
from tests.api.oauth.doubles import Clock, ScriptedFetcher

from shoal.api.oauth import access, handles, identity, sessions
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.api.oauth.sessions import Method

TEAM = "example.cloudflareaccess.com"
AUDIENCE = "32eafc7626e974616deaf0dc3ce63d7b"
CERTS = f"https://{TEAM}/cdn-cgi/access/certs"
KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwk(kid: str, key: rsa.RSAPrivateKey = KEY, **more: Any) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    n, e = (base64url(number.to_bytes((number.bit_length() + 7) // 8)) for number in (numbers.n, numbers.e))
    return {"kid": kid, "kty": "RSA", "alg": "RS256", "use": "sig", "n": n, "e": e, **more}


def certs(*keys: Any) -> Fetched:
    return Fetched(200, {"content-type": "application/json"}, json.dumps({"keys": keys}).encode())


def signed(head: str, claims: str, key: rsa.RSAPrivateKey = KEY) -> str:
    text = f"{base64url(head.encode())}.{base64url(claims.encode())}"
    return f"{text}.{base64url(key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"


def claims(clock: Clock, **changed: Any) -> dict[str, Any]:
    now_s = clock() // 1000
    told = {
        "aud": [AUDIENCE], "email": "owner@example.com", "exp": now_s + 3_600, "iat": now_s, "nbf": now_s,
        "iss": f"https://{TEAM}", "type": "app", "identity_nonce": "6ei69kawdKzMIAPF", "sub": "7335d417",
        "country": "CN",
    }  # fmt: skip
    return {name: value for name, value in {**told, **changed}.items() if value is not ...}


def assertion(clock: Clock, kid: str = "one", key: rsa.RSAPrivateKey = KEY, **changed: Any) -> str:
    return signed(json.dumps({"alg": "RS256", "kid": kid, "typ": "JWT"}), json.dumps(claims(clock, **changed)), key)


def carrying(*assertions: str) -> Headers:
    return Headers(raw=[(b"cf-access-jwt-assertion", text.encode("latin-1")) for text in assertions])


@pytest.fixture(autouse=True)
def _no_keys_known() -> Iterator[None]:
    access.forget_keys()
    yield
    access.forget_keys()


@pytest.fixture
def behind(authority: Authority, fetcher: ScriptedFetcher) -> Authority:
    """An authority behind Access."""
    fetcher.answers[CERTS] = certs(jwk("one"), jwk("two", OTHER_KEY))
    return replace(authority, settings=replace(authority.settings, access_team=TEAM, access_audience=AUDIENCE))


@pytest.fixture
def reasons(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return what the log says was wrong."""
    caplog.set_level(logging.WARNING, logger="shoal.oauth")
    return lambda: [record.getMessage().removeprefix("Access assertion refused: ") for record in caplog.records]


async def test_who_comes_through_access_is_signed_in(behind: Authority, clock: Clock):
    session = await access.current(behind, carrying(assertion(clock)))
    assert session is not None
    assert session.method is Method.ACCESS
    assert session.expires_at == clock() + 3_660_000
    assert await identity.current(behind, carrying(assertion(clock))) == session


async def test_forms_are_bound_to_the_person_whatever_the_assertion(behind: Authority, clock: Clock):
    first = await access.current(behind, carrying(assertion(clock)))
    assert first is not None
    handle = await handles.show(behind, first, "consent", {"a": 1})
    clock.forward(seconds=300)
    renewed = await access.current(behind, carrying(assertion(clock, "two", OTHER_KEY)))
    stranger = await access.current(behind, carrying(assertion(clock, sub="another")))
    assert renewed is not None
    assert stranger is not None
    assert renewed.expires_at > first.expires_at
    assert renewed.created_at == first.created_at
    with pytest.raises(handles.HandleRefused):
        await handles.take(behind, stranger, "consent", handle)
    assert await handles.take(behind, renewed, "consent", handle) == {"a": 1}


async def test_the_same_assertion_is_written_once_and_comes_back_after_an_end(behind: Authority, clock: Clock):
    headers = carrying(assertion(clock))
    session = await access.current(behind, headers)
    assert session is not None
    (before,) = await behind.database.query("select total_changes() as n")
    assert await access.current(behind, headers) == session
    assert await behind.database.query("select total_changes() as n") == [before]
    await sessions.end_all(behind)
    assert await access.current(behind, headers) == session


async def test_a_session_of_long_ago_begins_anew(behind: Authority, clock: Clock):
    await access.current(behind, carrying(assertion(clock)))
    clock.forward(days=3)
    session = await access.current(behind, carrying(assertion(clock)))
    assert session is not None
    assert session.created_at == clock()


async def test_a_long_assertion_is_a_session_of_twelve_hours_at_a_time(behind: Authority, clock: Clock):
    session = await access.current(behind, carrying(assertion(clock, exp=2**39)))
    assert session is not None
    assert session.expires_at == clock() + 12 * 3_600_000


async def test_a_cookie_counts_before_access(behind: Authority, clock: Clock):
    value = await sessions.begin(behind, Method.KEY)
    headers = Headers({"cookie": f"{sessions.COOKIE}={value}", access.HEADER: assertion(clock)})
    session = await identity.current(behind, headers)
    assert session is not None
    assert session.method is Method.KEY


@pytest.mark.parametrize("missing", [{"access_team": ""}, {"access_audience": ""}])
async def test_without_both_settings_assertions_mean_nothing(
    behind: Authority, clock: Clock, fetcher: ScriptedFetcher, missing: dict[str, str]
):
    bare = replace(behind, settings=replace(behind.settings, **missing))  # pyright: ignore[reportArgumentType]
    assert await access.current(bare, carrying(assertion(clock))) is None
    assert fetcher.asked == []


async def test_without_an_assertion_nothing_is_fetched_or_logged(
    behind: Authority, fetcher: ScriptedFetcher, reasons: Callable[[], list[str]]
):
    assert await access.current(behind, Headers({"cookie": "CF_Authorization=x"})) is None
    assert fetcher.asked == reasons() == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://evil.cloudflareaccess.com"}, "issuer"),
        ({"iss": f"https://{TEAM}/"}, "issuer"),
        ({"iss": ...}, "issuer"),
        ({"aud": ["another"]}, "audience"),
        ({"aud": [AUDIENCE + "0"]}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": {AUDIENCE: 1}}, "audience"),
        ({"aud": ...}, "audience"),
        ({"exp": 1}, "expired"),
        ({"exp": ...}, "expired"),
        ({"exp": "9999999999"}, "expired"),
        ({"exp": True}, "expired"),
        ({"exp": float("nan")}, "expired"),
        ({"exp": float("inf")}, "expired"),
        ({"exp": 10**400}, "expired"),
        ({"exp": [9999999999]}, "expired"),
        ({"iat": 2**39}, "issued_later"),
        ({"iat": ...}, "issued_later"),
        ({"nbf": 2**39}, "not_yet"),
        ({"nbf": None}, "not_yet"),
        ({"sub": ""}, "nobody"),
        ({"sub": ...}, "nobody"),
        ({"sub": {"a": 1}}, "nobody"),
        ({"sub": "x" * 257}, "nobody"),
        ({"type": "org"}, "nobody"),
    ],
)
async def test_claims_that_do_not_fit_are_refused(
    behind: Authority, clock: Clock, reasons: Callable[[], list[str]], changed: dict[str, Any], reason: str
):
    assert await access.current(behind, carrying(assertion(clock, **changed))) is None
    assert reasons() == [reason]
    assert await behind.database.query("select 1 from owner_session") == []


async def test_one_audience_may_stand_by_itself_and_nbf_may_be_left_out(behind: Authority, clock: Clock):
    assert await access.current(behind, carrying(assertion(clock, aud=AUDIENCE, nbf=..., type=...)))


async def test_clocks_may_differ_by_a_minute(behind: Authority, clock: Clock):
    now_s = clock() // 1000
    assert await access.current(behind, carrying(assertion(clock, exp=now_s - 59)))
    assert await access.current(behind, carrying(assertion(clock, iat=now_s + 60, nbf=now_s + 60)))
    assert await access.current(behind, carrying(assertion(clock, exp=now_s - 60))) is None
    assert await access.current(behind, carrying(assertion(clock, iat=now_s + 61))) is None
    assert await access.current(behind, carrying(assertion(clock, nbf=now_s + 61))) is None


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ('{"alg": "none", "kid": "one"}', "algorithm"),
        ('{"alg": "HS256", "kid": "one"}', "algorithm"),
        ('{"alg": "rs256", "kid": "one"}', "algorithm"),
        ('{"alg": ["RS256"], "kid": "one"}', "algorithm"),
        ('{"kid": "one"}', "algorithm"),
        ('{"alg": "RS256", "kid": "one", "crit": ["exp"]}', "algorithm"),
        ('{"alg": "RS256"}', "no_kid"),
        ('{"alg": "RS256", "kid": ["one"]}', "no_kid"),
        ('{"alg": "RS256", "kid": ""}', "no_kid"),
        ('{"alg": "RS256", "kid": "three"}', "unknown_kid"),
        ('{"alg": "RS256", "kid": "two"}', "signature"),
        ("[]", "malformed"),
        ("", "malformed"),
        ("[" * 600, "malformed"),
        (" " * 900, "malformed"),
    ],
)
async def test_heads_that_do_not_fit_are_refused(
    behind: Authority, clock: Clock, reasons: Callable[[], list[str]], head: str, reason: str
):
    assert await access.current(behind, carrying(signed(head, json.dumps(claims(clock))))) is None
    assert reasons() == [reason]


async def test_a_key_that_the_assertion_brings_along_counts_for_nothing(
    behind: Authority, clock: Clock, fetcher: ScriptedFetcher, reasons: Callable[[], list[str]]
):
    head = {"alg": "RS256", "kid": "one", "jwk": jwk("one", OTHER_KEY), "jku": "https://evil.example/keys"}
    forged = signed(json.dumps(head), json.dumps(claims(clock)), OTHER_KEY)
    assert await access.current(behind, carrying(forged)) is None
    assert fetcher.asked == [CERTS]
    assert all(reason in ("signature", "malformed") for reason in reasons())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda good: good[:-8] + ("AAAAAAAA" if good[-8:] != "AAAAAAAA" else "BBBBBBBB"),
        lambda good: good.rpartition(".")[0] + ".",
        lambda good: good.rpartition(".")[0] + ".A",
        lambda good: good.rpartition(".")[0],
        lambda good: good + ".x",
        lambda good: good.replace(".", ".A", 1),
        lambda good: " " + good,
        lambda good: "Bearer " + good,
        lambda good: good + "=",
        lambda good: "",
        lambda good: "..",
        lambda good: "\xff.\xfe.\xfd",
        lambda good: "A" * 9_000,
        lambda good: "A" * 2_000 + "." + good,
    ],
)
async def test_a_spoilt_assertion_is_refused_and_never_quoted(
    behind: Authority, clock: Clock, reasons: Callable[[], list[str]], spoil: Callable[[str], str]
):
    assert await access.current(behind, carrying(spoil(assertion(clock)))) is None
    (reason,) = reasons()
    assert reason in ("malformed", "signature", "too_long")


async def test_two_assertions_are_none(behind: Authority, clock: Clock, reasons: Callable[[], list[str]]):
    assert await access.current(behind, carrying(assertion(clock), assertion(clock))) is None
    assert reasons() == ["several"]


async def test_claims_that_are_signed_but_no_object_are_refused(behind: Authority, reasons: Callable[[], list[str]]):
    for text in ("[]", "x", "[" * 5_000):
        assert await access.current(behind, carrying(signed('{"alg": "RS256", "kid": "one"}', text))) is None
    assert reasons() == ["malformed"] * 3


async def test_keys_are_fetched_once_an_hour(behind: Authority, clock: Clock, fetcher: ScriptedFetcher):
    for _ in range(12):
        assert await access.current(behind, carrying(assertion(clock)))
        clock.forward(seconds=299)
    assert fetcher.asked == [CERTS]
    clock.forward(seconds=12)
    assert await access.current(behind, carrying(assertion(clock)))
    assert fetcher.asked == [CERTS] * 2


async def test_a_new_key_is_fetched_when_it_first_comes_but_at_most_once_a_minute(
    behind: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    assert await access.current(behind, carrying(assertion(clock)))
    fetcher.answers[CERTS] = certs(jwk("new", OTHER_KEY))
    for _ in range(5):
        assert await access.current(behind, carrying(assertion(clock, "new", OTHER_KEY))) is None
    assert fetcher.asked == [CERTS]
    clock.forward(seconds=60)
    assert await access.current(behind, carrying(assertion(clock, "new", OTHER_KEY)))
    assert await access.current(behind, carrying(assertion(clock))) is None, "the old key is gone"
    assert fetcher.asked == [CERTS] * 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (FetchFailed("no such host"), "keys_unreachable"),
        (Fetched(302, {"location": "https://evil.example/"}, b""), "keys_unreachable"),
        (Fetched(500, {}, b"{}"), "keys_unreachable"),
        (Fetched(200, {}, b" " * 70_000), "keys_unreachable"),
        (Fetched(200, {}, b"<html>"), "keys_unreadable"),
        (Fetched(200, {}, b"\xff\xfe\xfd"), "keys_unreadable"),
        (Fetched(200, {}, b"[" * 60_000), "keys_unreadable"),
        (Fetched(200, {}, b"[]"), "keys_unreadable"),
        (Fetched(200, {}, b"{}"), "keys_unreadable"),
        (Fetched(200, {}, b'{"keys": 1}'), "keys_unreadable"),
        (Fetched(200, {}, b'{"keys": "one"}'), "unknown_kid"),
        (certs(None, [], {}, {"kid": "one"}), "unknown_kid"),
        (certs(jwk("one", kty="EC")), "unknown_kid"),
        (certs(jwk("one", use="enc")), "unknown_kid"),
        (certs(jwk("one", alg="RS512")), "unknown_kid"),
        (certs(jwk("one", n=5), jwk("one", e="?"), jwk("one", n="")), "unknown_kid"),
    ],
)
async def test_without_usable_keys_nobody_comes_in_and_they_are_asked_for_once_a_minute(
    behind: Authority, clock: Clock, fetcher: ScriptedFetcher, reasons: Callable[[], list[str]],
    answer: Fetched | Exception, reason: str,
):  # fmt: skip
    fetcher.answers[CERTS] = answer
    assert await access.current(behind, carrying(assertion(clock))) is None
    assert reasons() == [reason]
    assert await access.current(behind, carrying(assertion(clock))) is None
    assert fetcher.asked == [CERTS]
    fetcher.answers[CERTS] = certs(jwk("one"))
    clock.forward(seconds=60)
    assert await access.current(behind, carrying(assertion(clock)))


async def test_while_the_team_cannot_be_reached_known_keys_count_for_their_hour(
    behind: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    assert await access.current(behind, carrying(assertion(clock)))
    fetcher.answers[CERTS] = FetchFailed("no answer in time")
    clock.forward(seconds=3_000)
    # A made-up key makes us ask, in vain.
    assert await access.current(behind, carrying(assertion(clock, "made up"))) is None
    assert await access.current(behind, carrying(assertion(clock)))
    clock.forward(seconds=600)
    assert await access.current(behind, carrying(assertion(clock))) is None
