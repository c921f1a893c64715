"""The queue between storing and indexing: ids of memories whose vectors are wanted.

A message is only a reminder. What is wanted stands in the database until it is done, so a message that is lost, sent
twice or out of order changes nothing, and what no message reminds of, cron finds (upkeep.py).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from shoal.worker.bindings import QueueBinding
from shoal.worker.budget import Budget

log: Final = logging.getLogger("shoal.edge")

VERSION: Final = 1
"""Of the message: {v: 1, ids: [memory ids]}."""
IDS_MAX: Final = 500
"""Ids of one message: 18 kB, where a message may have 128."""
MESSAGES_MAX: Final = 10
"""Messages of one call: 180 kB, where it may have 256."""
_ID: Final = re.compile(r"[0-9a-f]{32}")


async def announce(queue: QueueBinding, ids: Sequence[str], budget: Budget) -> bool:
    """Queue the ids and return whether all were taken. What is not taken is left to cron, and the log says so."""
    bodies = [{"v": VERSION, "ids": list(ids[start : start + IDS_MAX])} for start in range(0, len(ids), IDS_MAX)]
    for start in range(0, len(bodies), MESSAGES_MAX):
        part = bodies[start : start + MESSAGES_MAX]
        if not budget.take("queue"):
            log.warning("no call is left to queue %d memories", len(ids) - start * IDS_MAX)
            return False
        try:
            await (queue.send(part[0]) if len(part) == 1 else queue.sendBatch([{"body": body} for body in part]))
        except TypeError:
            raise  # A value that the runtime can't pass on: a fault of ours.
        except Exception as error:
            # The daily cap of the free plan, or the network. The text holds nothing of a memory.
            log.warning("the queue did not take %d memories: %s", len(ids) - start * IDS_MAX, error)
            return False
    return True


def read(body: object) -> list[str] | None:
    """Return the ids of a message; None for one that no version of ours has sent."""
    if not isinstance(body, Mapping):
        return None
    told = cast("Mapping[str, Any]", body)
    ids: object = told.get("ids")
    if told.get("v") != VERSION or not isinstance(ids, list):
        return None
    wanted = cast("list[object]", ids)
    good = all(isinstance(one, str) and _ID.fullmatch(one) for one in wanted)
    return cast("list[str]", ids) if good and len(wanted) <= IDS_MAX else None
