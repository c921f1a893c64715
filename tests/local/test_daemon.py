import socket
from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from shoal.local.daemon import gate_of, hosts_of, listen
from shoal.local.home import Home
from shoal.local.settings import load
from shoal.schema.errors import HostNotAllowed, PortInUse, Unauthorized


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
    for wrong in (None, "", "another"):
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
