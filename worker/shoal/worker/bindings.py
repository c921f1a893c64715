"""What Cloudflare gives a Worker, as Python code sees it through the runtime's SDK: its shapes, for types and doubles.

Arguments may be str, numbers, bool, bytes, None, and dicts and lists of them; so are the answers. A failing call
raises an exception whose text is all that it tells.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

Answer = Mapping[str, Any]


class D1Statement(Protocol):
    """A prepared statement."""

    def bind(self, *values: Any) -> "D1Statement":
        """Return the statement with its parameters."""
        ...

    def all(self) -> Awaitable[Answer]:
        """Run it: {results: rows, meta: {rows_read, rows_written, size_after, ...}}."""
        ...


class D1Binding(Protocol):
    """The database."""

    def prepare(self, sql: str) -> D1Statement:
        """Return a statement without parameters."""
        ...

    def batch(self, statements: list[D1Statement]) -> Awaitable[Sequence[Answer]]:
        """Run statements as one transaction; one answer each."""
        ...


class AiBinding(Protocol):
    """Workers AI."""

    def run(self, model: str, inputs: Mapping[str, Any]) -> Awaitable[Answer]:
        """Run a model: for embeddings {shape, data: vectors}."""
        ...


class VectorizeBinding(Protocol):
    """A vector index. Changes are taken at once and applied later, in order."""

    def describe(self) -> Awaitable[Answer]:
        """Return {vectorCount, dimensions, processedUpToDatetime, processedUpToMutation}."""
        ...

    def query(self, vector: list[float], options: Mapping[str, Any]) -> Awaitable[Answer]:
        """Return {matches: [{id, score}]}, nearest first."""
        ...

    def queryById(self, vector_id: str, options: Mapping[str, Any]) -> Awaitable[Answer]:
        """As `query`, around a stored vector, itself included."""
        ...

    def upsert(self, vectors: list[dict[str, Any]]) -> Awaitable[Answer]:
        """Put {id, values, metadata} in the place of what has those ids: {mutationId}."""
        ...

    def deleteByIds(self, ids: list[str]) -> Awaitable[Answer]:
        """Remove vectors; unknown ids are ignored: {mutationId}."""
        ...

    def getByIds(self, ids: list[str]) -> Awaitable[Sequence[Answer]]:
        """Return those that there are, with metadata."""
        ...


class QueueBinding(Protocol):
    """The producer's end of a queue."""

    def send(self, body: Mapping[str, Any]) -> Awaitable[Any]:
        """Send one message, at most 128 KB."""
        ...

    def sendBatch(self, messages: list[dict[str, Any]]) -> Awaitable[Any]:
        """Send up to 100 messages {body}, 256 KB together."""
        ...


class Message(Protocol):
    """One message at the consumer's end."""

    @property
    def body(self) -> Any:
        """What was sent."""
        ...

    @property
    def attempts(self) -> int:
        """How often it was delivered, this time included."""
        ...

    def ack(self) -> Any:
        """Take it off the queue."""
        ...

    def retry(self, *, delaySeconds: int) -> Any:
        """Have it delivered again after that time; in the end it goes to the dead-letter queue."""
        ...


class MessageBatch(Protocol):
    """What the consumer is woken with."""

    @property
    def queue(self) -> str:
        """The queue's name."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """At most as many as wrangler.toml says."""
        ...


class RateLimitBinding(Protocol):
    """Counts requests by key, in each of Cloudflare's locations for itself."""

    def limit(self, options: Mapping[str, str]) -> Awaitable[Answer]:
        """Count one for {key}: {success: whether it is within the limit}."""
        ...
