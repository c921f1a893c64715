"""D1 on the laptop: the binding's surface, as the SDK gives it to a Worker's Python, over apsw.

For unit tests, which need no workerd. D1's rules for statements: d1_sqlite.py; per invocation: invocation.py.
Everything that D1 does to values happens here too: a number is bound as REAL, whole or not (`'x' || ?1` gives `x7.0`,
and `?1 / 2` doesn't cut), and comes back as int when it is whole; a BLOB comes back as a list of ints.
"""

import asyncio
import math
from array import array
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

import apsw
from tests.edge.doubles.d1_sqlite import Outcome, Sqlite, is_empty
from tests.edge.doubles.faults import Faults
from tests.edge.doubles.invocation import subrequest
from tests.edge.doubles.sdk import SAFE_INT_MAX, BigInt, JsDict, JsError, JsValue, from_js, to_js

from shoal.core.protocols import SqlValue

SERVED_BY: Final = "d1-double"


class D1Fault(StrEnum):
    """How a call can be made to fail. The texts are those of D1's page of errors, and of refusals seen in 2026."""

    NETWORK_LOST = "Network connection lost."
    UNREACHABLE = "Cannot resolve D1 DB due to transient issue on remote node."
    RESET_BY_UPDATE = "D1 DB reset because its code was updated."
    RESET_BY_ERROR = "Internal error in D1 DB storage caused object to be reset."
    RESET_AT_START = "Internal error while starting up D1 DB storage caused object to be reset."
    RESET_BY_TIMEOUT = "D1 DB storage operation exceeded timeout which caused object to be reset."
    OVERLOADED = "D1 DB is overloaded. Too many requests queued."
    OVERLOADED_FOR_LONG = "D1 DB is overloaded. Requests queued for too long."
    OUT_OF_MEMORY = "D1 DB's isolate exceeded its memory limit and was reset."
    OUT_OF_CPU = "D1 DB exceeded its CPU time limit and was reset."
    DAILY_READS = (
        "Your account has exceeded D1's free tier daily row read limit. Upgrade to a paid plan or wait until tomorrow "
        "(midnight UTC) to continue. See https://developers.cloudflare.com/d1/platform/limits/ for more details."
    )
    DAILY_WRITES = (
        "Your account has exceeded D1's free tier daily row write limit. Upgrade to a paid plan or wait until tomorrow "
        "(midnight UTC) to continue. See https://developers.cloudflare.com/d1/platform/limits/ for more details."
    )
    """For calls that write: order it on `write`."""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with what is bound to it, as SQLite takes it."""

    sql: str
    params: tuple[Any, ...]


class D1Database:
    """What a Worker's Python has as `env.DB`.

    `faults` takes a call by the method's name (all, run, first, raw, batch, exec) and as `read` or `write`, whichever
    its statements turned out to be; a fault that isn't `applied` undoes them.

    `connection` is for tests that look behind the binding; D1's authoriser and limits hold there too.
    """

    def __init__(self, path: str = ":memory:") -> None:
        self.connection = apsw.Connection(path)
        self.faults = Faults(D1Fault)
        self.commits = 0
        """Calls that were committed."""
        self._sqlite = Sqlite(self.connection)

    def prepare(self, sql: str) -> "D1PreparedStatement":
        """Return a statement; nothing is looked at before it runs."""
        return D1PreparedStatement(self, sql)

    def batch(self, statements: list[Any]) -> Awaitable[list[Any]]:
        """Run statements as one transaction and return a result for each. Raises JsError; TypeError for no list."""
        if not isinstance(cast("object", statements), list):
            raise TypeError(f"{type(statements)} cannot be sent over RPC.")
        return self.results("batch", [cast("D1PreparedStatement", statement).query for statement in statements])

    def exec(self, sql: str) -> Awaitable[Any]:
        """Run each line of a text, as one transaction, and return `count` and `duration`."""
        lines = [line for line in sql.strip().split("\n") if not is_empty(line)]

        async def run() -> Any:
            try:
                outcomes = await self.execute("exec", [Query(line, ()) for line in lines])
            except JsError as error:
                # The line is always given as the first.
                raise JsError(f"D1_EXEC_ERROR: Error in line 1: {lines[0]}: {_bare(error)}") from error
            return JsDict(count=len(outcomes), duration=sum(outcome.duration_ms for outcome in outcomes))

        return run()

    def withSession(self, constraint: str | None = None) -> "D1DatabaseSession":
        """Begin a session. There is one database here, so it always reads its own writes."""
        return D1DatabaseSession(self, constraint)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    async def execute(self, method: str, queries: Sequence[Query]) -> list[Outcome]:
        """Run queries as one transaction; all or nothing. Raises JsError with the prefix `D1_ERROR: `."""
        async with subrequest(f"d1.{method}", len(queries)):
            # The database is elsewhere in production: others run now, and what depends on the gap should show.
            await asyncio.sleep(0)
            wanted = [query for query in queries if not is_empty(query.sql)]
            if not wanted:
                raise JsError("D1_ERROR: No SQL statements detected.")
            try:
                return self._transaction(method, wanted)
            except JsError as error:
                raise JsError(f"D1_ERROR: {error.message}") from error

    def _transaction(self, method: str, queries: Sequence[Query]) -> list[Outcome]:
        self._sqlite.trusted("begin")
        try:
            outcomes = [self._sqlite.run(query.sql, query.params) for query in queries]
            fault = self.faults.take(method, "write" if any(outcome.changed for outcome in outcomes) else "read")
            if fault is not None and not fault.applied:
                raise JsError(fault.kind)
            self._sqlite.trusted("commit")
        except apsw.ConstraintError as error:
            # A foreign key that was deferred: D1 says no more than this.
            self._sqlite.trusted("rollback")
            raise JsError("internal error") from error
        except BaseException:
            if self.connection.in_transaction:
                self._sqlite.trusted("rollback")
            raise
        self.commits += 1
        if fault is not None:
            raise JsError(fault.kind)
        return outcomes

    def results(self, method: str, queries: Sequence[Query]) -> Awaitable[list[Any]]:
        """Return what runs the queries and gives each one's D1Result."""

        async def run() -> list[Any]:
            return [_result(outcome) for outcome in await self.execute(method, queries)]

        return run()


class D1PreparedStatement:
    """A statement and what is bound to it; `bind` returns another."""

    def __init__(self, database: D1Database, sql: str, params: tuple[Any, ...] = ()) -> None:
        self._database = database
        self.query = Query(sql, params)

    def bind(self, *values: object) -> "D1PreparedStatement":
        """Bind values to ?1, ?2 and so on. Raises TypeError and, for what D1 doesn't take, JsError."""
        params = tuple(_bound(to_js(value)) for value in values)
        return D1PreparedStatement(self._database, self.query.sql, params)

    def all(self) -> Awaitable[Any]:
        """Return `success`, `meta` and `results`, a dict a row; of two columns of one name the last counts."""
        return self._one("all")

    def run(self) -> Awaitable[Any]:
        """Do the same as `all`."""
        return self._one("run")

    def first(self, column: str | None = None) -> Awaitable[Any]:
        """Return the first row, or one column of it; None without a row."""

        async def run() -> Any:
            [outcome] = await self._database.execute("first", [self.query])
            if not outcome.rows:
                return None
            row = _row(outcome.columns, outcome.rows[0])
            if column is None:
                return row
            if column not in row:
                raise JsError(f"D1_COLUMN_NOTFOUND: Column not found ({column})")
            return row[column]

        return run()

    def raw(self, options: object = None, **more: object) -> Awaitable[list[list[Any]]]:
        """Return the rows as lists; with `columnNames` the first is the names of the columns."""
        given = {**cast("dict[str, object]", options or {}), **more}

        async def run() -> list[list[Any]]:
            [outcome] = await self._database.execute("raw", [self.query])
            rows = [[_value(value) for value in row] for row in outcome.rows]
            return [list(outcome.columns), *rows] if given.get("columnNames") else rows

        return run()

    def _one(self, method: str) -> Awaitable[Any]:
        results = self._database.results(method, [self.query])

        async def run() -> Any:
            return (await results)[0]

        return run()


class D1DatabaseSession:
    """A session of one database without replicas: its bookmark only ever moves on."""

    def __init__(self, database: D1Database, constraint: str | None) -> None:
        start = (constraint or "").strip()
        self._database = database
        self._bookmark = None if start in ("", "first-primary", "first-unconstrained") else start

    def prepare(self, sql: str) -> D1PreparedStatement:
        """See D1Database."""
        return self._database.prepare(sql)

    def batch(self, statements: list[Any]) -> Awaitable[list[Any]]:
        """See D1Database."""
        return self._database.batch(statements)

    def getBookmark(self) -> str | None:
        """Return the point up to which this session has seen the database, or None before the first commit."""
        seen = f"{self._database.commits:08x}" if self._database.commits else None
        return max(filter(None, (self._bookmark, seen)), default=None)


def _bound(value: JsValue) -> Any:
    """Return what SQLite gets for a value that JavaScript passes to bind(), by way of JSON."""
    match value:
        case None:
            return None
        case bool() | int() | float():
            number = float(value)
            # JSON has no NaN and no infinity, and its 0 has no sign.
            return (number or 0.0) if math.isfinite(number) else None
        case str():
            return _text(value)
        case array():
            return bytes(int(item) % 256 for item in cast("array[Any]", value))
        case list() if all(_is_byte(item) for item in cast("list[JsValue]", value)):
            return bytes(int(item) for item in cast("list[JsValue]", value))
        case BigInt():
            kind, shown = "bigint", str(value.value)
        case list():
            kind, shown = "object", ",".join(str(item) for item in cast("list[JsValue]", value))
        case dict():
            kind, shown = "object", "[object Object]"
        case _:
            kind, shown = "object", str(value)
    raise JsError(f"D1_TYPE_ERROR: Type '{kind}' not supported for value '{shown}'")


def _is_byte(item: JsValue) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool) and 0 <= item < 256


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Local D1 stores three broken bytes; nobody means that.
        raise JsError("D1_TYPE_ERROR: half a surrogate pair can't be stored") from None
    return text


def _value(value: SqlValue) -> Any:
    """Return a column's value as Python sees it, after JSON and JavaScript."""
    match value:
        case bytes():
            return list(value)
        case int():
            return value if abs(value) <= SAFE_INT_MAX else float(value)
        case float():
            return from_js(value) if math.isfinite(value) else None
        case _:
            return value


def _row(columns: Sequence[str], values: Sequence[SqlValue]) -> JsDict:
    return JsDict(zip(columns, map(_value, values), strict=True))


def _result(outcome: Outcome) -> JsDict:
    meta = JsDict(
        served_by=SERVED_BY,
        served_by_primary=True,
        total_attempts=1,
        timings=JsDict(sql_duration_ms=outcome.duration_ms),
        duration=outcome.duration_ms,
        changes=outcome.changes,
        last_row_id=outcome.last_row_id,
        changed_db=outcome.changed,
        size_after=outcome.size_bytes,
        rows_read=outcome.rows_read,
        rows_written=outcome.rows_written,
    )
    return JsDict(success=True, meta=meta, results=[_row(outcome.columns, row) for row in outcome.rows])


def _bare(error: JsError) -> str:
    return error.message.removeprefix("D1_ERROR: ")
