"""The laptop's vector index beyond what every index does: large sets, several processes, a change of model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.core.migrate import migrate
from shoal.core.protocols import Filter, Statement, VectorRow
from shoal.local.database import ApswDatabase
from shoal.local.vectors import EXACT_MAX, SqliteVecIndex
from shoal.schema.limits import PASSAGES_MAX

DIM = 384
MODEL = "test/1"
SPACES = ("main", "few")
EVERYTHING = Filter(SPACES)
HASH = b"0123456789abcdef"
Matrix = NDArray[np.float32]


def normalised(matrix: NDArray[np.floating]) -> Matrix:
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def clusters(count: int, per_cluster: int, common: float = 0.0) -> Matrix:
    """Return unit vectors around random centres; `common` adds a part that all share, as many models do."""
    randomness = np.random.default_rng(1)
    centres = randomness.standard_normal((count // per_cluster, DIM))
    near = centres[randomness.integers(len(centres), size=count)] + 0.5 * randomness.standard_normal((count, DIM))
    return normalised(near + common * randomness.standard_normal(DIM))


def queries(matrix: Matrix, count: int) -> Matrix:
    """Return vectors near some of the matrix's."""
    randomness = np.random.default_rng(2)
    chosen = matrix[randomness.integers(len(matrix), size=count)]
    return normalised(chosen + 0.02 * randomness.standard_normal(chosen.shape))


def nearest(matrix: Matrix, query: Matrix, k: int, rids: NDArray[np.int64]) -> list[int]:
    """Return the keys of the k nearest rows among `rids`, by comparing all."""
    order = np.argsort(-(matrix[rids - 1] @ query), kind="stable")[:k]
    return (rids[order] * PASSAGES_MAX).tolist()


def rows(matrix: Matrix, first_rid: int = 1) -> list[VectorRow]:
    return [made(first_rid + number, vector.tolist()) for number, vector in enumerate(matrix)]


def made(rid: int, vector: list[float]) -> VectorRow:
    return VectorRow(rid * PASSAGES_MAX, vector, HASH, "main", "note", "semantic", rid, archived=False)


async def remember(database: ApswDatabase, count: int) -> None:
    """Add bare memories 1..count; every tenth is of the type `rare`, every hundredth in the space `few`."""
    sql = """insert into record (rid, id, space, rank, hlc, seq, class, state, type, occurred_at)
      with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1)
      select i, unhex(printf('%032x', i)), iif(i % 100 = 0, 'few', 'main'), 1, '', 1, 'memory', 1,
        iif(i % 10 = 0, 'rare', 'note'), i from n"""
    await database.batch([Statement(sql, (count,))])


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[ApswDatabase]:
    """A migrated database."""
    async with await ApswDatabase.open(tmp_path / "shoal.db") as opened:
        await migrate(opened)
        yield opened


async def found(index: SqliteVecIndex, query: Matrix, k: int, where: Filter = EVERYTHING) -> list[int]:
    return [hit.key for hit in await index.search(query.tolist(), k, where)]


class TestRecall:
    @pytest.mark.parametrize("common", [0.0, 2.0], ids=["plain", "with a common part"])
    async def test_the_nearest_ten_are_the_true_ones_in_a_large_clustered_set(
        self, database: ApswDatabase, common: float
    ):
        matrix = clusters(10_000, 100, common)
        await remember(database, len(matrix))
        index = await SqliteVecIndex.open(database, MODEL, DIM)
        await index.upsert(rows(matrix))
        every = np.arange(1, len(matrix) + 1)
        passing = {
            EVERYTHING: every,
            Filter(("main",)): every[every % 100 != 0],
            Filter(SPACES, types=("rare",)): every[every % 10 == 0],
            Filter(("few",)): every[every % 100 == 0],
            Filter(SPACES, since_ms=9_500): every[every >= 9_500],
            Filter(SPACES, since_ms=9_995): every[every >= 9_995],
            Filter(("nowhere",)): every[:0],
        }
        for where, rids in passing.items():
            right = total = 0
            for query in queries(matrix, 30):
                expected = nearest(matrix, query, 10, rids)
                hits = await found(index, query, 10, where)
                assert len(hits) == len(expected)
                right += len(set(hits) & set(expected))
                total += len(expected)
            assert right >= 0.99 * total, where

    async def test_similarities_are_exact_and_in_order(self, database: ApswDatabase):
        matrix = clusters(EXACT_MAX + 1_000, 100)
        await remember(database, len(matrix))
        index = await SqliteVecIndex.open(database, MODEL, DIM)
        await index.upsert(rows(matrix))
        [query] = queries(matrix, 1)
        hits = await index.search(query.tolist(), 50, EVERYTHING)
        cosines = [float(matrix[hit.key // PASSAGES_MAX - 1] @ query) for hit in hits]
        assert [hit.similarity for hit in hits] == pytest.approx(cosines, abs=1e-5)
        assert cosines == pytest.approx(sorted(cosines, reverse=True), abs=1e-5)

    async def test_a_dimension_that_fills_no_machine_word_works(self, database: ApswDatabase):
        matrix = clusters(EXACT_MAX + 500, 50)[:, :100]
        matrix = normalised(matrix)
        await remember(database, len(matrix))
        index = await SqliteVecIndex.open(database, MODEL, 100)
        await index.upsert(rows(matrix))
        every = np.arange(1, len(matrix) + 1)
        for query in queries(matrix, 10):
            assert await found(index, query, 5) == nearest(matrix, query, 5, every)


@pytest.fixture
async def large(database: ApswDatabase) -> tuple[SqliteVecIndex, Matrix]:
    """An index just large enough for the matrix of bits, after its first search."""
    matrix = clusters(EXACT_MAX + 500, 50)
    await remember(database, 2 * len(matrix))
    index = await SqliteVecIndex.open(database, MODEL, DIM)
    await index.upsert(rows(matrix))
    assert await found(index, matrix[0], 1) == [PASSAGES_MAX]
    return index, matrix


class TestFreshness:
    async def test_what_was_added_since_the_last_search_is_found(self, large: tuple[SqliteVecIndex, Matrix]):
        index, matrix = large
        added = normalised(-matrix[:3])
        await index.upsert(rows(added, first_rid=3_000))
        assert await found(index, added[1], 1) == [3_001 * PASSAGES_MAX]

    async def test_what_another_process_adds_and_removes_counts_at_once(
        self, large: tuple[SqliteVecIndex, Matrix], database: ApswDatabase
    ):
        index, matrix = large
        async with await ApswDatabase.open(database.path) as other_database:
            other = await SqliteVecIndex.open(other_database, MODEL, DIM)
            await other.upsert(rows(normalised(-matrix[:1]), first_rid=4_000))
            await other.delete([1])
            assert await found(index, -matrix[0], 1) == [4_000 * PASSAGES_MAX]
            assert PASSAGES_MAX not in await found(index, matrix[0], 10)
            # A stamp is never given twice, even when the newest row went.
            await other.delete([4_000])
            await other.upsert(rows(normalised(-matrix[:1]), first_rid=4_001))
            assert await found(index, -matrix[0], 1) == [4_001 * PASSAGES_MAX]
            assert await index.count() == await other.count() == len(matrix)

    async def test_a_replaced_vector_is_found_once_where_it_is_now(self, large: tuple[SqliteVecIndex, Matrix]):
        index, matrix = large
        await index.upsert(rows(normalised(matrix[:1] + 0.01 * matrix[1:2])))
        hits = await found(index, matrix[0], 10)
        assert hits.count(PASSAGES_MAX) == 1
        await index.upsert(rows(normalised(-matrix[:1])))
        assert PASSAGES_MAX not in await found(index, matrix[0], 10)
        assert await found(index, -matrix[0], 1) == [PASSAGES_MAX]

    async def test_an_index_of_which_most_was_deleted_or_replaced_still_finds_the_nearest(
        self, large: tuple[SqliteVecIndex, Matrix]
    ):
        index, matrix = large
        every = np.arange(1, len(matrix) + 1)
        for _ in range(3):
            await index.upsert(rows(matrix))
            assert await found(index, matrix[7], 5) == nearest(matrix, matrix[7], 5, every)
        await index.delete(range(1, 2_001))
        rest = every[2_000:]
        for query in (matrix[7], matrix[2_400]):
            assert await found(index, query, 5) == nearest(matrix, query, 5, rest)
        assert await index.count() == len(rest)

    async def test_searches_during_writes_find_what_was_acknowledged(self, large: tuple[SqliteVecIndex, Matrix]):
        index, matrix = large
        added = normalised(-matrix[:100])

        async def add_and_find(number: int) -> None:
            await index.upsert(rows(added[number : number + 1], first_rid=4_000 + number))
            assert (4_000 + number) * PASSAGES_MAX in await found(index, added[number], 3)

        await asyncio.gather(*map(add_and_find, range(100)))

    async def test_the_index_stays_right_while_it_grows_many_times_over(self, database: ApswDatabase):
        matrix = clusters(12_000, 100, common=2.0)
        await remember(database, len(matrix))
        index = await SqliteVecIndex.open(database, MODEL, DIM)
        for end in range(1_000, 12_001, 1_000):
            await index.upsert(rows(matrix[end - 1_000 : end], first_rid=end - 999))
            expected = nearest(matrix, matrix[end - 1], 3, np.arange(1, end + 1))
            assert await found(index, matrix[end - 1], 3) == expected


class TestModels:
    async def test_a_new_model_sees_only_its_own_vectors_until_all_are_replaced(self, database: ApswDatabase):
        matrix = clusters(100, 10)
        await remember(database, 100)
        old = await SqliteVecIndex.open(database, "old/1", DIM)
        await old.upsert(rows(matrix))
        new = await SqliteVecIndex.open(database, "new/1", DIM)
        assert await found(new, matrix[0], 5) == []
        assert (await new.count(), await new.count_others()) == (0, 100)
        await new.upsert(rows(matrix[:40]))
        assert set(await found(new, matrix[0], 100)) == {rid * PASSAGES_MAX for rid in range(1, 41)}
        assert await new.neighbours(50 * PASSAGES_MAX, 5, EVERYTHING) == []
        assert (await new.count(), await new.count_others(), await old.count()) == (40, 60, 60)
        await new.drop_others()
        assert (await new.count(), await new.count_others(), await old.count()) == (40, 0, 0)
        assert await found(old, matrix[0], 5) == []

    async def test_a_process_that_still_has_the_dropped_model_can_go_on(self, database: ApswDatabase):
        matrix = clusters(100, 10)
        await remember(database, 100)
        old = await SqliteVecIndex.open(database, "old/1", DIM)
        await old.upsert(rows(matrix))
        new = await SqliteVecIndex.open(database, "new/1", DIM)
        await new.drop_others()
        await old.upsert(rows(matrix[:1]))
        assert await found(old, matrix[0], 5) == [PASSAGES_MAX]

    async def test_vectors_of_another_length_may_wait_beside(self, database: ApswDatabase):
        await remember(database, 2)
        short = await SqliteVecIndex.open(database, "short/1", 8)
        await short.upsert([made(1, [1.0] + [0.0] * 7)])
        long = await SqliteVecIndex.open(database, "long/1", 16)
        await long.upsert([made(2, [1.0] + [0.0] * 15)])
        assert [hit.key for hit in await long.search([1.0] + [0.0] * 15, 5, EVERYTHING)] == [2 * PASSAGES_MAX]


async def test_a_failed_upsert_leaves_the_counts_right(database: ApswDatabase):
    await remember(database, 5)
    index = await SqliteVecIndex.open(database, MODEL, DIM)
    await index.upsert(rows(clusters(5, 5)))
    with pytest.raises(ValueError, match="unit"):
        await index.upsert([*rows(clusters(5, 5)), made(0, [1.0] * DIM)])
    assert await index.count() == 5


def plan(connection: apsw.Connection, sql: str, params: Sequence[object]) -> str:
    return "\n".join(row[3] for row in connection.execute(f"explain query plan {sql}", tuple(params)))


async def test_no_search_in_a_large_index_reads_all_memories_or_vectors(large: tuple[SqliteVecIndex, Matrix]):
    index, matrix = large
    texts: list[tuple[str, Sequence[object]]] = []

    def watched(connection: apsw.Connection) -> list[str]:
        def note(_cursor: apsw.Cursor, sql: str, params: object) -> bool:
            texts.append((sql, params if isinstance(params, tuple) else ()))
            return True

        connection.exec_trace = note
        try:
            index._search(connection, matrix[0].tobytes(), 10, Filter(("main",)))
        finally:
            connection.exec_trace = None
        return [plan(connection, sql, params) for sql, params in texts if sql.lstrip().startswith("select")]

    plans = await index._database.read(watched)
    assert len(plans) == 3
    for steps in plans:
        assert "SCAN" not in steps.replace("SCAN j VIRTUAL TABLE", ""), steps
