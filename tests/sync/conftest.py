"""A device's memory; and lets the tests import what they share from the root."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.rig import Rig, opened


@pytest.fixture
async def rig() -> Rig:
    """A device's memory without a model."""
    return await opened(embedder=None)
