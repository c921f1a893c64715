"""The token by which the edge lets this device in: a device token as it is, or OAuth's, refreshed in time."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import httpx

from shoal.local.sync import oauth, vault
from shoal.local.sync.asking import CONNECT_S, READ_S, again, host_of, new_client
from shoal.local.sync.files import SyncFiles, held
from shoal.local.sync.vault import Link, Stamp, Tokens
from shoal.schema.errors import LinkBroken

REFRESH_BEFORE_MS: Final = 60_000
"""An access token that ends this soon is refreshed: a request may take as long."""
WAIT_S: Final = CONNECT_S + READ_S + 10
"""How long another process may take to refresh."""


class Bearer(Protocol):
    """Has a token for each request."""

    async def bearer(self, refused: str | None = None) -> str:
        """Return a token that should be good; not `refused`, which the edge has just answered 401.

        Raises LinkBroken when there is none; EdgeUnreachable, EdgeBusy or SyncError when there may be one later.
        """
        ...


class OneToken:
    """Implements Bearer with a token that is kept nowhere yet."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    async def bearer(self, refused: str | None = None) -> str:
        """Return the token. Raises LinkBroken once it was refused."""
        if refused is not None:
            raise LinkBroken(f"{host_of(self._url)} does not know the token.", again(self._url))
        return self._token


class Credentials:
    """Implements Bearer for the link of one database: what `shoal link` has stored, read anew when that changes.

    Several processes may use one link: a token is refreshed by one of them, and the others read it.
    """

    def __init__(
        self,
        files: SyncFiles,
        url: str,
        new_client: Callable[[str], httpx.AsyncClient] = new_client,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Use the link to the edge `url` (https://host, no path). Reads nothing yet."""
        self._files = files
        self._url = url
        self._new_client = new_client
        self._clock_ms = clock_ms
        self._known: tuple[Stamp, Link, Tokens] | None = None

    async def bearer(self, refused: str | None = None) -> str:
        """Return a token that should be good; not `refused`, which the edge has just answered 401.

        Raises LinkBroken: `shoal link` is needed; EdgeUnreachable, EdgeBusy, SyncError: later is worth a try.
        """
        if self._known is None or self._known[0] != vault.stamp(self._files):
            self._known = await self._read()
        _, link, tokens = self._known
        if self._is_good(tokens, refused):
            return tokens.access_token
        if link.client is None or tokens.refresh_token is None:
            raise LinkBroken(
                f"{host_of(self._url)} lets this device in no more: its token is unknown.", again(self._url)
            )
        async with held(self._files.link_lock, WAIT_S, "refreshing the token"):
            self._known = await self._read()
            _, link, tokens = self._known
            if not self._is_good(tokens, refused):
                tokens = await self._refreshed(link, tokens)
        return tokens.access_token

    def _is_good(self, tokens: Tokens, refused: str | None) -> bool:
        soon = self._clock_ms() + REFRESH_BEFORE_MS
        return tokens.access_token != refused and (tokens.expires_at is None or tokens.expires_at > soon)

    async def _read(self) -> tuple[Stamp, Link, Tokens]:
        # Before reading: what changes in between is then read once more.
        stamp = vault.stamp(self._files)
        try:
            found = await asyncio.to_thread(vault.read, self._files)
        except LinkBroken:
            if stamp == vault.stamp(self._files):
                raise
            # A new link took its place just then, and the keyring's entry of the old one is gone.
            return await self._read()
        if found is None or found[0].url != self._url:
            raise LinkBroken(f"This device has no token for {host_of(self._url)}.", again(self._url))
        return stamp, *found

    async def _refreshed(self, link: Link, tokens: Tokens) -> Tokens:
        """Refresh and keep what came before anyone uses it: until then the edge takes the old refresh token too.

        The caller holds the lock: of two who refresh with one token the edge would think that it was stolen.
        """
        if link.client is None or tokens.refresh_token is None:
            # The link was replaced by one with a device token just now.
            return tokens
        async with self._new_client(self._url) as http:
            granted = await oauth.refresh(http, link.client, tokens.refresh_token)
        newer = granted.tokens(self._clock_ms(), before=tokens.refresh_token)
        await asyncio.to_thread(vault.replace, self._files, link, newer)
        self._known = (vault.stamp(self._files), link, newer)
        return newer
