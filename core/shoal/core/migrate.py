"""Bring a database to this version's schema. Migrations are additive, so older code goes on running on it."""

from shoal.core.protocols import Database, Statement
from shoal.schema.errors import SchemaTooNew
from shoal.schema.migrations import BREAKING_STEP, load


async def migrate(database: Database) -> int:
    """Apply the migrations that are missing, each in one batch, and return the schema's version.

    Safe to run in several processes at once: each file is idempotent. Raises SchemaTooNew.
    """
    version = await _version(database)
    migrations = load()
    newest = migrations[-1].version
    if version // BREAKING_STEP > newest // BREAKING_STEP:
        raise SchemaTooNew(
            f"The database has schema {version}; this shoal knows {newest}.",
            "Install the newer shoal that wrote it.",
        )
    for migration in migrations:
        if migration.version > version:
            done = Statement("update meta set v = max(v, ?1) where k = 'schema'", (migration.version,))
            await database.batch([*(Statement(text) for text in migration.statements), done])
    return max(version, newest)


async def _version(database: Database) -> int:
    tables = await database.query("select 1 from sqlite_schema where name = 'meta'")
    if not tables:
        return 0
    rows = await database.query("select v from meta where k = 'schema'")
    return int(rows[0]["v"] or 0) if rows else 0
