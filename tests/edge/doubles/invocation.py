"""One run of a Worker, and the rules that production enforces on it and local workerd does not.

The doubles count into the current invocation; outside of one nothing is counted, so that fixtures may plant data.
"""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


class ProductionRuleBroken(AssertionError):
    """What runs here and fails in production. `rule` names the rule."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Limits:
    """What one invocation may do; the defaults are the free plan's."""

    d1_statements: int = 50
    """Each statement of a batch counts."""
    subrequests: int = 50
    """Calls of bindings. The free plan counts calls of Cloudflare's own services more generously than fetches; here
    all count alike, which is the strictest reading."""
    connections: int = 6
    """Calls that are under way at the same time. In production a seventh waits; what waits for it may wait forever."""


FREE_PLAN: Final = Limits()


class Invocation:
    """What one run of the Worker has done so far. Made by `invocation`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.calls: Counter[str] = Counter()
        """Calls by what was called, such as `vectorize.query`."""
        self.d1_statements = 0
        self.connections_open = 0
        self.connections_most = 0
        self.broken: list[ProductionRuleBroken] = []
        self.now_ms = _time_ms()
        """The Worker's clock, in milliseconds since 1970: it stands still while code runs and moves at I/O."""

    @property
    def subrequests(self) -> int:
        """Calls of bindings so far."""
        return self.calls.total()

    def break_rule(self, rule: str, detail: str) -> None:
        """Raise ProductionRuleBroken, and remember it in case the Worker swallows it."""
        broken = ProductionRuleBroken(rule, detail)
        self.broken.append(broken)
        raise broken

    def count(self, name: str, d1_statements: int) -> None:
        """Count a call before it is made. Raises ProductionRuleBroken."""
        self.calls[name] += 1
        self.d1_statements += d1_statements
        if self.d1_statements > self.limits.d1_statements:
            most = self.limits.d1_statements
            self.break_rule("D1 statements per invocation", f"{self.d1_statements} statements, at most {most}")
        if self.subrequests > self.limits.subrequests:
            # Production's text is 'Too many API requests by single Worker invocation.'
            most = self.limits.subrequests
            self.break_rule("subrequests per invocation", f"{self.subrequests} calls, at most {most}")
        if self.connections_open >= self.limits.connections:
            most = self.limits.connections
            self.break_rule("simultaneous connections", f"{name} while {most} others are open, at most {most}")


_current: ContextVar[Invocation | None] = ContextVar("invocation", default=None)


@contextmanager
def invocation(limits: Limits = FREE_PLAN) -> Iterator[Invocation]:
    """Begin an invocation: what runs inside, in tasks too, is counted together.

    Raises at the end the first rule that was broken inside, even when the Worker caught it.
    """
    run = Invocation(limits)
    token = _current.set(run)
    try:
        yield run
    finally:
        _current.reset(token)
    if run.broken:
        raise run.broken[0]


@asynccontextmanager
async def subrequest(name: str, d1_statements: int = 0) -> AsyncGenerator[None]:
    """Count a call of a binding into the current invocation, and let its clock move when the call is over."""
    run = _current.get()
    if run is None:
        yield
        return
    run.count(name, d1_statements)
    run.connections_open += 1
    run.connections_most = max(run.connections_most, run.connections_open)
    try:
        yield
    finally:
        run.connections_open -= 1
        run.now_ms = _time_ms()


def now_ms() -> int:
    """Return the time as a Worker sees it, a clock for the service under test: frozen between I/O."""
    run = _current.get()
    return _time_ms() if run is None else run.now_ms


def _time_ms() -> int:
    return time.time_ns() // 1_000_000
