"""The edge's Database: D1 through the binding of one invocation.

Reads are asked again when the database was lost for a moment. A batch is sent again only when D1 says that it was
never begun. One whose answer was lost may have run, and though every batch of ours may run twice, its second answer
would tell what the first had done: a delete would be 'not found', a new memory 'merged'. So that goes back to the
caller as StorageBusy, who sends the same again or finds it in the queue; `apply` writes nothing twice.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, cast

from shoal.core.protocols import Row, SqlValue, Statement
from shoal.core.statements import check
from shoal.worker.bindings import Answer, D1Binding, D1Statement
from shoal.worker.budget import Budget
from shoal.worker.configuration import Clock
from shoal.worker.d1_errors import Outcome, outcome_of, too_many_statements, translate

WAITS_MS: Final = (40, 160, 640)
"""Longest pause before each further try; the real one is random, so that those refused together don't return together.
D1 itself has tried reads three times already."""

INT_MAX: Final = 2**53 - 2
"""The runtime passes integers up to here on as numbers, and those beyond as BigInts, which D1 refuses."""

_T = TypeVar("_T")


class D1Database:
    """Implements core's Database on a D1 binding. Good for one invocation, whose budget it keeps."""

    def __init__(self, binding: D1Binding, clock: Clock, budget: Budget) -> None:
        self._binding = binding
        self._clock = clock
        self._budget = budget
        self._size_bytes: int | None = None

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """Run one reading statement. Raises StorageError."""
        check(sql, params, reads=True)
        answer = await self._call(lambda: self._prepared(sql, params).all(), 1, reads=True)
        return self._rows(answer)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the statements as one transaction. Raises StorageError."""
        for sql, params in statements:
            check(sql, params)
        if not statements:
            return []

        def send() -> Awaitable[Sequence[Answer]]:
            return self._binding.batch([self._prepared(sql, params) for sql, params in statements])

        answers = await self._call(send, len(statements), reads=False)
        return [self._rows(answer) for answer in answers]

    async def size_bytes(self) -> int:
        """Return how large the database is: every answer tells."""
        if self._size_bytes is None:
            await self.query("select 1")
        return self._size_bytes or 0

    def _prepared(self, sql: str, params: Sequence[SqlValue]) -> D1Statement:
        statement = self._binding.prepare(sql)
        return statement.bind(*map(_bindable, params)) if params else statement

    async def _call(self, send: Callable[[], Awaitable[_T]], statements: int, *, reads: bool) -> _T:
        for wait_ms in (*WAITS_MS, None):
            if not self._budget.take("d1", statements):
                raise too_many_statements()
            try:
                return await send()
            except TypeError:
                raise  # A value that the runtime can't pass on: a fault of ours.
            except Exception as error:
                text = str(error)
                outcome = outcome_of(text)
                again = outcome is Outcome.NOT_RUN or (reads and outcome is Outcome.UNKNOWN)
                # Its text may quote a query, so it goes no further, nor into a log.
                failure = translate(text, self._clock(), writes=not reads)
            if wait_ms is None or not again or not self._budget.allows(statements, 1):
                raise failure
            await asyncio.sleep(secrets.randbelow(wait_ms) / 1000)
        raise AssertionError("the last try returns or raises")

    def _rows(self, answer: Answer) -> list[Row]:
        meta: Answer = answer["meta"]
        self._budget.rows_read += int(meta.get("rows_read", 0))
        self._budget.rows_written += int(meta.get("rows_written", 0))
        self._size_bytes = int(meta.get("size_after", 0))
        return [_row(row) for row in cast("Sequence[dict[str, Any]]", answer["results"])]


def _bindable(value: SqlValue) -> SqlValue:
    """Return the value in a form that D1 takes: the last integer that core allows is exact as a float too."""
    return float(value) if isinstance(value, int) and abs(value) > INT_MAX else value


def _row(row: dict[str, Any]) -> Row:
    """BLOBs arrive as lists of their bytes' numbers."""
    for name, value in row.items():
        if isinstance(value, list):
            row[name] = bytes(cast("list[int]", value))
    return row
