"""What the indexes still have to do, what does not work, and how far the database is: all that every search asks.

One value of SQL, so that it costs no statement of its own where another can bring it along.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from shoal.core.calibrating import kept
from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.indexing import ATTEMPTS_MAX
from shoal.core.pausing import Pause
from shoal.core.protocols import Calibration, SqlValue, Statement


def _meta(key: str) -> str:
    return f"(select v from meta where k = '{key}')"


def backlog_of(context: Context, spaces: tuple[str, ...] | None) -> Statement:
    """Return SQL for a value that `read` understands, in brackets, with its parameters.

    Memories are counted in the spaces that the asker may read (None = all of them). Who may not read all isn't told of
    messages that could not be delivered either: nobody knows any more whose memories those were about.
    """
    most = context.policy.backlog_counted
    mine, of_mine, given_up, dead_letters, named = "", "", "unembedded u", _meta("dead_letters"), ()
    if spaces is not None:
        mine = "with mine (space) as (select value from json_each(?))"
        of_mine = "and r.space in (select space from mine)"
        given_up = "unembedded u cross join record r on r.rid = u.rid"
        dead_letters = "0"
        named = (compact_json(spaces),)
    sql = f"""
({mine} select json_object(
  'vectors', (select count(*) from (select 1 from record r indexed by record_want
      where r.want > 0 {of_mine} limit {most}))
    + (select count(*) from (select 1 from {_before("reembed", spaces)} and r.want <= 0 limit {most})),
  'words', exists (select 1 from {_before("refts", spaces)}),
  'given_up', (select count(*) from (select 1 from {given_up}
      where u.attempts >= {ATTEMPTS_MAX} {of_mine} limit {most})),
  'dead_letters', {dead_letters},
  'paused', {_meta("paused")},
  'calibration', {_meta("calibration")},
  'seq', {_meta("seq")}))"""
    return Statement(sql, named)


def _before(key: str, spaces: tuple[str, ...] | None) -> str:
    """Return SQL for the memories `r` below the rid that `meta` has, of all spaces or of those in `mine`."""
    below = f"r.rid < {_meta(key)} and r.class = 'memory' and r.init is not null"
    if spaces is None:
        return f"record r where {below}"
    # Mostly there are none: then nothing of the spaces is read.
    return (
        "mine cross join record r indexed by record_occurred on r.space = mine.space"
        f" where exists (select 1 from record where rid < {_meta(key)}) and {below}"
    )


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


async def backlog(context: Context, spaces: tuple[str, ...] | None = None) -> Backlog:
    """Return what is still to do in these spaces (None = in all)."""
    told, params = backlog_of(context, spaces)
    return read(context, (await context.database.query(f"select {told} as backlog", params))[0]["backlog"])


def read(context: Context, answer: SqlValue) -> Backlog:
    """Return what `backlog_of` tells."""
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
