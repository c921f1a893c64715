"""The root command: options that all commands share, commands loaded on first use, errors as people read them."""

import json
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.local.home import Home
from shoal.schema.errors import ShoalError

if TYPE_CHECKING:
    from shoal.local.settings import Loaded

COMMANDS: Final = {
    "serve": "serve",
    "mcp": "mcp",
    "store": "memories",
    "find": "reading",
    "get": "reading",
    "list": "reading",
    "update": "memories",
    "delete": "removing",
    "revive": "removing",
    "purge": "removing",
    "stats": "health",
    "doctor": "health",
    "backup": "files",
    "restore": "files",
    "seed": "files",
    "link": "link",
    "unlink": "link",
    "sync": "sync",
    "status": "sync",
    "owner-key": "owner",
}
"""Command -> the module beside this one that holds it; its function is named `<command>_command`, `_` for `-`."""
AS_JSON: Final = "shoal.json"
"""Key of click's `meta` under which the --json option is kept."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was given before the command."""

    home: Home
    config: Path | None
    database: Path | None

    def load(self, **overrides: Any) -> "Loaded":
        """Read the settings and tell of what is odd in them. Raises InvalidSettings."""
        from shoal.local.settings import load

        loaded = load(self.home, self.config, {"db": self.database, **overrides})
        for warning in loaded.warnings:
            click.echo(warning, err=True)
        return loaded


class LazyGroup(click.Group):
    """A group that imports a command when it is used, and prints our errors with what to do about them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of COMMANDS, which is that of a first day with the program."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(
            import_module(f"shoal.local.cli.{module}"), f"{cmd_name.replace('-', '_')}_command"
        )
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a ShoalError ends the process with code 1."""
        try:
            return super().invoke(ctx)
        except ShoalError as error:
            if ctx.meta.get(AS_JSON):
                click.echo(json.dumps({"error": error.as_dict()}, ensure_ascii=False), err=True)
            else:
                click.echo(f"{error.message}\n{error.mend}", err=True)
            ctx.exit(1)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="shoal", prog_name="shoal")
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="SHOAL_HOME",
    help="Folder of the database, settings and logs; default: the user's data folder.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SHOAL_CONFIG",
    help="Settings file; default: shoal.toml in the home.",
)
@click.option(
    "--db", type=click.Path(dir_okay=False, path_type=Path), help="Database file; default: shoal.db in the home."
)
@click.pass_context
def shoal(ctx: click.Context, home: Path | None, config: Path | None, db: Path | None) -> None:
    """One memory for all your agents.

    Agents reach it over MCP (`shoal mcp` on stdio, or the address that `shoal serve` shows), programs over REST, and
    you with the commands below. They use the daemon when one runs, else they open the database themselves.

    \b
    Examples:
      shoal store "Deploys happen on Fridays" --tags topic:deploy
      shoal find "when do we deploy"
      shoal serve
    """
    environ = {**os.environ, "SHOAL_HOME": str(home)} if home else os.environ
    ctx.obj = Options(Home.locate(environ), config, db)
