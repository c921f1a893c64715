"""Whether a database is still the one that this device has been working with: an anchor outside of it knows."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from shoal.core.protocols import Database
from shoal.local.sync.files import SyncFiles


@asynccontextmanager
async def anchored(database: Database, files: SyncFiles, new_device: Callable[[], str]) -> AsyncGenerator[None]:
    """Give the database a new device id (`meta.device`) where it is a copy or was restored, before it is worked with.

    At the end it is noted how far the database has come. Raises StorageError.
    """
    raise NotImplementedError
    yield
