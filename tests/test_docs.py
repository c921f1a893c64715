"""The reference pages are current, and nothing that a person can use is undocumented."""

import sys
from pathlib import Path

import apsw
import click
import pytest

from shoal.local.cli.group import COMMANDS, shoal
from shoal.local.settings import Settings
from shoal.schema.migrations import load

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run: python -m bench.docs"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_help_and_every_command_an_example(name: str) -> None:
    command = shoal.get_command(click.Context(shoal), name)
    assert command is not None
    assert command.help
    assert f"shoal {name}" in command.help.partition("Examples:")[2]
    silent = [
        parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
    ]
    assert silent == []


def test_every_reading_command_answers_json() -> None:
    for name in COMMANDS:
        command = shoal.get_command(click.Context(shoal), name)
        assert command is not None
        assert name in ("serve", "mcp") or "as_json" in {parameter.name for parameter in command.params}, name


def test_every_stored_column_of_those_who_may_call_is_explained() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    connection = apsw.Connection(":memory:")
    (access,) = [migration for migration in load() if migration.name == "0003_access.sql"]
    for text in access.statements:
        if text.startswith("create "):
            connection.execute(text)
    tables = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
    assert len(tables) == 9
    for table in tables:
        told = page.partition(f"### {table}\n")[2].partition("\n#")[0]
        columns = [column for (column,) in connection.execute("select name from pragma_table_info(?)", (table,))]
        assert [column for column in columns if f"`{column}`" not in told] == [], table


def test_every_setting_is_on_its_page() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert [name for name in Settings.model_fields if f"| `{name}`" not in page] == []
