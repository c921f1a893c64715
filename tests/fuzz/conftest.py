"""The places that are fuzzed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.place import Place, laptop


@pytest.fixture
def place() -> Iterator[Place]:
    """A server whose memory holds something that the token may not see."""
    with laptop() as found:
        yield found
