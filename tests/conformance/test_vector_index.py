"""What core relies on in a VectorIndex, whichever it is."""

import math
import random
from collections.abc import Iterable, Sequence

import pytest

from shoal.core.protocols import Database, Filter, Statement, Vector, VectorIndex, VectorRow
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State

from .conftest import DIM

SPACES = ("main", "other", "crowd", "mine")
EVERYTHING = Filter(SPACES)
HASH = b"0123456789abcdef"
PART_ROWS = 1_000


def unit(*numbers: float) -> Vector:
    """Return the numbers, filled up with zeros, as a vector of length 1."""
    norm = math.hypot(*numbers)
    return [number / norm for number in numbers] + [0.0] * (DIM - len(numbers))


def key(rid: int, passage: int = 0) -> int:
    return rid * PASSAGES_MAX + passage


def made(
    rid: int, vector: Vector, passage: int = 0, space: str = "main", kind: str = "note", archived: bool = False
) -> VectorRow:
    return VectorRow(key(rid, passage), vector, HASH, space, kind, "semantic", rid, archived)


def row(rid: int, *numbers: float, passage: int = 0) -> VectorRow:
    return made(rid, unit(*numbers), passage)


async def remember(
    database: Database, rids: Iterable[int], space: str = "main", state: int = State.LIVE, kind: str = "note"
) -> None:
    """Add bare memories, for filters to see."""
    sql = """insert into record (rid, id, space, rank, hlc, seq, class, state, type, occurred_at)
      values (?1, ?2, ?3, 1, '', 1, 'memory', ?4, ?5, ?1)"""
    rows = [Statement(sql, (rid, rid.to_bytes(16, "big"), space, state, kind)) for rid in rids]
    for start in range(0, len(rows), PART_ROWS):
        await database.batch(rows[start : start + PART_ROWS])


async def keys(index: VectorIndex, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[int]:
    return [hit.key for hit in await index.search(vector, k, where)]


@pytest.fixture
async def three(indexed: tuple[Database, VectorIndex]) -> VectorIndex:
    """Memories 1, 2, 3 at 0, 30 and 90 degrees from the first axis."""
    database, index = indexed
    await remember(database, (1, 2, 3))
    await index.upsert([row(1, 1, 0), row(2, math.sqrt(3), 1), row(3, 0, 1)])
    return index


async def test_the_nearest_come_first_with_their_cosines(three: VectorIndex):
    hits = await three.search(unit(1, 0), 3, EVERYTHING)
    assert [hit.key for hit in hits] == [key(1), key(2), key(3)]
    assert [hit.similarity for hit in hits] == pytest.approx([1, math.sqrt(3) / 2, 0], abs=1e-6)


async def test_an_opposite_vector_has_a_cosine_of_minus_one(three: VectorIndex):
    hits = await three.search(unit(-1, 0), 3, EVERYTHING)
    assert hits[-1].key == key(1)
    assert hits[-1].similarity == pytest.approx(-1, abs=1e-6)


async def test_no_more_than_k_come(three: VectorIndex):
    assert await keys(three, unit(1, 0), 2) == [key(1), key(2)]
    assert await keys(three, unit(1, 0), 0) == []


async def test_an_empty_index_finds_nothing(indexed: tuple[Database, VectorIndex]):
    _, index = indexed
    assert await index.search(unit(1), 5, EVERYTHING) == []
    assert await index.neighbours(key(1), 5, EVERYTHING) == []


async def test_an_upsert_replaces(three: VectorIndex):
    await three.upsert([row(3, 1, 0.01)])
    assert await keys(three, unit(1, 0), 3) == [key(1), key(3), key(2)]
    assert await keys(three, unit(0, 1), 1) == [key(2)]


async def test_of_two_rows_of_one_key_in_one_upsert_the_later_counts(three: VectorIndex):
    await three.upsert([row(3, -1, 0), row(3, 1, 0.01)])
    assert await keys(three, unit(1, 0), 9) == [key(1), key(3), key(2)]


async def test_a_deleted_vector_is_not_found(three: VectorIndex):
    await three.delete([1])
    assert await keys(three, unit(1, 0), 3) == [key(2), key(3)]
    assert await three.neighbours(key(1), 3, EVERYTHING) == []


async def test_deleting_what_is_unknown_or_nothing_is_no_error(three: VectorIndex):
    await three.delete([])
    await three.delete([1, 1, 77])
    assert await keys(three, unit(1, 0), 3) == [key(2), key(3)]


async def test_a_deleted_vector_can_come_back(three: VectorIndex):
    await three.delete([1])
    await three.upsert([row(1, 0, 0, 1)])
    assert await keys(three, unit(0, 0, 1), 1) == [key(1)]


async def test_of_equally_near_ones_the_lower_key_comes_first(indexed: tuple[Database, VectorIndex]):
    database, index = indexed
    await remember(database, range(1, 8))
    await index.upsert([row(rid, 1, 2, 3) for rid in (5, 2, 7, 1, 6, 3, 4)])
    assert await keys(index, unit(1, 2, 3), 4) == [key(rid) for rid in (1, 2, 3, 4)]


async def test_passages_of_one_memory_are_found_one_by_one(indexed: tuple[Database, VectorIndex]):
    database, index = indexed
    await remember(database, (1, 2))
    await index.upsert([row(1, 1, 0), row(1, 0, 1, passage=1023), row(2, 1, 1)])
    assert await keys(index, unit(0, 1), 3) == [key(1, 1023), key(2), key(1)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(("main",)), [1, 3, 5]),
        (Filter(("other",)), [2]),
        (Filter(("main", "other")), [1, 2, 3, 5]),
        (Filter(()), []),
        (Filter(None), [1, 2, 3, 5]),
        (Filter(SPACES, types=("bug",)), [3]),
        (Filter(SPACES, since_ms=2, until_ms=5), [2, 3]),
        (Filter(SPACES, states=(State.LIVE, State.ARCHIVED)), [1, 2, 3, 4, 5]),
    ],
    ids=["space", "other space", "two spaces", "no space", "every space", "type", "time", "archived"],
)
async def test_only_memories_that_pass_the_filter_are_found(
    indexed: tuple[Database, VectorIndex], where: Filter, expected: list[int]
):
    database, index = indexed
    await remember(database, (1, 5))
    await remember(database, (2,), space="other")
    await remember(database, (3,), kind="bug")
    await remember(database, (4,), state=State.ARCHIVED)
    await remember(database, (6,), state=State.TRASHED)
    await remember(database, (7,), state=State.HIDDEN)
    told = {2: {"space": "other"}, 3: {"kind": "bug"}, 4: {"archived": True}}
    # 8 has no memory at all.
    await index.upsert([made(rid, unit(1, rid / 100), **told.get(rid, {})) for rid in range(1, 9)])
    assert await keys(index, unit(1, 0), 10, where) == [key(rid) for rid in expected]
    neighbours = await index.neighbours(key(1), 10, where)
    assert [hit.key for hit in neighbours] == [key(rid) for rid in expected if rid != 1]


async def test_a_change_of_the_memory_counts_at_once(three: VectorIndex, indexed: tuple[Database, VectorIndex]):
    database, _ = indexed
    await database.batch([Statement("update record set state = ?1 where rid = 1", (State.TRASHED,))])
    assert await keys(three, unit(1, 0), 3) == [key(2), key(3)]


def scattered(seed: int, count: int, near: Sequence[float]) -> list[Vector]:
    """Return unit vectors around a direction."""
    randomness = random.Random(seed)
    return [unit(*(number + randomness.gauss(0, 0.05) for number in near)) for _ in range(count)]


async def test_a_far_match_is_found_behind_ten_thousand_nearer_ones_that_dont_pass(
    indexed: tuple[Database, VectorIndex],
):
    database, index = indexed
    near = [1.0] + [0.0] * (DIM - 1)
    crowd = range(10, 10_010)
    await remember(database, crowd, space="crowd")
    await remember(database, (1, 2), space="mine")
    vectors = scattered(1, len(crowd), near)
    await index.upsert([made(rid, vector, space="crowd") for rid, vector in zip(crowd, vectors, strict=True)])
    await index.upsert([made(1, unit(-1, 0), space="mine"), made(2, unit(-1, 1), space="mine")])
    assert await keys(index, near, 5, Filter(("mine",))) == [key(2), key(1)]
    assert [hit.key for hit in await index.neighbours(key(10), 5, Filter(("mine",)))] == [key(2), key(1)]
    assert set(await keys(index, near, 5, EVERYTHING)) <= {key(rid) for rid in crowd}


async def test_neighbours_leave_the_passage_itself_out(three: VectorIndex):
    hits = await three.neighbours(key(1), 2, EVERYTHING)
    assert [hit.key for hit in hits] == [key(2), key(3)]
    assert hits[0].similarity == pytest.approx(math.sqrt(3) / 2, abs=1e-6)


async def test_neighbours_are_k_even_among_twins(indexed: tuple[Database, VectorIndex]):
    database, index = indexed
    await remember(database, range(1, 6))
    await index.upsert([row(rid, 1, 1) for rid in range(1, 6)])
    assert [hit.key for hit in await index.neighbours(key(5), 2, EVERYTHING)] == [key(1), key(2)]


@pytest.mark.parametrize("vector", [[1.0], [1.0] * DIM, [0.0] * DIM, [float("nan")] * DIM], ids=str)
async def test_what_is_no_unit_vector_of_the_right_length_is_refused(three: VectorIndex, vector: Vector):
    with pytest.raises(ValueError, match="vector"):
        await three.upsert([made(9, vector)])
    with pytest.raises(ValueError, match="vector"):
        await three.search(vector, 1, EVERYTHING)
