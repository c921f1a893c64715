"""`shoal mcp`."""

import os
import sys
from urllib.parse import quote

import click

from shoal.local.cli.group import Options
from shoal.local.cli.words import chinese


@click.command("mcp")
@click.option("--profile", default="default", show_default=True, help="Set of tools: default or classic.")
@click.option("--standalone", is_flag=True, help="No daemon: serve this client from this process alone.")
@click.pass_obj
def mcp_command(options: Options, profile: str, standalone: bool) -> None:
    """Serve an MCP client over stdin and stdout.

    Passes messages to the daemon, which it starts when there is none, so that all clients share one memory and one
    model. Put it into your client's configuration.

    \b
    Examples:
      shoal mcp
      shoal mcp --profile classic
      claude mcp add shoal -- shoal mcp
    """
    if standalone:
        from shoal.local.standalone import serve_standalone

        serve_standalone(options.load(), profile)
        return
    from shoal.local.launch import Launcher
    from shoal.local.shim import Shim, warn

    environ = dict(os.environ)
    if options.config is not None:
        environ["SHOAL_CONFIG"] = str(options.config.absolute())
    if options.database is not None:
        environ["SHOAL_DB"] = str(options.database.absolute())
    path = "/mcp" if profile == "default" else f"/mcp?profile={quote(profile, safe='')}"
    # The buffer under stdout is kept for messages; a stray print() would break the client, so it goes to stderr.
    output, sys.stdout = sys.stdout.buffer, sys.stderr
    language = "zh" if chinese(environ) else "en"
    Shim(path, language, Launcher(options.home, environ, warn), output, warn).run(sys.stdin.buffer)
