"""The real Worker for the tests of the edge: started once a session, each test held to production's rules."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

# The tests' shared helpers (tests/edge/rig, tests/edge/doubles) and the build tools (worker/) lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import MODELS, Standin
from tests.edge.rig.rig import Rig
from worker.stage import stage

ROOT: Final = Path(__file__).parents[2]
TOKEN: Final = "a-token-of-the-tests"


@pytest.fixture(scope="session")
def standin() -> Iterator[Standin]:
    """Vectorize and Workers AI, the latter with the real local model."""
    with Standin(AiEngine.local(MODELS)) as standin:
        yield standin


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, standin: Standin) -> Iterator[Rig]:
    """The Worker as it is now in the checkout; tests use `rig`."""
    stage()
    secrets = {"TOKEN_SHA256": hashlib.sha256(TOKEN.encode()).hexdigest()}
    persist = tmp_path_factory.mktemp("edge")
    with Rig(ROOT, persist, variables=secrets, standin=standin.url, queue_wait_s=0) as rig:
        yield rig


@pytest.fixture
def rig(running: Rig, standin: Standin) -> Iterator[Rig]:
    """The Worker, held to production's rules during the test; faults end with it."""
    with running.watched():
        yield running
        standin.control(clear_faults=True, poison="", lag_s=0)


@pytest.fixture
def client(rig: Rig) -> Iterator[httpx.Client]:
    """A client that is let in."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=rig.url, headers=headers, timeout=30) as client:
        yield client
