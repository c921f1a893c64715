"""HKDF (RFC 5869), the real function on hmac."""

import hmac

from cryptography.hazmat.primitives.hashes import SHA256


class HKDF:
    """Derives one key from a secret."""

    def __init__(self, *, algorithm: SHA256, length: int, salt: bytes | None, info: bytes | None) -> None:
        self._hash = algorithm.name
        self._length = length
        self._salt = salt or bytes(algorithm.digest_size)
        self._info = info or b""

    def derive(self, key_material: bytes) -> bytes:
        """Return `length` bytes of key."""
        key = hmac.digest(self._salt, key_material, self._hash)
        block = b""
        derived = b""
        number = 0
        while len(derived) < self._length:
            number += 1
            block = hmac.digest(key, block + self._info + bytes([number]), self._hash)
            derived += block
        return derived[: self._length]
