"""An edge on CPython for each test, and a keyring that belongs to the test alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.backends.fail
import keyring.errors
import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.local.sync.rig import LocalEdge, Server

from shoal.local.home import Home
from shoal.local.sync.files import SyncFiles


class OwnKeyring(keyring.backend.KeyringBackend):
    """Keeps passwords in memory, and fails when it is told to."""

    priority: Any = 5

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.failure: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        self._fail()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._fail()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._fail()
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("no such password")

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """No keyring unless a test asks for one: never that of whoever runs the tests."""
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def own_keyring(no_keyring: None) -> OwnKeyring:
    """A keyring of the test's."""
    own = OwnKeyring()
    keyring.set_keyring(own)
    return own


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Where the tests' edges are served."""
    with Server() as server:
        yield server


@pytest.fixture
def edge(server: Server) -> Iterator[LocalEdge]:
    """An edge that knows nobody yet."""
    with LocalEdge(server=server) as edge:
        yield edge


@pytest.fixture
def files(home: Home) -> SyncFiles:
    """Those of the home's database."""
    home.ensure()
    return SyncFiles.of(home, home.database)
