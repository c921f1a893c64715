"""The Worker, attacked. Each module leaves the database as it found it: others use the same Worker."""

import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import live_worker as live
from tests.attacks.attack import Attack, plant
from tests.edge.edge import File
from tests.edge.rig.rig import Rig


def pytest_configure(config: pytest.Config) -> None:
    """Let these tests use the Worker."""
    live.use(config)


@pytest.fixture(scope="session")
def garden(live_rig: Rig, live_counted: File) -> Iterator[tuple[Attack, apsw.Connection]]:
    """Something to steal, put there once, and the database that holds it; tests use `attack`."""
    live_rig.drain()
    database = File(live_rig, "d1")
    before = database.copy()
    found = Attack(live_rig, database)
    plant(found)
    live_rig.drain()
    found.open.close()
    planted = database.copy()
    database.put_back(before)
    yield found, planted
    database.connection.close()


@pytest.fixture(scope="module")
def planted(live_rig: Rig, garden: tuple[Attack, apsw.Connection]) -> Iterator[Attack]:
    """The Worker with something to steal; tests use `attack`."""
    live_rig.drain()
    found, planted = garden
    before = found.database.copy()
    found.database.put_back(planted)
    yield Attack(live_rig, found.database, list(found.hidden), list(found.shown))
    live_rig.drain()
    found.database.put_back(before)


@pytest.fixture
def attack(planted: Attack, live_worker: Rig) -> Iterator[Attack]:
    """The same for one attack, by which nothing may fail inside the Worker."""
    since = live_worker.mark()
    planted.flooding = False
    with planted.open:
        yield planted
    allowed = {503} if planted.flooding else set[int]()
    done = live_worker.invocations(since)
    failed = [each for each in done if each.error or ((each.status or 0) >= 500 and each.status not in allowed)]
    assert not failed, f"failed inside: {failed}\n{live_worker.log()[-5:]}"
