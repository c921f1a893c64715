"""When a device exchanges with the edge next. Pure: time, in seconds of one monotonic clock, and chance are given."""

from collections.abc import Callable, Hashable
from typing import Final

from shoal.schema.errors import LinkBroken, ShoalError
from shoal.sync import backoff

DEBOUNCE_S: Final = 0.2
"""From the first of several writes to the round that sends them together."""
ACTIVE_S: Final = 1.5
"""Between two rounds while the laptop is used: what others write is seen within 2 s, the round itself included."""
ACTIVE_FOR_S: Final = 60.0
"""How long after a request it counts as used."""
JUMP_S: Final = 5.0
"""A clock that is further off than this after a pause has slept, or was set."""


class Schedule:
    """Says when the next round is due: soon after a write, by the interval, later after failures.

    After LinkBroken none is, until the link has changed: asking again would only be refused again.
    """

    def __init__(self, interval_s: float, chance: Callable[[], float], now: float) -> None:
        self._interval_s = interval_s
        self._chance = chance
        self._last = float("-inf")
        """When the last round began."""
        self._wanted = now
        """A round that something has asked for, infinite if nothing has."""
        self._not_before = now
        self._broken: tuple[Hashable] | None = None
        self.failures = 0
        """In a row."""

    def wait_s(self, now: float, quiet_s: float) -> float:
        """Return in how many seconds a round is due, 0 if now, infinite if none is.

        `quiet_s` is how long ago the last request came.
        """
        if self._broken is not None:
            return float("inf")
        period = ACTIVE_S if quiet_s < ACTIVE_FOR_S else self._interval_s
        return max(0.0, max(min(self._wanted, self._last + period), self._not_before) - now)

    @property
    def is_wanted(self) -> bool:
        """Whether something has asked for a round that has not begun yet."""
        return self._wanted < float("inf")

    def wrote(self, now: float) -> None:
        """Have a write sent soon. Failures are waited out all the same."""
        self._wanted = min(self._wanted, now + DEBOUNCE_S)

    def wake(self, now: float) -> None:
        """Have a round at once, whatever failed before: the machine has slept, or the network is another."""
        self.failures = 0
        self._broken = None
        self._wanted, self._not_before = now, now

    def changed(self, link: Hashable, now: float) -> None:
        """Hear what the link is now: by one that was broken and is another, a round is due at once."""
        if self._broken is not None and self._broken != (link,):
            self.wake(now)

    def began(self, now: float) -> None:
        """Note that a round begins, which sends all that was written until now."""
        self._last, self._wanted = now, float("inf")

    def succeeded(self) -> None:
        """Note that the round went well."""
        self.failures = 0

    def failed(self, error: ShoalError, link: Hashable, now: float) -> float:
        """Note that the round failed with the link as it was; return the seconds to the next, infinite if none."""
        self.failures += 1
        if isinstance(error, LinkBroken):
            self._broken = (link,)
            return float("inf")
        asked = float(error.details.get("retry_after_s", 0.0))
        wait = backoff.wait_s(self.failures, self._chance(), asked)
        self._not_before = self._wanted = now + wait
        return wait


class Clocks:
    """Notices that the machine has slept, or that its clock was set: both clocks must go on as they should."""

    def __init__(self, monotonic: float, wall: float) -> None:
        self._before = (monotonic, wall)

    def jumped(self, monotonic: float, wall: float, at_most_s: float) -> bool:
        """Say whether more or less has passed than the `at_most_s` that the caller has slept since it last asked.

        A monotonic clock stands still in a sleep on Linux and macOS, and goes on on Windows.
        """
        passed, by_wall = monotonic - self._before[0], wall - self._before[1]
        self._before = (monotonic, wall)
        return abs(by_wall - passed) > JUMP_S or passed > at_most_s + JUMP_S
