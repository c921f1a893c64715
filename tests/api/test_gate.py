"""The gate: which host, which origin, which caller."""

import pytest
from starlette.datastructures import Headers

from shoal.api.gate import BearerGate, HostRule, OpenGate, in_time_zone, token_hash
from shoal.core.caller import Caller, Scope
from shoal.schema.errors import HostNotAllowed, InvalidTime, OriginNotAllowed, Unauthorized

READER = Caller(scopes=frozenset({Scope.READ}), client="reader")
WRITER = Caller(client="writer")
GATE = BearerGate({token_hash("r-token"): READER, token_hash("w-token"): WRITER})


def http(*headers: tuple[str, str]) -> dict:
    return {"type": "http", "headers": [(k.lower().encode(), v.encode()) for k, v in headers]}


async def test_a_token_leads_to_its_caller() -> None:
    assert await GATE.admit(http(("Authorization", "Bearer r-token"))) is READER
    assert await GATE.admit(http(("Authorization", "bearer  w-token "))) is WRITER


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Basic r-token")],
        [("Authorization", "Bearer other")],
        [("Authorization", f"Bearer {token_hash('r-token')}")],
        [("Authorization", "Bearer r-token"), ("Authorization", "Bearer w-token")],
    ],
)
async def test_without_exactly_one_known_token_nobody_comes_in(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(Unauthorized):
        await GATE.admit(http(*headers))


async def test_the_open_gate_lets_everyone_in_as_one_caller() -> None:
    assert await OpenGate(WRITER).admit(http()) is WRITER


def test_a_gate_shows_no_token_when_printed() -> None:
    assert token_hash("r-token") not in repr(GATE)


def check(rule: HostRule, host: str | None, origin: str | None = None) -> None:
    pairs = {**({"host": host} if host is not None else {}), **({"origin": origin} if origin is not None else {})}
    rule.check(Headers(pairs))


@pytest.mark.parametrize("host", ["localhost", "localhost:8377", "127.0.0.1:1", "[::1]:8377", "[::1]", "LOCALHOST:80"])
def test_loopback_names_are_served_with_any_port(host: str) -> None:
    check(HostRule.loopback(), host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "localhost.evil.example", "localhost:80.evil.example", "127.0.0.1.evil.example",
     "localhost:", "localhost:123456", "evil.example:8377", "127.0.0.2", "localhost:8377, evil.example"],
)  # fmt: skip
def test_a_rebound_name_is_refused(host: str | None) -> None:
    with pytest.raises(HostNotAllowed):
        check(HostRule.loopback(), host)


def test_two_host_headers_are_refused() -> None:
    with pytest.raises(HostNotAllowed):
        HostRule.loopback().check(Headers(raw=[(b"host", b"localhost"), (b"host", b"localhost")]))


@pytest.mark.parametrize("origin", ["http://localhost:8377", "http://127.0.0.1:5173", "https://localhost"])
def test_loopback_pages_may_call_but_read_nothing(origin: str) -> None:
    check(HostRule.loopback(), "localhost:8377", origin)
    assert not HostRule.loopback().may_read(origin)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", ""])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(OriginNotAllowed):
        check(HostRule.loopback(), "localhost:8377", origin)


def test_a_server_with_a_name_serves_its_own_pages_and_the_listed_ones() -> None:
    rule = HostRule(frozenset({"memory.example.com"}), frozenset({"https://app.example.com"}))
    check(rule, "memory.example.com", "https://memory.example.com")
    check(rule, "memory.example.com", "https://app.example.com")
    assert rule.may_read("https://app.example.com")
    for host, origin in [("memory.example.com", "http://localhost:3000"), ("memory.example.com", "https://x.example")]:
        with pytest.raises(OriginNotAllowed):
            check(rule, host, origin)
    with pytest.raises(HostNotAllowed):
        check(rule, "localhost")


def test_a_server_on_the_internet_is_served_under_any_name_but_not_to_any_page() -> None:
    rule = HostRule.anywhere(frozenset({"https://app.example.com"}))
    for host in ("memory.example.com", "shoal.someone.workers.dev"):
        rule.check(Headers({"host": host}))
        rule.check(Headers({"host": host, "origin": f"https://{host}"}))
        rule.check(Headers({"host": host, "origin": "https://app.example.com"}))
        with pytest.raises(OriginNotAllowed):
            rule.check(Headers({"host": host, "origin": "https://evil.example.com"}))
    assert rule.may_read("https://app.example.com")
    assert not rule.may_read("https://evil.example.com")


def test_the_time_zone_of_the_request_wins() -> None:
    assert in_time_zone(WRITER, Headers({})).time_zone == "UTC"
    assert in_time_zone(WRITER, Headers({"shoal-time-zone": "Asia/Shanghai"})).time_zone == "Asia/Shanghai"


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "", "UTC\x00", "Europe", "x" * 5000]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidTime):
        in_time_zone(WRITER, Headers({"shoal-time-zone": zone}))
