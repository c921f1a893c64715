"""What the rig tells about each invocation of the Worker."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """What host/invocations.mjs keeps, as it is, so that the two can't drift apart unseen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Breach(Record):
    """One of production's rules, broken."""

    rule: str
    """`d1-statements`, `d1-parameters`, `d1-sql-size`, `d1-value-size`, `like-pattern`, `subrequests`, `connections`,
    `queue-message-size`, `queue-batch-count`, `queue-batch-size`, `pbkdf2-iterations`, or `stray` for a call made on
    behalf of no invocation, which nothing bounds."""
    detail: str


class Statement(Record):
    """One statement that D1 has run."""

    sql: str
    rows_read: int
    rows_written: int
    duration_ms: float
    """In the database, without the way there."""


class D1Calls(Record):
    """What an invocation asked of D1."""

    statements: int
    """Each statement of a batch counts, as in production."""
    round_trips: int
    rows_read: int
    rows_written: int
    unmeasured: int
    """Statements sent by `raw` or `exec`, whose answers don't tell what they read and wrote."""
    spent_ms: int
    """Time spent waiting for it."""
    each: tuple[Statement, ...]
    """Its statements in order, while `Rig.itemize` is on."""


class Invocation(Record):
    """One request, batch of a queue or cron event, and the calls that it made."""

    id: int
    kind: str
    """`fetch`, `queue`, `scheduled`, or `stray` for what belongs to none."""
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
    ratelimit_ms: int
    """Time spent waiting for it, which production doesn't."""
    fetches: int
    subrequests: int
    connections: int
    """Calls under way now."""
    most_connections: int
    standin_ms: int
    """Time spent waiting for the stand-in of Vectorize and Workers AI."""
    breaches: tuple[Breach, ...]
