"""Client ID Metadata Documents (draft-ietf-oauth-client-id-metadata-document): a client whose id is the URL of what it
says of itself.

Anyone can make us fetch by naming a URL, so a URL must be plainly a public web address, and a document is fetched once
in a while, however often it is named: `expires_at` of its row is when it may be fetched again, and whoever moves that
time forward fetches. A row without redirect URIs remembers that nothing could be had. `created_at` is when the hour
began in which the row's `fetches` are counted, for the limits.
"""

import json
import re
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pydantic_core import from_json

from shoal.api.oauth import client_metadata, escapes
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.api.oauth.records import COUNTED_MS, Client, ClientKind
from shoal.api.shell import media_type
from shoal.core.protocols import Row, Statement
from shoal.core.times import MS_PER_DAY

URL_MAX_CHARS: Final = 512
TIMEOUT_S: Final = 5.0
"""Clients wait ten seconds for an answer."""
DOCUMENT_MAX_BYTES: Final = 5 * 1024
"""The draft's own advice; real documents have a tenth of it."""
FRESH_MS: Final = 3_600_000
FRESH_MIN_MS: Final = 300_000
FRESH_MAX_MS: Final = MS_PER_DAY
RETRY_MS: Final = 60_000
"""For how long a fetch, and its failure, keeps others from fetching the same."""
STALE_MAX_MS: Final = 7 * MS_PER_DAY
"""For how long a copy stands in where a fetch fails: some sites answer servers with a challenge from time to time."""
NETWORK_HOURLY: Final = 30
HOURLY: Final = 300
"""Fetches for one network, and in all: nobody makes us call others more often than that."""
_LABEL: Final = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_URL: Final = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?P<last>[a-z][a-z0-9-]{{0,61}}[a-z0-9]))(?P<path>/(?!\?)[\x21-\x7e]+)"
)
_PRIVATE: Final = frozenset(
    {"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "test", "invalid"}
    | {"onion", "arpa", "alt"}
)
"""Last labels that no public site has (RFC 6761, 6762, 7686, 8375, 9476; ICANN's reserved ones)."""
_SECRETS: Final = frozenset({"client_secret", "client_secret_expires_at"})
_JSON_TYPE: Final = re.compile(r"application/([a-z0-9!#$&^_.-]+\+)?json")
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})(?:$|[,\s])")

_FIND: Final = "select id, kind, name, redirect_uris, metadata, expires_at from oauth_client where id = ?1"
_FETCHES: Final = (
    "select coalesce(sum(json_extract(metadata, '$.fetches')), 0) from oauth_client"
    f" where created_at > ?3 - {COUNTED_MS} and kind = 'document'"
)
_CLAIM: Final = f"""
insert into oauth_client (id, kind, name, redirect_uris, auth_method, metadata, network, created_at, expires_at)
select ?1, 'document', '', '[]', 'none', json_object('fetches', 1), ?2, ?3, ?3 + {RETRY_MS}
where ({_FETCHES}) < {HOURLY} and ({_FETCHES} and network = ?2) < {NETWORK_HOURLY}
on conflict (id) do update set expires_at = excluded.expires_at, network = excluded.network,
  metadata = json_set(metadata, '$.fetches',
    iif(created_at > ?3 - {COUNTED_MS}, json_extract(metadata, '$.fetches') + 1, 1)),
  created_at = iif(created_at > ?3 - {COUNTED_MS}, created_at, excluded.created_at)
where expires_at <= ?3
returning id
"""
_KEEP: Final = (
    "update oauth_client set name = ?2, redirect_uris = ?3, metadata = json_set(metadata, '$.fetched_at', ?4),"
    " expires_at = ?5 where id = ?1 and kind = 'document'"
)
_DROP: Final = "update oauth_client set name = '', redirect_uris = '[]' where id = ?1 and kind = 'document'"
_EXPIRE: Final = """
delete from oauth_client where id in (
  select id from oauth_client where kind = 'document' and created_at <= ?1
    and expires_at <= iif(redirect_uris = '[]', ?1, ?2) limit ?3)
returning id
"""


class _Unreadable(Exception):
    """What came is no document: too long, or not JSON by content and type, as the challenge that some sites show."""


def is_url(client_id: str) -> bool:
    """Say whether a client's id is meant to be a URL."""
    return "://" in client_id


async def find(authority: Authority, url: str) -> Client:
    """Return the client that a URL stands for, from its document or our copy.

    Raises OAuthError: invalid_client when there is none to be had, temporarily_unavailable after too many new ones.
    """
    if not authority.settings.documents or not is_fetchable(url, authority.issuer):
        raise _not_fetchable()
    now = authority.clock()
    rows = await authority.database.query(_FIND, (url,))
    if rows and cast("int", rows[0]["expires_at"]) > now:
        return _copy(rows[0], now)
    (claimed,) = await authority.database.batch([Statement(_CLAIM, (url, authority.network, now))])
    if not claimed:
        if rows:
            return _copy(rows[0], now)  # another request fetches it at this moment, or too many were fetched
        if await authority.database.query(_FIND, (url,)):
            raise _unavailable()  # it began to between our two looks
        raise OAuthError(
            Code.TEMPORARILY_UNAVAILABLE,
            "Too many documents of clients were asked for in this hour. Try again later.",
            retry_after_s=COUNTED_MS // 1000,
        )
    try:
        document, fresh_ms = await _fetched(authority, url)
    except (FetchFailed, _Unreadable) as error:
        if rows:
            return _copy(rows[0], now)
        raise _unavailable() from error
    try:
        client = _client(authority, url, document)
    except OAuthError:
        # The site has spoken, and says something else now: the copy is no longer what it stands for.
        await authority.database.batch([Statement(_DROP, (url,))])
        raise
    kept = (url, client.name, json.dumps(client.redirect_uris), now, now + fresh_ms)
    await authority.database.batch([Statement(_KEEP, kept)])
    return client


def named(authority: Authority, url: str) -> Client:
    """Return the client that a URL stands for where only its identity counts, without asking for its document.

    So at the token endpoint: codes and tokens are bound to the id, which such a client proves by nothing else, and a
    connection must not end because a site answers nobody for a while. Raises OAuthError (invalid_client).
    """
    if not authority.settings.documents or not is_fetchable(url, authority.issuer):
        raise _not_fetchable()
    return Client(url, ClientKind.DOCUMENT, urlsplit(url).netloc, ())


def expiring(now_ms: int, rows_max: int) -> Statement:
    """Return what removes copies that are too old to stand in, and notes of failures after their hour."""
    return Statement(_EXPIRE, (now_ms - COUNTED_MS, now_ms - STALE_MAX_MS, rows_max))


def is_fetchable(url: str, issuer: str) -> bool:
    """Say whether a URL is plainly that of a document on the public web, and not on this server.

    https on its default port, a name of several labels that ends in letters (so no address, however written), a path
    without dot segments, no user, no fragment; all in the one spelling that every parser reads alike.
    """
    matched = _URL.fullmatch(url) if len(url) <= URL_MAX_CHARS else None
    if matched is None or matched["last"] in _PRIVATE or f"https://{matched['host']}" == issuer:
        return False
    path = matched["path"].lower().replace("%2e", ".")
    segments = re.split(r"[/\\?]|%2f|%5c", path)
    return "#" not in path and "\\" not in path and not {".", ".."} & set(segments) and escapes.are_whole(path)


def _copy(row: Row, now_ms: int) -> Client:
    """Return the client of a row, unless it holds none or one that is too old. Raises OAuthError."""
    redirect_uris: list[str] = json.loads(cast("str", row["redirect_uris"]))
    told: dict[str, int] = json.loads(cast("str", row["metadata"]))
    if row["kind"] != ClientKind.DOCUMENT or not redirect_uris or told["fetched_at"] <= now_ms - STALE_MAX_MS:
        raise _unavailable()
    return Client(cast("str", row["id"]), ClientKind.DOCUMENT, cast("str", row["name"]), tuple(redirect_uris))


async def _fetched(authority: Authority, url: str) -> tuple[Any, int]:
    """Return the JSON value that is there and its freshness in ms. Raises FetchFailed, _Unreadable."""
    answer = await authority.fetcher.fetch(
        url, accept="application/json", timeout_s=TIMEOUT_S, max_bytes=DOCUMENT_MAX_BYTES
    )
    # The type counts: whoever may leave a file on a site, as text or as a picture, is not thereby the site's app.
    kind = media_type(answer.headers)
    if answer.status != 200 or len(answer.body) > DOCUMENT_MAX_BYTES or not _JSON_TYPE.fullmatch(kind):
        raise _Unreadable
    try:
        # Not by Python's own parser: what is nested deeply would exhaust a Worker's stack, and end the isolate.
        return from_json(answer.body), _fresh_ms(answer)
    except ValueError as error:
        raise _Unreadable from error


def _client(authority: Authority, url: str, document: Any) -> Client:
    """Return the client that the document describes. Raises OAuthError."""
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("client_id") != url:
        raise OAuthError(Code.INVALID_CLIENT, "The document does not name its own URL as client_id.")
    if _SECRETS & cast("dict[str, Any]", document).keys():
        raise OAuthError(Code.INVALID_CLIENT_METADATA, "A document that everyone can read may hold no client_secret.")
    told = client_metadata.checked(cast("Any", document), authority)
    client_metadata.require_public(told)
    return Client(url, ClientKind.DOCUMENT, _name(told, url), tuple(told.redirect_uris))


def _name(told: client_metadata.ClientMetadata, url: str) -> str:
    return client_metadata.plain(told.client_name or "") or urlsplit(url).netloc


def _fresh_ms(answer: Fetched) -> int:
    said = answer.headers.get("cache-control", "").lower()
    if "no-store" in said or "no-cache" in said:
        return FRESH_MIN_MS
    matched = _MAX_AGE.search(said)
    wanted = int(matched[1]) * 1000 if matched else FRESH_MS
    return min(max(wanted, FRESH_MIN_MS), FRESH_MAX_MS)


def _not_fetchable() -> OAuthError:
    return OAuthError(Code.INVALID_CLIENT, "No document is fetched from such a URL. Register the client instead.")


def _unavailable() -> OAuthError:
    return OAuthError(
        Code.INVALID_CLIENT,
        f"No document of the client (application/json, at most {DOCUMENT_MAX_BYTES} bytes) can be had from its URL"
        " now. Try again in a minute, or register the client instead.",
    )
