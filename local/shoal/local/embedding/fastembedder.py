"""The laptop's Embedder: fastembed in threads, loaded on first use.

Two threads share one model. Queries and small batches have one of their own, so that they never wait behind a
background batch; large batches run in the other, which is niced where the system allows (a nice value can only be
raised, so one thread could not serve both).
"""

import asyncio
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shoal.core.protocols import Calibration, ModelState, Phase, Role, Vector
from shoal.local.embedding.batching import batches
from shoal.local.embedding.chain import Choice
from shoal.schema.errors import ModelError

if TYPE_CHECKING:
    from shoal.local.embedding.loaded import LoadedModel

FOREGROUND_TEXTS: Final = 8
"""A batch up to this size counts as waited for, like a query: `find` embeds the caller's own last writes."""
QUERY_CACHE_ENTRIES: Final = 1024
"""About 1.5 kB each with 384 dimensions."""
RETRY_AFTER_S: Final = 300.0
"""Before loading is tried again after a failure: fastembed alone retries a download for about 40 s."""
BACKGROUND_NICE: Final = 10
"""Of -20 to 19: on a busy core the foreground then gets about ten times as much."""


class FastembedEmbedder:
    """An Embedder (core.protocols) over fastembed, used from one event loop. Close it to end its threads."""

    def __init__(
        self,
        choice: Choice,
        cache_dir: Path,
        progress: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.choice: Final = choice
        """Which model this is, and why."""
        self._descriptor = choice.descriptor
        self._cache_dir = cache_dir
        self._progress = progress
        self._clock = clock
        self._state = ModelState(Phase.UNLOADED)
        self._failure: tuple[float, ModelError] | None = None
        self._model: LoadedModel | None = None
        self._load_lock = threading.Lock()
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._foreground = ThreadPoolExecutor(1, "shoal-embed")
        self._background = ThreadPoolExecutor(1, "shoal-embed-background", initializer=_be_nice)

    @property
    def fingerprint(self) -> str:
        """See core.protocols. Known without loading. A hub model's changes once, when its download ends."""
        return self._descriptor.fingerprint(self.choice.current_revision)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._descriptor.dim

    @property
    def calibration(self) -> Calibration | None:
        """What this model's cosines mean, or None where nobody measured."""
        return self._descriptor.calibration

    @property
    def window(self) -> int:
        """Tokens that the model reads of a text, prefix included; the rest is cut off."""
        return self._descriptor.window

    @property
    def state(self) -> ModelState:
        """Where the model stands now."""
        stands_in = self.choice.stands_in
        if stands_in is None or self._state.phase is Phase.UNAVAILABLE:
            return self._state
        return replace(self._state, reason=stands_in)

    async def prepare(self) -> None:
        """Load the model now, and convert or download it first. Raises ModelError."""
        await asyncio.get_running_loop().run_in_executor(self._foreground, self._loaded)

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """Return one unit vector a text, in order; loads the model first. Raises ModelError.

        A cancelled call ends after the batch of at most four texts that runs.
        """
        if role is Role.QUERY:
            return await self._embed_queries(texts)
        executor = self._foreground if len(texts) <= FOREGROUND_TEXTS else self._background
        return await self._embed(texts, role, executor)

    def close(self) -> None:
        """End the threads after the batches that run. The embedder can't be used afterwards."""
        self._foreground.shutdown(cancel_futures=True)
        self._background.shutdown(cancel_futures=True)

    async def _embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        known = {text: self._queries[text] for text in texts if text in self._queries}
        wanted = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(wanted, await self._embed(wanted, Role.QUERY, self._foreground), strict=True))
        for text, vector in known.items():
            self._queries[text] = vector
            self._queries.move_to_end(text)
        while len(self._queries) > QUERY_CACHE_ENTRIES:
            self._queries.popitem(last=False)
        return [known[text] for text in texts]

    async def _embed(self, texts: Sequence[str], role: Role, executor: ThreadPoolExecutor) -> list[Vector]:
        loop = asyncio.get_running_loop()
        prefix = self._descriptor.prefix(role)
        vectors: dict[int, Vector] = {}
        for batch in batches(texts):
            made = await loop.run_in_executor(executor, self._infer, [prefix + texts[n] for n in batch], role)
            vectors.update(zip(batch, made, strict=True))
        return [vectors[number] for number in range(len(texts))]

    def _infer(self, texts: list[str], role: Role) -> Sequence[Vector]:
        return self._loaded().vectors(texts, role)

    def _loaded(self) -> "LoadedModel":
        """Return the model; whichever thread comes first loads it and the other waits."""
        if self._model is None:
            with self._load_lock:
                if self._model is None:
                    self._model = self._load()
        return self._model

    def _load(self) -> "LoadedModel":
        from shoal.local.embedding.loaded import load

        if self._failure and self._clock() - self._failure[0] < RETRY_AFTER_S:
            raise self._failure[1]
        self._state = ModelState(Phase.LOADING)
        try:
            model = load(self.choice, self._cache_dir, self._report)
        except ModelError as error:
            self._failure = (self._clock(), error)
            self._state = ModelState(Phase.UNAVAILABLE, reason=str(error))
            raise
        self._state = ModelState(Phase.READY)
        return model

    def _report(self, share: float) -> None:
        self._state = ModelState(Phase.LOADING, progress=share)
        if self._progress:
            self._progress(share)


def _be_nice() -> None:
    """Let everything else go first. Only Linux has a nice value per thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(BACKGROUND_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
