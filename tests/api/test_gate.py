"""The gate: which host, which origin, which caller."""

import pytest
from starlette.datastructures import Headers

from shoal.api.gate import BearerGate, HostRule, OpenGate, bearer_challenge, in_time_zone, token_hash
from shoal.core.caller import Caller, Scope
from shoal.schema.errors import HostNotAllowed, InsufficientScope, InvalidTime, OriginNotAllowed, Unauthorized

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


NO_TOKEN = Unauthorized("No.", "Send one.")
TOO_NARROW = InsufficientScope("No.", "Ask.", scopes=["memory:read", "memory:write"])


@pytest.mark.parametrize("gate", [GATE, OpenGate(WRITER)])
def test_a_challenge_tells_who_sends_no_token_of_no_error(gate: BearerGate | OpenGate) -> None:
    assert gate.challenge(http(), NO_TOKEN) == "Bearer"
    assert gate.challenge(http(("Authorization", "Bearer x")), NO_TOKEN) == 'Bearer error="invalid_token"'


@pytest.mark.parametrize("gate", [GATE, OpenGate(WRITER)])
def test_a_challenge_names_all_scopes_that_are_needed(gate: BearerGate | OpenGate) -> None:
    told = 'Bearer error="insufficient_scope", scope="memory:read memory:write"'
    assert gate.challenge(http(("Authorization", "Bearer r-token")), TOO_NARROW) == told


def test_a_challenge_has_the_gates_own_parameters_and_the_needed_scopes_win() -> None:
    own = {"scope": "memory:read", "resource_metadata": "https://m.example/.well-known/oauth-protected-resource/mcp"}
    metadata = f'resource_metadata="{own["resource_metadata"]}"'
    sent = http(("Authorization", "Bearer x"))
    assert bearer_challenge(http(), NO_TOKEN, **own) == f'Bearer scope="memory:read", {metadata}'
    assert bearer_challenge(sent, NO_TOKEN, **own) == f'Bearer error="invalid_token", scope="memory:read", {metadata}'
    assert bearer_challenge(sent, TOO_NARROW, **own) == (
        f'Bearer error="insufficient_scope", scope="memory:read memory:write", {metadata}'
    )


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


@pytest.mark.parametrize(
    "host",
    ["", " ", "user@memory.example.com", "memory.example.com:", "memory.example.com:x", "memory.example.com:123456",
     "memory..example.com", ".example.com", "::1", "[::1", "[::1]x", "[fe80::1%25eth0]", "a/b", "a\\b", "a?b", "a#b",
     "https://memory.example.com", "memory.example.com, evil.example", "bücher.example"],
)  # fmt: skip
def test_a_malformed_host_is_refused_even_where_every_name_is_served(host: str) -> None:
    with pytest.raises(HostNotAllowed):
        HostRule.anywhere().check(Headers(raw=[(b"host", host.encode())]))


@pytest.mark.parametrize("host", ["memory.example.com.", "MEMORY.example.com:443", "[2001:DB8::1]:8443", "192.0.2.7"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    check(HostRule.anywhere(), host)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("memory.example.com", "HTTPS://Memory.Example.com"),
        ("memory.example.com:443", "https://memory.example.com"),
        ("memory.example.com", "https://memory.example.com:443"),
        ("memory.example.com:80", "http://memory.example.com"),
        ("[2001:db8::1]:8443", "https://[2001:DB8::1]:8443"),
        ("memory.example.com.", "https://memory.example.com."),
    ],
)
def test_a_page_of_the_server_itself_is_known_however_its_address_is_written(host: str, origin: str) -> None:
    check(HostRule.anywhere(), host, origin)


@pytest.mark.parametrize(
    "origin",
    ["null", "", "*", "https://", "://memory.example.com", "memory.example.com", "https:memory.example.com",
     "https://memory.example.com/", "https://memory.example.com/path", "https://memory.example.com?x",
     "https://memory.example.com#x", "https://user@memory.example.com", "https://memory.example.com@evil.example",
     "https://evil.example@memory.example.com", "https://memory.example.com.", "https://memory.example.com:8443",
     "https://memory.example.com:80", "http://memory.example.com:443", "https://memory.example.com.evil.example",
     "https://memory.example.com https://evil.example", "https://memory.example.com,https://evil.example",
     "chrome-extension://memory.example.com", "file://memory.example.com", "https://memory.example.com\\evil"],
)  # fmt: skip
def test_an_origin_that_only_looks_like_the_servers_own_is_refused(origin: str) -> None:
    with pytest.raises(OriginNotAllowed):
        check(HostRule.anywhere(frozenset({"https://app.example.com"})), "memory.example.com", origin)


def test_two_origin_headers_are_refused_even_when_each_is_allowed() -> None:
    rule = HostRule.anywhere(frozenset({"https://app.example.com"}))
    raw = [(b"host", b"memory.example.com"), *[(b"origin", b"https://app.example.com")] * 2]
    with pytest.raises(OriginNotAllowed):
        rule.check(Headers(raw=raw))


def test_an_origin_of_no_page_is_never_listed_but_an_extensions_may_be() -> None:
    rule = HostRule.anywhere(frozenset({"null", "*://", "chrome-extension://abcdefgh"}))
    assert not rule.may_read("null")
    assert not rule.may_read("*://")
    assert rule.may_read("chrome-extension://abcdefgh")


def test_a_program_that_calls_itself_a_loopback_page_of_another_scheme_is_refused() -> None:
    for origin in ("capacitor://localhost", "ftp://127.0.0.1", "http://[::1", "http://localhost@evil.example"):
        with pytest.raises(OriginNotAllowed):
            check(HostRule.loopback(), "localhost:8377", origin)


def test_what_any_origin_may_read_is_still_served_under_the_servers_names_only() -> None:
    rule = HostRule.loopback()
    rule.check(Headers({"host": "localhost", "origin": "https://evil.example"}), any_origin=True)
    with pytest.raises(HostNotAllowed):
        rule.check(Headers({"host": "evil.example", "origin": "https://evil.example"}), any_origin=True)


def test_the_time_zone_of_the_request_wins() -> None:
    assert in_time_zone(WRITER, Headers({})).time_zone == "UTC"
    assert in_time_zone(WRITER, Headers({"shoal-time-zone": "Asia/Shanghai"})).time_zone == "Asia/Shanghai"


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "", "UTC\x00", "Europe", "x" * 5000]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidTime):
        in_time_zone(WRITER, Headers({"shoal-time-zone": zone}))
