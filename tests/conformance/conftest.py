"""Every implementation of the three protocols. To add one: write an opener and name it in its table."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

# The index that lies apart (tests/core/apart.py) is imported from the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance import remote
from tests.core.apart import ApartIndex, Hydrated
from tests.edge.doubles.ai import AiBinding, AiEngine
from tests.edge.doubles.d1 import D1Database as D1Double
from tests.edge.doubles.vectorize import VectorizeBinding, VectorizeEngine

from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.migrate import migrate
from shoal.core.protocols import Database, Embedder, VectorIndex
from shoal.local.database import ApswDatabase
from shoal.local.embedding import open_embedder
from shoal.local.vectors import SqliteVecIndex
from shoal.worker.budget import Budget
from shoal.worker.d1 import D1Database
from shoal.worker.models import DEFAULT
from shoal.worker.vectorize import VectorizeIndex
from shoal.worker.workers_ai import WorkersAiEmbedder

DIM = 16
"""Of the vectors in these tests."""
NOW = 1_790_000_000_000
VECTORIZE_METADATA = {
    "space": "string",
    "kind": "string",
    "type": "string",
    "occurred_at": "number",
    "state": "number",
}


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
async def d1_database(_folder: Path) -> AsyncIterator[D1Database]:
    """The edge's driver on D1's double."""
    binding = D1Double()
    try:
        yield D1Database(binding, lambda: NOW, unlimited())
    finally:
        binding.close()


@asynccontextmanager
async def vectorize_index(folder: Path) -> AsyncIterator[tuple[Database, VectorIndex]]:
    """The edge's driver on Vectorize's double, with its hits held against the database as a search does."""
    engine = VectorizeEngine(DIM, noise=0.0)
    for name, type_ in VECTORIZE_METADATA.items():
        engine.create_metadata_index(name, type_)
    async with d1_database(folder) as database:
        await migrate(database)
        index = VectorizeIndex(VectorizeBinding(engine), database, "conformance/1", DIM, lambda: NOW, unlimited())
        yield database, Hydrated(index, database, "conformance/1")


@asynccontextmanager
async def workers_ai_embedder(folder: Path) -> AsyncIterator[Embedder]:
    """The edge's driver on a double of Workers AI with the laptop's model behind it."""
    engine = AiEngine.local(folder)
    try:
        yield WorkersAiEmbedder(AiBinding(engine), DEFAULT, lambda: NOW, unlimited())
    finally:
        engine.close()


def unlimited() -> Budget:
    """Return what an invocation may do, without end."""
    return Budget(statements_max=10**6, calls_max=10**6)


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


Opener = Callable[[Any], AbstractAsyncContextManager[object]]
"""Takes an empty folder, or what the fixture of its name in PLACES gives."""

DATABASES: Mapping[str, Opener] = {
    "fake": fake_database,
    "apsw": apsw_database,
    "d1": d1_database,
    "d1-in-workerd": remote.database_at,
}
PLACES: Mapping[str, str] = {"d1-in-workerd": "workerd"}
INDEXES: Mapping[str, Opener] = {
    "fake": fake_index,
    "sqlite-vec": sqlite_vec_index,
    "hydrated": hydrated_index,
    "vectorize": vectorize_index,
}
EMBEDDERS: Mapping[str, Opener] = {
    "fake": fake_embedder,
    "fastembed": fastembed_embedder,
    "workers-ai": workers_ai_embedder,
}


@pytest.fixture(scope="session")
def workerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Worker that has the edge's driver on a real local D1; once a run."""
    with remote.running(tmp_path_factory.mktemp("workerd")) as url:
        yield url


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[object]:
    """An empty database."""
    place = request.getfixturevalue(PLACES[request.param]) if request.param in PLACES else tmp_path
    async with DATABASES[request.param](place) as opened:
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
