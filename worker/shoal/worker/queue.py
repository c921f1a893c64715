"""The queue between storing and indexing: ids of memories whose vectors are wanted.

A message is only a reminder. What is wanted stands in the database until it is done, so a message that is lost, sent
twice or out of order changes nothing, and what no message reminds of, cron finds (upkeep.py).
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from shoal.worker.bindings import QueueBinding
from shoal.worker.budget import Budget

log: Final = logging.getLogger("shoal.edge")

VERSION: Final = 1
"""Of the message: {v: 1, ids: [memory ids]}."""
IDS_MAX: Final = 500
"""Ids of one message: 18 kB, where a message may have 128."""


async def announce(queue: QueueBinding, ids: Sequence[str], budget: Budget) -> bool:
    """Send the ids, IDS_MAX a message; return whether all were taken. What is not taken is left to cron."""
    for start in range(0, len(ids), IDS_MAX):
        body: dict[str, Any] = {"v": VERSION, "ids": list(ids[start : start + IDS_MAX])}
        if not budget.take("queue"):
            return False
        try:
            await queue.send(body)
        except Exception as error:
            # The daily cap of the free plan, or the network. Its text holds nothing of a memory.
            log.warning("the queue took no message: %s", error)
            return False
    return True
