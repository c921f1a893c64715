"""OAuth's Cryptography by the runtime's own: WebCrypto. Python inside a Worker has neither PBKDF2 nor RSA."""

from collections.abc import Mapping
from typing import Any, Final

from shoal.worker.runtime import Subtle, ToJs

DERIVED_BITS: Final = 256
_PBKDF2: Final = "PBKDF2"
_RS256: Final[Mapping[str, str]] = {"name": "RSASSA-PKCS1-v1_5", "hash": "SHA-256"}
_KEY_MEMBERS: Final = ("kty", "n", "e")
"""Of a JWK, what an RSA public key is made of (RFC 7518, 6.3.1). Others may contradict what it is used for here."""


class WebCryptography:
    """Implements Cryptography on `crypto.subtle`."""

    def __init__(self, subtle: Subtle, to_js: ToJs) -> None:
        self._subtle = subtle
        self._to_js = to_js

    async def pbkdf2_sha256(self, secret: bytes, salt: bytes, iterations: int) -> bytes:
        """Return 32 bytes of PBKDF2-HMAC-SHA-256 (RFC 8018, 5.2)."""
        key = await self._key("raw", secret, {"name": _PBKDF2}, "deriveBits")
        rule = {"name": _PBKDF2, "hash": "SHA-256", "salt": salt, "iterations": iterations}
        return (await self._subtle.deriveBits(self._to_js(rule), key, DERIVED_BITS)).to_bytes()

    async def verify_rs256(self, key: Mapping[str, Any], signed: bytes, signature: bytes) -> bool:
        """Say whether an RSA signature is that of a public key, given as a JWK."""
        public = {name: key[name] for name in _KEY_MEMBERS}
        imported = await self._key("jwk", public, _RS256, "verify")
        to_js = self._to_js
        return bool(await self._subtle.verify(to_js(dict(_RS256)), imported, to_js(signature), to_js(signed)))

    async def _key(self, form: str, key: bytes | dict[str, Any], algorithm: Mapping[str, str], usage: str) -> Any:
        to_js = self._to_js
        return await self._subtle.importKey(form, to_js(key), to_js(dict(algorithm)), False, to_js([usage]))
