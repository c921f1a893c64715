"""Printing: JSON for programs, tables for people, progress for what takes longer than two seconds."""

import json
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from pydantic import BaseModel

from shoal.local.cli.group import AS_JSON
from shoal.local.cli.words import say
from shoal.schema.models import Note

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH: Final = 120
"""Columns where stdout is no terminal."""
PROGRESS_AFTER_S: Final = 2.0
"""Shorter work shows no bar: it would only flicker."""
BEGINNING_CHARS: Final = 80
"""Characters by which a person knows a memory again."""

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add --json, which `as_json` answers for."""

    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[AS_JSON] = value

    return click.option(
        "--json", "as_json", is_flag=True, expose_value=False, callback=remember, is_eager=True,
        help="Print JSON, for programs; errors too.",
    )(command)  # fmt: skip


def as_json() -> bool:
    """Whether this command prints JSON."""
    return bool(click.get_current_context().meta.get(AS_JSON))


def console() -> "Console":
    """Return the console for people, on stdout."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, soft_wrap=False)


def print_json(answer: BaseModel | dict[str, Any]) -> None:
    """Print an answer as JSON, in the words that REST and MCP use."""
    found = answer.model_dump(mode="json", exclude_none=True) if isinstance(answer, BaseModel) else answer
    click.echo(json.dumps(found, ensure_ascii=False, indent=2))


def print_notes(notes: Iterable[Note]) -> None:
    """Print an answer's notes to stderr, so that piped results stay clean."""
    for note in notes:
        click.echo(say("note", message=note.message), err=True)


def beginning(content: str) -> str:
    """Return how a content begins, on one line."""
    line = " ".join(content.split())
    return line if len(line) <= BEGINNING_CHARS else line[: BEGINNING_CHARS - 1] + "…"


def size(count: int) -> str:
    """Return bytes as people read them."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


@contextmanager
def progress(label: str, hidden: bool = False) -> Generator[Callable[[float], None]]:
    """Show a bar on stderr once the work has taken PROGRESS_AFTER_S; yields what takes the share done, 0..1."""
    if hidden or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=1.0)

    def report(share: float) -> None:
        if not bar.live.is_started and time.monotonic() - started >= PROGRESS_AFTER_S:
            bar.start()
        bar.update(task, completed=share)
        if share >= 1:
            bar.stop()

    try:
        yield report
    finally:
        bar.stop()
