import asyncio

import apsw
import pytest

from shoal.core.fakes import FakeDatabase
from shoal.core.migrate import migrate
from shoal.core.statements import check
from shoal.schema.errors import SchemaTooNew
from shoal.schema.migrations import load


@pytest.fixture
def connection() -> apsw.Connection:
    return apsw.Connection(":memory:")


def schema(connection: apsw.Connection) -> list[tuple[str, str, str]]:
    return list(connection.execute("select type, name, sql from sqlite_schema order by type, name"))


def test_migrations_are_numbered_without_gaps_from_1():
    assert [migration.version for migration in load()] == list(range(1, len(load()) + 1))
    assert all(migration.name.startswith(f"{migration.version:04d}_") for migration in load())


def test_every_statement_is_whole_and_allowed_at_the_edge():
    for migration in load():
        for text in migration.statements:
            check(text, ())
            assert apsw.complete(text + ";")


def test_nothing_of_a_file_is_lost_when_it_is_cut_into_statements(connection: apsw.Connection):
    from importlib.resources import files

    for migration in load():
        connection.execute(files("shoal.schema.migrations").joinpath(migration.name).read_text())
    whole = schema(connection)
    other = apsw.Connection(":memory:")
    asyncio.run(migrate(FakeDatabase(other)))
    assert schema(other) == whole


async def test_a_new_database_gets_the_newest_version(connection: apsw.Connection):
    assert await migrate(FakeDatabase(connection)) == load()[-1].version
    assert connection.execute("select v from meta where k = 'schema'").get == load()[-1].version


async def test_migrating_twice_changes_nothing(connection: apsw.Connection):
    database = FakeDatabase(connection)
    await migrate(database)
    connection.execute("update meta set v = 7 where k = 'seq'")
    before = (schema(connection), connection.total_changes())
    await migrate(database)
    assert (schema(connection), connection.total_changes()) == before


async def test_every_file_can_run_again_on_top_of_all(connection: apsw.Connection):
    """Two processes that open one new database at once run each file twice."""
    database = FakeDatabase(connection)
    await migrate(database)
    connection.execute("update meta set v = 7 where k = 'seq'")
    before = schema(connection)
    connection.execute("update meta set v = 0 where k = 'schema'")
    await migrate(database)
    assert schema(connection) == before
    assert connection.execute("select v from meta where k = 'seq'").get == 7


async def test_two_that_migrate_at_once_agree(connection: apsw.Connection):
    database = FakeDatabase(connection)
    assert await asyncio.gather(*(migrate(database) for _ in range(3))) == [load()[-1].version] * 3


async def test_an_additive_newer_schema_is_used_and_its_version_kept(connection: apsw.Connection):
    database = FakeDatabase(connection)
    await migrate(database)
    connection.execute("update meta set v = 900 where k = 'schema'")
    connection.execute("alter table record add column from_the_future")
    assert await migrate(database) == 900
    assert connection.execute("select v from meta where k = 'schema'").get == 900


async def test_a_breaking_newer_schema_is_refused_and_left_alone(connection: apsw.Connection):
    database = FakeDatabase(connection)
    await migrate(database)
    connection.execute("update meta set v = 1001 where k = 'schema'")
    before = connection.total_changes()
    with pytest.raises(SchemaTooNew, match="1001"):
        await migrate(database)
    assert connection.total_changes() == before
