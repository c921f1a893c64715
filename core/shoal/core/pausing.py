"""Pauses: a service whose daily quota is used up is left alone until the quota's day is over.

Kept in meta 'paused' as JSON, so that every request and every job sees it, and nobody need end it.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, Self, cast

from shoal.core.cells import compact_json
from shoal.core.protocols import Database, SqlValue, Statement

_PAUSE: Final = """
insert into meta (k, v) values ('paused', ?1) on conflict (k) do update set v = excluded.v
where coalesce(meta.v->>'until', 0) < excluded.v->>'until'
"""


class Pause(NamedTuple):
    """Which service rests, and until when."""

    service: str
    """As people call it: `Workers AI`."""
    until_ms: int

    @classmethod
    def read(cls, value: SqlValue, now_ms: int) -> Self | None:
        """Return the pause that meta 'paused' tells, None when there is none or it is over."""
        if value is None:
            return None
        told = cast("Mapping[str, str | int]", json.loads(cast("str", value)))
        pause = cls(str(told["service"]), int(told["until"]))
        return pause if now_ms < pause.until_ms else None


async def pause(database: Database, service: str, until_ms: int) -> None:
    """Note that a service rests until then; a longer pause that is on stays. Raises StorageError."""
    await database.batch([Statement(_PAUSE, (compact_json({"service": service, "until": until_ms}),))])


async def paused(database: Database, now_ms: int) -> Pause | None:
    """Return the pause that is on. Raises StorageError."""
    rows = await database.query("select v from meta where k = 'paused'")
    return Pause.read(rows[0]["v"], now_ms) if rows else None
