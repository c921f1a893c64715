"""The `server` suite of the MCP project, against fixtures on our transport behind our gate."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mcp_conformance.app import fixtures_app, served
from tests.mcp_conformance.suite import SPEC_VERSIONS, Outcome, judge_server, required

NO_SESSIONS = {
    "server-sse-multiple-streams:server-sse-multiple-streams-session",
    "server-sse-polling:server-sse-polling-session",
}
NO_SUBSCRIPTIONS = {
    f"server-stateless:sep-2575-server-{check}"
    for check in (
        "sends-subscription-ack",
        "tags-subscription-id",
        "honors-notification-filter",
        "sends-prompts-list-changed-on-subscription",
        "sends-tools-list-changed-on-subscription",
    )
}
NOT_APPLICABLE = {"2025-11-25": NO_SESSIONS, "2026-07-28": NO_SUBSCRIPTIONS}
"""What the suite leaves out when it sees that a server has no sessions, or declares nothing to subscribe to."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The endpoint that the suite judges."""
    with served(fixtures_app()) as origin:
        yield f"{origin}/mcp"


@pytest.fixture(scope="module", params=SPEC_VERSIONS)
def outcome(request: pytest.FixtureRequest, url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Outcome]:
    """A version of MCP, and what the suite found."""
    version: str = request.param
    expected = Path(__file__).with_name(f"expected-failures-{version}.yml")
    return version, judge_server(url, version, expected, tmp_path_factory.mktemp("results"))


def test_the_suite_finds_no_failure_but_the_expected_ones(outcome: tuple[str, Outcome]) -> None:
    _, found = outcome
    assert found.passed, found.told


def test_every_scenario_that_the_version_requires_has_run(outcome: tuple[str, Outcome]) -> None:
    version, found = outcome
    assert required(version) <= found.checks.keys()


def test_the_suite_leaves_out_only_what_has_no_place_on_the_transport(outcome: tuple[str, Outcome]) -> None:
    version, found = outcome
    assert found.with_status("WARNING", "SKIPPED") == NOT_APPLICABLE[version]
