"""One Worker for the tests that bring tools of other people: browsers, conformance suites, fuzzers.

It is a plugin of fixtures, which the folders that want it `use`: so it starts once a run, and only when it is wanted.
"""

import sys
from collections.abc import Iterator

import httpx
import pytest
from tests.browser.pages import page_elsewhere
from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.internet import Internet
from tests.edge.doubles.standin import Standin
from tests.edge.edge import OWNER_KEY, PLAIN, File, secrets, worker
from tests.edge.rig.rig import Rig

__all__ = ["OWNER_KEY", "use"]

_NAME = "shoal-live-worker"


def use(config: pytest.Config) -> None:
    """Let tests ask for the fixtures below."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(sys.modules[__name__], _NAME)


@pytest.fixture(scope="session")
def page_origin() -> Iterator[str]:
    """The origin of a web page that the Worker lets in."""
    with page_elsewhere() as origin:
        yield origin


@pytest.fixture(scope="session")
def live_web() -> Iterator[Internet]:
    """What the Worker reaches by fetch: nothing until a test puts something there."""
    with Internet() as internet:
        yield internet


@pytest.fixture(scope="session")
def live_rig(tmp_path_factory: pytest.TempPathFactory, page_origin: str, live_web: Internet) -> Iterator[Rig]:
    """The Worker as it is now in the checkout; tests use `live_worker`."""
    with (
        # By hashed words: the model takes seconds to load, and nothing here is about meaning.
        Standin(AiEngine.hashed()) as standin,
        worker(tmp_path_factory.mktemp("live"), standin, live_web.url, ALLOWED_ORIGINS=page_origin, **secrets()) as rig,
    ):
        yield rig


@pytest.fixture(scope="session")
def live_counted(live_rig: Rig) -> Iterator[File]:
    """How many requests each caller of the Worker has made."""
    # The first request makes it.
    httpx.get(f"{live_rig.url}/healthz", **PLAIN).raise_for_status()
    file = File(live_rig, "ratelimit")
    yield file
    file.connection.close()


@pytest.fixture
def live_worker(live_rig: Rig, live_counted: File) -> Iterator[Rig]:
    """The Worker with whatever lies in its database, no request counted yet, held to production's rules."""
    live_counted.rows("delete from _mf_ratelimit_buckets")
    with live_rig.watched():
        yield live_rig
