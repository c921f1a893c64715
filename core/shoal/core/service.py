"""The Memory service, the same at both ends: one door to storing, finding, reading, changing and forgetting."""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from shoal.core import deleting, finding, journal, reading, rewording, statistics, storing, updating
from shoal.core.apply import Replica
from shoal.core.backlog import NOTHING_LEFT, backlog
from shoal.core.caller import ALL_SPACES, Caller, Scope
from shoal.core.context import LAPTOP, Context, Policy
from shoal.core.finding import ALL_CHANNELS, Channel
from shoal.core.ids import Key
from shoal.core.indexing import Indexer
from shoal.core.protocols import Database, Embedder, Phase, Statement, VectorIndex
from shoal.core.remembered import Remembered
from shoal.core.statistics import Health, degraded
from shoal.core.times import MS_PER_DAY
from shoal.schema.errors import ModelError, NotAllowed, ShoalError, VectorIndexError
from shoal.schema.limits import LOG_DAYS_DEFAULT, TRASH_DAYS_DEFAULT
from shoal.schema.models import (
    DeleteAnswer,
    DeleteRequest,
    DeleteStatus,
    FindAnswer,
    FindRequest,
    GetAnswer,
    GetRequest,
    ModelStatus,
    Note,
    NoteCode,
    RequeueAnswer,
    ReviveAnswer,
    StatsAnswer,
    StoreAnswer,
    StoreBatchAnswer,
    StoreRequest,
    UpdateAnswer,
    UpdateRequest,
)
from shoal.schema.ontology import Ontology

STORE_WAIT_S: Final = 60.0
"""How long a store with `wait` waits for vectors: 500 short texts take 6 s. What takes longer goes on by itself."""
_WITH_NEXT_TURN: Final = 2
"""Vectors that one stored memory can want: a turn's, and that of the turn after it."""
_NOT_AWAITED: Final = Note(
    code=NoteCode.PENDING, message="Not waited for: when vectors are made is told only to who may read the space."
)


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
    announce: Callable[[Sequence[str]], None] | None = None,
    exchanged: Callable[[], int | None] = lambda: None,
) -> "Memory":
    """Bring the database up to date and return the service on it. Raises StorageError.

    `new_device` names this replica if the database has no name yet: random, 8 hexadecimal characters. `announce` and
    `exchanged` are those of Context.
    """
    from shoal.core.migrate import migrate  # a Worker never does, and would pay for it at its start

    await migrate(database)
    await database.batch([Statement("insert or ignore into meta (k, v) values ('device', ?1)", (new_device,))])
    device = (await database.query("select v from meta where k = 'device'"))[0]["v"]
    context = Context(
        database=database,
        index=index,
        embedder=embedder,
        ontology=ontology or Ontology.builtin(),
        clock=clock,
        replica=Replica(str(device), policy.dirty, policy.index_apart),
        trash_days=trash_days,
        policy=policy,
        announce=announce,
        exchanged=exchanged,
    )
    memory = Memory(context, no_model_reason)
    await memory.indexer.begin()
    await rewording.begin(context)
    return memory


class Memory:
    """One memory for every agent. Every method checks the caller and raises ShoalError; nothing is half done."""

    def __init__(self, context: Context, no_model_reason: str) -> None:
        self._context = context
        policy = context.policy
        self._embeds_before_find = policy.embed_before_find > 0 and context.embedder is not None
        self._no_model_reason = no_model_reason
        self.indexer = Indexer(context)
        self._catching_up: asyncio.Future[None] | None = None
        self._remembered = Remembered(policy.answers_remembered)
        # Only who looks at the backlog before a search asks for it by a statement of its own.
        self._looks_ahead = self._embeds_before_find or policy.answers_remembered > 0

    async def store(
        self, request: StoreRequest, caller: Caller, key: Key | None = None
    ) -> StoreAnswer | StoreBatchAnswer:
        """Store one memory or several; durable when this returns. `key` tells equal texts apart (ids.py).

        Who may not read the space can't wait for vectors: that would tell which texts were there already.
        """
        answer = await storing.store(self._context, request, caller, key)
        ids = [answer.id] if isinstance(answer, StoreAnswer) else [one.id for one in answer.results]
        self._announce(ids)
        if not request.wait:
            return answer.model_copy(update={"notes": self._noted(answer.notes)})
        if not caller.reaches(caller.space(request.space, Scope.WRITE), Scope.READ):
            return answer.model_copy(update={"notes": self._noted([*answer.notes, _NOT_AWAITED])})
        notes = [*answer.notes, *await self._embed(ids)]
        left = await backlog(self._context, caller.reach(Scope.READ))
        return answer.model_copy(update={"notes": _with(notes, degraded(self.model_status(), left))})

    async def find(
        self, request: FindRequest, caller: Caller, channels: frozenset[Channel] = ALL_CHANNELS
    ) -> FindAnswer:
        """Search by meaning and words."""
        if not self._looks_ahead:
            found, left = await finding.search(self._context, request, caller, channels)
            return _noting(found, degraded(self.model_status(), left))
        readable = caller.within(ALL_SPACES, Scope.READ)
        left = await backlog(self._context, readable)
        if left.vectors and self._embeds_before_find and Channel.VECTOR in channels:
            await self._catch_up()
            left = await backlog(self._context, readable)
        # Not JSON: that can't be made of half a surrogate pair, which the search refuses by a proper error.
        question, now = (_digest(request), caller, channels), self._context.clock()
        found = self._remembered.get(question, left.seq, now)
        if found is not None:
            return _noting(found, degraded(self.model_status(), left))
        found, _ = await finding.search(self._context, request, caller, channels, left)
        health = degraded(self.model_status(), left)
        self._remembered.put(question, left.seq, now, found, health)
        return _noting(found, health)

    async def get(self, request: GetRequest, caller: Caller) -> GetAnswer:
        """Read memories whole, by id or page by page."""
        answer = await reading.get(self._context, request, caller)
        return answer.model_copy(update={"notes": self._noted(answer.notes)})

    async def update(self, request: UpdateRequest, caller: Caller) -> UpdateAnswer:
        """Change a memory, or supersede it with new text."""
        answer = await updating.update(self._context, request, caller)
        self._announce([one for one in (answer.id, answer.superseded_by) if one is not None])
        return answer.model_copy(update={"notes": self._noted(answer.notes)})

    async def delete(self, request: DeleteRequest, caller: Caller) -> DeleteAnswer:
        """Put memories into the trash, or purge them."""
        answer = await deleting.delete(self._context, request, caller)
        if answer.status in (DeleteStatus.DELETED, DeleteStatus.PURGED):
            self._announce(answer.ids)
        if answer.status is DeleteStatus.PURGED and self._context.policy.erases_at_once:
            await self.indexer.erase_purged()
        return answer.model_copy(update={"notes": self._noted(answer.notes)})

    async def revive(self, ids: Sequence[str], caller: Caller) -> ReviveAnswer:
        """Take memories out of the trash."""
        answer = await deleting.revive(self._context, ids, caller)
        self._announce(answer.ids)
        return answer.model_copy(update={"notes": self._noted(answer.notes)})

    async def stats(self, caller: Caller) -> StatsAnswer:
        """Count, and say what doesn't work as it should."""
        return await statistics.stats(self._context, caller, self.model_status())

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
        self._announce(purged)
        if purged and self._context.policy.erases_at_once:
            await self.indexer.erase_purged()
        return len(purged)

    async def expire_log(self) -> int:
        """Forget some of the log of writes that is over LOG_DAYS_DEFAULT old; return how many entries. Call until 0."""
        return await journal.expire(self._context.database, self._context.clock() - LOG_DAYS_DEFAULT * MS_PER_DAY)

    async def requeue(self, caller: Caller) -> RequeueAnswer:
        """Try anew what was given up or could not be delivered, in all spaces. Raises NotAllowed.

        The answer counts what is there, so that it takes reading as well.
        """
        if caller.within(ALL_SPACES, Scope.READ, Scope.ADMIN) is not None:
            raise NotAllowed(
                "A requeue is about every space, and not all are yours to read and administer.",
                "Use a token that allows both everywhere.",
            )
        ids = await self.indexer.try_again()
        self._announce(ids)
        return RequeueAnswer(requeued=len(ids))

    @property
    def context(self) -> Context:
        """What it works on, for replication, which lies beside the service."""
        return self._context

    def _announce(self, ids: Sequence[str]) -> None:
        if ids and self._context.announce is not None:
            self._context.announce(ids)

    def model_status(self) -> ModelStatus:
        """Say which model makes the vectors and how it is."""
        embedder = self._context.embedder
        if embedder is None:
            return ModelStatus(fingerprint=None, state=Phase.UNAVAILABLE, reason=self._no_model_reason)
        state = embedder.state
        return ModelStatus(fingerprint=embedder.fingerprint, state=state.phase, reason=state.reason)

    async def check(self) -> Health:
        """Say whether all is well, and how many memories have no vector yet."""
        context = self._context
        left, sync = await backlog(context), await statistics.sync_info(context)
        notes = [*degraded(self.model_status(), left), *statistics.sync_troubles(context, sync)]
        return Health(notes, left.vectors)

    async def health(self) -> list[Note]:
        """Return what doesn't work as it should; empty when all does."""
        return (await self.check()).degraded

    def _noted(self, notes: Sequence[Note]) -> list[Note]:
        """Return an answer's notes, with the one that there is no model; what is pending only searches say."""
        return _with(notes, degraded(self.model_status(), NOTHING_LEFT))

    async def _embed(self, ids: Sequence[str]) -> list[Note]:
        """Embed the memories just stored before the answer; what takes longer goes on in the background."""
        step = self._step(_WITH_NEXT_TURN * len(ids), ids)
        try:
            await asyncio.wait_for(asyncio.shield(step), STORE_WAIT_S)
        except TimeoutError:
            pass  # the answer's note says how many are pending
        except (ModelError, VectorIndexError) as error:
            return [Note(code=NoteCode.LEXICAL_ONLY, message=f"Not embedded: {error}")]
        return []

    async def _catch_up(self) -> None:
        """Embed some pending memories before a search, for a short time.

        Searches at one time share a step: one each would queue the model's work before everybody's query. Whoever
        finds a step under way waits for the next as well, since that one may have begun before they wrote.
        """
        deadline = asyncio.get_running_loop().time() + self._context.policy.embed_before_find_s
        under_way = self._catching_up
        if under_way is not None and not under_way.done():
            await _until(under_way, deadline)
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = self._step(self._context.policy.embed_before_find)
        await _until(self._catching_up, deadline)

    def _step(self, limit: int, ids: Sequence[str] | None = None) -> "asyncio.Future[None]":
        step = asyncio.ensure_future(self.indexer.settle(limit, ids))
        step.add_done_callback(_retrieve)
        return step


async def _until(step: "asyncio.Future[None]", deadline: float) -> None:
    """Wait for a step until the loop's clock says `deadline`. What a model or a disk refused, the notes tell."""
    await asyncio.wait({step}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
    error = step.exception() if step.done() and not step.cancelled() else None
    if error is not None and not isinstance(error, ShoalError):
        raise error


def _digest(request: FindRequest) -> bytes:
    """Return 16 bytes that stand for a search; a remembered one may be as long as a body."""
    return blake2b(repr(request).encode(errors="surrogatepass"), digest_size=16).digest()


def _noting(found: FindAnswer, health: Sequence[Note]) -> FindAnswer:
    return found.model_copy(update={"notes": _with(found.notes, health)}) if health else found


def _with(notes: Sequence[Note], more: Sequence[Note]) -> list[Note]:
    """Return the notes and those of the others that say something else."""
    codes = {note.code for note in notes}
    return [*notes, *(note for note in more if note.code not in codes)]


def _retrieve(step: "asyncio.Future[None]") -> None:
    """Take the outcome of a step that nobody may be waiting for: what was refused stays wanted and is tried again."""
    error = None if step.cancelled() else step.exception()
    if error is not None and not isinstance(error, ShoalError):
        step.get_loop().call_exception_handler({"message": "Embedding failed.", "exception": error, "future": step})
