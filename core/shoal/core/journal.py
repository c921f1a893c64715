"""The log of writes: who wrote and deleted which memories, when and through what; never what they say.

Each batch of cells brings its own entries along, so that nothing is written without one.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Self, cast

from shoal.core.caller import Caller
from shoal.core.protocols import Database, Row, SqlValue, Statement
from shoal.schema import sql
from shoal.schema.errors import OutOfRange
from shoal.schema.limits import PAGE_MAX

EXPIRED_MAX: Final = 1_000
"""Entries that one step of `expire` removes at most: each names up to BATCH_MAX memories."""
_EXPIRE: Final = "delete from write_log where n < (select min(n) from write_log) + ?2 and at < ?1 returning n"
_NEWEST: Final = 2**53 - 1
"""Above every entry's number."""


class Action(StrEnum):
    """What was done to the memories."""

    STORE = "store"
    UPDATE = "update"
    DELETE = "delete"
    PURGE = "purge"
    REVIVE = "revive"
    SYNC = "sync"
    """Another replica's writes, merged into this one."""


class Author(NamedTuple):
    """Who writes a batch of cells, and why. All but the action may be empty where there is no such thing."""

    action: Action
    client: str
    """By a name that the owner knows."""
    token: str
    """The id of what the client was let in by."""
    device: str

    @classmethod
    def of(cls, caller: Caller, action: Action) -> Self:
        """Return a caller as the author of a deed."""
        return cls(action, caller.client, caller.token, caller.device)


UPKEEP: Final = Author(Action.PURGE, "shoal", "", "")
"""Who empties the trash."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One batch's memories of one space."""

    n: int
    """Rises with each entry."""
    at: int
    """Milliseconds since 1970 (UTC), by the clock of this replica."""
    action: str
    space: str
    client: str
    token: str
    device: str
    ids: tuple[str, ...]
    """Those that the batch has changed: old and new version of one whose text was changed."""


def entries(by: Author, now_ms: int) -> Statement:
    """Return the statement that logs what its batch has changed so far, a row a space; none where nothing was."""
    return Statement(sql.LOG, (now_ms, str(by.action), by.client, by.token, by.device))


async def read(
    database: Database, *, token: str | None = None, client: str | None = None, before: int | None = None, limit: int
) -> list[LogEntry]:
    """Return at most `limit` entries, the newest first; `before` is the last number of the page before.

    Raises OutOfRange unless `limit` is 1 to PAGE_MAX.

    For the owner alone: the entries are of all spaces. Those of a token are found by an index; for those of a client
    all may be read, as no write should pay for a question that is asked now and then.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise OutOfRange(f"limit is {limit}.", f"Use 1 to {PAGE_MAX}.", field="limit")
    wanted = {"token": token, "client": client}
    named: list[tuple[str, SqlValue]] = [(name, value) for name, value in wanted.items() if value is not None]
    where = " and ".join(["n < ?", *(f"{name} = ?" for name, _ in named)])
    rows = await database.query(
        f"select * from write_log where {where} order by n desc limit ?",
        (_NEWEST if before is None else before, *(value for _, value in named), limit),
    )
    return [_entry(row) for row in rows]


async def expire(database: Database, before_ms: int, limit: int = EXPIRED_MAX) -> int:
    """Remove those of the `limit` first entries that are older than a time; return how many. Call until 0.

    Entries of a clock that was ahead stay until then.
    """
    return len((await database.batch([Statement(_EXPIRE, (before_ms, limit))]))[0])


def _entry(row: Row) -> LogEntry:
    return LogEntry(
        n=cast("int", row["n"]),
        at=cast("int", row["at"]),
        action=cast("str", row["action"]),
        space=cast("str", row["space"]),
        client=cast("str", row["client"]),
        token=cast("str", row["token"]),
        device=cast("str", row["device"]),
        ids=tuple(json.loads(cast("str", row["ids"]))),
    )
