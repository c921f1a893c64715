"""The servers that the suites judge."""

import sys
from pathlib import Path

import pytest

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import live_worker as live


def pytest_configure(config: pytest.Config) -> None:
    """Let these tests use the Worker."""
    live.use(config)
