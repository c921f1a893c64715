"""The `authorization` suite of the MCP project, against the Worker."""

import socket
from pathlib import Path

import httpx
import pytest
from tests.edge.edge import OWNER_KEY, PLAIN
from tests.edge.oauth import Flow
from tests.edge.rig.rig import Rig
from tests.mcp_conformance.suite import SPEC_VERSIONS, judge_authorization_server

SCENARIOS = {"authorization-server-metadata-endpoint", "authorization-code-grant"}


@pytest.fixture
def port() -> int:
    """A port that is free now, where the suite can listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_every_check_of_the_suite_passes(live_worker: Rig, port: int, tmp_path: Path, version: str) -> None:
    callback = f"http://127.0.0.1:{port}/callback"
    with Flow(live_worker.url, OWNER_KEY, redirect_uri=callback) as flow:
        assert flow.register().status_code == httpx.codes.CREATED

        def let_in(url: str) -> None:
            signed_in = flow.sign_in(flow.browser.get(url))
            allowed = flow.decide(flow.browser.get(signed_in.headers["location"]))
            httpx.get(allowed.headers["location"], **PLAIN).raise_for_status()

        found = judge_authorization_server(live_worker.url, flow.client_id, port, version, tmp_path, let_in)
    assert found.passed, found.told
    assert found.checks.keys() == SCENARIOS
    others = found.with_status("FAILURE", "WARNING", "SKIPPED", "INFO")
    assert not others, found.told
