"""Many memories at once, put into the database by the service itself in this process, past the Worker."""

import asyncio
import itertools
import time
from collections.abc import Iterable

from tests.edge.edge import Edge

from shoal.core.caller import Caller
from shoal.core.context import EDGE
from shoal.core.fakes import FakeDatabase
from shoal.core.service import open_memory
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import StoreItem, StoreRequest


def plant(edge: Edge, contents: Iterable[str], *, wanted: bool = False) -> None:
    """Store texts of which no queue hears, and whose vectors nobody wants unless told."""
    asyncio.run(_store(edge, contents))
    if not wanted:
        edge.rows("update record set want = 0")


async def _store(edge: Edge, contents: Iterable[str]) -> None:
    memory = await open_memory(
        FakeDatabase(edge.database.connection),
        None,
        None,
        clock=lambda: int(time.time() * 1000),
        new_device="edge",
        policy=EDGE,
    )
    left = iter(contents)
    while items := [StoreItem(content=content) for content in itertools.islice(left, BATCH_MAX)]:
        await memory.store(StoreRequest(items=items), Caller())
