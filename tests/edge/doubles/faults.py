"""Failures on demand: which of a double's calls fail, how often, and with which of production's errors."""

import asyncio
from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Fault:
    """One order to fail. `kind` is a value of the double's own enumeration."""

    kind: str
    on: str | None = None
    """What fails: a method, or another name that the double takes calls by; None for any."""
    times: int | None = 1
    """How many calls fail, or None for all until the faults are cleared."""
    after: int = 0
    """How many calls pass first."""
    applied: bool = False
    """Whether the work is done before the error comes: the caller can't know its outcome."""


class Faults:
    """The orders of one double, oldest first."""

    def __init__(self, kinds: type[StrEnum]) -> None:
        self._kinds = kinds
        self._orders: list[Fault] = []
        self._gate = asyncio.Event()
        self.hanging = asyncio.Event()
        """Set while a call hangs."""

    @property
    def orders(self) -> tuple[Fault, ...]:
        """What is still to fail."""
        return tuple(self._orders)

    def add(self, fault: Fault) -> None:
        """Order a failure. Raises ValueError for a kind that the double doesn't have and for counts out of range."""
        self._kinds(fault.kind)
        if fault.after < 0 or (fault.times is not None and fault.times < 1):
            raise ValueError("`times` is at least 1, or None for ever; `after` is at least 0")
        self._orders.append(fault)

    def clear(self) -> None:
        """Forget all orders and let go what hangs."""
        self._orders.clear()
        self.release()

    def take(self, *names: str) -> Fault | None:
        """Return the order that a call must obey which goes by these names, and count it."""
        for number, order in enumerate(self._orders):
            if order.on is not None and order.on not in names:
                continue
            if order.after:
                self._orders[number] = replace(order, after=order.after - 1)
                continue
            if order.times == 1:
                del self._orders[number]
            elif order.times is not None:
                self._orders[number] = replace(order, times=order.times - 1)
            return order
        return None

    async def hang(self) -> None:
        """Wait until told to go on."""
        self.hanging.set()
        await self._gate.wait()

    def release(self) -> None:
        """Let go what hangs now; a later call may hang again."""
        self._gate.set()
        self._gate = asyncio.Event()
        self.hanging.clear()
