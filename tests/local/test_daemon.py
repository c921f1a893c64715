import ipaddress
import socket
from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from shoal.local.daemon import bound_address, gate_of, hosts_of, listen
from shoal.local.home import Home
from shoal.local.settings import load
from shoal.schema.errors import HostNotAllowed, OriginNotAllowed, PortInUse, Unauthorized


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program has."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    with pytest.raises(PortInUse, match=str(taken)) as caught:
        listen("127.0.0.1", taken, chosen=True)
    assert "--port" in caught.value.mend


def test_a_usual_port_that_is_taken_is_replaced_by_a_free_one(taken: int) -> None:
    with listen("127.0.0.1", taken, chosen=False) as listener:
        assert listener.getsockname()[1] not in (taken, 0)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(PortInUse):
        listen("192.0.2.1", 0, chosen=False)


def headers(token: str | None) -> dict[str, object]:
    return {"type": "http", "headers": [] if token is None else [(b"authorization", f"Bearer {token}".encode())]}


async def test_without_a_token_in_the_settings_anyone_on_this_machine_is_the_person(home: Home) -> None:
    caller = await gate_of(load(home), "own").admit(headers(None))
    assert caller.spaces is None
    assert caller.time_zone == "UTC"


async def test_with_a_token_its_bearer_and_the_holder_of_the_daemons_own_are_let_in(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    gate = gate_of(load(home), "own")
    assert (await gate.admit(headers("own"))).client == "local"
    assert (await gate.admit(headers("a-token-of-some-length"))).client == "token"
    for wrong in (None, "", " ", "another", "a-token-of-some-lengt", "A-TOKEN-OF-SOME-LENGTH", "own own", "own,"):
        with pytest.raises(Unauthorized):
            await gate.admit(headers(wrong))


def test_hosts_are_loopback_and_what_the_settings_name(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = hosts_of(load(home))
    rule.check(Headers({"host": "localhost:8377"}))
    with pytest.raises(HostNotAllowed):
        rule.check(Headers({"host": "evil.example"}))
    monkeypatch.setenv("SHOAL_ALLOWED_HOSTS", "Box.example")
    hosts_of(load(home)).check(Headers({"host": "box.example:8377"}))
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    hosts_of(load(home, overrides={"host": "192.168.1.5"})).check(Headers({"host": "192.168.1.5:8377"}))


@pytest.mark.parametrize(
    ("listens", "said"),
    [
        ("::", "[::1]:8377"),
        ("2001:db8::1", "[2001:db8::1]:8377"),
        ("2001:DB8::1", "[2001:db8::1]"),
        ("192.168.1.5", "192.168.1.5:1"),
        ("0.0.0.0", "127.0.0.1:8377"),
        ("box.example", "Box.example:8377"),
    ],
)
def test_the_address_listened_on_is_one_that_is_served(
    home: Home, monkeypatch: pytest.MonkeyPatch, listens: str, said: str
) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", "a-token-of-some-length")
    rule = hosts_of(load(home, overrides={"host": listens}))
    rule.check(Headers({"host": said}))
    with pytest.raises(HostNotAllowed):
        rule.check(Headers({"host": "evil.example"}))
    with pytest.raises(OriginNotAllowed):
        rule.check(Headers({"host": said, "origin": "https://evil.example"}))


@pytest.mark.parametrize("name", ["fd00::5", "[fd00::5]"])
def test_an_address_of_version_6_is_allowed_as_a_header_has_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SHOAL_ALLOWED_HOSTS", name)
    hosts_of(load(home)).check(Headers({"host": "[fd00::5]:8377"}))


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "http://0.0.0.0"])
def test_a_web_page_of_elsewhere_may_not_call_the_daemon(home: Home, origin: str) -> None:
    with pytest.raises(OriginNotAllowed):
        hosts_of(load(home)).check(Headers({"host": "localhost:8377", "origin": origin}))


@pytest.mark.parametrize("host", ["0.0.0.0", "0.0.0.0:8377", "[::]:8377", "192.168.1.5:8377", "localhost.evil.example"])
def test_a_daemon_of_this_machine_alone_answers_to_no_other_address(home: Home, host: str) -> None:
    with pytest.raises(HostNotAllowed):
        hosts_of(load(home)).check(Headers({"host": host}))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "[::1]"])
def test_what_is_listened_on_without_a_token_is_a_loopback_address(home: Home, host: str) -> None:
    with listen(bound_address(load(home, overrides={"host": host})), 0, chosen=True) as listener:
        assert ipaddress.ip_address(listener.getsockname()[0]).is_loopback
