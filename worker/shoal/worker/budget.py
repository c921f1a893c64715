"""What one invocation may do. Cloudflare ends one that does more, whatever it was in the middle of.

The bounds are those of the free plan, so that nothing works on one plan only; a job that needs more goes on in its
next invocation.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

STATEMENTS_MAX: Final = 50
"""Statements of D1; each of a batch counts."""
CALLS_MAX: Final = 50
"""Subrequests: calls of D1 (a batch is one), Workers AI, Vectorize and queues together."""


@dataclass(slots=True)
class Budget:
    """Counts what an invocation has done. The drivers of one invocation share one."""

    statements_max: int = STATEMENTS_MAX
    calls_max: int = CALLS_MAX
    statements: int = 0
    rows_read: int = 0
    rows_written: int = 0
    calls: Counter[str] = field(default_factory=Counter[str])
    """By service: d1, ai, vectorize, queue."""

    @property
    def statements_left(self) -> int:
        """Statements that may still run."""
        return self.statements_max - self.statements

    @property
    def calls_left(self) -> int:
        """Calls that may still be made."""
        return self.calls_max - self.calls.total()

    def allows(self, statements: int, calls: int) -> bool:
        """Say whether a step of that cost still fits."""
        return statements <= self.statements_left and calls <= self.calls_left

    def take(self, service: str, statements: int = 0) -> bool:
        """Count one call, unless it doesn't fit: then return False, and it must not be made."""
        if not self.allows(statements, 1):
            return False
        self.calls[service] += 1
        self.statements += statements
        return True
