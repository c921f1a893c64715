"""`shoal mcp --standalone`: the whole memory in one client's process, for places where no daemon may run."""

import asyncio
import os
from typing import Final

from shoal.api.mcp import serve_stdio
from shoal.api.messages import language_of
from shoal.local import version
from shoal.local.background import Activity, embed, keep_going, reword, upkeep
from shoal.local.logs import set_up_logs
from shoal.local.runtime import local_caller, open_runtime
from shoal.local.settings import Loaded
from shoal.local.sync.syncer import Signals, syncer_of

POLL_S: Final = 1.0
"""How often to look for memories without a vector: stdio has no requests that are counted."""


def serve_standalone(loaded: Loaded, profile: str) -> None:
    """Serve one client over stdio until it closes it. Raises StorageError, InvalidInput."""
    loaded.home.ensure()
    set_up_logs(loaded.home, loaded.settings.log_level, to_stderr=True)
    asyncio.run(_serve(loaded, profile))


async def _serve(loaded: Loaded, profile: str) -> None:
    signals, activity = Signals(), Activity()
    async with open_runtime(loaded, announce=signals.announce, exchanged=signals.exchanged) as runtime:
        memory, syncer = runtime.memory, syncer_of(runtime, signals, activity)
        jobs = [
            asyncio.create_task(keep_going("upkeep", lambda: upkeep(memory))),
            asyncio.create_task(keep_going("words", lambda: reword(memory, activity))),
            asyncio.create_task(keep_going("sync", syncer.run)),
        ]
        if runtime.embedder is not None:
            jobs.append(
                asyncio.create_task(
                    keep_going("embed", lambda: embed(memory, activity, runtime.drop_old_vectors, POLL_S))
                )
            )
        try:
            await serve_stdio(
                memory,
                local_caller(loaded, "stdio", clamps=True),
                version=version.installed(),
                profile=profile,
                language=language_of(os.environ.get("LC_ALL") or os.environ.get("LANG")),
            )
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            await syncer.drain()
