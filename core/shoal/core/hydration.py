"""Vector hits held against the database: an index that lies apart from it may be behind the memories, or ahead.

Such an index names with each hit the version of its memory's vectors by a mark. A hit counts where `vector_state` has
the same mark of the model in use, and the memory passes the filter, all of which the database alone can tell. One of
another version is a ghost once nothing is about to make the memory's vectors: until then it may be the version that
is just being put there, before its mark is noted.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self, cast

from shoal.core.protocols import Row, VectorHit
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State

STATE_OF: Final = "left join vector_state v on v.rid = r.rid and v.model = ?"
"""SQL that joins what the index should hold to memories `r`; its parameter is the model's fingerprint."""


def standing_of(passing: str) -> str:
    """Return the columns that Standing.read takes, of memories `r` joined by STATE_OF; `passing` is their filter."""
    return (
        f"case when r.state <> {State.HIDDEN} then v.mark end as mark,"
        " r.want <= 0 and r.rid >= coalesce((select v from meta where k = 'reembed'), 0) as settled,"
        f" ({passing}) as passes"
    )


class Standing(NamedTuple):
    """What the database says of a memory that a vector search met."""

    mark: str | None
    """The version of its vectors that counts, if any."""
    settled: bool
    """Whether nothing is about to make them."""
    passes: bool
    """Whether the memory passes the filter."""

    @classmethod
    def read(cls, row: Row) -> Self:
        """Return it from a row of `standing_of`."""
        return cls(cast("str | None", row["mark"]), bool(row["settled"]), bool(row["passes"]))


class Sifted(NamedTuple):
    """What is left of a search's hits."""

    hits: list[VectorHit]
    """Those that count, in their order."""
    outside: int
    """How many are of memories that don't pass the filter."""
    ghosts: list[str]
    """Vectors that no memory has any more, as `key.mark`."""


def sift(hits: Iterable[VectorHit], standings: Mapping[int, Standing]) -> Sifted:
    """Part hits by the standing of their memories, by rid; those missing there don't exist."""
    sifted = Sifted([], 0, [])
    outside = 0
    for hit in hits:
        standing = standings.get(hit.key // PASSAGES_MAX)
        if standing is not None and hit.mark in (None, standing.mark):
            if standing.passes:
                sifted.hits.append(hit)
            else:
                outside += 1
        elif hit.mark is not None and (standing is None or standing.settled):
            sifted.ghosts.append(f"{hit.key}.{hit.mark}")
    return sifted._replace(outside=outside)
