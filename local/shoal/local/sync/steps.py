"""How far a round is, as whoever waits for it is told."""

from collections.abc import Callable
from dataclasses import dataclass

from shoal.sync.engine import Phase


@dataclass(frozen=True, slots=True)
class Step:
    """What has been done after a page."""

    phase: Phase
    pushed: int
    """Cells that the edge has taken so far."""
    pulled: int
    share: float
    """Of the edge's writes that this device has had, 0..1; about the truth, as they go on while it reads."""


Hear = Callable[[Step], None]
