"""The places that are fuzzed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import live_worker as live
from tests.edge.edge import File
from tests.edge.rig.rig import Rig
from tests.fuzz.place import Place, edge, laptop


def pytest_configure(config: pytest.Config) -> None:
    """Let these tests use the Worker."""
    live.use(config)


@pytest.fixture
def place() -> Iterator[Place]:
    """This process, whose memory holds something that the token may not see."""
    with laptop() as found:
        yield found


@pytest.fixture(scope="session")
def _planted(live_rig: Rig, live_counted: File, page_origin: str) -> Place:
    found = edge(live_rig, live_counted, page_origin)
    found.plant()
    return found


@pytest.fixture
def worker(live_worker: Rig, _planted: Place) -> Place:
    """The Worker, whose memory does too; it is also an authorization server."""
    return _planted
