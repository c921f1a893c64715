"""What a device knows of its replication: with which edge, when it last worked, what waits, what was refused and why.

The work itself is sync's; what is known of it stands with everything else, for statistics and health.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from shoal.core.cells import compact_json
from shoal.core.protocols import Database, Statement
from shoal.core.times import iso
from shoal.schema.errors import ShoalError
from shoal.schema.models import SyncFailure, SyncInfo

COUNTED_MAX: Final = 10_000
"""Waiting cells of records, and of their fields, are counted up to here."""
_PUT: Final = "insert into meta (k, v) values (?1, ?2) on conflict (k) do update set v = excluded.v"
_DROP: Final = "delete from meta where k in (select value from json_each(?1))"
_URL, _SUCCESS, _FAILURE, _SKIPPED = "sync_url", "sync_success_at", "sync_failure", "sync_skipped"
HEAD: Final = "sync_head"
"""The newest batch of the edge that it was told of, [sequence number, name]: the engine's."""
_ALL: Final = (_URL, _SUCCESS, _FAILURE, _SKIPPED, HEAD, "sync_offset_ms")
_STATE: Final = f"""
select (select json_group_object(k, v) from meta where k in (select value from json_each(?1))) as known,
  (select json_group_object(code, n) from (select code, count(*) as n from sync_refused group by code)) as refused,
  count(*) as queue, min(cast(substr(hlc, 1, 19) as integer)) >> 16 as oldest
from (select * from (select hlc from record indexed by record_dirty where dirty = 1 limit {COUNTED_MAX})
  union all select * from (select hlc from cell indexed by cell_dirty where dirty = 1 limit {COUNTED_MAX}))
"""


async def info(database: Database, now_ms: int) -> SyncInfo:
    """Return how replication stands."""
    row = (await database.query(_STATE, (compact_json(_ALL),)))[0]
    known: dict[str, Any] = json.loads(cast("str", row["known"]))
    refused: dict[str, int] = json.loads(cast("str", row["refused"]))
    linked, oldest, success = known.get(_URL), cast("int | None", row["oldest"]), known.get(_SUCCESS)
    failure = json.loads(known[_FAILURE]) if known.get(_FAILURE) else None
    return SyncInfo(
        linked=linked is not None,
        url=linked,
        queue=cast("int", row["queue"]),
        lag_s=None if linked is None else 0.0 if oldest is None else max(0, now_ms - oldest) / 1000,
        last_success=None if success is None else iso(success),
        quarantine=sum(refused.values()),
        refused=refused,
        skipped=known.get(_SKIPPED) or 0,
        failure=None if failure is None else SyncFailure(**failure),
    )


def linked(url: str) -> Statement:
    """Return the statement that notes the edge's URL."""
    return Statement(_PUT, (_URL, url))


def unlinked() -> Sequence[Statement]:
    """Return the statements that forget the edge. What waits goes on waiting, for the next."""
    return (
        Statement(_DROP, (compact_json(_ALL),)),
        Statement("delete from sync_space"),
    )


def succeeded(now_ms: int, skipped: int) -> Sequence[Statement]:
    """Return the statements that note a round that went well, and how many of the edge's cells could not be read."""
    return (
        Statement(_PUT, (_SUCCESS, now_ms)),
        Statement(f"{_PUT.replace('excluded.v', 'v + excluded.v')}", (_SKIPPED, skipped)),
        Statement(_DROP, (compact_json([_FAILURE]),)),
    )


def failed(error: ShoalError, now_ms: int) -> Statement:
    """Return the statement that notes why a round failed."""
    told = {"code": error.code, "message": error.message, "mend": error.mend, "at": iso(now_ms)}
    return Statement(_PUT, (_FAILURE, compact_json(told)))
