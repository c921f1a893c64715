"""The real Worker for the tests of the edge: started once a session, each test held to production's rules."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tests' shared helpers (tests/edge/rig, tests/edge/doubles) and the build tools (worker/) lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.internet import Internet
from tests.edge.doubles.standin import MODELS, Standin
from tests.edge.edge import ORIGIN, Edge, secrets, worker
from tests.edge.rig.rig import Rig


@pytest.fixture(scope="session")
def standin() -> Iterator[Standin]:
    """Vectorize and Workers AI, the latter with the real local model."""
    with Standin(AiEngine.local(MODELS)) as standin:
        yield standin


@pytest.fixture(scope="session")
def web() -> Iterator[Internet]:
    """What the Worker reaches by fetch; tests use `internet`."""
    with Internet() as internet:
        yield internet


@pytest.fixture
def internet(web: Internet) -> Internet:
    """The internet, empty."""
    web.clear()
    return web


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, standin: Standin, web: Internet) -> Iterator[Rig]:
    """The Worker as it is now in the checkout; tests use `edge` or `rig`."""
    with worker(tmp_path_factory.mktemp("edge"), standin, web.url, ALLOWED_ORIGINS=ORIGIN, **secrets()) as rig:
        yield rig


@pytest.fixture
def rig(running: Rig) -> Iterator[Rig]:
    """The Worker with whatever lies in its database, held to production's rules during the test."""
    with running.watched():
        yield running


@pytest.fixture(scope="session")
def opened(running: Rig, standin: Standin) -> Iterator[Edge]:
    """The Worker with what it works on; tests use `edge`."""
    edge = Edge(running, standin)
    yield edge
    edge.close()


@pytest.fixture
def edge(opened: Edge) -> Iterator[Edge]:
    """The Worker with an empty memory, held to production's rules; faults end with the test."""
    with opened.test():
        yield opened
