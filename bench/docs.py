"""Write the reference pages that the code itself knows: `python -m bench.docs`. tests/test_docs.py compares them."""

import types
import typing
from pathlib import Path
from typing import Any, Final

import click
from pydantic import SecretStr

from shoal.local.aliases import ALIASES, PREFIX
from shoal.local.cli.group import COMMANDS, shoal
from shoal.local.settings import Settings

DOCS: Final = Path(__file__).parents[1] / "docs"

_CLI_HEAD: Final = """# Commands

Written by `python -m bench.docs` from the commands' own help. `shoal COMMAND --help` shows the same.

The commands use the daemon when one runs, else they open the database themselves. Exit codes: 0 done, 1 refused or
failed (the reason and what to do about it are on stderr; with `--json` as JSON), 2 a wrong way to call. What was done
is told in Chinese where LANG begins with `zh`; help, and why something failed, in English.

"""

_SETTINGS_HEAD: Final = """# Settings

Written by `python -m bench.docs` from local/shoal/local/settings.py.

A setting comes from the first of these that has it: the command line, the variable `SHOAL_<NAME>`, another tool's
variable (last column), the file `shoal.toml` in the home (another one with `--config` or `SHOAL_CONFIG`). The home is
the folder `SHOAL_HOME` or `--home`, by default the user's data folder of the system.

An unknown `SHOAL_*` variable is told and ignored; an unknown name in the file is an error. Lists in variables are
written with commas, tables as JSON.

| name | type | default | what it is for | also read from |
|---|---|---|---|---|
"""


def cli_page() -> str:
    """Return docs/cli.md."""
    context = click.Context(shoal, info_name="shoal", **shoal.context_settings)
    parts = [_CLI_HEAD, _section("shoal", shoal, context)]
    for name in COMMANDS:
        command = shoal.get_command(context, name)
        if command is not None:
            parts.append(_section(f"shoal {name}", command, click.Context(command, info_name=name, parent=context)))
    return "".join(parts)


def _section(title: str, command: click.Command, context: click.Context) -> str:
    context.terminal_width = context.max_content_width = 100
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n\n"


def settings_page() -> str:
    """Return docs/settings.md."""
    rows: list[str] = []
    for name, field in Settings.model_fields.items():
        also = ", ".join(f"`{alias}`" for alias in ALIASES.get(name, ()))
        default = "" if field.default in (None, "", (), {}) else f"`{field.default}`"
        rows.append(
            f"| `{name}`<br>`{PREFIX}{name.upper()}` | {_type_name(field.annotation)} | {default} |"
            f" {field.description} | {also} |\n"
        )
    return _SETTINGS_HEAD + "".join(rows)


def _type_name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(part) for part in arguments if part is not type(None))
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return "list of text"
    if origin is dict:
        return "table of text"
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        Path: "path",
        SecretStr: "secret text",
        bool: "yes or no",
    }
    return names[annotation]


PAGES: Final = {"cli.md": cli_page, "settings.md": settings_page}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
