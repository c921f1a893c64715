"""An own home for each test, and processes that are all ended, by their id, when the test is over."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.local.home import Home

# The tests' shared helpers (tests/local/processes.py) are imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.local.processes import Processes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of its own; no other variable of the person who runs the tests counts."""
    for name in list(os.environ):
        if name.startswith(("SHOAL_", "MCP_", "MEMORY_", "MOCK_")):
            monkeypatch.delenv(name)
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    # Loading the model takes a second; tests/local/embedding does it.
    monkeypatch.setenv("SHOAL_MODEL", "off")
    monkeypatch.setenv("COLUMNS", "200")
    return Home(tmp_path / "home")


@pytest.fixture
def processes(home: Home) -> Iterator[Processes]:
    """Processes in the test's home."""
    started = Processes(home)
    try:
        yield started
    finally:
        started.end()
