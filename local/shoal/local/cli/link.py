"""`shoal link` and `shoal unlink`."""

import asyncio
import os
import platform
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.local.cli.group import Options
from shoal.local.cli.output import as_json, json_option, print_json
from shoal.local.cli.words import say
from shoal.schema.errors import ConfirmationRequired, InvalidInput, ShoalError

if TYPE_CHECKING:
    from shoal.local.sync.linking import Entry, Linked

STDIN_BYTES: Final = 4_096
"""Bytes read at once: as long as a line of a terminal may be."""


@click.command("link")
@click.argument("url")
@click.option(
    "--token", help="A device token from the edge's account page. Others on this machine can see it: see --token-stdin."
)
@click.option("--token-stdin", is_flag=True, help="Read the device token from stdin.")
@click.option("--no-browser", is_flag=True, help="Only print the address; take what the browser ends at on stdin.")
@click.option("--name", help="What the edge calls this device; default: shoal on NAME-OF-THE-MACHINE.")
@json_option
@click.pass_obj
def link_command(
    options: Options, url: str, token: str | None, token_stdin: bool, no_browser: bool, name: str | None
) -> None:
    """Link this memory to the edge at URL: each gets what the other has, from now on.

    Asks the edge's owner in the browser. On a machine without one, open the address elsewhere and paste what the
    browser ends at, or use a device token.

    \b
    Examples:
      shoal link https://shoal.example
      shoal link https://shoal.example --no-browser
      shoal link https://shoal.example --token-stdin < token.txt
    """
    from shoal.local.client import find_daemon
    from shoal.local.sync import linking
    from shoal.local.sync.asking import edge_url

    if (token is not None or token_stdin) and (no_browser or name is not None or (token is not None and token_stdin)):
        raise click.UsageError("A device token goes with no other option, and comes from one place.")
    loaded, edge = options.load(), edge_url(url)

    async def run() -> "Linked":
        return await linking.link(loaded, await _entry(edge, token, token_stdin, no_browser, name))

    linked = asyncio.run(run())
    daemon = find_daemon(loaded.home) is not None
    if as_json():
        print_json(_as_json(linked, daemon))
        return
    click.echo(say("linked", url=linked.url))
    status = linked.status
    click.echo(say("linked_spaces", spaces=_names(status.spaces), writable=_names(status.writable)))
    if linked.before is not None and linked.before != linked.url:
        click.echo(say("linked_before", url=linked.before))
    if linked.lost:
        click.echo(say("linked_lost", spaces=", ".join(linked.lost)), err=True)
    if not linked.in_keyring:
        click.echo(say("linked_file"))
    if linked.not_revoked is not None:
        click.echo(say("not_revoked", why=linked.not_revoked), err=True)
    click.echo(say("linked_next_daemon" if daemon else "linked_next"))


@click.command("unlink")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@click.pass_obj
def unlink_command(options: Options, yes: bool) -> None:
    """End the link to the edge. Every memory stays where it is, here and there.

    The edge is asked to forget this device's token; if it can't be reached, it is said where to remove it.

    \b
    Examples:
      shoal unlink
      shoal unlink --yes
    """
    from shoal.local.sync import linking

    loaded = options.load()
    if not yes:
        url = asyncio.run(linking.linked_url(loaded))
        if not sys.stdin.isatty():
            raise ConfirmationRequired(f"This would end the link to {url}.", "Add --yes, or run it on a terminal.")
        if not click.confirm(say("confirm_unlink", url=url), err=True):
            click.echo(say("cancelled"))
            return
    ended = asyncio.run(linking.unlink(loaded))
    if as_json():
        why = ended.not_revoked and ended.not_revoked.as_dict()
        print_json({"url": ended.url, "revoked": why is None, **({"error": why} if why else {})})
        return
    click.echo(say("unlinked", url=ended.url))
    if ended.not_revoked is not None:
        click.echo(say("not_revoked", why=ended.not_revoked), err=True)


async def _entry(url: str, token: str | None, token_stdin: bool, no_browser: bool, name: str | None) -> "Entry":
    from shoal.local.sync import linking

    if token is not None:
        click.echo(say("token_seen"), err=True)
    elif token_stdin:
        token = await asyncio.to_thread(_token_from_stdin)
    if token is not None:
        return await linking.with_token(url, _checked(token, url))
    present = _paste if no_browser or not _has_browser() else _browse
    return await linking.sign_in(url, name or say("device_name", machine=platform.node()), present)


def _has_browser() -> bool:
    """Whether a window can open here. Without a display Python would start a browser for terminals in ours."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _browse(address: str, _paste: Callable[[str], None]) -> None:
    import webbrowser

    click.echo(say("open_browser", address=address), err=True)
    # A browser in the terminal lasts as long as the person uses it.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _paste(address: str, paste: Callable[[str], None]) -> None:
    """Show the address, and read lines from stdin until one of them is the answer."""
    click.echo(say("open_elsewhere", address=address), err=True)
    loop = asyncio.get_running_loop()

    def take(line: str) -> None:
        try:
            paste(line)
        except ShoalError as error:
            click.echo(f"{error.message}\n{error.mend}", err=True)

    def read() -> None:
        # Past sys.stdin, whose lock would be held when the process ends: the answer may come another way.
        rest = b""
        while given := os.read(sys.stdin.fileno(), STDIN_BYTES):
            *lines, rest = (rest + given).split(b"\n")
            for line in lines:
                if line.strip():
                    loop.call_soon_threadsafe(take, line.decode(errors="replace"))

    threading.Thread(target=read, daemon=True).start()


def _token_from_stdin() -> str:
    if sys.stdin.isatty():
        return str(click.prompt(say("token_prompt"), hide_input=True, err=True))
    return sys.stdin.readline()


def _checked(token: str, url: str) -> str:
    """Return a device token as it is sent. Raises InvalidInput for what can be none, as an owner's key."""
    from shoal.api.oauth.secrets import Secret, is_well_formed

    found = token.strip()
    if not is_well_formed(found, Secret.DEVICE):
        raise InvalidInput("This is no device token.", f"Make one at {url}/account; it begins with shoal_d_.")
    return found


def _names(spaces: "list[str] | str") -> str:
    return say("every_space") if isinstance(spaces, str) else ", ".join(spaces) or say("no_space")


def _as_json(linked: "Linked", daemon: bool) -> dict[str, Any]:
    why = linked.not_revoked
    return {
        "url": linked.url,
        "spaces": linked.status.spaces,
        "writable": linked.status.writable,
        "token_in": "keyring" if linked.in_keyring else "file",
        "before": linked.before,
        "lost": linked.lost,
        "daemon": daemon,
        **({"not_revoked": why.as_dict()} if why else {}),
    }
