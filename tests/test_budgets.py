"""The time budgets of tests/conftest.py, in runs of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

PASSES = "def test_passes(): pass\n"
LONG = f"import pytest\n@pytest.mark.long\n{PASSES}"
SLOW_SET_UP = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "setup":
        report.duration = 1_000.0  # A clock that says so, rather than a wait.
    return report
"""


def run(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the files under tests/ with the project's conftest.py."""
    tests = folder / "tests"
    for name, text in {"../pytest.ini": "[pytest]\nmarkers = long\n", **files}.items():
        path = (tests / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(Path(__file__).with_name("conftest.py"), tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_run_within_its_budgets_passes_and_says_what_it_took_without_long_tests(tmp_path: Path) -> None:
    slow_but_long = {"api/conftest.py": SLOW_SET_UP, "api/test_z.py": LONG}
    done = run(tmp_path, {"core/test_x.py": PASSES, "test_y.py": PASSES, **slow_but_long})
    assert done.returncode == 0, done.stdout
    told = next(line for line in done.stdout.splitlines() if line.startswith("time by folder: "))
    assert told.endswith("/90 s, root 0.0/60 s")
    assert "api" not in told


def test_a_folder_that_takes_too_long_or_has_no_budget_fails_the_run(tmp_path: Path) -> None:
    slow = {"core/conftest.py": SLOW_SET_UP, "core/test_x.py": PASSES}
    done = run(tmp_path, {**slow, "attic/deep/test_y.py": PASSES, "api/test_z.py": PASSES})
    assert done.returncode == 1
    assert "tests/core took 1000 s, its budget is 90 s" in done.stdout
    assert "tests/attic has no budget" in done.stdout
    assert "tests/api" not in done.stdout.partition("OVER BUDGET")[2]
