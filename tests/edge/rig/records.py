"""What the rig tells about each invocation of the Worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Breach:
    """One of production's rules, broken."""

    rule: str
    """`d1-statements`, `d1-parameters`, `d1-sql-size`, `d1-value-size`, `like-pattern`, `subrequests`, `connections`,
    `queue-message-size`, `queue-batch-count`, `queue-batch-size` or `pbkdf2-iterations`."""
    detail: str


@dataclass(frozen=True, slots=True)
class D1Calls:
    """What an invocation asked of D1."""

    statements: int
    """Each statement of a batch counts, as in production."""
    round_trips: int
    rows_read: int
    rows_written: int
    unmeasured: int
    """Statements sent by `raw` or `exec`, whose answers don't tell what they read and wrote."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One request, batch of a queue or cron event, and the calls that it made."""

    id: int
    kind: str
    """`fetch`, `queue`, `scheduled`, or `stray` for calls that belong to none."""
    name: str
    """The path, the queue or the cron expression."""
    method: str | None
    """The method of a request."""
    messages: int
    """The number of messages in a queue's batch."""
    started_ms: int
    ended_ms: int | None
    """When the handler and everything given to waitUntil were done; None while they aren't."""
    status: int | None
    error: str | None
    """The last line of the exception that the handler raised."""
    d1: D1Calls
    ai: int
    vectorize: Mapping[str, int]
    """Calls by method."""
    queue_sends: int
    """Calls of send and sendBatch."""
    queue_messages: int
    retries: tuple[float | None, ...]
    """For each message that a queue's handler sent back, the delay it asked for in seconds."""
    r2: Mapping[str, int]
    kv: Mapping[str, int]
    ratelimit: int
    fetches: int
    subrequests: int
    most_connections: int
    standin_ms: int
    """Time spent waiting for the stand-in of Vectorize and Workers AI."""
    breaches: tuple[Breach, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Invocation":
        """Read the record that host/invocations.mjs keeps."""
        given = {name: told[name] for name in cls.__slots__ if name in told}
        return cls(
            **{
                **given,
                "d1": D1Calls(**told["d1"]),
                "queue_sends": told["queue"]["sends"],
                "queue_messages": told["queue"]["messages"],
                "retries": tuple(told["retries"]),
                "breaches": tuple(Breach(**breach) for breach in told["breaches"]),
            }
        )
