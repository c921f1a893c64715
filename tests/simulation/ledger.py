"""What was acknowledged to people, on whichever replica: none of it may be lost, and nothing else may appear."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation import laws
from tests.simulation.replicas import CellName, Replica, Stamp

from shoal.core.protocols import Statement

Key = tuple[int, str, str, str]
"""Which replica wrote it, and the cell's id, space and field."""
Held = Mapping[CellName, Stamp]
"""The cells of a replica, or of a copy of one."""


class Ledger:
    """Watches every batch of every replica."""

    def __init__(self) -> None:
        self.acknowledged: dict[Key, Stamp] = {}
        self.count = 0
        self._written: dict[tuple[CellName, Stamp], Any] = {}
        """Every value that anybody wrote, by its stamp."""

    def committed(
        self, replica: Replica, seq: int, statements: Sequence[Statement], before: Mapping[CellName, Stamp] | None
    ) -> None:
        """Take note of a batch that a replica has written after a sequence number.

        `before` has the stamps before it, if it was one that stamps anew.
        """
        rows = replica.written_after(seq)
        for record, space, field, rank, hlc, value, dirty in rows:
            if not (hlc.endswith("-edge") if replica.is_edge else dirty == 1):
                continue
            cell, stamp = (record, space, field), (rank, hlc)
            known = self._written.setdefault((cell, stamp), value)
            assert known == value, f"two values under one stamp: {field} {stamp} {known!r} {value!r}"
            self.acknowledged[replica.number, record, space, field] = stamp
            self.count += 1
            if before is not None and cell in before:
                self._restamped(cell, before[cell], stamp)
        cells = laws.local_cells(statements)
        laws.check_seen_at_once(replica, cells)
        unmarked = [row for row in rows if row[6] != 1] if cells and not replica.is_edge else []
        assert unmarked == [], f"a write without its mark: {unmarked}"

    def _restamped(self, cell: CellName, before: Stamp, stamp: Stamp) -> None:
        for key, known in self.acknowledged.items():
            if key[1:] == cell and known == before:
                self.acknowledged[key] = stamp

    def lose(self, holding: Sequence[Held], copies: Sequence[Held] | None = None) -> None:
        """Forget what went with a database and no replica holds any more: no protocol brings that back.

        Where a space has left a device, it must be in one of the copies that were made of it.
        """
        for key, stamp in list(self.acknowledged.items()):
            if not any(holds(one, key, stamp) for one in holding):
                kept = copies is None or any(holds(one, key, stamp) for one in copies)
                assert kept, f"left with its space, and is in no copy: {key} {stamp}"
                del self.acknowledged[key]

    def check(self, edge: Replica, alone: Sequence[tuple[set[str], Held]]) -> None:
        """Check that the edge has all that was acknowledged, and nothing that nobody wrote.

        `alone` tells of each device which spaces it has for itself, and what it holds.
        """
        stamps = edge.stamps()
        for key, stamp in self.acknowledged.items():
            if not any(key[2] in spaces and holds(held, key, stamp) for spaces, held in alone):
                assert holds(stamps, key, stamp), f"an acknowledged cell was lost: {key} {stamp}"
        for record, space, field, rank, hlc, value, _ in edge.written_after(0):
            known = self._written.get(((record, space, field), (rank, hlc)), "nothing")
            assert known == value, f"nobody wrote {field} = {value!r}: {known!r}"


def holds(stamps: Held, key: Key, stamp: Stamp) -> bool:
    """Say whether there is a cell, or one that dominates it: a later one, or another life."""
    _, record, space, field = key
    have = stamps.get((record, space, field))
    life = stamps.get((record, space, "init"), (0, ""))[0]
    return (have is not None and have >= stamp) or life > stamp[0]
