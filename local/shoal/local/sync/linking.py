"""Link a database to an edge, and unlink it.

For whoever replicates: `shoal link` and `shoal unlink` change `meta.sync_url` (core/replication.info().url) while they
hold SyncFiles.round_lock, so hold it for each round and read the URL inside. A running daemon notices by reading that
URL every few seconds; tokens that are exchanged under the same URL are read anew by Credentials itself.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from shoal.core import replication
from shoal.core.protocols import Database
from shoal.local.runtime import clock_ms, open_database
from shoal.local.settings import Loaded
from shoal.local.sync import oauth, vault
from shoal.local.sync.asking import host_of, new_client
from shoal.local.sync.callback import Callback
from shoal.local.sync.credentials import OneToken
from shoal.local.sync.files import SyncFiles, held
from shoal.local.sync.transport import HttpTransport
from shoal.local.sync.vault import Link, Tokens
from shoal.schema.errors import NotLinked, ProtocolMismatch, ShoalError, SyncError
from shoal.schema.wire import PROTO, SyncStatus
from shoal.sync import queue, subscription

LOGIN_S: Final = 600.0
"""How long a person may take in the browser: finding the owner's key takes some."""
ROUND_WAIT_S: Final = 120.0
"""How long a round that is under way may take; the first of a large memory takes longer."""
REVOKE_S: Final = 15.0
"""How long the edge may take to take a token back."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A way into an edge that has been tried, and is stored nowhere yet."""

    link: Link
    tokens: Tokens
    status: SyncStatus


@dataclass(frozen=True, slots=True)
class Linked:
    """What became of a link."""

    url: str
    status: SyncStatus
    in_keyring: bool
    before: str | None
    """The edge that the database was linked to until now, None if to none."""
    not_revoked: ShoalError | None
    """Why that edge may still take the token of before; None if it does not, or there was none."""
    lost: list[str]
    """Spaces that this device has from this edge and will have no more."""


@dataclass(frozen=True, slots=True)
class Unlinked:
    """What became of an end."""

    url: str
    not_revoked: ShoalError | None
    """Why the edge may still take the token, None if it does not."""


async def sign_in(url: str, name: str, present: Callable[[str, Callable[[str], None]], None]) -> Entry:
    """Have the owner let this device in by OAuth, in a browser, and try what came of it.

    `present` gets the address to open, and what takes the address that a person pastes, in the loop's thread; that
    raises NotForUs for another. Raises NotFound, NotAllowed, LinkBroken, SyncError.
    """
    from shoal.local.sync import discovery

    state, proof = secrets.token_urlsafe(32), discovery.pkce()
    async with new_client(url) as http, Callback(state) as callback:
        server = await discovery.discover(http, url)
        client = await discovery.register(http, server, name, callback.redirect_uri)
        present(
            discovery.authorization_url(server, client, callback.redirect_uri, state, proof.code_challenge),
            callback.paste,
        )
        approved = await callback.answer(LOGIN_S)
        discovery.check_issuer(server, approved.iss)
        granted = await oauth.exchange(http, client, approved.code, proof.code_verifier, callback.redirect_uri)
        link, tokens = Link(url=url, client=client), granted.tokens(clock_ms())
        try:
            return await _tried(link, tokens)
        except ShoalError:
            # Nothing is kept of it here, so nothing may be left of it there.
            await _revoked(link, tokens)
            raise


async def with_token(url: str, token: str) -> Entry:
    """Try a device token. Raises LinkBroken, SyncError."""
    return await _tried(Link(url=url), Tokens(access_token=token))


async def link(loaded: Loaded, entry: Entry) -> Linked:
    """Keep a way into an edge and note that the database is linked. Raises SyncError, StorageError.

    A database that was linked elsewhere, or to none, has everything queued: the edge may know nothing of it.
    """
    try:
        return await _link(loaded, entry)
    except ShoalError:
        await _revoked(entry.link, entry.tokens)
        raise


async def _link(loaded: Loaded, entry: Entry) -> Linked:
    files, url = SyncFiles.of(loaded.home, loaded.database), entry.link.url
    async with open_database(loaded) as database:
        before, lost = await _noted(database), list[str]()
        if before == url:
            kept, old = await _store(files, entry)
            lost = (await subscription.compare(database, entry.status.spaces)).lost
        else:
            async with held(files.round_lock, ROUND_WAIT_S, "exchanging memories with the edge"):
                kept, old = await _store(files, entry)
                # No link while that changes: what breaks off here is begun anew, and nothing goes to the wrong edge.
                await database.batch(replication.unlinked())
                await queue.all_of(database, "*")
                await database.batch([replication.linked(url)])
    same = old is not None and old[0].url == url and old[1] == entry.tokens
    not_revoked = None if old is None or same else await _revoked(*old)
    return Linked(url, entry.status, kept.account is not None, before, not_revoked, lost)


async def linked_url(loaded: Loaded) -> str:
    """Return the URL of the edge that the database is linked to. Raises NotLinked, StorageError."""
    async with open_database(loaded) as database:
        url = await _noted(database)
    if url is None:
        raise NotLinked("This memory is linked to no edge.", "Link it to one: shoal link URL")
    return url


async def unlink(loaded: Loaded) -> Unlinked:
    """Give the token back, forget it and the link; every memory stays. Raises NotLinked, SyncError, StorageError."""
    files, url = SyncFiles.of(loaded.home, loaded.database), await linked_url(loaded)
    async with (
        open_database(loaded) as database,
        held(files.round_lock, ROUND_WAIT_S, "exchanging memories with the edge"),
        held(files.link_lock, ROUND_WAIT_S, "refreshing the token"),
    ):
        found = await _kept(files)
        refused = _unknown(url) if found is None else await _revoked(*found)
        # The token first: it must not outlast the link, whatever breaks off here.
        await asyncio.to_thread(vault.forget, files)
        await database.batch(replication.unlinked())
    return Unlinked(url, refused)


async def _tried(link: Link, tokens: Tokens) -> Entry:
    """Return the way in if it leads to where memories can be exchanged. Raises LinkBroken, SyncError."""
    transport = HttpTransport(link.url, OneToken(link.url, tokens.access_token))
    try:
        status = await transport.status()
    finally:
        await transport.aclose()
    if status.proto != PROTO:
        raise ProtocolMismatch(
            f"{host_of(link.url)} speaks version {status.proto} of the protocol, this device {PROTO}.",
            "Update shoal on this device." if status.proto > PROTO else "Deploy the newer shoal to the edge.",
        )
    return Entry(link, tokens, status)


async def _noted(database: Database) -> str | None:
    return (await replication.info(database, clock_ms())).url


async def _store(files: SyncFiles, entry: Entry) -> tuple[Link, tuple[Link, Tokens] | None]:
    """Keep a way in, and return it with the one that it replaces."""
    async with held(files.link_lock, ROUND_WAIT_S, "refreshing the token"):
        old = await _kept(files)
        return await asyncio.to_thread(vault.store, files, entry.link, entry.tokens), old


async def _kept(files: SyncFiles) -> tuple[Link, Tokens] | None:
    """Return the link that is kept, None also for one that can't be used: it is about to go."""
    with suppress(SyncError):
        return await asyncio.to_thread(vault.read, files)
    return None


async def _revoked(link: Link, tokens: Tokens) -> ShoalError | None:
    """Give a token back to its edge; return why that failed, None if it did not."""
    if link.client is None or tokens.refresh_token is None:
        return _on_account_page("A device token is taken back by its owner only.", link.url)
    try:
        async with asyncio.timeout(REVOKE_S), new_client(link.url) as http:
            await oauth.revoke(http, link.client, tokens.refresh_token)
    except TimeoutError:
        return _on_account_page(f"{host_of(link.url)} gives no answer.", link.url)
    except ShoalError as error:
        return _on_account_page(error.message, link.url)
    return None


def _unknown(url: str) -> SyncError:
    return _on_account_page("The token can't be read any more.", url)


def _on_account_page(why: str, url: str) -> SyncError:
    return SyncError(why, f"Remove this device at {url}/account.")
