"""The MCP SDK 1.x as client: the 2025 era as it is out there, over both transports."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.outside.rig import SHOAL, Place, mcp1_python

SCRIPT = Path(__file__).with_name("client_mcp1.py")


@pytest.fixture(scope="module", params=["http", "stdio"])
def seen(request: pytest.FixtureRequest, place: Place) -> dict[str, Any]:
    """What the client saw when it used everything once."""
    target = [place.url] if request.param == "http" else [SHOAL, "mcp"]
    command = [mcp1_python(), str(SCRIPT), f"mcp1-{request.param}", request.param, *target]
    done = subprocess.run(command, env=place.environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_it_agrees_on_the_newest_version_that_it_knows(seen: dict[str, Any]) -> None:
    assert seen["hello"]["protocolVersion"] == "2025-11-25"
    assert seen["hello"]["serverInfo"]["name"] == "shoal"


def test_it_sees_the_tools_with_their_schemas(seen: dict[str, Any]) -> None:
    tools = {tool["name"]: tool for tool in seen["tools"]}
    assert tools["memory_find"]["annotations"]["readOnlyHint"] is True
    assert all(tool["inputSchema"] and tool["outputSchema"] for tool in tools.values())


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_it_stores_and_finds(seen: dict[str, Any], language: str) -> None:
    stored, found = seen[language]["stored"], seen[language]["found"]
    assert stored["text"]["status"] == "created"
    assert [row["id"] for row in found["text"]["results"]][:1] == [stored["text"]["id"]]
    for answer in (stored, found):
        assert answer["structured"] == answer["text"]
        assert answer["is_error"] is False


def test_it_is_told_what_it_did_wrong(seen: dict[str, Any]) -> None:
    assert seen["unknown_argument"]["is_error"] is True
    assert seen["unknown_argument"]["text"]["code"] == "invalid_input"
    assert seen["unknown_tool"] == {"code": -32602, "message": "Unknown tool: 'memory_burn'"}


def test_it_reads_resources(seen: dict[str, Any]) -> None:
    assert "memory://recent" in seen["resources"]
    assert "备份在凌晨三点运行" in seen["recent"]["text"].splitlines()[0]
    assert json.loads(seen["one"]["text"])["content"] == "备份在凌晨三点运行"


def test_it_fills_in_a_prompt(seen: dict[str, Any]) -> None:
    assert {"memory_retrieval", "session_start"} <= set(seen["prompts"])
    assert "几点备份?" in seen["prompt"]["content"]["text"]
