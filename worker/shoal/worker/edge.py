"""The Memory of one invocation, on that invocation's bindings: nothing of it may outlive the invocation."""

import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shoal.core.apply import Replica
from shoal.core.context import EDGE, Context
from shoal.core.service import Memory
from shoal.schema.ontology import Ontology
from shoal.worker.background import Background
from shoal.worker.budget import Budget
from shoal.worker.configuration import Clock, Configuration, binding
from shoal.worker.d1 import D1Database
from shoal.worker.queue import announce
from shoal.worker.vectorize import VectorizeIndex
from shoal.worker.workers_ai import WorkersAiEmbedder

DEVICE = "edge"
"""Names this replica in stamps. There is one edge, however many isolates it runs in."""
BATCH_NAME_BYTES = 8
_ONTOLOGY = Ontology.builtin()


def now_ms() -> int:
    """Return milliseconds since 1970. In production the clock moves only when something outside answers."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Edge:
    """What an invocation works with."""

    context: Context
    memory: Memory
    index: VectorizeIndex
    budget: Budget
    configuration: Configuration
    announce: Callable[[Sequence[str]], Coroutine[Any, Any, bool]]
    """Queues memories whose vectors are wanted; False when the queue would not take them."""

    def without_model(self) -> "Edge":
        """Return the same without its model, which rests: what leaves the index still does."""
        context = replace(self.context, embedder=None)
        return replace(self, context=context, memory=Memory(context, "its daily quota is used up."))


def open_edge(
    env: object,
    wait_until: Callable[[Coroutine[Any, Any, None]], object],
    configuration: Configuration,
    clock: Clock = now_ms,
) -> Edge:
    """Return the memory on an environment's bindings; no I/O. Raises NotConfigured when one is missing."""
    budget = Budget()
    background = Background(wait_until)
    database = D1Database(binding(env, "DB"), clock, budget)
    embedder = WorkersAiEmbedder(binding(env, "AI"), configuration.model, clock, budget)
    index = VectorizeIndex(binding(env, "VECTORIZE"), database, embedder.fingerprint, embedder.dim, clock, budget)
    queue = binding(env, "QUEUE")

    def send(ids: Sequence[str]) -> Coroutine[Any, Any, bool]:
        return announce(queue, ids, budget)

    context = Context(
        database=database,
        index=index,
        embedder=embedder,
        ontology=_ONTOLOGY,
        clock=clock,
        replica=Replica(DEVICE, EDGE.dirty, EDGE.index_apart, partial(secrets.token_hex, BATCH_NAME_BYTES)),
        trash_days=configuration.trash_days,
        policy=EDGE,
        announce=lambda ids: background.start("announce", send(ids)),
        discard=lambda ids: background.start("discard", index.discard(ids)),
    )
    return Edge(context, Memory(context, "no model is configured."), index, budget, configuration, send)
