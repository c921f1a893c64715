"""The token by which the edge lets this device in: a device token as it is, or OAuth's, refreshed in time."""

from collections.abc import Callable
from typing import Protocol

import httpx

from shoal.local.sync.files import SyncFiles


class Bearer(Protocol):
    """Has a token for each request."""

    async def bearer(self, refused: str | None = None) -> str:
        """Return a token that should be good; not `refused`, which the edge has just answered 401.

        Raises LinkBroken when there is none; EdgeUnreachable, EdgeBusy or SyncError when there may be one later.
        """
        ...


class Credentials:
    """Implements Bearer for the link of one database: what `shoal link` has stored, read anew when that changes.

    Several processes may use one link: a token is refreshed by one of them, and the others read it.
    """

    def __init__(self, files: SyncFiles, url: str, new_client: Callable[[], httpx.AsyncClient]) -> None:
        """Use the link to the edge `url` (https://host, no path). Reads nothing yet."""
        raise NotImplementedError

    async def bearer(self, refused: str | None = None) -> str:
        """Return a token that should be good; not `refused`, which the edge has just answered 401.

        Raises LinkBroken: `shoal link` is needed; EdgeUnreachable, EdgeBusy, SyncError: later is worth a try.
        """
        raise NotImplementedError
