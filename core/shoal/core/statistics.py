"""Counts and health of what a caller may read."""

from collections import Counter
from typing import Final, NamedTuple, cast

from shoal.core import replication
from shoal.core.backlog import Backlog, backlog_of, read
from shoal.core.caller import ALL_SPACES, Caller, Scope
from shoal.core.context import Context
from shoal.core.filters import selection
from shoal.core.protocols import Filter, Phase
from shoal.core.times import iso
from shoal.schema.models import ModelStatus, Note, NoteCode, Pause, StatsAnswer, SyncInfo
from shoal.schema.sql import State

_BY_METADATA: Final = """
select coalesce((select c.value->>'$' from cell c where c.rid = r.rid and c.field = ?2), r.type) as value,
  count(*) as n
from record r where r.class = 'memory' and r.state in (1, 2) and r.space = ?1
group by 1 order by 2 desc, 1
"""


class Health(NamedTuple):
    """Whether all is well."""

    degraded: list[Note]
    """What doesn't work as it should; empty when all does."""
    pending: int
    """Memories that have no vector yet, counted up to Policy.backlog_counted."""


async def count_metadata(context: Context, key: str, caller: Caller) -> dict[str, int]:
    """Count the memories of the caller's space by a metadata value, by type where they have none. Most first.

    Reads all of them. Raises NotAllowed.
    """
    space = caller.space(None, Scope.READ)
    rows = await context.database.query(_BY_METADATA, (space, f"md:{key}"))
    return {str(row["value"]): cast("int", row["n"]) for row in rows}


async def stats(context: Context, caller: Caller, model: ModelStatus) -> StatsAnswer:
    """Count the memories of the spaces that the caller may read. Raises NotAllowed.

    Reads all of their rows, in one statement, and asks for the database's size: for people to look at now and then.
    """
    spaces = caller.within(ALL_SPACES, Scope.READ)
    everything = Filter(spaces=spaces, states=(State.LIVE, State.ARCHIVED, State.TRASHED))
    sql, params = selection(everything, "r")
    backlog = backlog_of(context, spaces)
    rows = await context.database.query(
        f"select r.space, r.type, r.state, count(*) as n, null as backlog from record r where {sql}"
        f" group by r.space, r.type, r.state union all select null, null, null, null, {backlog.sql}",
        (*params, *backlog.params),
    )
    (told,) = (row["backlog"] for row in rows if row["backlog"] is not None)
    left = read(context, told)
    by_state: Counter[int] = Counter()
    by_type: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    by_space: Counter[str] = Counter()
    for row in rows:
        if row["backlog"] is not None:
            continue
        n, state, type_name = cast("int", row["n"]), cast("int", row["state"]), cast("str", row["type"])
        by_state[state] += n
        if state != State.TRASHED:
            by_type[type_name] += n
            by_kind[context.ontology.info(type_name).kind] += n
            by_space[cast("str", row["space"])] += n
    sync = await sync_info(context) if spaces is None else None
    return StatsAnswer(
        total=by_state[State.LIVE] + by_state[State.ARCHIVED],
        by_type=dict(by_type.most_common()),
        by_kind=dict(by_kind.most_common()),
        live=by_state[State.LIVE],
        archived=by_state[State.ARCHIVED],
        trashed=by_state[State.TRASHED],
        pending_embeddings=left.vectors,
        model=model,
        database_bytes=await context.database.size_bytes() if spaces is None else None,
        spaces=dict(by_space),
        failed_embeddings=left.given_up,
        dead_letters=left.dead_letters,
        paused=None if left.paused is None else Pause(service=left.paused.service, until=iso(left.paused.until_ms)),
        sync=sync,
        degraded=[*degraded(model, left), *sync_troubles(context, sync)],
    )


async def sync_info(context: Context) -> SyncInfo | None:
    """Return how replication stands on a laptop; None at the edge, to which others come."""
    if not context.replica.dirty:
        return None
    return await replication.info(context.database, context.clock(), context.exchanged())


def sync_troubles(context: Context, sync: SyncInfo | None) -> list[Note]:
    """Return what is wrong with replication."""
    return [] if sync is None else replication.troubles(sync, context.clock())


def degraded(model: ModelStatus, left: Backlog) -> list[Note]:
    """Return what doesn't work as it should, as every health report and answer says it."""
    notes: list[Note] = []

    def say(code: NoteCode, message: str, n: int | None = None) -> None:
        notes.append(Note(code=code, message=message, n=n))

    if model.state == Phase.UNAVAILABLE:
        say(NoteCode.LEXICAL_ONLY, f"Only words are searched: {model.reason}")
    elif left.vectors:
        found = "1 memory is" if left.vectors == 1 else f"{left.vectors} memories are"
        say(NoteCode.PENDING, f"{found} found by words only so far.", left.vectors)
    if left.given_up:
        message = f"The model refused {left.given_up} memories again and again: only their words find them."
        say(NoteCode.NOT_EMBEDDED, f"{message} A requeue tries them anew.", left.given_up)
    if left.dead_letters:
        message = f"{left.dead_letters} messages of the queue could not be delivered. A requeue sends them again."
        say(NoteCode.UNDELIVERED, message, left.dead_letters)
    if left.paused is not None:
        until = iso(left.paused.until_ms)
        say(NoteCode.OVER_QUOTA, f"The daily quota of {left.paused.service} is used up; it goes on at {until}.")
    if model.state != Phase.UNAVAILABLE and model.reason is not None:
        say(NoteCode.OTHER_MODEL, model.reason)
    if left.words:
        say(NoteCode.PARTIAL, "The words of older memories are being indexed anew.")
    return notes
