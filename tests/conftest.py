"""What all tests share: how Hypothesis runs, and how long each folder may take."""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# Two noisy cores: a deadline would make a slow machine look like a broken law.
settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")

# Helpers, and tests that one folder borrows from another, explain what fails in them as test modules do.
pytest.register_assert_rewrite(
    "tests.attacks", "tests.edge.agreement", "tests.edge.edge", "tests.api", "tests.outside", "tests.laptops"
)

BUDGETS_S: Final = {
    "schema": 10,
    "core": 90,
    "api": 45,
    "local": 180,
    "conformance": 45,
    "outside": 90,
    "mcp_conformance": 60,
    "browser": 60,
    "fuzz": 60,
    "attacks": 60,
    "bench": 30,
    "edge": 195,
    "laptops": 45,
    "worker": 105,
    "sync": 60,
    "simulation": 120,
    "root": 60,
}
"""Seconds that the tests of a folder may take together, their fixtures included, on two busy cores: with style and
types all of `make test` stays within 10 minutes. `root` are the tests that lie in no folder."""
ROOT: Final = Path(__file__).parent


class Budgets:
    """Adds up what the tests of each folder take, and fails the run when a folder takes too long.

    Tests marked `long` have no budget and don't count.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._rootpath = config.rootpath
        self._spent_s: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test's set-up, call or teardown."""
        if "long" not in report.keywords:
            # Not the report's location: a test that one folder borrows from another counts where it runs.
            path = self._rootpath / report.nodeid.partition("::")[0]
            folders = path.relative_to(ROOT).parts[:-1]
            self._spent_s[folders[0] if folders else "root"] += report.duration

    def over(self) -> list[str]:
        """Return a sentence for each folder that is over its budget or has none."""
        found = [
            f"tests/{folder} took {spent_s:.0f} s, its budget is {BUDGETS_S[folder]} s: make its tests faster"
            for folder, spent_s in self._spent_s.items()
            if spent_s > BUDGETS_S.get(folder, float("inf"))
        ]
        return found + [
            f"tests/{folder} has no budget: give it one in tests/conftest.py"
            for folder in self._spent_s
            if folder not in BUDGETS_S
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that is otherwise fine."""
        if self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums."""
        sums = (f"{folder} {spent_s:.1f}/{BUDGETS_S.get(folder)} s" for folder, spent_s in self._spent_s.items())
        if self._spent_s:
            terminalreporter.write_line(f"time by folder: {', '.join(sums)}")
        for sentence in self.over():
            terminalreporter.write_line(f"OVER BUDGET: {sentence}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Watch the budgets in every run."""
    config.pluginmanager.register(Budgets(config))
