"""JavaScript's globals as a Worker's Python sees them, as strict as the real ones, which tests/edge asks."""

import asyncio
import base64
import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.edge.doubles.sdk import JsError
from tests.edge.doubles.sdk import to_js as converted

from shoal.worker.runtime import Runtime

ITERATIONS_MAX = 100_000
"""What production refuses to go beyond."""


class Buffer:
    """An ArrayBuffer or Uint8Array."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def to_bytes(self) -> bytes:
        return self._data


def taken(value: Any) -> bytes:
    """Return the bytes of what JavaScript takes for a buffer source. Raises JsError (TypeError)."""
    if not isinstance(value, array):
        raise JsError("The provided value is not a BufferSource", "TypeError")
    return value.tobytes()


@dataclass(frozen=True)
class CryptoKey:
    """What importKey returns."""

    algorithm: str
    usages: list[str]
    material: Any


class Subtle:
    """`crypto.subtle`."""

    async def importKey(self, form: str, key: Any, algorithm: Any, extractable: bool, usages: Any) -> CryptoKey:
        await asyncio.sleep(0)
        name = algorithm["name"]
        assert extractable is False
        if (form, name) == ("raw", "PBKDF2"):
            return CryptoKey(name, usages, taken(key))
        assert (form, name, algorithm["hash"]) == ("jwk", "RSASSA-PKCS1-v1_5", "SHA-256")
        if key.get("kty") != "RSA":
            raise JsError("Unrecognized key type", "DataError")
        numbers = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"]))
        return CryptoKey(name, usages, numbers.public_key())

    async def deriveBits(self, algorithm: Any, key: CryptoKey, length: int) -> Buffer:
        await asyncio.sleep(0)
        assert (algorithm["name"], algorithm["hash"], key.algorithm, key.usages) == (
            "PBKDF2",
            "SHA-256",
            "PBKDF2",
            ["deriveBits"],
        )
        count = algorithm["iterations"]
        if count > ITERATIONS_MAX:
            raise JsError(f"iteration counts above {ITERATIONS_MAX} are not supported", "NotSupportedError")
        if count < 1 or length % 8:
            raise JsError("Pbkdf2 failed", "OperationError")
        return Buffer(hashlib.pbkdf2_hmac("sha256", key.material, taken(algorithm["salt"]), count, length // 8))

    async def verify(self, algorithm: Any, key: CryptoKey, signature: Any, data: Any) -> bool:
        await asyncio.sleep(0)
        assert (algorithm["name"], key.algorithm, key.usages) == ("RSASSA-PKCS1-v1_5", "RSASSA-PKCS1-v1_5", ["verify"])
        try:
            key.material.verify(taken(signature), taken(data), padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


class Body:
    """A ReadableStream with its only reader."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.left = list(pieces)
        self.cancelled = False

    def getReader(self) -> "Body":
        return self

    async def read(self) -> Any:
        await asyncio.sleep(0)
        assert not self.cancelled
        if not self.left:
            return SimpleNamespace(done=True, value=None)
        piece = self.left.pop(0)
        if isinstance(piece, Exception):
            raise piece
        return SimpleNamespace(done=False, value=Buffer(piece))

    async def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Web:
    """What `fetch` reaches: answers by URL, everything else is no host."""

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, Mapping[str, Any]]])

    def put(self, url: str, body: Body | None, status: int = 200, **headers: str) -> None:
        """Let a URL be answered; names of headers in lower case, `_` for `-`."""
        pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.answers[url] = SimpleNamespace(status=status, headers=SimpleNamespace(entries=lambda: pairs), body=body)

    async def fetch(self, url: str, options: Mapping[str, Any]) -> Any:
        self.asked.append((url, options))
        await asyncio.sleep(0)
        if url not in self.answers:
            raise JsError("internal error; reference = 1")
        return self.answers[url]


def runtime(web: Web | None = None) -> Runtime:
    """Return a runtime whose internet is given."""
    reached = web or Web()
    signals = SimpleNamespace(timeout=lambda milliseconds: array("d", [milliseconds]))
    js = SimpleNamespace(crypto=SimpleNamespace(subtle=Subtle()), AbortSignal=signals, fetch=reached.fetch)
    return Runtime(js, partial(converted))  # type: ignore[arg-type]  # doubles
