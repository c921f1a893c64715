"""What stands in for the edge's runtime: a clock that is set, chance that repeats, hashing, signatures, an internet."""

import asyncio
import base64
import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import apsw
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from starlette.requests import Request

from shoal.api.oauth.authority import AUTHORITY_KEY, Authority, OAuthSettings
from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.core.fakes import FakeDatabase
from shoal.core.migrate import migrate

NOW_MS = 1_790_000_000_000
"""2026-09-21."""
ISSUER = "https://memory.example"
OWNER_KEY = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
"""As it is after normalising: 32 characters of base32."""
PRODUCTION_MAX_ITERATIONS = 100_000


class Clock:
    """Stands still until it is told to move."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def forward(self, *, seconds: float = 0, days: float = 0) -> None:
        self.now_ms += round((seconds + days * 86_400) * 1000)


def seeded(seed: int = 1) -> Callable[[int], bytes]:
    """Return chance that comes out the same in each run."""
    return random.Random(seed).randbytes


class PythonCryptography:
    """Cryptography by CPython's own, refusing what production refuses."""

    async def pbkdf2_sha256(self, secret: bytes, salt: bytes, iterations: int) -> bytes:
        await asyncio.sleep(0)
        if not 1 <= iterations <= PRODUCTION_MAX_ITERATIONS:
            raise ValueError(f"{iterations} iterations; production takes 1 to {PRODUCTION_MAX_ITERATIONS}")
        return hashlib.pbkdf2_hmac("sha256", secret, salt, iterations)

    async def verify_rs256(self, key: Mapping[str, Any], signed: bytes, signature: bytes) -> bool:
        await asyncio.sleep(0)
        if key["kty"] != "RSA":
            raise ValueError("no RSA key: WebCrypto would refuse to import it")
        public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
        try:
            public.verify(signature, signed, padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


@dataclass
class ScriptedFetcher:
    """An internet of the documents that a test has put there; everything else can't be reached."""

    answers: dict[str, Fetched | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def fetch(self, url: str, *, accept: str, timeout_s: float, max_bytes: int) -> Fetched:
        assert urlsplit(url).scheme == "https" and accept.isascii() and timeout_s > 0 and max_bytes > 0
        self.asked.append(url)
        # Others run meanwhile, as they would.
        await asyncio.sleep(0)
        answer = self.answers.get(url, FetchFailed("no such host"))
        if isinstance(answer, Exception):
            raise answer
        assert all(name == name.lower() for name in answer.headers), "names come in lower case"
        return replace(answer, body=answer.body[: max_bytes + 1])


async def made_authority(clock: Clock | None = None, fetcher: ScriptedFetcher | None = None) -> Authority:
    """Return an authorization server on an empty database; `dataclasses.replace` makes others of it."""
    database = FakeDatabase(apsw.Connection(":memory:"))
    await migrate(database)
    return Authority(
        database=database,
        settings=OAuthSettings(owner_key_sha256=hashlib.sha256(OWNER_KEY.encode()).hexdigest()),
        issuer=ISSUER,
        clock=clock or Clock(),
        random=seeded(),
        cryptography=PythonCryptography(),
        fetcher=fetcher or ScriptedFetcher(),
        network="192.0.2.1",
    )


def request_of(
    authority: Authority,
    body: bytes | str = b"",
    *,
    headers: Mapping[str, str] | None = None,
    path_params: Mapping[str, str] | None = None,
) -> Request:
    """Return a request as an endpoint gets it."""
    content = body.encode() if isinstance(body, str) else body

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": sent, "path_params": dict(path_params or {})}
    return Request({**scope, AUTHORITY_KEY: authority}, receive)
