"""Vectors of the default model for measuring: raw (length 1, not centred), with any prefix."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.core.protocols import Role
from shoal.local.embedding import FastembedEmbedder, choose

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RawModel:
    """The default model without centring. Close it."""

    def __init__(self, cache_dir: Path, prefix: str | None = None) -> None:
        choice = choose(None, None, cache_dir)
        wanted = choice.descriptor.passage_prefix if prefix is None else prefix
        raw = replace(choice.descriptor, centring=None, query_prefix=wanted, passage_prefix=wanted)
        self._embedder = FastembedEmbedder(replace(choice, descriptor=raw), cache_dir)

    async def vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return float32 unit vectors [n, dim]."""
        return np.asarray(await self._embedder.embed(texts, Role.PASSAGE), dtype=np.float32)

    def close(self) -> None:
        """End the model's threads."""
        self._embedder.close()


def unit(vectors: "NDArray[np.floating]") -> "NDArray[np.float32]":
    """Scale rows to length 1."""
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
