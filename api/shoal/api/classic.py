"""Profile `classic`: remember, recall, forget, memory_stats over the same memory.

A `kind` is the caller's own word. It becomes a type by the ontology's synonyms, `note` when it is unknown, and is
kept in the metadata so that answers repeat it.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from shoal.api.registry import CHANGES, READS, WRITES, Hints, NoArguments, ToolDefinition
from shoal.core.caller import Caller
from shoal.core.ids import kind_key
from shoal.core.service import Memory
from shoal.schema.errors import InvalidId, UnknownType
from shoal.schema.models import (
    Answer,
    DeleteRequest,
    DeleteStatus,
    FindRequest,
    GetRequest,
    MemoryOut,
    Note,
    Request,
    Stored,
    StoreRequest,
    StoreStatus,
)
from shoal.schema.ontology import DEFAULT_TYPE

KIND_AS_WRITTEN: Final = "kind_as_written"
"""The metadata key that holds the caller's word for the kind."""
_RECALL_DEFAULT: Final = 10
_RECALL_MAX: Final = 50


class RememberRequest(Request):
    """Remember a text."""

    content: Annotated[str, Field(description="The text to remember")]
    kind: Annotated[str, Field(description="fact, preference, task, decision or your own word")] = DEFAULT_TYPE
    tags: Annotated[str, Field(description="Tags with commas between")] = ""
    source: Annotated[str, Field(description="Where it came from")] = "manual"


class RememberStatus(StrEnum):
    """What became of a text."""

    CREATED = "created"
    UPDATED = "updated"
    ERROR = "error"


class RememberAnswer(Answer):
    """What became of a text; `memo_id` and `okf` are both the memory's id."""

    status: RememberStatus
    memo_id: str
    okf: str
    message: str | None = None


class RecallRequest(Request):
    """Search memories."""

    query: Annotated[str, Field(description="What to look for; empty = latest")] = ""
    limit: Annotated[int, Field(description="1..50")] = _RECALL_DEFAULT


class Memo(Answer):
    """A memory, whole; tags and sources are joined by commas."""

    memo_id: str
    content: str
    kind: str
    tags: str
    source: str
    created_at: str
    updated_at: str
    score: float


class RecallAnswer(Answer):
    """Memories, best first."""

    rows: list[Memo]
    notes: list[Note]


class ForgetRequest(Request):
    """Forget a memory."""

    memo_id: str
    confirm: Annotated[bool, Field(description="Without it nothing is forgotten")] = False


class ForgetStatus(StrEnum):
    """What became of a forget."""

    CANCELLED = "cancelled"
    NOT_FOUND = "not_found"
    DELETED = "deleted"


class ForgetAnswer(Answer):
    """What became of a forget."""

    status: ForgetStatus
    memo_id: str


class KindCount(Answer):
    """How many memories of a kind there are."""

    kind: str
    cnt: int


class ClassicStats(Answer):
    """How many memories there are."""

    total: int
    by_kind: list[KindCount]


def kind_of(memory: MemoryOut) -> str:
    """Return the word under which the memory was stored, or its type."""
    written = memory.metadata.get(KIND_AS_WRITTEN)
    return written if isinstance(written, str) else memory.type


async def _remember(memory: Memory, request: RememberRequest, caller: Caller) -> RememberAnswer:
    try:
        stored = await _store_as(memory, request, request.kind, caller)
    except UnknownType:
        stored = await _store_as(memory, request, DEFAULT_TYPE, caller)
    if stored.status is StoreStatus.WAS_FORGOTTEN:
        message = (
            f"This text was forgotten before. `shoal revive {stored.id}`, or memory_update with this id and"
            " revive=true, brings it back; what was purged can be stored anew by memory_store."
        )
        return RememberAnswer(status=RememberStatus.ERROR, memo_id=stored.id, okf=stored.id, message=message)
    status = RememberStatus.CREATED if stored.status is StoreStatus.CREATED else RememberStatus.UPDATED
    return RememberAnswer(status=status, memo_id=stored.id, okf=stored.id)


async def _store_as(memory: Memory, request: RememberRequest, kind: str, caller: Caller) -> Stored:
    answer = await memory.store(
        StoreRequest(
            content=request.content,
            type=kind,
            tags=request.tags,
            source=request.source,
            metadata={KIND_AS_WRITTEN: request.kind},
        ),
        caller,
        kind_key(request.kind),
    )
    return answer if isinstance(answer, Stored) else answer.results[0]


async def _recall(memory: Memory, request: RecallRequest, caller: Caller) -> RecallAnswer:
    limit = min(max(request.limit, 1), _RECALL_MAX)
    if not request.query.strip():
        latest = await memory.get(GetRequest(order="updated", page_size=limit), caller)
        return RecallAnswer(rows=[_memo(found, 0.0) for found in latest.memories], notes=latest.notes)
    answer = await memory.find(FindRequest(query=request.query, n_results=limit), caller)
    scores = {found.id: found.score for found in answer.results}
    if not scores:
        return RecallAnswer(rows=[], notes=answer.notes)
    whole = await memory.get(GetRequest(ids=list(scores)), caller)
    rows = sorted((_memo(found, scores[found.id]) for found in whole.memories), key=lambda row: -row.score)
    known = {note.code for note in answer.notes}
    notes = [*answer.notes, *(note for note in whole.notes if note.code not in known)]
    return RecallAnswer(rows=rows, notes=notes)


def _memo(memory: MemoryOut, score: float) -> Memo:
    return Memo(
        memo_id=memory.id,
        content=memory.content,
        kind=kind_of(memory),
        tags=",".join(memory.tags),
        source=",".join(memory.sources),
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        score=score,
    )


async def _forget(memory: Memory, request: ForgetRequest, caller: Caller) -> ForgetAnswer:
    try:
        answer = await memory.delete(DeleteRequest(id=request.memo_id, confirm=request.confirm), caller)
    except InvalidId:
        return ForgetAnswer(status=ForgetStatus.NOT_FOUND, memo_id=request.memo_id)
    status = {DeleteStatus.CANCELLED: ForgetStatus.CANCELLED, DeleteStatus.NOT_FOUND: ForgetStatus.NOT_FOUND}
    return ForgetAnswer(status=status.get(answer.status, ForgetStatus.DELETED), memo_id=request.memo_id)


async def _stats(memory: Memory, _request: NoArguments, caller: Caller) -> ClassicStats:
    counts = await memory.count_metadata(KIND_AS_WRITTEN, caller)
    by_kind = [KindCount(kind=kind, cnt=cnt) for kind, cnt in counts.items()]
    return ClassicStats(total=sum(counts.values()), by_kind=by_kind)


CLASSIC_TOOLS: Final = (
    ToolDefinition(
        name="remember",
        title="Remember",
        description=(
            "Keep a text beyond this conversation. The same text again adds its tags and source."
            ' Example: {"content": "Ana prefers short answers", "kind": "preference", "tags": "ana,style"}'
        ),
        request=RememberRequest,
        answers=(RememberAnswer,),
        hints=Hints(idempotent=True),
        scopes=WRITES,
        handler=_remember,
    ),
    ToolDefinition(
        name="recall",
        title="Recall",
        description=(
            "Search what was remembered, best first. Use it before answering anything that may depend on the past."
            ' Example: {"query": "how does Ana like answers", "limit": 5}'
        ),
        request=RecallRequest,
        answers=(RecallAnswer,),
        hints=Hints(read_only=True, idempotent=True),
        scopes=READS,
        handler=_recall,
    ),
    ToolDefinition(
        name="forget",
        title="Forget",
        description=(
            "Forget one memory by its memo_id, when the user asks for it. Without confirm nothing happens."
            ' Example: {"memo_id": "9f86d081884c7d659a2feaa0c55ad015", "confirm": true}'
        ),
        request=ForgetRequest,
        answers=(ForgetAnswer,),
        hints=Hints(destructive=True, idempotent=True),
        scopes=CHANGES,
        handler=_forget,
    ),
    ToolDefinition(
        name="memory_stats",
        title="Memory statistics",
        description="How many memories there are, by kind.",
        request=NoArguments,
        answers=(ClassicStats,),
        hints=Hints(read_only=True, idempotent=True),
        scopes=READS,
        handler=_stats,
    ),
)
