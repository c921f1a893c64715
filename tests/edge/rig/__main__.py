"""Runs the edge on this machine, for a person: `make edge`. No account at Cloudflare is needed.

The Worker is the real one, on real local D1, Queues and R2; Vectorize and Workers AI, which exist nowhere but at
Cloudflare, are stood in for by the local model. Nothing fires cron triggers locally, so this does.
"""

import os
import secrets
import signal
import socket
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import httpx
from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import MODELS, Standin
from tests.edge.doubles.vectorize_store import StoreUnusable
from tests.edge.rig.process import LogLine
from tests.edge.rig.rig import HOST, REAL_INTERNET, Rig
from tests.edge.rig.tools import RigError
from worker.stage import StagingError, stage

from shoal.api.oauth import owner_key

ROOT: Final = Path(__file__).parents[3]
KEY_FILE: Final = "owner-key"
OLD_FILE: Final = "token"
"""What let everyone in before there were owners."""
PRIVATE: Final = 0o700
"""For the folder of the data: memories are nobody else's business on this machine."""
MINUTE_S: Final = 60


def owner_key_of(folder: Path) -> str:
    """Return the owner's key of this data, made at the first start and readable by its owner only."""
    path = folder / KEY_FILE
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(owner_key.make(secrets.token_bytes))
        if (folder / OLD_FILE).exists():
            click.echo(f"{folder / OLD_FILE} is of an older version and no longer lets anyone in.", err=True)
    return path.read_text(encoding="utf-8").strip()


def digest_of(key: str, folder: Path) -> str:
    """Return the SHA-256 that the Worker is given. Raises RigError where the file holds no key."""
    digest = owner_key.digest(key)
    if digest is None:
        raise RigError(f"{folder / KEY_FILE} holds no owner's key. Remove it, and the next start makes another.")
    return digest


def check_port(port: int) -> None:
    """Raise RigError when somebody listens there."""
    with socket.socket() as probe:
        # As a server does: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            told = f"Port {port} is taken, perhaps by the edge itself. End that program, or: make edge PORT=0"
            raise RigError(told) from error


def next_steps(url: str, persist: Path) -> str:
    """Return what a person can do now."""
    return f"""
The edge runs at {url} as it would at Cloudflare, with its database, queue and cron.
Vectorize and Workers AI are stood in for, with vectors of the local model.
Its memory lies in {persist} and is there again at the next start. Ctrl-C stops everything.

Paste this into an MCP client, as the address of a remote server:

  {url}/mcp

A page opens there; the key that it asks for lies in {persist / KEY_FILE}. Then choose what the client may
do. In Claude Code, for one:

  claude mcp add --transport http shoal-edge {url}/mcp

You, the owner, may use the key as a bearer token too:

  KEY=$(cat {persist / KEY_FILE})

  curl -s {url}/api/v1/memories -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
    -d '{{"content": "The tide tables are in the blue folder."}}'

  curl -s "{url}/api/v1/search?query=when+is+high+water" -H "Authorization: Bearer $KEY"

Apps that you have let in: {url}/account. REST is described at {url}/docs.
More, and what it would cost at Cloudflare: docs/edge.md
"""


def triggers() -> Sequence[str]:
    """Return the cron expressions of wrangler.toml."""
    return tomllib.loads((ROOT / "wrangler.toml").read_text(encoding="utf-8"))["triggers"]["crons"]


def is_due(expression: str, minute: int) -> bool:
    """Whether a cron expression fires in a minute of the hour. Ours say nothing of hours or days: ValueError if so."""
    when, *others = expression.split()
    if others != ["*"] * 4:
        raise ValueError(f"{expression!r} is more than a minute, or one in so many: fire it here too")
    _, every, step = when.partition("*/")
    return minute % int(step) == 0 if every else minute == int(when)


@contextmanager
def firing_crons(rig: Rig) -> Iterator[None]:
    """Fire the triggers when they are due, and each once now: queued messages did not outlive the last run."""
    over = threading.Event()

    def fire() -> None:
        due = triggers()
        while True:
            for expression in due:
                try:
                    rig.cron(expression)
                except (RigError, httpx.HTTPError) as error:
                    # Cloudflare goes on firing too.
                    click.echo(f"cron {expression}: {error}", err=True)
            now_s = time.time()
            if over.wait(MINUTE_S - now_s % MINUTE_S):
                return
            minute = time.localtime().tm_min
            due = [expression for expression in triggers() if is_due(expression, minute)]

    thread = threading.Thread(target=fire, name="cron", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8378, show_default=True, help="0 takes a free one.")
@click.option(
    "--persist",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(os.environ.get("SHOAL_HOME") or ".shoal") / "edge",
    show_default=True,
    help="A folder for the data, as wrangler's --persist-to.",
)
@click.option("--standin", help="The address of a stand-in for Vectorize and Workers AI, instead of one of our own.")
@click.option("--hashed", is_flag=True, help="Vectors of hashed words instead of the model's: fast, no meaning.")
def main(port: int, persist: Path, standin: str | None, hashed: bool) -> None:
    """Run shoal's Worker on 127.0.0.1 until Ctrl-C.

    \b
    Examples:
      python -m tests.edge.rig
      python -m tests.edge.rig --port 0 --persist /tmp/another-memory
    """
    # Whoever stops it by a signal gets the same clean end as by Ctrl-C, which a script's background job else ignores.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        check_port(port)
        stage()
        # What is made in it is private too, and a folder that was there before becomes so.
        os.umask(0o077)
        persist.mkdir(PRIVATE, parents=True, exist_ok=True)
        persist.chmod(PRIVATE)
        if standin is not None:
            serve(port, persist, standin)
        else:
            click.echo("Loading the model that stands in for Workers AI ...", err=True)
            ai = AiEngine.hashed() if hashed else AiEngine.local(MODELS)
            with Standin(ai, persist=persist / "vectors.db") as own:
                serve(port, persist, own.url)
    except StoreUnusable as error:
        raise click.ClickException(f"{error} For other data: SHOAL_HOME=FOLDER make edge PORT=0") from error
    except (RigError, StagingError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)


def serve(port: int, persist: Path, standin: str) -> None:
    """Run the Worker until it ends or Ctrl-C comes; nothing of it is left then."""
    variables = {"OWNER_KEY_SHA256": digest_of(owner_key_of(persist), persist)}
    with (
        Rig(ROOT, persist, port=port, variables=variables, standin=standin, internet=REAL_INTERNET, on_log=show) as rig,
        firing_crons(rig),
    ):
        click.echo(next_steps(rig.url, persist))
        code = rig.wait()
        raise RigError(f"Node ended by itself, with exit code {code}")


def show(line: LogLine) -> None:
    """Print what the Worker logs, beside what it answers."""
    click.echo(line.message, err=True)


if __name__ == "__main__":
    main()
