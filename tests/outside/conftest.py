"""One daemon for the whole folder; each test keeps to a space of its own."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tests' shared helpers (tests/outside/rig.py) are imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.outside.rig import Place, running


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A running daemon and where it lives."""
    with running(tmp_path_factory.mktemp("outside")) as found:
        yield found


@pytest.fixture
def space(request: pytest.FixtureRequest) -> str:
    """A space that no other test writes to."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[-60:].strip("-")
