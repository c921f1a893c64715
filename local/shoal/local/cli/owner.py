"""`shoal owner-key`."""

import secrets

import click

from shoal.local.cli.output import as_json, json_option, print_json
from shoal.local.cli.words import say


@click.command("owner-key")
@click.option(
    "--env", is_flag=True, help="Print OWNER_KEY_SHA256=... on stdout, for a file of secrets, and the key on stderr."
)
@json_option
def owner_key_command(env: bool) -> None:
    """Make a key that proves to the edge that you are its owner, and show it once.

    The key goes into your password manager, its SHA-256 to the Worker, as the secret OWNER_KEY_SHA256. Nothing is kept
    here: each call makes another key.

    \b
    Examples:
      shoal owner-key
      shoal owner-key --env > build/secrets.env
    """
    from shoal.api.oauth import owner_key

    if env and as_json():
        raise click.UsageError("--env and --json don't go together.")
    key = owner_key.make(secrets.token_bytes)
    sha256 = owner_key.digest(key)
    if as_json():
        print_json({"key": key, "sha256": sha256})
    elif env:
        click.echo(f"OWNER_KEY_SHA256={sha256}")
        click.echo(key, err=True)
    else:
        click.echo(say("owner_key", text=key))
        click.echo(say("owner_key_sha256", sha256=sha256))
