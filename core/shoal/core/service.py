"""The Memory service, the same at both ends: one door to storing, finding, reading, changing and forgetting."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.core import deleting, finding, reading, rewording, statistics, storing, updating
from shoal.core.apply import Replica
from shoal.core.backlog import backlog
from shoal.core.caller import Caller
from shoal.core.context import Context
from shoal.core.finding import ALL_CHANNELS, Channel
from shoal.core.ids import Key
from shoal.core.indexing import Indexer
from shoal.core.migrate import migrate
from shoal.core.protocols import Database, Embedder, Phase, Statement, VectorIndex
from shoal.core.statistics import degraded
from shoal.schema.errors import ModelError
from shoal.schema.limits import TRASH_DAYS_DEFAULT
from shoal.schema.models import (
    DeleteAnswer,
    DeleteRequest,
    FindAnswer,
    FindRequest,
    GetAnswer,
    GetRequest,
    ModelStatus,
    Note,
    NoteCode,
    ReviveAnswer,
    StatsAnswer,
    StoreAnswer,
    StoreBatchAnswer,
    StoreRequest,
    UpdateAnswer,
    UpdateRequest,
)
from shoal.schema.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Policy:
    """Where the ends differ."""

    dirty: bool
    """Whether writes are marked for a push: on a laptop."""
    embed_before_find: int
    """Pending memories that a search embeds first, so that writers find what they wrote by meaning; 0 at the edge."""
    embed_before_find_s: float
    """How long a search waits for them."""


LAPTOP = Policy(dirty=True, embed_before_find=8, embed_before_find_s=0.06)
EDGE = Policy(dirty=False, embed_before_find=0, embed_before_find_s=0.0)


async def open_memory(
    database: Database,
    index: VectorIndex | None,
    embedder: Embedder | None,
    *,
    clock: Callable[[], int],
    new_device: str,
    ontology: Ontology | None = None,
    policy: Policy = LAPTOP,
    trash_days: int = TRASH_DAYS_DEFAULT,
    no_model_reason: str = "no embedding model is configured.",
) -> "Memory":
    """Bring the database up to date and return the service on it. Raises StorageError.

    `new_device` names this replica if the database has no name yet: random, 8 hexadecimal characters.
    """
    await migrate(database)
    await database.batch([Statement("insert or ignore into meta (k, v) values ('device', ?1)", (new_device,))])
    device = (await database.query("select v from meta where k = 'device'"))[0]["v"]
    context = Context(
        database=database,
        index=index,
        embedder=embedder,
        ontology=ontology or Ontology.builtin(),
        clock=clock,
        replica=Replica(str(device), policy.dirty),
        trash_days=trash_days,
    )
    memory = Memory(context, policy, no_model_reason)
    await memory.indexer.begin()
    await rewording.begin(context)
    return memory


class Memory:
    """One memory for every agent. Every method checks the caller and raises ShoalError; nothing is half done."""

    def __init__(self, context: Context, policy: Policy, no_model_reason: str) -> None:
        self._context = context
        self._policy = policy
        self._no_model_reason = no_model_reason
        self.indexer = Indexer(context)

    async def store(
        self, request: StoreRequest, caller: Caller, key: Key | None = None
    ) -> StoreAnswer | StoreBatchAnswer:
        """Store one memory or several; durable when this returns. `key` tells equal texts apart (ids.py)."""
        answer = await storing.store(self._context, request, caller, key)
        if request.wait:
            notes = [*answer.notes, *await self._embed(len(request.items or [request]), None)]
            return answer.model_copy(update={"notes": _with(notes, await self.health())})
        return answer

    async def find(
        self, request: FindRequest, caller: Caller, channels: frozenset[Channel] = ALL_CHANNELS
    ) -> FindAnswer:
        """Search by meaning and words."""
        left = await backlog(self._context)
        if left.vectors and self._policy.embed_before_find and Channel.VECTOR in channels:
            await self._embed(self._policy.embed_before_find, self._policy.embed_before_find_s)
            left = await backlog(self._context)
        answer = await finding.search(self._context, request, caller, channels)
        return answer.model_copy(update={"notes": _with(answer.notes, degraded(self.model_status(), left))})

    async def get(self, request: GetRequest, caller: Caller) -> GetAnswer:
        """Read memories whole, by id or page by page."""
        return await reading.get(self._context, request, caller)

    async def update(self, request: UpdateRequest, caller: Caller) -> UpdateAnswer:
        """Change a memory, or supersede it with new text."""
        return await updating.update(self._context, request, caller)

    async def delete(self, request: DeleteRequest, caller: Caller) -> DeleteAnswer:
        """Put memories into the trash, or purge them."""
        answer = await deleting.delete(self._context, request, caller)
        if answer.status == "purged":
            await self.indexer.erase_purged()
        return answer

    async def revive(self, ids: Sequence[str], caller: Caller) -> ReviveAnswer:
        """Take memories out of the trash."""
        return await deleting.revive(self._context, ids, caller)

    async def stats(self, caller: Caller) -> StatsAnswer:
        """Count, and say what doesn't work as it should."""
        return await statistics.stats(self._context, caller, await backlog(self._context), self.model_status())

    async def count_metadata(self, key: str, caller: Caller) -> dict[str, int]:
        """Count the memories of the caller's space by a metadata value, by type where they have none."""
        return await statistics.count_metadata(self._context, key, caller)

    async def pending(self) -> int:
        """Return how many memories have no vector yet."""
        return (await backlog(self._context)).vectors

    async def embed_pending(self, limit: int = 32) -> int:
        """Make vectors for at most `limit` memories; return how many were worked on. Raises ModelError."""
        return await self.indexer.step(limit)

    async def reword(self) -> int:
        """Write some memories' words anew after text preparation has changed; return how many. Call until 0."""
        return await rewording.step(self._context)

    async def empty_trash(self) -> int:
        """Purge what has lain in the trash too long, a bounded number; return how many."""
        purged = await deleting.empty_trash(self._context)
        if purged:
            await self.indexer.erase_purged()
        return purged

    def model_status(self) -> ModelStatus:
        """Say which model makes the vectors and how it is."""
        embedder = self._context.embedder
        if embedder is None:
            return ModelStatus(fingerprint=None, state=Phase.UNAVAILABLE, reason=self._no_model_reason)
        state = embedder.state
        return ModelStatus(fingerprint=embedder.fingerprint, state=state.phase, reason=state.reason)

    async def health(self) -> list[Note]:
        """Return what doesn't work as it should; empty when all does."""
        return degraded(self.model_status(), await backlog(self._context))

    async def _embed(self, limit: int, seconds: float | None) -> list[Note]:
        """Embed pending memories before an answer; what takes longer goes on in the background."""
        step = asyncio.ensure_future(self.indexer.settle(limit))
        step.add_done_callback(_retrieve)
        try:
            await asyncio.wait_for(asyncio.shield(step), seconds)
        except TimeoutError:
            pass  # the answer's note says how many are pending
        except ModelError as error:
            return [Note(code=NoteCode.LEXICAL_ONLY, message=f"Not embedded: {error}")]
        return []


def _with(notes: Sequence[Note], more: Sequence[Note]) -> list[Note]:
    """Return the notes and those of the others that say something else."""
    codes = {note.code for note in notes}
    return [*notes, *(note for note in more if note.code not in codes)]


def _retrieve(step: "asyncio.Future[None]") -> None:
    """Take the outcome of a step that nobody waits for: what failed stays wanted and is tried again."""
    if not step.cancelled():
        step.exception()
