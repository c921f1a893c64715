"""The real service on the fakes, with a clock that only goes forward."""

import itertools
import sys
from pathlib import Path

import apsw
import pytest

from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.service import Memory, open_memory

# The tests' shared clients (tests/api/faces.py) are imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

NOW_MS = 1_790_000_000_000
"""2026-09-21."""


async def made_memory(embedder: FakeEmbedder | None = None) -> Memory:
    """Return an empty memory; without an embedder it searches by words only."""
    database = FakeDatabase(apsw.Connection(":memory:"))
    ticks = itertools.count(NOW_MS)
    index = FakeVectorIndex(database) if embedder is not None else None
    return await open_memory(database, index, embedder, clock=lambda: next(ticks), new_device="0a0b0c0d")


@pytest.fixture
async def memory() -> Memory:
    """An empty memory with vectors."""
    return await made_memory(FakeEmbedder())
