"""Run a command's work against the daemon or the database."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import click

from shoal.local.backend import Backend, open_backend
from shoal.local.cli.output import as_json, progress
from shoal.local.cli.words import say
from shoal.local.settings import Loaded
from shoal.schema.errors import InvalidText

T = TypeVar("T")


def with_memory(loaded: Loaded, work: Callable[[Backend], Awaitable[T]]) -> T:
    """Return what `work` makes of the memory: the daemon's when one runs, else the database opened here.

    A bar shows how far the conversion of the model is, which happens once and takes seconds. Raises InvalidText.
    """
    _require_utf8(click.get_current_context().params)

    async def run() -> T:
        with progress(say("loading_model"), hidden=as_json()) as report:
            async with open_backend(loaded, report) as backend:
                return await work(backend)

    return asyncio.run(run())


def _require_utf8(params: Mapping[str, object]) -> None:
    """Raise InvalidText for an argument in another encoding: Python keeps its bytes as halves of surrogate pairs."""
    for value in params.values():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not _is_utf8(text):
                raise InvalidText(
                    f"{text.encode(errors='replace').decode()!r} is not UTF-8.",
                    "Convert it first, with iconv for example.",
                )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
