"""The tools as data: name, words for the model, request, answer, hints, scopes, handler; and the profiles of them.

Every call goes through `ToolDefinition.call`, which checks the caller's scopes again, whatever was listed.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from shoal.api.arguments import loosened
from shoal.api.schemas import Schema, answer_schema, compact_schema
from shoal.core.caller import Caller, Scope
from shoal.core.service import Memory
from shoal.schema.models import (
    Answer,
    Criteria,
    DeleteAnswer,
    DeleteRequest,
    FindAnswer,
    FindRequest,
    GetAnswer,
    GetRequest,
    Request,
    StatsAnswer,
    StoreAnswer,
    StoreBatchAnswer,
    StoreRequest,
    UpdateAnswer,
    UpdateRequest,
)

Handler = Callable[[Memory, Any, Caller], Awaitable[BaseModel]]
"""Answers a request of the tool's own model."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client may expect of a tool before it calls it. Tools of a memory reach nothing outside it."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    long_running: bool = False


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool. All of `scopes` are needed; a true argument named in `argument_scopes` needs that scope too."""

    name: str
    title: str
    description: str
    request: type[BaseModel]
    answers: tuple[type[BaseModel], ...]
    hints: Hints
    scopes: frozenset[Scope]
    handler: Handler
    argument_scopes: Mapping[str, Scope] = field(default_factory=dict[str, Scope])
    plain: frozenset[str] = frozenset()
    """Arguments that the schema gives without a description, because another tool of the profile explains them."""

    def input_schema(self, caller: Caller) -> Schema:
        """Return the JSON Schema of the arguments that the caller may give."""
        barred = {name for name, scope in self.argument_scopes.items() if scope not in caller.scopes}
        return compact_schema(self.request, plain=self.plain, without=barred)

    def output_schema(self) -> Schema:
        """Return the JSON Schema of the structured answer."""
        return answer_schema(*self.answers)

    def listed(self, caller: Caller) -> bool:
        """Say whether the caller holds the scopes, wherever they reach."""
        return self.scopes <= caller.scopes

    def needs(self, arguments: Mapping[str, Any]) -> frozenset[Scope]:
        """Return all scopes that a call needs, by its arguments as they were sent, valid or not."""
        given = {name: arguments[name] for name in self.argument_scopes if name in arguments}
        meant = loosened(self.request, given) if given else given
        return self.scopes.union(self.argument_scopes[name] for name, value in meant.items() if value)

    async def call(self, memory: Memory, request: BaseModel, caller: Caller) -> BaseModel:
        """Return the answer to a valid request.

        Raises InsufficientScope, whatever was listed or checked before, and what the service raises.
        """
        caller.require(*self.needs({name: getattr(request, name) for name in self.argument_scopes}))
        return await self.handler(memory, request, caller)


class NoArguments(Request):
    """The request of a tool that takes none."""


async def _store(memory: Memory, request: StoreRequest, caller: Caller) -> Answer:
    return await memory.store(request, caller)


async def _find(memory: Memory, request: FindRequest, caller: Caller) -> Answer:
    return await memory.find(request, caller)


async def _get(memory: Memory, request: GetRequest, caller: Caller) -> Answer:
    return await memory.get(request, caller)


async def _update(memory: Memory, request: UpdateRequest, caller: Caller) -> Answer:
    return await memory.update(request, caller)


async def _delete(memory: Memory, request: DeleteRequest, caller: Caller) -> Answer:
    return await memory.delete(request, caller)


async def _stats(memory: Memory, _request: NoArguments, caller: Caller) -> Answer:
    return await memory.stats(caller)


READS: Final = frozenset({Scope.READ})
WRITES: Final = frozenset({Scope.WRITE})
CHANGES: Final = frozenset({Scope.READ, Scope.WRITE})
"""What changes something that is there tells about it."""
_FILTERS: Final = frozenset(Criteria.model_fields)

STORE: Final = ToolDefinition(
    name="memory_store",
    title="Store a memory",
    description=(
        "Keep a fact, decision, preference, lesson, event or how-to beyond this conversation: one idea each, worded to"
        " be understood alone. The same text again merges."
        ' Example: {"content": "Staging listens on port 8443", "type": "configuration", "tags": ["staging"]}'
    ),
    request=StoreRequest,
    answers=(StoreAnswer, StoreBatchAnswer),
    hints=Hints(idempotent=True),
    scopes=WRITES,
    handler=_store,
    plain=frozenset({"content", "source", "revive"}),
)
FIND: Final = ToolDefinition(
    name="memory_find",
    title="Search memories",
    description=(
        "Search by meaning and words, before answering what may depend on earlier work, people or preferences."
        " Gives short rows, best first; memory_get reads whole texts."
        ' Example: {"query": "which port does staging use", "time": "last month"}'
    ),
    request=FindRequest,
    answers=(FindAnswer,),
    hints=Hints(read_only=True, idempotent=True),
    scopes=READS,
    handler=_find,
    plain=frozenset({"min_score", "explain", "time_zone"}),
)
GET: Final = ToolDefinition(
    name="memory_get",
    title="Read memories",
    description=(
        "Read memories whole by the ids that memory_find gave; without ids, list them with its filters."
        ' Example: {"order": "updated", "tags": ["staging"]}'
    ),
    request=GetRequest,
    answers=(GetAnswer,),
    hints=Hints(read_only=True, idempotent=True),
    scopes=READS,
    handler=_get,
    plain=_FILTERS | {"page", "with_history"},
)
UPDATE: Final = ToolDefinition(
    name="memory_update",
    title="Change a memory",
    description=(
        "Change a memory, archive it, or correct its text: a new memory then supersedes it."
        ' Example: {"id": "9f86d081884c7d659a2feaa0c55ad015", "tags": {"add": ["verified"]}}'
    ),
    request=UpdateRequest,
    answers=(UpdateAnswer,),
    hints=Hints(idempotent=True),
    scopes=CHANGES,
    handler=_update,
    plain=frozenset({"content", "archived", "revive"}),
)
DELETE: Final = ToolDefinition(
    name="memory_delete",
    title="Delete memories",
    description=(
        "Put memories into the trash, by ids or by the filters of memory_find. First call without confirm: the answer"
        ' lists what would go. Example: {"tags": ["draft"], "confirm": true}'
    ),
    request=DeleteRequest,
    answers=(DeleteAnswer,),
    hints=Hints(destructive=True, idempotent=True),
    scopes=CHANGES,
    handler=_delete,
    argument_scopes={"purge": Scope.ADMIN},
    plain=_FILTERS | {"confirm"},
)
STATS: Final = ToolDefinition(
    name="memory_stats",
    title="Memory statistics",
    description=("Counts by type and state, and whether search and storage are healthy (`degraded`)."),
    request=NoArguments,
    answers=(StatsAnswer,),
    hints=Hints(read_only=True, idempotent=True),
    scopes=READS,
    handler=_stats,
)

DEFAULT_TOOLS: Final = (STORE, FIND, GET, UPDATE, DELETE, STATS)
