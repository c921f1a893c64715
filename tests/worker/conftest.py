"""The tests of the Worker's sources and of what a deployment uploads."""

import sys
from pathlib import Path

# The Worker's build tools (worker/stage.py, worker/vendor.py) are no part of the package; they run from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from collections.abc import AsyncIterator

import pytest
from tests.worker.world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A Worker whose database is migrated and empty."""
    made = World()
    await made.prepare()
    yield made
    made.close()
