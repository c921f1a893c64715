"""What of JavaScript is used beside bindings, as Python sees it: its shapes, for types and doubles.

A failing call raises an exception of Pyodide's, which has no class that CPython knows.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

ToJs = Callable[[Any], Any]
"""Turns bytes, texts, numbers and lists and dicts of them into JavaScript's own: dicts become plain objects."""


class Buffer(Protocol):
    """An ArrayBuffer or Uint8Array."""

    def to_bytes(self) -> bytes:
        """Return its bytes."""
        ...


class Subtle(Protocol):
    """`crypto.subtle` (Web Cryptography API, 14.3)."""

    def importKey(self, form: str, key: Any, algorithm: Any, extractable: bool, usages: Any) -> Awaitable[Any]:
        """Return a CryptoKey."""
        ...

    def deriveBits(self, algorithm: Any, key: Any, length: int) -> Awaitable[Buffer]:
        """Return so many bits."""
        ...

    def verify(self, algorithm: Any, key: Any, signature: Any, data: Any) -> Awaitable[bool]:
        """Say whether a signature is right."""
        ...


class Crypto(Protocol):
    """`crypto`."""

    @property
    def subtle(self) -> Subtle:
        """Keys, hashes and signatures."""
        ...


class Read(Protocol):
    """What a reader answers."""

    @property
    def done(self) -> bool:
        """Whether there is no more; then there is no value."""
        ...

    @property
    def value(self) -> Buffer:
        """A piece."""
        ...


class Reader(Protocol):
    """A ReadableStreamDefaultReader."""

    def read(self) -> Awaitable[Read]:
        """Return the next piece."""
        ...

    def cancel(self) -> Awaitable[object]:
        """Want no more."""
        ...


class ReadableStream(Protocol):
    """A body."""

    def getReader(self) -> Reader:
        """Return what reads it."""
        ...


class ResponseHeaders(Protocol):
    """The headers of an answer."""

    def entries(self) -> Iterable[tuple[str, str]]:
        """Return pairs of a name in lower case and a value."""
        ...


class Response(Protocol):
    """What a fetch brings."""

    @property
    def status(self) -> int:
        """Of HTTP."""
        ...

    @property
    def headers(self) -> ResponseHeaders:
        """Those that came."""
        ...

    @property
    def body(self) -> ReadableStream | None:
        """What came, None where nothing can come."""
        ...


class AbortSignals(Protocol):
    """The class `AbortSignal`."""

    def timeout(self, milliseconds: int) -> Any:
        """Return a signal that ends a fetch after that time, also while its body comes."""
        ...


class JavaScript(Protocol):
    """JavaScript's globals."""

    @property
    def crypto(self) -> Crypto:
        """Web Cryptography."""
        ...

    @property
    def AbortSignal(self) -> AbortSignals:
        """Ends what takes too long."""
        ...

    def fetch(self, url: str, options: Any) -> Awaitable[Response]:
        """Ask the internet."""
        ...


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the Worker's runtime supplies."""

    js: JavaScript
    to_js: ToJs
