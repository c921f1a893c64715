"""Build the Memory service from the settings: one way for the daemon, `mcp --standalone` and the commands."""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core import replication
from shoal.core.caller import Caller
from shoal.core.migrate import migrate
from shoal.core.service import Memory, open_memory
from shoal.local.database import ApswDatabase
from shoal.local.embedding import FastembedEmbedder, open_embedder
from shoal.local.settings import NO_MODEL, Loaded
from shoal.local.sync.anchor import anchored
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.known import known_url
from shoal.local.zone import machine_zone
from shoal.schema.errors import DatabaseForeign, DatabaseReadOnly, ModelUnavailable, StorageError
from shoal.schema.ontology import Ontology

if TYPE_CHECKING:
    from shoal.local.vectors import SqliteVecIndex

log = logging.getLogger("shoal.sync")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The service with the drivers below it."""

    memory: Memory
    database: ApswDatabase
    embedder: FastembedEmbedder | None
    """None where no model can be had; then words still find, and every answer says so."""
    index: "SqliteVecIndex | None"
    loaded: Loaded

    async def drop_old_vectors(self) -> None:
        """Remove the vectors of models used before, once every memory has one of the model in use."""
        if self.index is not None and await self.index.count_others() and not await self.memory.pending():
            await self.index.drop_others()


def clock_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_device() -> str:
    """Return a name for this replica."""
    return secrets.token_hex(4)


def ontology_of(loaded: Loaded) -> Ontology:
    """Return the built-in types and the user's own."""
    return Ontology.builtin().extended(loaded.settings.types)


def local_caller(loaded: Loaded, client: str, clamps: bool) -> Caller:
    """Return the person at this machine: every scope, every space, their default space and time zone."""
    settings = loaded.settings
    return Caller(
        default_space=settings.space, time_zone=settings.time_zone or machine_zone(), client=client, clamps=clamps
    )


@asynccontextmanager
async def open_runtime(
    loaded: Loaded,
    model_progress: Callable[[float], None] | None = None,
    announce: Callable[[Sequence[str]], None] | None = None,
    exchanged: Callable[[], int | None] = lambda: None,
) -> AsyncGenerator[Runtime]:
    """Open the database and the service on it, and close them in the end. Raises StorageError, InvalidSettings.

    `model_progress` hears how far the conversion of the default model is, 0..1, in another thread; `announce` and
    `exchanged` are those of core's Context.
    """
    async with open_database(loaded) as database:
        embedder, reason = _embedder(loaded, model_progress)
        try:
            index = await _index(database, embedder)
            memory = await open_memory(
                database,
                index,
                embedder,
                clock=clock_ms,
                new_device=new_device(),
                ontology=ontology_of(loaded),
                trash_days=loaded.settings.trash_days,
                no_model_reason=reason,
                announce=announce,
                exchanged=exchanged,
            )
            yield Runtime(memory, database, embedder, index, loaded)
        finally:
            if embedder is not None:
                embedder.close()


@asynccontextmanager
async def open_database(loaded: Loaded) -> AsyncGenerator[ApswDatabase]:
    """Open the database for writing, with its tables and this device's name, and close it in the end.

    Raises StorageError.
    """
    make_folder(loaded)
    require_whole(loaded.database)
    files, is_new = SyncFiles.of(loaded.home, loaded.database), not loaded.database.exists()
    async with await ApswDatabase.open(loaded.database) as database:
        await _require_ours(database)
        await migrate(database)
        async with anchored(database, loaded.database, files, new_device):
            if is_new and (url := known_url(files)) is not None:
                # The file was lost, not the link: what the edge has comes back by itself.
                log.warning("%s was missing; what %s has of it comes back", loaded.database, url)
                await database.batch([replication.linked(url)])
            yield database


def make_folder(loaded: Loaded) -> None:
    """Make the home and the database's folder. Raises DatabaseReadOnly."""
    loaded.home.ensure()
    folder = loaded.database.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseReadOnly(
            f"The database's folder {folder} can't be made: {error.strerror or error}.",
            "Choose another with SHOAL_DB or --db.",
        ) from error


def restoring(database: Path) -> Path:
    """Return where `shoal restore` makes the database ready before it takes the old one's place."""
    return database.with_name(f"{database.name}.restoring")


def require_whole(database: Path) -> None:
    """Raise StorageError where a restore was cut off between the old database and the new: not for an empty one."""
    if restoring(database).exists() and not database.exists():
        raise StorageError(
            f"A restore was cut off, so {database} is missing; the old one lies beside it, with a date in its name.",
            "Run it again: shoal restore FILE.",
        )


async def _require_ours(database: ApswDatabase) -> None:
    """Raise DatabaseForeign for another program's file: an alias of a setting may lead to one."""
    tables = {row["name"] for row in await database.query("select name from sqlite_schema where type = 'table'")}
    if tables and "record" not in tables:
        raise DatabaseForeign(
            f"{database.path} is another program's database.", "Set SHOAL_DB to a file that shoal may make its own."
        )


def _embedder(loaded: Loaded, progress: Callable[[float], None] | None) -> tuple[FastembedEmbedder | None, str]:
    settings = loaded.settings
    if settings.model == NO_MODEL:
        return None, "the setting `model` turns it off."
    try:
        return open_embedder(settings.model, settings.model_dir, loaded.home.models, progress), ""
    except ModelUnavailable as error:
        return None, str(error)


async def _index(database: ApswDatabase, embedder: FastembedEmbedder | None) -> "SqliteVecIndex | None":
    if embedder is None:
        return None
    from shoal.local.vectors import SqliteVecIndex

    return await SqliteVecIndex.open(database, embedder.fingerprint, embedder.dim)
