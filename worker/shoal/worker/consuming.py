"""The queue's other end: makes the vectors of announced memories, and counts what could not be delivered."""

import logging
from typing import Final

from shoal.core.protocols import Database, Statement
from shoal.schema.errors import ModelOverQuota, ShoalError, StorageOverQuota
from shoal.worker.bindings import Message, MessageBatch
from shoal.worker.edge import Edge
from shoal.worker.indexing import awake, index, rest
from shoal.worker.queue import read

log: Final = logging.getLogger("shoal.edge")

DEAD_SUFFIX: Final = "-dead"
"""How the name of the dead-letter queue in wrangler.toml ends."""
RETRY_FIRST_S: Final = 10
RETRY_MAX_S: Final = 900
"""The pause before a message comes again doubles from the first to this."""
_COUNT_DEAD: Final = """
insert into meta (k, v) values ('dead_letters', cast(?1 as integer))
on conflict (k) do update set v = v + excluded.v
"""


async def consume(batch: MessageBatch, edge: Edge) -> None:
    """Handle a batch of either queue. Every message is acknowledged or sent again; nothing depends on which."""
    messages = list(batch.messages)
    try:
        if batch.queue.endswith(DEAD_SUFFIX):
            await count_dead(edge.context.database, len(messages))
        else:
            await _index(messages, edge)
    except (ModelOverQuota, StorageOverQuota) as error:
        await rest(edge, error)
    except ShoalError as error:
        log.warning("%d messages come again: %s %s", len(messages), error.code, error)
        for message in messages:
            message.retry(delaySeconds=pause_s(message.attempts))
        return
    for message in messages:
        message.ack()


async def count_dead(database: Database, messages: int) -> None:
    """Count messages that could not be delivered; nothing is lost, since the database knows what is wanted."""
    log.error("%d messages could not be delivered", messages)
    await database.batch([Statement(_COUNT_DEAD, (messages,))])


def pause_s(attempts: int) -> int:
    """Return how long a message rests after it has failed so many times, in seconds."""
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(attempts - 1, RETRY_MAX_S))


async def _index(messages: list[Message], edge: Edge) -> None:
    ids: list[str] = []
    unknown = 0
    for message in messages:
        found = read(message.body)
        ids += found or []
        unknown += found is None
    if unknown:
        await count_dead(edge.context.database, unknown)
    working = await awake(edge) if ids else None
    if working is not None:
        left = await index(working, ids)
        if left:
            await edge.announce(left)
