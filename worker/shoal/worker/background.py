"""Work that goes on after the answer: the runtime keeps an invocation alive for it."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from shoal.schema.errors import ShoalError

log: Final = logging.getLogger("shoal.edge")


class Background:
    """Starts such work. `wait_until` is the invocation's own: another's would end with that."""

    def __init__(self, wait_until: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._wait_until = wait_until

    def start(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        """Begin the work. Nobody waits for it: what it can't do is logged under its name, and cron makes up for it."""
        self._wait_until(_logged(name, work))


async def _logged(name: str, work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except ShoalError as error:
        log.warning("%s: %s %s", name, error.code, error)
    except Exception:
        log.exception("%s failed", name)
