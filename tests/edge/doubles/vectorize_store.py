"""Where a stand-in keeps an index between two runs: what is visible, what is accepted and waits, metadata indexes.

One SQLite file of one process. A mutation is on the disk before it is acknowledged, as Vectorize's log has it.
"""

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
from tests.edge.doubles.vectorize_rules import Stored

from shoal.core.protocols import SqlValue

_SCHEMA: Final = """
create table if not exists about(key text primary key, value any) strict, without rowid;
create table if not exists metadata_index(name text primary key, type text not null) strict;
create table if not exists vector(id text primary key, row text not null, "values" blob not null) strict;
create table if not exists mutation(
  seq integer primary key, id text not null, kind text not null, accepted_s real not null, ids text not null
) strict;
create table if not exists mutation_vector(
  seq integer not null, number integer not null, row text not null, "values" blob not null,
  primary key (seq, number)
) strict, without rowid;
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change that was acknowledged. `vectors` of an insert or upsert, `ids` of a delete."""

    id: str
    kind: str
    """`insert`, `upsert` or `delete`."""
    accepted_s: float
    """Seconds since 1970."""
    vectors: tuple[Stored, ...] = ()
    ids: tuple[str, ...] = ()


class StoreUnusable(ValueError):
    """The file can't hold this index; the message says why and what to do."""


class VectorizeStore:
    """The file of one index, which is made when it is absent; no other process may have it open."""

    def __init__(self, path: Path, dimensions: int) -> None:
        """Open it. Raises StoreUnusable."""
        mend = "Use another file, or move this one away: the index is filled again from the database."
        try:
            self._connection = apsw.Connection(str(path))
            self._connection.execute("pragma locking_mode = exclusive; pragma journal_mode = wal")
            self._connection.execute(_SCHEMA)
            kept = self._about("dimensions")
            self._put("dimensions", dimensions if kept is None else kept)
        except apsw.BusyError as error:
            raise StoreUnusable(f"{path} is open in another process. End that one, or use another file.") from error
        except apsw.Error as error:
            raise StoreUnusable(f"{path} can't be used: {error}. {mend}") from error
        if kept not in (None, dimensions):
            self._connection.close()
            raise StoreUnusable(f"{path} holds vectors of {kept} dimensions, not {dimensions}. {mend}")

    @property
    def processed(self) -> tuple[str, float] | None:
        """The last mutation that became visible, and when it was accepted."""
        id_, at = self._about("processed"), self._about("processed_s")
        return None if id_ is None else (str(id_), float(at or 0))

    def metadata_indexes(self) -> dict[str, str]:
        """Return the properties with their types, oldest first."""
        return dict(self._connection.execute("select name, type from metadata_index order by rowid"))

    def add_metadata_index(self, name: str, type_: str) -> None:
        """Keep a new metadata index."""
        self._connection.execute("insert into metadata_index values (?1, ?2)", (name, type_))

    def vectors(self) -> Iterable[Stored]:
        """Return every visible vector."""
        return (_stored(*row) for row in self._connection.execute('select row, "values" from vector'))

    def waiting(self) -> list[Mutation]:
        """Return the mutations that are not visible yet, oldest first."""
        found: list[Mutation] = []
        for seq, id_, kind, accepted_s, ids in self._connection.execute("select * from mutation order by seq"):
            rows = self._connection.execute(
                'select row, "values" from mutation_vector where seq = ?1 order by number', (seq,)
            )
            found.append(Mutation(id_, kind, accepted_s, tuple(_stored(*row) for row in rows), tuple(json.loads(ids))))
        return found

    def accept(self, mutation: Mutation) -> None:
        """Keep a mutation before it is acknowledged."""
        with self._connection:
            self._connection.execute(
                "insert into mutation(id, kind, accepted_s, ids) values (?1, ?2, ?3, ?4)",
                (mutation.id, mutation.kind, mutation.accepted_s, json.dumps(mutation.ids)),
            )
            seq = self._connection.last_insert_rowid()
            self._connection.executemany(
                "insert into mutation_vector values (?1, ?2, ?3, ?4)",
                [(seq, number, *_row(vector)) for number, vector in enumerate(mutation.vectors)],
            )

    def apply(self, mutation: Mutation, put: Sequence[Stored], removed: Sequence[str]) -> None:
        """Keep what the oldest waiting mutation changed, and that it is visible now."""
        with self._connection:
            self._connection.executemany("delete from vector where id = ?1", [(id_,) for id_ in removed])
            self._connection.executemany(
                "insert or replace into vector values (?1, ?2, ?3)", [(vector.id, *_row(vector)) for vector in put]
            )
            seq = self._connection.execute("select min(seq) from mutation").get
            self._connection.execute("delete from mutation_vector where seq = ?1", (seq,))
            self._connection.execute("delete from mutation where seq = ?1", (seq,))
            self._put("processed", mutation.id)
            self._put("processed_s", mutation.accepted_s)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _about(self, key: str) -> SqlValue:
        return self._connection.execute("select value from about where key = ?1", (key,)).get

    def _put(self, key: str, value: SqlValue) -> None:
        self._connection.execute("insert or replace into about values (?1, ?2)", (key, value))


def _row(vector: Stored) -> tuple[str, bytes]:
    about = [vector.id, vector.namespace, vector.metadata, vector.indexed]
    return json.dumps(about, ensure_ascii=False), vector.values.tobytes()


def _stored(row: str, values: bytes) -> Stored:
    id_, namespace, metadata, indexed = json.loads(row)
    return Stored(id_, array("f", values), namespace, metadata, indexed)
