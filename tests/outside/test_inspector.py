"""The MCP Inspector's command line: another SDK, in another language, which also judges our schemas."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from tests.outside.rig import SHOAL, Place, inspector

TOOL_NOT_FOUND_EXIT = 5


@dataclass(frozen=True, slots=True)
class Inspector:
    """The command line on one transport and era."""

    place: Place
    transport: str
    era: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run it once: it connects, asks one thing and ends."""
        options = ["--format", "json", "--protocol-era", self.era, "--transport", self.transport, *arguments]
        if self.transport == "http":
            command = [*inspector(), self.place.url, *options]
        else:
            # A server of its own gets no other variables from it.
            named = ("SHOAL_HOME", "SHOAL_MODEL", "LANG")
            own = [part for name in named for part in ("-e", f"{name}={self.place.environment[name]}")]
            command = [*inspector(), *own, *options, "--", SHOAL, "mcp"]
        return subprocess.run(command, env=self.place.environment, capture_output=True, timeout=60, check=False)

    def ask(self, *arguments: str) -> dict[str, Any]:
        """Return the result of what must go well."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured answer of a tool."""
        given = json.dumps(arguments, ensure_ascii=False)
        result = self.ask("--method", "tools/call", "--tool-name", tool, "--tool-args-json", given)
        assert result["isError"] is False, result
        return result["structuredContent"]


@pytest.fixture(params=["http-legacy", "http-modern", "stdio-legacy", "stdio-modern"])
def run(request: pytest.FixtureRequest, place: Place) -> Inspector:
    """The Inspector on one transport, in one era."""
    transport, era = request.param.split("-")
    return Inspector(place, transport, era)


def test_it_finds_nothing_to_fault_in_the_schemas(run: Inspector) -> None:
    done = run.run("--method", "tools/list", "--strict")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    assert "memory_find" in {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]}


def test_it_finds_nothing_to_fault_in_the_classic_schemas(place: Place) -> None:
    classic = Inspector(Place(place.home, place.environment, f"{place.url}?profile=classic"), "http", "legacy")
    done = classic.run("--method", "tools/list", "--strict")
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()


def test_it_stores_and_finds(run: Inspector, space: str) -> None:
    stored = run.call("memory_store", content="展厅的钥匙在前台", space=space)
    found = run.call("memory_find", query="钥匙", space=space)
    assert [row["id"] for row in found["results"]] == [stored["id"]]


def test_it_reads_a_resource_and_a_prompt(run: Inspector) -> None:
    recent = run.ask("--method", "resources/read", "--uri", "memory://recent")["contents"][0]
    assert recent["mimeType"] == "text/plain"
    named = ("--prompt-name", "memory_retrieval", "--prompt-args", "question=钥匙在哪?")
    filled = run.ask("--method", "prompts/get", *named)["messages"][0]
    assert "钥匙在哪?" in filled["content"]["text"]


def test_an_unknown_tool_is_told_by_its_exit_code(place: Place) -> None:
    done = Inspector(place, "http", "modern").run("--method", "tools/call", "--tool-name", "memory_burn")
    assert done.returncode == TOOL_NOT_FOUND_EXIT, done.stderr.decode()
