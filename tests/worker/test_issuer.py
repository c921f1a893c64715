"""The name of the authorization server that answers a request."""

import pytest

from shoal.schema.errors import HostNotAllowed
from shoal.worker.issuer import issuer


def named(*hosts: str, scheme: str = "https", public_url: str = "") -> str:
    headers = [(b"host", host.encode("latin-1")) for host in hosts]
    return issuer({"type": "http", "scheme": scheme, "headers": headers}, public_url)


@pytest.mark.parametrize(
    ("scheme", "host", "expected"),
    [
        ("https", "memory.example.com", "https://memory.example.com"),
        ("https", "Memory.Example.COM", "https://memory.example.com"),
        ("https", "memory.example.com:443", "https://memory.example.com"),
        ("https", "memory.example.com:8443", "https://memory.example.com:8443"),
        ("http", "127.0.0.1:8378", "http://127.0.0.1:8378"),
        ("http", "localhost", "http://localhost"),
        ("http", "localhost:80", "http://localhost"),
        ("http", "[::1]:8378", "http://[::1]:8378"),
        ("https", "localhost:8443", "https://localhost:8443"),
    ],
)
def test_without_a_configured_name_it_is_the_one_that_the_request_names(scheme: str, host: str, expected: str):
    assert named(host, scheme=scheme) == expected


def test_behind_a_proxy_that_takes_the_https_off_it_is_https_all_the_same():
    assert named("memory.example.com", scheme="http") == "https://memory.example.com"


def test_the_configured_name_stands_whatever_the_request_says():
    for host in ("other.example.com", r"evil.example.com\@x", ""):
        assert named(host, public_url="https://memory.example.com") == "https://memory.example.com"


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        ("a.example", "b.example"),
        ("a.example/path",),
        ("user@a.example",),
        ("a.example#",),
        ("a.example?x",),
        ("a.example:",),
        ("a.example:x",),
        ("a.example:123456",),
        ("a.example.",),
        ("a..example",),
        ("-a.example",),
        ("a_b.example",),
        ("a.example\n",),
        ('a.example"',),
        ("[::2]",),
        ("a b",),
        ("\xe9.example",),
        ("a" * 254,),
    ],
    ids=repr,
)
def test_what_is_no_name_of_a_server_is_refused(hosts: tuple[str, ...]):
    with pytest.raises(HostNotAllowed):
        named(*hosts)
