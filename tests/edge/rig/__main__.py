"""Runs the edge on this machine, for a person: `make edge`. No account at Cloudflare is needed.

The Worker is the real one, on real local D1, Queues, R2 and cron; Vectorize and Workers AI, which exist nowhere but at
Cloudflare, are stood in for by the local model. Data stay where wrangler keeps its own.
"""

import hashlib
import os
import secrets
import signal
from pathlib import Path
from typing import Final

import click
from tests.edge.doubles.ai import AiEngine
from tests.edge.doubles.standin import MODELS, Standin
from tests.edge.rig.process import LogLine
from tests.edge.rig.rig import Rig
from tests.edge.rig.tools import RigError
from worker.stage import StagingError, stage

ROOT: Final = Path(__file__).parents[3]
TOKEN_BYTES: Final = 24


def token_of(folder: Path) -> str:
    """Return the bearer token of this data, made at the first start and readable by its owner only."""
    path = folder / "token"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(TOKEN_BYTES))
    return path.read_text(encoding="utf-8").strip()


def next_steps(url: str, persist: Path) -> str:
    """Return what a person can do now."""
    return f"""
The edge runs at {url} (data in {persist}; Ctrl-C stops it).

  TOKEN=$(cat {persist / "token"})

  curl -s {url}/api/v1/memories -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
    -d '{{"content": "The tide tables are in the blue folder."}}'

  curl -s "{url}/api/v1/search?query=when+is+high+water" -H "Authorization: Bearer $TOKEN"

  REST is described at {url}/docs. MCP clients connect to {url}/mcp with the same header.
"""


@click.command()
@click.option("--port", default=8378, show_default=True, help="0 takes a free one.")
@click.option(
    "--persist",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / ".wrangler" / "state",
    show_default=True,
    help="A folder for the data, as wrangler's --persist-to.",
)
@click.option("--standin", help="The address of a stand-in for Vectorize and Workers AI, instead of one of our own.")
@click.option("--hashed", is_flag=True, help="Vectors of hashed words instead of the model's: fast, no meaning.")
def main(port: int, persist: Path, standin: str | None, hashed: bool) -> None:
    """Run shoal's Worker on 127.0.0.1 until Ctrl-C."""
    # Whoever stops it by a signal gets the same clean end as by Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        stage()
        if standin is not None:
            serve(port, persist, standin)
        else:
            persist.mkdir(parents=True, exist_ok=True)
            click.echo("Loading the model that stands in for Workers AI ...", err=True)
            ai = AiEngine.hashed() if hashed else AiEngine.local(MODELS)
            with Standin(ai, persist=persist / "vectors.db") as own:
                serve(port, persist, own.url)
    except (RigError, StagingError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)


def serve(port: int, persist: Path, standin: str) -> None:
    """Run the Worker until it ends or Ctrl-C comes; nothing of it is left then."""
    variables = {"TOKEN_SHA256": hashlib.sha256(token_of(persist).encode()).hexdigest()}
    with Rig(ROOT, persist, port=port, variables=variables, standin=standin, on_log=show) as rig:
        click.echo(next_steps(rig.url, persist))
        code = rig.wait()
        raise RigError(f"Node ended by itself, with exit code {code}")


def show(line: LogLine) -> None:
    """Print what the Worker logs, beside what it answers."""
    click.echo(line.message, err=True)


if __name__ == "__main__":
    main()
