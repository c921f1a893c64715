"""MCP of the real Worker: all that tests/api demands of it, from the SDK's client and by hand."""

import pytest
from tests.api import test_mcp
from tests.edge.edge import Edge
from tests.edge.same import borrowed, forwarding

WITHOUT = {
    "test_a_fault_of_ours_shows_no_details": "needs a memory in this process",
    "test_a_client_sees_and_may_call_only_what_its_token_allows": "one token opens everything",
    "test_other_methods_are_told_that_post_is_the_one": "asks without a token too: test_http.py",
    "test_another_path_is_not_found": "needs an app in this process: test_http.py",
    "test_pages_that_rebind_their_name_reach_nothing": "a server on the internet has whatever name: test_http.py",
    "test_a_transport_with_one_client_has_one_context": "is about another transport",
    "test_without_a_context_nothing_is_answered": "is about another transport",
    "test_one_process_serves_its_client_over_stdio": "is about another transport",
}
globals().update(borrowed(test_mcp, WITHOUT))


@pytest.fixture
def memory(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for the memory that those tests serve in their own process: theirs is the Worker's."""
    monkeypatch.setattr(test_mcp, "mcp_of", lambda _memory: forwarding(edge))
