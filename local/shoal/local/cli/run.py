"""Run a command's work against the daemon or the database."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from shoal.local.backend import Backend, open_backend
from shoal.local.cli.output import as_json, progress
from shoal.local.cli.words import say
from shoal.local.settings import Loaded

T = TypeVar("T")


def with_memory(loaded: Loaded, work: Callable[[Backend], Awaitable[T]]) -> T:
    """Return what `work` makes of the memory: the daemon's when one runs, else the database opened here.

    A bar shows how far the conversion of the model is, which happens once and takes seconds.
    """

    async def run() -> T:
        with progress(say("loading_model"), hidden=as_json()) as report:
            async with open_backend(loaded, report) as backend:
                return await work(backend)

    return asyncio.run(run())
