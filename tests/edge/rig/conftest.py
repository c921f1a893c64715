"""The sample Worker, running for the whole session; each test is held to production's rules."""

import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from tests.edge.rig.harness import Do, Echo, doing, sample
from tests.edge.rig.rig import REAL_INTERNET, Rig


@pytest.fixture(scope="session")
def echo() -> Iterator[str]:
    """The address of a server that echoes."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, echo: str) -> Iterator[Rig]:
    """The sample Worker; tests use `rig`."""
    with sample(tmp_path_factory.mktemp("sample"), standin=echo, internet=REAL_INTERNET) as rig:
        yield rig


@pytest.fixture
def rig(running: Rig) -> Iterator[Rig]:
    """The sample Worker, held to production's rules during the test."""
    with running.watched():
        yield running


@pytest.fixture
def do(rig: Rig) -> Iterator[Do]:
    """See Do."""
    with doing(rig) as do:
        yield do
