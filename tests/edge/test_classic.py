"""The profile `classic` of the real Worker: all that tests/api demands of it."""

import pytest
from tests.api import test_classic
from tests.edge.edge import Edge
from tests.edge.same import borrowed, forwarding

# test_mcp.py tries the profiles too; what each tool does is the same code at both ends.
pytestmark = pytest.mark.long
globals().update(borrowed(test_classic, {}))


@pytest.fixture
def memory(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for the memory that those tests serve in their own process: theirs is the Worker's."""
    monkeypatch.setattr(test_classic, "mcp_of", lambda _memory, profile: forwarding(edge, **{"shoal-profile": profile}))
