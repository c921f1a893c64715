"""The apps that may ask to be let in: those that registered themselves, those that the owner has registered, and those
whose id is the URL of a document (documents.py)."""

import json
import re
from collections.abc import Sequence
from typing import Final, cast

from shoal.api.oauth import documents, secrets
from shoal.api.oauth.authority import Authority, OAuthSettings, sha256
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.grants import Because, ending
from shoal.api.oauth.records import COUNTED_MS, AuthMethod, Client, ClientKind
from shoal.core.protocols import Row, Statement

ID_BYTES: Final = 16
_ID: Final = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
ID_MAX_CHARS: Final = 512
_FIND: Final = (
    "select id, kind, name, redirect_uris, auth_method, secret_sha256 from oauth_client"
    " where id = ?1 and coalesce(expires_at > ?2, 1)"
)
_GIVE: Final = (
    "insert into oauth_client (id, kind, name, redirect_uris, auth_method, secret_sha256, created_at)"
    " values (?1, 'given', ?2, ?3, ?4, ?5, ?6)"
)
_NOTE_USE: Final = (
    "update oauth_client set used_at = ?2, expires_at = case kind when 'registered' then ?3 else expires_at end"
    " where id = ?1 and (kind <> 'registered' or expires_at > ?2)"
)
_EXPIRE: Final = (
    "delete from oauth_client where id in (select id from oauth_client where expires_at <= ?1 and kind = ?2"
    " and created_at <= ?3 limit ?4) returning id"
)
_RETIRE: Final = (
    "update oauth_client set expires_at = ?2, secret_sha256 = null, management_sha256 = null"
    " where id = ?1 and kind = 'registered' and expires_at > ?2 returning id"
)
"""A registration that has ended is still counted for its hour: removing must not make room for more."""


async def find(authority: Authority, client_id: str) -> Client:
    """Return a client as it is known now. Raises OAuthError (invalid_client, temporarily_unavailable)."""
    if documents.is_url(client_id):
        return await documents.find(authority, client_id)
    if 0 < len(client_id) <= ID_MAX_CHARS:
        rows = await authority.database.query(_FIND, (client_id, authority.clock()))
        if rows:
            return client_of(rows[0])
    raise unknown()


def is_id(text: str) -> bool:
    """Say whether a text can be the id of a client that we registered; nothing else need be looked up."""
    return _ID.fullmatch(text) is not None


def unknown() -> OAuthError:
    """Return the refusal of a client that nobody knows: it makes apps register anew."""
    return OAuthError(Code.INVALID_CLIENT, "The client is unknown or its registration has ended. Register again.")


def client_of(row: Row) -> Client:
    """Return what a row of oauth_client says."""
    return Client(
        id=cast("str", row["id"]),
        kind=ClientKind(cast("str", row["kind"])),
        name=cast("str", row["name"]),
        redirect_uris=tuple(json.loads(cast("str", row["redirect_uris"]))),
        auth_method=AuthMethod(cast("str", row["auth_method"])),
        secret_sha256=cast("str | None", row["secret_sha256"]),
    )


def note_use(client_id: str | None, now_ms: int, settings: OAuthSettings) -> Statement:
    """Return what keeps a client for another while, now that it has been let in or has come back."""
    return Statement(_NOTE_USE, (client_id, now_ms, now_ms + settings.client_s * 1000))


def made(
    authority: Authority, kind: ClientKind, name: str, redirect_uris: Sequence[str], auth_method: AuthMethod
) -> tuple[Client, str | None]:
    """Return a new client, which nobody knows yet, and its secret if it is to have one."""
    secret = None if auth_method is AuthMethod.NONE else secrets.make(secrets.Secret.CLIENT, authority.random)
    client = Client(
        id=authority.random(ID_BYTES).hex(),
        kind=kind,
        name=name,
        redirect_uris=tuple(redirect_uris),
        auth_method=auth_method,
        secret_sha256=None if secret is None else sha256(secret),
    )
    return client, secret


async def give(
    authority: Authority, name: str, redirect_uris: Sequence[str], auth_method: AuthMethod
) -> tuple[Client, str | None]:
    """Register a client beforehand, for the owner; return it with its secret, if it has one: it is shown once.

    The redirect URIs must have been checked (redirects.check).
    """
    client, secret = made(authority, ClientKind.GIVEN, name, redirect_uris, auth_method)
    uris = json.dumps(client.redirect_uris)
    params = (client.id, name, uris, str(auth_method), client.secret_sha256, authority.clock())
    await authority.database.batch([Statement(_GIVE, params)])
    return client, secret


async def given(authority: Authority) -> list[Client]:
    """Return the clients that the owner has registered, oldest first."""
    rows = await authority.database.query(
        "select id, kind, name, redirect_uris, auth_method, secret_sha256 from oauth_client"
        " where kind = 'given' order by created_at, id"
    )
    return [client_of(row) for row in rows]


async def remove(authority: Authority, client_id: str) -> bool:
    """Forget a client, of whichever kind, and end what it was allowed; return whether there was anything to end.

    What it was allowed may have outlived it: a registration that has lapsed, the copy of a document that was dropped.
    """
    return any(await authority.database.batch(_removing(client_id, authority.clock())))


def _removing(client_id: str, now_ms: int) -> list[Statement]:
    return [
        ending("client_id = ?1", (client_id,), now_ms, Because.CLIENT_REMOVED),
        Statement(_RETIRE, (client_id, now_ms)),
        Statement("delete from oauth_client where id = ?1 and kind <> 'registered' returning id", (client_id,)),
    ]


def expiring(now_ms: int, rows_max: int) -> list[Statement]:
    """Return what removes clients whose time is over, so many of each kind, for the hourly upkeep."""
    return [
        Statement(_EXPIRE, (now_ms, str(ClientKind.REGISTERED), now_ms - COUNTED_MS, rows_max)),
        documents.expiring(now_ms, rows_max),
    ]
