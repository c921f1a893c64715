"""An edge and two laptops, all of them processes of their own, which the tests kill: so nobody else uses them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backends.fail
import pytest

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import Standin
from tests.edge.edge import Edge, secrets, worker
from tests.laptops.laptop import Laptop

from shoal.local.home import Home

EVERYTHING = {"*": ["read", "write", "admin"]}


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """Tokens lie in files: commands run in this process, whose keyring the daemons of the tests don't have."""
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    """The real Worker, with vectors of hashed words: nothing here is about meaning."""
    with Standin(AiEngine.hashed()) as standin, worker(tmp_path / "edge", standin, **secrets()) as rig:
        one = Edge(rig, standin)
        yield one
        one.close()


@pytest.fixture
def laptops(edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Laptop]]:
    """Two homes whose daemons run, each linked by a device token of its own."""
    for name in list(os.environ):
        if name.startswith(("SHOAL_", "MCP_", "MEMORY_", "MOCK_")):
            monkeypatch.delenv(name)
    made = [Laptop(Home(tmp_path / name), name) for name in ("first", "second")]
    try:
        for one in made:
            one.link(edge.rig.url, edge.token(name=one.name, spaces=EVERYTHING, sync=True))
            one.start()
        yield made
    finally:
        for one in made:
            one.processes.end()
