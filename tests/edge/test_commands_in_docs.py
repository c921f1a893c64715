"""The transcript of docs/edge.md is what the real Worker answers: every command runs in one shell, as it is written.

A ```json block holds what the ```sh block before it prints, as much as the page shows: `"..."` stands for anything, and
names that aren't shown don't count. `<!-- test: d1 FAULT -->` before a block lets D1 fail while it runs.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.edge.doubles.d1 import D1Fault
from tests.edge.edge import OWNER_KEY, ROOT, Edge
from tests.test_commands_in_docs import RUN_ELSEWHERE

PAGE = ROOT / "docs" / "edge.md"
ADDRESS = "http://127.0.0.1:8378"
BLOCK = re.compile(
    r"(?:^<!-- test: d1 (?P<fault>\w+) -->\n)?^```sh\n(?P<commands>.*?)^```\n(?:^```json\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
ANYTHING = "..."
END = "--- end of the block ---"


class Block(NamedTuple):
    """Commands, what the page shows of their output, and the fault that they meet."""

    commands: str
    shown: Any
    fault: str | None


def blocks(text: str) -> list[Block]:
    """Return the page's blocks in order, without those that tests run elsewhere."""
    found = [(one["commands"], one["shown"], one["fault"]) for one in BLOCK.finditer(text)]
    return [
        Block(commands, None if shown is None else json.loads(shown), fault)
        for commands, shown, fault in found
        if not commands.startswith(RUN_ELSEWHERE)
    ]


def matches(shown: Any, answered: Any) -> bool:
    """Whether an answer has all that the page shows of it."""
    if shown == ANYTHING:
        return answered not in (None, "")
    if isinstance(shown, dict):
        return isinstance(answered, dict) and all(
            name in answered and matches(value, answered[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return (
            isinstance(answered, list)
            and len(shown) == len(answered)
            and all(matches(*pair) for pair in zip(shown, answered, strict=True))
        )
    return shown == answered


class Shell:
    """One shell for the whole page, since a block uses what an earlier one has set."""

    def __init__(self, folder: Path) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-u"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, commands: str) -> str:
        """Run commands and return what they print. The last one must succeed."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{commands}\necho; echo $? '{END}'\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.rstrip().endswith(END):
                return "".join(printed).strip()
            printed.append(line)
        raise AssertionError(f"the shell ended: {''.join(printed)}")

    def close(self) -> None:
        """End the shell."""
        self._shell.communicate(timeout=10)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a folder that has the token where `make edge` puts it."""
    (tmp_path / ".shoal" / "edge").mkdir(parents=True)
    (tmp_path / ".shoal" / "edge" / "owner-key").write_text(OWNER_KEY)
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def test_the_worker_answers_as_the_page_shows(edge: Edge, shell: Shell):
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.fault is not None:
            edge.rig.fail("d1", D1Fault[block.fault])
        printed = shell.run(block.commands.replace(ADDRESS, edge.rig.url))
        # A person is slower than the queue.
        edge.rig.drain()
        if block.shown is None:
            assert printed == "", block.commands
        else:
            assert matches(block.shown, json.loads(printed)), f"{block.commands}\n{printed}"


def test_the_page_shows_every_kind_of_request_and_refusal():
    page = PAGE.read_text(encoding="utf-8")
    commands = "".join(block.commands for block in blocks(page))
    for said in ("/healthz", "/memories", "/search", "PATCH", "DELETE", "/revive", "initialize", "tools/call"):
        assert said in commands
    codes = {block.shown["error"]["code"] for block in blocks(page) if block.shown and "error" in block.shown}
    assert codes == {"unauthorized", "storage_over_quota"}


@pytest.mark.parametrize(
    ("shown", "answered", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": ANYTHING}, {"a": "x"}, True),
        ({"a": ANYTHING}, {"a": None}, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([{"a": 1}], [{"a": 1}, {"a": 1}], False),
        ([], [], True),
        ({"a": []}, {"a": [1]}, False),
    ],
)
def test_an_answer_must_have_what_is_shown_and_may_have_more(shown: object, answered: object, same: bool):
    assert matches(shown, answered) is same
