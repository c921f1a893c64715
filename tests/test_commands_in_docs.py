"""Every `shoal` command in the README and in docs/ runs as it is written."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.local.cli.group import shoal

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_ELSEWHERE = ("make ", "claude mcp add ")
"""`make run` is run by tests/outside, `make test` is what runs this; Claude Code is another program."""
OF_THE_EDGE = "edge.md"
"""Its commands are curl's, to the real Worker: tests/edge runs them, and compares the answers."""
PAGES = sorted([ROOT / "README.md", *(page for page in (ROOT / "docs").glob("*.md") if page.name != OF_THE_EDGE)])


def commands(page: Path) -> Iterator[str]:
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            command = line.partition(" #")[0].strip()
            if command and not command.startswith(RUN_ELSEWHERE):
                yield command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHOAL_MODEL", "off")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    stored = runner.invoke(shoal, ["store", "A memory for the page", "--json"])
    memory = json.loads(stored.stdout)["id"]
    for command in commands(page):
        program, *arguments = shlex.split(command.replace("MEMORY", memory))
        if program == ".venv/bin/python":
            continue  # the benchmarks: their arithmetic is tested in tests/bench
        assert program == "shoal", command
        result = runner.invoke(shoal, arguments)
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_the_readme_shows_commands() -> None:
    assert len(list(commands(ROOT / "README.md"))) >= 5
