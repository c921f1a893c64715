"""REST of the real Worker: all that tests/api demands of it."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.api import test_rest
from tests.api.faces import client_of
from tests.edge.edge import Edge
from tests.edge.same import borrowed, forwarding

from shoal.api.openapi import document
from shoal.api.rest import rest_face

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
WITHOUT |= dict.fromkeys(
    (
        "test_the_openapi_document_describes_every_route_and_its_errors",
        "test_the_document_says_which_scopes_each_operation_needs",
        "test_the_examples_in_the_document_work",
        "test_the_documentation_page_loads_nothing_and_runs_nothing",
    ),
    "here are the owner's routes too: below",
)
globals().update(borrowed(test_rest, WITHOUT))


@pytest.fixture
async def rest(edge: Edge) -> AsyncIterator[httpx.AsyncClient]:
    """A client that may do everything."""
    async with client_of(forwarding(edge)) as client:
        yield client


OWNERS = {
    ("POST", "/api/v1/admin/tokens"),
    ("GET", "/api/v1/admin/tokens"),
    ("DELETE", "/api/v1/admin/tokens/{token_id}"),
    ("GET", "/api/v1/admin/log"),
}


def test_the_document_describes_the_owners_routes_too_and_its_examples_work(edge: Edge):
    made = edge.http.get("/openapi.json").json()
    described = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    plain = document(rest_face(version="1"), oauth=False)["paths"]
    assert described >= OWNERS | {(method.upper(), path) for path, methods in plain.items() for method in methods}
    assert all(path in plain or path.startswith("/api/v1/admin/") for _, path in described)
    one = edge.store("x")
    tried = 0
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            if content := operation.get("requestBody", {}).get("content", {}).get("application/json"):
                answer = edge.http.request(method, path.replace("{memory_id}", one), json=content["example"])
                assert answer.is_success, (path, answer.text)
                tried += path.startswith("/api/v1/admin/")
    assert tried > 0


def test_the_documentation_page_loads_nothing_and_runs_nothing_here_either(edge: Edge):
    page = edge.http.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "/api/v1/admin/tokens" in page.text
    assert not re.search(r"<(script|link|img|iframe)|src=|href=.?http|@import|url\(", page.text)
