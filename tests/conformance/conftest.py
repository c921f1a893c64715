"""Every implementation of the three protocols. To add one: write an opener and name it in its table."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import apsw
import pytest

# The index that lies apart (tests/core/apart.py) is imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.apart import ApartIndex, Hydrated

from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.migrate import migrate
from shoal.core.protocols import Database, Embedder, VectorIndex
from shoal.local.database import ApswDatabase
from shoal.local.embedding import open_embedder
from shoal.local.vectors import SqliteVecIndex

DIM = 16
"""Of the vectors in these tests."""


@asynccontextmanager
async def fake_database(_folder: Path) -> AsyncIterator[Database]:
    connection = apsw.Connection(":memory:")
    try:
        yield FakeDatabase(connection)
    finally:
        connection.close()


@asynccontextmanager
async def apsw_database(folder: Path) -> AsyncIterator[Database]:
    async with await ApswDatabase.open(folder / "shoal.db") as database:
        yield database


@asynccontextmanager
async def fake_index(folder: Path) -> AsyncIterator[tuple[Database, VectorIndex]]:
    async with fake_database(folder) as database:
        await migrate(database)
        yield database, FakeVectorIndex(database)


@asynccontextmanager
async def sqlite_vec_index(folder: Path) -> AsyncIterator[tuple[Database, VectorIndex]]:
    async with await ApswDatabase.open(folder / "shoal.db") as database:
        await migrate(database)
        yield database, await SqliteVecIndex.open(database, "conformance/1", DIM)


@asynccontextmanager
async def hydrated_index(folder: Path) -> AsyncIterator[tuple[Database, VectorIndex]]:
    async with fake_database(folder) as database:
        await migrate(database)
        yield database, Hydrated(ApartIndex(database, "conformance/1"), database, "conformance/1")


@asynccontextmanager
async def fake_embedder(_folder: Path) -> AsyncIterator[Embedder]:
    yield FakeEmbedder()


@asynccontextmanager
async def fastembed_embedder(folder: Path) -> AsyncIterator[Embedder]:
    embedder = open_embedder(None, None, folder)
    try:
        yield embedder
    finally:
        embedder.close()


Opener = Callable[[Path], AbstractAsyncContextManager[object]]

DATABASES: Mapping[str, Opener] = {"fake": fake_database, "apsw": apsw_database}
INDEXES: Mapping[str, Opener] = {"fake": fake_index, "sqlite-vec": sqlite_vec_index, "hydrated": hydrated_index}
EMBEDDERS: Mapping[str, Opener] = {"fake": fake_embedder, "fastembed": fastembed_embedder}


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[object]:
    """An empty database."""
    async with DATABASES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(params=INDEXES)
async def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[object]:
    """A migrated database and an empty index over it."""
    async with INDEXES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where embedders keep what they make of their weights; once a run."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=EMBEDDERS)
async def embedder(request: pytest.FixtureRequest, models: Path) -> AsyncIterator[object]:
    """An embedder that is ready."""
    async with EMBEDDERS[request.param](models) as opened:
        yield opened
