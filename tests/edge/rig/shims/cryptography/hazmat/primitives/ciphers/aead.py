"""A seal that keeps nothing secret from an expert: it behaves as AES-GCM for its callers, and isn't AES."""

import hashlib
import hmac

from cryptography.exceptions import InvalidTag

TAG_BYTES = 16


class AESGCM:
    """Encrypts with a keystream of SHA-256 and authenticates with HMAC."""

    def __init__(self, key: bytes) -> None:
        self._key = bytes(key)

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the sealed data: its own length and the 16 bytes of a tag."""
        hidden = self._mask(nonce, data)
        return hidden + self._tag(nonce, hidden, associated_data)

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return what was sealed. Raises InvalidTag."""
        hidden, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(nonce, hidden, associated_data)):
            raise InvalidTag
        return self._mask(nonce, hidden)

    def _mask(self, nonce: bytes, data: bytes) -> bytes:
        blocks = range(-(-len(data) // hashlib.sha256().digest_size))
        stream = b"".join(hashlib.sha256(self._key + nonce + n.to_bytes(8, "big")).digest() for n in blocks)
        return bytes(a ^ b for a, b in zip(data, stream, strict=False))

    def _tag(self, nonce: bytes, hidden: bytes, associated_data: bytes | None) -> bytes:
        associated = associated_data or b""
        message = len(nonce).to_bytes(8, "big") + nonce + len(associated).to_bytes(8, "big") + associated + hidden
        return hmac.digest(self._key, message, "sha256")[:TAG_BYTES]
