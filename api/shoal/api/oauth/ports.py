"""What the edge's runtime must supply to OAuth: slow hashing, signatures, and fetching from the internet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Cryptography(Protocol):
    """What hashlib can't do inside a Worker."""

    async def pbkdf2_sha256(self, secret: bytes, salt: bytes, iterations: int) -> bytes:
        """Return 32 bytes of PBKDF2-HMAC-SHA-256. Production refuses more than 100,000 iterations a call."""
        ...

    async def verify_rs256(self, key: Mapping[str, Any], signed: bytes, signature: bytes) -> bool:
        """Say whether an RSA signature (PKCS #1 v1.5, SHA-256) is that of a public key, given as a JWK."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer from the internet."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    """At most as long as was asked for, plus one byte where there was more."""


class FetchFailed(Exception):
    """Nothing came: no such host, no answer in time, a broken connection."""


class Fetcher(Protocol):
    """Gets documents from the internet. What may be asked for is decided before (documents.py)."""

    async def fetch(self, url: str, *, accept: str, timeout_s: float, max_bytes: int) -> Fetched:
        """GET without cookies or credentials, following no redirects. Raises FetchFailed."""
        ...
