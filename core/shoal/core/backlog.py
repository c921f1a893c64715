"""What the indexes still have to do, what does not work, and how far the database is: all that every search asks.

One value of SQL, so that it costs no statement of its own where another can bring it along.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from shoal.core.calibrating import kept
from shoal.core.context import Context
from shoal.core.indexing import ATTEMPTS_MAX
from shoal.core.pausing import Pause
from shoal.core.protocols import Calibration, SqlValue


def _meta(key: str) -> str:
    return f"(select v from meta where k = '{key}')"


def backlog_sql(context: Context) -> str:
    """Return SQL for a value that `read` understands."""
    most = context.policy.backlog_counted
    return f"""
(select json_object(
  'vectors', (select count(*) from (select 1 from record indexed by record_want where want > 0 limit {most}))
    + (select count(*) from (select 1 from record where rid < {_meta("reembed")}
      and class = 'memory' and init is not null and want <= 0 limit {most})),
  'words', exists (select 1 from record where rid < {_meta("refts")} and class = 'memory' and init is not null),
  'given_up', (select count(*) from (select 1 from unembedded where attempts >= {ATTEMPTS_MAX} limit {most})),
  'dead_letters', {_meta("dead_letters")},
  'paused', {_meta("paused")},
  'calibration', {_meta("calibration")},
  'seq', {_meta("seq")}))"""


class Backlog(NamedTuple):
    """Work that the background still has to do, and what keeps it from that."""

    vectors: int = 0
    """Memories that are found by their words only so far, counted up to Policy.backlog_counted."""
    words: bool = False
    """Whether some memories' words are still those of another version of text preparation."""
    given_up: int = 0
    """Memories that the model refused ATTEMPTS_MAX times, counted up to Policy.backlog_counted."""
    dead_letters: int = 0
    """Messages of the queue that could not be delivered since they were last sent again."""
    paused: Pause | None = None
    """The service whose quota is used up."""
    calibration: Calibration | None = None
    """What the model's cosines mean: as measured where it runs, else as it says itself."""
    seq: int = 0
    """Sequence number of the newest write."""


NOTHING_LEFT: Final = Backlog()


async def backlog(context: Context) -> Backlog:
    """Return what is still to do."""
    return read(context, (await context.database.query(f"select {backlog_sql(context)} as backlog"))[0]["backlog"])


def read(context: Context, answer: SqlValue) -> Backlog:
    """Return what `backlog_sql` tells."""
    told = cast("Mapping[str, Any]", json.loads(cast("str", answer)))
    embedder = context.embedder
    return Backlog(
        vectors=min(context.policy.backlog_counted, told["vectors"]),
        words=bool(told["words"]),
        given_up=told["given_up"],
        dead_letters=told["dead_letters"] or 0,
        paused=Pause.read(told["paused"], context.clock()),
        calibration=None
        if embedder is None
        else kept(told["calibration"], embedder.fingerprint) or embedder.calibration,
        seq=told["seq"],
    )
