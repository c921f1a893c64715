"""WebCrypto's hashing and signatures, on a double of it; tests/edge asks the real one."""

import base64
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.edge.doubles.sdk import JsError
from tests.worker.javascript import ITERATIONS_MAX, runtime

from shoal.worker.webcrypto import WebCryptography


@pytest.fixture
def cryptography() -> WebCryptography:
    made = runtime()
    return WebCryptography(made.js.crypto.subtle, made.to_js)


async def test_pbkdf2_gives_what_hashlib_gives(cryptography: WebCryptography):
    expected = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 1_000)
    assert await cryptography.pbkdf2_sha256(b"secret", b"salt", 1_000) == expected
    assert await cryptography.pbkdf2_sha256(b"", b"", 1) == hashlib.pbkdf2_hmac("sha256", b"", b"", 1)


async def test_more_iterations_than_production_takes_are_refused(cryptography: WebCryptography):
    with pytest.raises(JsError, match="not supported"):
        await cryptography.pbkdf2_sha256(b"secret", b"salt", ITERATIONS_MAX + 1)


def written(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_a_signature_is_right_only_for_its_key_and_its_text(cryptography: WebCryptography):
    private = rsa.generate_private_key(65_537, 2048)
    numbers = private.public_key().public_numbers()
    # What a key set says of its keys' use beside their numbers must not matter.
    key: dict[str, Any] = {"kty": "RSA", "n": written(numbers.n), "e": written(numbers.e), "alg": "RS256", "use": "sig"}
    signature = private.sign(b"text", padding.PKCS1v15(), SHA256())
    assert await cryptography.verify_rs256(key, b"text", signature) is True
    assert await cryptography.verify_rs256(key, b"another", signature) is False
    assert await cryptography.verify_rs256(key, b"text", signature[:-1]) is False
