"""REST of the real Worker: all that tests/api demands of it."""

from collections.abc import AsyncIterator

import httpx
import pytest
from tests.api import test_rest
from tests.api.faces import client_of
from tests.edge.edge import Edge
from tests.edge.same import borrowed, forwarding

WITHOUT = {
    "test_tokens_reach_only_what_they_allow": "one token opens everything",
    "test_what_was_given_up_is_tried_again_by_who_may": "one token opens everything",
    "test_health_needs_no_token_and_shows_no_contents": "the forwarding app always sends one: test_gate.py",
    "test_health_never_says_ok_when_degraded": "the edge always has a model: test_model_faults.py",
    "test_a_refusing_storage_is_503": "needs a memory in this process: test_database_faults.py",
    "test_a_fault_of_ours_is_500_in_the_same_shape": "needs a memory in this process",
    "test_the_log_names_the_route_and_not_the_id": "needs a log in this process: test_http.py",
    "test_a_client_that_leaves_in_the_middle_of_its_body_stores_nothing": "needs a socket: test_http.py",
    "test_rest_starts_without_loading_mcp": "is about imports",
    "test_an_unknown_path_is_not_found": "here /mcp is known: test_http.py",
    "test_the_longest_chinese_content_fits_even_escaped": "hundreds of passages: test_long_contents.py",
}
globals().update(borrowed(test_rest, WITHOUT))


@pytest.fixture
async def rest(edge: Edge) -> AsyncIterator[httpx.AsyncClient]:
    """A client that may do everything."""
    async with client_of(forwarding(edge)) as client:
        yield client
