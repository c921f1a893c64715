import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.api.oauth.doubles import Clock, PythonCryptography, ScriptedFetcher, seeded

from shoal.api.oauth.authority import Authority
from shoal.api.oauth.ports import Fetched, FetchFailed


async def test_the_authority_stands_on_migrated_tables_and_the_tests_clock(authority: Authority, clock: Clock):
    assert await authority.database.query("select * from oauth_client") == []
    before = authority.clock()
    clock.forward(seconds=1.5, days=1)
    assert authority.clock() - before == 86_401_500
    assert authority.resource == "https://memory.example/mcp"


def test_chance_repeats():
    assert seeded()(32) == seeded()(32) != seeded(2)(32)


async def test_slow_hashing_refuses_what_production_refuses():
    cryptography = PythonCryptography()
    assert (await cryptography.pbkdf2_sha256(b"password", b"salt", 1)).hex().startswith("120fb6cffcf8b32c43e7225256c4")
    with pytest.raises(ValueError):
        await cryptography.pbkdf2_sha256(b"password", b"salt", 100_001)


async def test_signatures_are_told_from_others():
    private = rsa.generate_private_key(65_537, 2048)
    numbers = private.public_key().public_numbers()
    key = {name: _base64url(getattr(numbers, name)) for name in ("n", "e")} | {"kty": "RSA"}
    signature = private.sign(b"text", padding.PKCS1v15(), SHA256())
    assert await PythonCryptography().verify_rs256(key, b"text", signature)
    assert not await PythonCryptography().verify_rs256(key, b"other", signature)


def _base64url(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).decode().rstrip("=")


async def test_the_internet_holds_what_was_put_there(fetcher: ScriptedFetcher):
    fetcher.answers["https://a.example/x"] = Fetched(200, {}, json.dumps("a" * 98).encode())
    whole = await fetcher.fetch("https://a.example/x", accept="application/json", timeout_s=5, max_bytes=100)
    assert len(whole.body) == 100
    cut = await fetcher.fetch("https://a.example/x", accept="application/json", timeout_s=5, max_bytes=10)
    assert len(cut.body) == 11
    with pytest.raises(FetchFailed):
        await fetcher.fetch("https://b.example/", accept="*/*", timeout_s=5, max_bytes=10)
    assert fetcher.asked == ["https://a.example/x"] * 2 + ["https://b.example/"]
