"""A replica's database, read from outside while others write to it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import apsw

Stamp = tuple[int, str]
"""(rank, hlc): of two cells of one name the greater is what counts."""
Cell = tuple[str, str, str]
"""(id, space, field)."""

LOCK_WAIT_MS: Final = 10_000
_STAMPS: Final = """
select lower(hex(m.id)), m.space, 'init', m.rank, m.hlc from record m where m.rank > 0 and {which}
union all select lower(hex(m.id)), m.space, c.field, c.rank, c.hlc from cell c join record m using (rid) where {which}
"""
# Of a memory and of the edges that it has.
_NAMED: Final = "(m.id in ({0}) or m.src in ({0}) or m.dst in ({0}))"


class Replica:
    """The file of a laptop or of the edge.

    It is opened for each look: a connection that outlived its writer would do the mending that the next one has to do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(LOCK_WAIT_MS)
            return list(connection.execute(sql))
        finally:
            connection.close()

    def stamps(self, ids: Iterable[str] | None = None) -> dict[Cell, Stamp]:
        """Return the stamps of all cells, or of those of memories and their edges."""
        which = "1"
        if ids is not None:
            which = _NAMED.format(", ".join(f"x'{one}'" for one in ids))
        return {(i, s, f): (rank, hlc) for i, s, f, rank, hlc in self.rows(_STAMPS.format(which=which))}

    def waiting(self) -> list[tuple[Any, ...]]:
        """Return what is marked as not yet sent, or as refused."""
        return self.rows("select rid, 'init' from record where dirty union all select rid, field from cell where dirty")

    def device(self) -> str:
        """Return the name under which it stamps."""
        ((name,),) = self.rows("select v from meta where k = 'device'")
        return name
