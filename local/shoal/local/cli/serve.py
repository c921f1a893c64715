"""`shoal serve`."""

from typing import Literal, cast

import click

from shoal.local.cli.group import Options
from shoal.local.cli.words import say
from shoal.local.home import DaemonRecord


@click.command("serve")
@click.option("--host", help="Address to listen on; one that other machines reach needs SHOAL_TOKEN as well.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; without it 8377, or a free one when that is taken.")
@click.option(
    "--seed",
    is_flag=False,
    flag_value="default",
    metavar="[FILE]",
    help="Plant memories first: those of a JSON Lines FILE, or without one a dozen examples.",
)
@click.option("--started-by", type=click.Choice(["person", "shim"]), default="person", hidden=True)
@click.pass_obj
def serve_command(options: Options, host: str | None, port: int | None, seed: str | None, started_by: str) -> None:
    """Run the daemon: MCP and REST on this machine, until Ctrl-C.

    `shoal mcp` starts one by itself when it is needed; run this to have it at a known address and to see its log.

    \b
    Examples:
      shoal serve
      shoal serve --port 9000 --seed
    """
    loaded = options.load(host=host, port=port, seed=seed)
    from shoal.local.daemon import serve

    def ready(record: DaemonRecord) -> None:
        if loaded.settings.port not in (record.port, 0):
            click.echo(say("port_taken", wanted=loaded.settings.port, port=record.port))
        click.echo(say("serving", url=record.url))

    serve(loaded, cast("Literal['person', 'shim']", started_by), ready)
