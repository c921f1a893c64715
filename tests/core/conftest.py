"""The real service on the fakes."""

import sys
from pathlib import Path

import pytest

# The tests' shared rig (tests/core/rig.py) is imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.rig import Rig, opened


@pytest.fixture
async def rig() -> Rig:
    """An empty memory with a hashing embedder, in a database in memory."""
    return await opened()
