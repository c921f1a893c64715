"""What a device knows of its replication: with which edge, when it last worked, what waits, what was refused and why.

The work itself is sync's; what is known of it stands with everything else, for statistics and health.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from shoal.core.cells import compact_json
from shoal.core.protocols import Database, Statement
from shoal.core.times import MS_PER_DAY, iso
from shoal.schema.errors import ShoalError
from shoal.schema.models import Note, NoteCode, SpacesLeft, SyncFailure, SyncInfo

COUNTED_MAX: Final = 10_000
"""Waiting cells of records, and of their fields, are counted up to here."""
WORKS_MS: Final = 7 * MS_PER_DAY
"""A link that has worked within this time leaves to the edge what only one end should do."""
FAILING_MS: Final = 15 * 60_000
"""Failures that last longer are told by every health report: shorter ones are a train in a tunnel."""
STANDING_MS: Final = 60 * 60_000
"""Nothing may wait longer than this, and no link be quiet for longer, without the same."""
_PUT: Final = "insert into meta (k, v) values (?1, ?2) on conflict (k) do update set v = excluded.v"
_DROP: Final = "delete from meta where k in (select value from json_each(?1))"
_URL, _SUCCESS, _FAILURE, _SKIPPED = "sync_url", "sync_success_at", "sync_failure", "sync_skipped"
_WRITABLE, _LEFT = "sync_writable", "sync_left"
HEAD: Final = "sync_head"
"""The newest batch of the edge that it was told of, [sequence number, name]: the engine's."""
_OF_LINK: Final = (_URL, _SUCCESS, _FAILURE, _SKIPPED, _WRITABLE, HEAD, "sync_offset_ms")
_SHARED: Final = (
    f"coalesce((select v = '*' or exists (select 1 from json_each(iif(v = '*', '[]', v)) where value = m.space)"
    f" from meta where k = '{_WRITABLE}'), 1)"
)
_STATE: Final = f"""
select (select json_group_object(k, v) from meta where k in (select value from json_each(?1))) as known,
  (select json_group_object(code, n) from (select code, count(*) as n from sync_refused group by code)) as refused,
  coalesce(sum(shared), 0) as queue, coalesce(sum(not shared), 0) as not_shared,
  min(cast(substr(hlc, 1, 19) as integer)) filter (where shared) >> 16 as oldest
from (select w.hlc, {_SHARED} as shared from (
  select * from (select rid, hlc from record indexed by record_dirty where dirty = 1 limit {COUNTED_MAX})
  union all select * from (select rid, hlc from cell indexed by cell_dirty where dirty = 1 limit {COUNTED_MAX})) w
  cross join record m on m.rid = w.rid)
"""
_BEGAN: Final = """
insert into meta (k, v) values (?1, ?2)
on conflict (k) do update set v = json_set(excluded.v, '$.since', coalesce(v->>'$.since', excluded.v->>'$.since'))
"""
_ADD: Final = """
insert into meta (k, v) values (?1, json_array(json(?2)))
on conflict (k) do update set v = json_insert(v, '$[#]', json(?2))
"""
WORKS: Final = f"""
exists (select 1 from meta where k = '{_URL}')
and exists (select 1 from meta where k = '{_SUCCESS}' and v > ?3)
and exists (select 1 from sync_space where space in (r.space, '*'))
"""
"""Whether the space of a record `r` is linked, by a link that has worked since ?3."""


async def info(database: Database, now_ms: int, exchanged_ms: int | None = None) -> SyncInfo:
    """Return how replication stands. `exchanged_ms` is when a round last went well, where this process knows better."""
    row = (await database.query(_STATE, (compact_json((*_OF_LINK, _LEFT)),)))[0]
    known: dict[str, Any] = json.loads(cast("str", row["known"]))
    refused: dict[str, int] = json.loads(cast("str", row["refused"]))
    linked, oldest = known.get(_URL), cast("int | None", row["oldest"])
    successes = [at for at in (known.get(_SUCCESS), exchanged_ms) if at is not None]
    failure = json.loads(known[_FAILURE]) if known.get(_FAILURE) else None
    return SyncInfo(
        linked=linked is not None,
        url=linked,
        queue=cast("int", row["queue"]),
        lag_s=None if linked is None else 0.0 if oldest is None else max(0, now_ms - oldest) / 1000,
        not_shared=cast("int", row["not_shared"]),
        last_success=iso(max(successes)) if linked is not None and successes else None,
        quarantine=sum(refused.values()),
        refused=refused,
        skipped=known.get(_SKIPPED) or 0,
        failure=None if failure is None else _failure(failure),
        left=[SpacesLeft(**one) for one in json.loads(known.get(_LEFT) or "[]")],
    )


def troubles(found: SyncInfo, now_ms: int) -> list[Note]:
    """Return what a health report says of replication; nothing where there is no link, or all is well."""
    if not found.linked:
        return []
    notes: list[Note] = []

    def say(message: str, n: int | None = None) -> None:
        notes.append(Note(code=NoteCode.SYNC, message=message, n=n))

    failure = found.failure
    if failure is not None and failure.code == "link_broken":
        say(f"Nothing is exchanged with the edge: {failure.message} {failure.mend}")
    elif failure is not None and now_ms - _ms(failure.since) > FAILING_MS:
        say(f"The exchange with the edge fails since {failure.since}: {failure.message} {failure.mend}")
    elif failure is None and found.last_success is not None and now_ms - _ms(found.last_success) > STANDING_MS:
        say(f"Nothing was exchanged with the edge since {found.last_success}. A daemon does so: `shoal serve`.")
    if found.lag_s is not None and found.lag_s * 1000 > STANDING_MS:
        say(f"Writes wait to be sent to the edge, the oldest for {found.lag_s / 3600:.0f} h.", found.queue)
    if found.quarantine:
        say(f"The edge has refused {found.quarantine} writes. `shoal status` says why.", found.quarantine)
    return notes


def linked(url: str) -> Statement:
    """Return the statement that notes the edge's URL."""
    return Statement(_PUT, (_URL, url))


def unlinked() -> Sequence[Statement]:
    """Return the statements that forget the edge. What waits goes on waiting, for the next."""
    return (
        Statement(_DROP, (compact_json(_OF_LINK),)),
        Statement("delete from sync_space"),
    )


def succeeded(now_ms: int, skipped: int, writable: Sequence[str] | str) -> Sequence[Statement]:
    """Return the statements that note a round that went well: when, how many of the edge's cells could not be read, and
    to which spaces there this device may write.
    """
    return (
        Statement(_PUT, (_SUCCESS, now_ms)),
        Statement(_PUT, (_WRITABLE, writable if isinstance(writable, str) else compact_json(writable))),
        Statement(f"{_PUT.replace('excluded.v', 'v + excluded.v')}", (_SKIPPED, skipped)),
        Statement(_DROP, (compact_json([_FAILURE]),)),
    )


def works(at_ms: int) -> Statement:
    """Return the statement that notes when a round went well that changed nothing."""
    return Statement(_PUT, (_SUCCESS, at_ms))


def failed(error: ShoalError, now_ms: int) -> Statement:
    """Return the statement that notes why a round failed; since when they do stays noted until one goes well."""
    told = {"code": error.code, "message": error.message, "mend": error.mend, "at": now_ms, "since": now_ms}
    return Statement(_BEGAN, (_FAILURE, compact_json(told)))


def left(spaces: Sequence[str], backup: str, now_ms: int) -> Statement:
    """Return the statement that notes which spaces leave this device, and which file keeps them."""
    return Statement(_ADD, (_LEFT, compact_json({"spaces": list(spaces), "backup": backup, "at": iso(now_ms)})))


def seen() -> Statement:
    """Return the statement that forgets what was noted of spaces that have left: somebody has read it."""
    return Statement(_DROP, (compact_json([_LEFT]),))


def _failure(noted: Mapping[str, Any]) -> SyncFailure:
    return SyncFailure(**{**noted, "at": iso(noted["at"]), "since": iso(noted["since"])})


def _ms(written: str) -> int:
    return int(datetime.fromisoformat(written).timestamp() * 1000)
