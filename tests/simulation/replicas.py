"""The replicas of the simulation: the real service on the real SQL, each with a clock and a disk that may fail."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import apsw
from tests.simulation.driver import pause

from shoal.core.context import EDGE, LAPTOP, Context
from shoal.core.fakes import FakeDatabase
from shoal.core.protocols import Row, SqlValue, Statement
from shoal.core.service import Memory, open_memory
from shoal.schema.errors import StorageBusy, StorageError

STATEMENTS_CACHED: Final = 400
CellName = tuple[str, str, str]
"""Id, space and field."""
Stamp = tuple[int, str]
"""Rank and hlc."""
Commit = Callable[["Replica", int, Sequence[Statement], dict[CellName, Stamp] | None], None]
"""Is told of each batch once it stands: the replica, the sequence number before it, the batch, and of one that stamps
anew the stamps before it."""


class Clock:
    """A replica's own: the true time and how far it is off. It may stand still."""

    def __init__(self, true_ms: Callable[[], int], skew_ms: int = 0) -> None:
        self._true_ms = true_ms
        self.skew_ms = skew_ms
        self.stopped_at: int | None = None

    def __call__(self) -> int:
        return self._true_ms() + self.skew_ms if self.stopped_at is None else self.stopped_at


class Disk:
    """How often a database fails: before a batch is written, or after it was, so that nobody knows."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.fails = 0.0


class Replica:
    """One database and who works on it. A device's people and its syncer are different processes on one file."""

    def __init__(self, number: int, connection: apsw.Connection, clock: Clock, disk: Disk, on_commit: Commit) -> None:
        self.number = number
        self.connection = connection
        self.clock = clock
        self.disk = disk
        self.on_commit = on_commit

    def rows(self, sql: str, *params: SqlValue) -> list[tuple[Any, ...]]:
        return list(self.connection.execute(sql, params))

    def value(self, sql: str, *params: SqlValue) -> Any:
        return self.rows(sql, *params)[0][0]

    @property
    def seq(self) -> int:
        return self.value("select v from meta where k = 'seq'")

    @property
    def device(self) -> str:
        return self.value("select v from meta where k = 'device'")

    @property
    def is_edge(self) -> bool:
        return self.device == "edge"

    def stamps(self) -> dict[CellName, Stamp]:
        """Return (rank, hlc) of each cell by (id, space, field), `init` included."""
        return {tuple(row[:3]): (row[3], row[4]) for row in self.rows(f"{_RECORDS} where rank > 0 union all {_CELLS}")}

    def written_after(self, seq: int) -> list[tuple[Any, ...]]:
        """Return (id, space, field, rank, hlc, value, dirty) of what was written after a sequence number."""
        return self.rows(f"{_RECORDS} where m.seq > ?1 union all {_CELLS} where c.seq > ?1", seq)


_RECORDS: Final = "select lower(hex(m.id)), m.space, 'init', m.rank, m.hlc, m.init, m.dirty from record m"
_CELLS: Final = (
    "select lower(hex(m.id)), m.space, c.field, c.rank, c.hlc, c.value, c.dirty from cell c join record m using (rid)"
)


class SimulatedDatabase:
    """A replica's database as one process sees it. It outlives a restore, which puts another in its place."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        return await FakeDatabase(self._replica.connection).query(sql, params)

    async def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        disk = self._replica.disk
        before, after = (disk.fails and disk.chance.random() < disk.fails for _ in range(2))
        if before:
            raise StorageError("It could not be written.", "Try again.")
        return await self._written(statements, bool(after))

    async def _written(self, statements: Sequence[Statement], failing: bool) -> list[list[Row]]:
        await pause()
        replica = self._replica
        seq = replica.seq
        restamps = statements[0].sql.startswith("update cell set dirty = 1, seq")
        stamps = replica.stamps() if restamps else None
        # Nobody may come between the number and the batch.
        outcome = _at_once(FakeDatabase(replica.connection).batch(statements))
        replica.on_commit(replica, seq, statements, stamps)
        await pause()
        if failing:
            raise StorageBusy("Nobody knows whether it was written.", "Try again.")
        return outcome

    async def size_bytes(self) -> int:
        return await FakeDatabase(self._replica.connection).size_bytes()


def _at_once(coroutine: Any) -> Any:
    """Run what only yields to its end."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def opened(replica: Replica, names: Callable[[], str] | None) -> Memory:
    """Return the service on a replica; the edge is the one that names its batches."""
    memory: Memory = _at_once(
        open_memory(
            SimulatedDatabase(replica),
            None,
            None,
            clock=replica.clock,
            new_device="none",
            policy=LAPTOP if names is None else EDGE,
        )
    )
    if names is None:
        return memory
    context: Context = memory.context
    named = replace(context, replica=replace(context.replica, name_batch=names))
    return Memory(named, "none")


_EMPTY: list[bytes] = []


def connection(contents: bytes | None = None) -> apsw.Connection:
    """Return a database with these contents; by default a new one that has its schema already."""
    if contents is None and not _EMPTY:
        first = apsw.Connection(":memory:")
        _at_once(open_memory(FakeDatabase(first), None, None, clock=lambda: 0, new_device="none"))
        _EMPTY.append(first.serialize("main"))
    made = apsw.Connection(":memory:", statementcachesize=STATEMENTS_CACHED)
    made.deserialize("main", _EMPTY[0] if contents is None else contents)
    made.execute("create virtual table temp.content_words using fts5vocab(main, content_fts, instance)")
    made.execute("create virtual table temp.label_words using fts5vocab(main, label_fts, instance)")
    return made


def named(replica: Replica, device: str) -> None:
    """Give the replica a name, as the anchor outside the database gives a file that was copied or restored another."""
    replica.connection.execute("insert or replace into meta (k, v) values ('device', ?)", (device,))
