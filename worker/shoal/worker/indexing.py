"""From announced memories to vectors, in steps that fit into what an invocation may do."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from shoal.core.pausing import pause, paused
from shoal.core.protocols import Database
from shoal.schema import sql
from shoal.schema.errors import (
    ModelBusy,
    ModelOverQuota,
    ShoalError,
    StorageError,
    StorageOverQuota,
    VectorIndexError,
)
from shoal.worker.edge import Edge
from shoal.worker.quotas import next_reset_ms

log: Final = logging.getLogger("shoal.edge")

STEP_MEMORIES: Final = 100
"""As many texts as one call of Workers AI takes; most memories are one."""
STEP_STATEMENTS: Final = 26
STEP_CALLS: Final = 16
"""What must be left for a step to begin: for one with memories that go, versions that are replaced and some texts that
are refused. One that takes more calls goes on in the next invocation."""
NAMED_MAX: Final = 1_000
"""Ids of one statement: 35 kB."""
AI: Final = "Workers AI"
D1: Final = "D1"

_STILL_WANTED: Final = f"""
select lower(hex(r.id)) as id from record r where r.want > 0 and r.rid in (
  select m.rid from json_each(?1) j cross join record m on m.id = unhex(j.value)
  union select n.rid from json_each(?1) j cross join record m on m.id = unhex(j.value) {sql.NEXT_TURN})
  and not exists (select 1 from unembedded u where u.rid = r.rid and u.at >= ?2)
"""


async def index(edge: Edge, ids: Sequence[str]) -> list[str]:
    """Make the vectors of these memories and of the turns after them; return the ids that there was no room for.

    Texts that the model refused are not among them: trying them at once again would use up their attempts.
    Raises ModelError, VectorIndexError, StorageError.
    """
    left = list(dict.fromkeys(ids))
    began_ms = edge.context.clock()
    while left and _has_room(edge):
        part, later = left[:NAMED_MAX], left[NAMED_MAX:]
        try:
            await edge.memory.indexer.named(part, STEP_MEMORIES)
        except (ModelBusy, VectorIndexError):
            if _has_room(edge):
                raise
            # It ran out of calls. What the step has done is kept; the next invocation goes on from there.
            return [*await _still_wanted(edge.context.database, part, began_ms), *later]
        wanted = await _still_wanted(edge.context.database, part, began_ms)
        left = later if set(wanted) == set(part) else [*wanted, *later]
    return left


def _has_room(edge: Edge) -> bool:
    return edge.budget.allows(STEP_STATEMENTS, STEP_CALLS)


async def _still_wanted(database: Database, ids: Sequence[str], since_ms: int) -> list[str]:
    """Return which of these, or the turns after them, want vectors, without those refused since."""
    rows = await database.query(_STILL_WANTED, (json.dumps(list(ids)), since_ms))
    return [cast("str", row["id"]) for row in rows]


async def awake(edge: Edge) -> Edge | None:
    """Return the edge to work with: without a model while its quota is used up, None while the database's is."""
    resting = await paused(edge.context.database, edge.context.clock())
    if resting is None:
        return edge
    return edge.without_model() if resting.service == AI else None


async def kept_going(name: str, edge: Edge, work: Callable[[], Awaitable[object]]) -> bool:
    """Do a part of a job and return whether the next may follow: not when a quota is used up, which is noted."""
    try:
        await work()
    except (ModelOverQuota, StorageOverQuota) as error:
        await rest(edge, error)
        return False
    except ShoalError as error:
        log.warning("%s: %s %s", name, error.code, error)
    except Exception:
        log.exception("%s failed", name)  # A fault of ours: it must not keep the other parts from being done.
    return True


async def rest(edge: Edge, error: ModelOverQuota | StorageOverQuota) -> None:
    """Note that a service rests until its quota is given anew. What is wanted stays in the database until then."""
    service = AI if isinstance(error, ModelOverQuota) else D1
    log.warning("%s rests: %s", service, error)
    try:
        await pause(edge.context.database, service, next_reset_ms(edge.context.clock()))
    except StorageError as refused:
        # Where not even this can be written, each try finds out anew.
        log.warning("the pause of %s could not be noted: %s", service, refused.code)
