"""The hourly upkeep of what OAuth keeps: what has expired goes, a bounded number of rows at a time."""

from typing import Final

from shoal.api.oauth import attempts, clients
from shoal.api.oauth.authority import OAuthSettings
from shoal.core import journal
from shoal.core.protocols import Database, Statement
from shoal.core.times import MS_PER_DAY

ROWS_MAX: Final = 500
"""Rows of one table that go in one call; what is left goes an hour later."""
CODE_KEPT_MS: Final = 3_600_000
"""How long a code is kept after its time, so that a second use of it is still noticed."""
UNUSED_KEPT_MS: Final = MS_PER_DAY
"""How long a grant is kept whose code was never exchanged; by then the code is gone."""
GRANT_KEPT_MS: Final = 30 * MS_PER_DAY
"""How long an ended grant is kept, for the log of writes names it."""


async def expire(database: Database, now_ms: int, settings: OAuthSettings) -> int:
    """Remove what has had its time; return how many rows went. Two batches, at most 12 statements."""
    results = await database.batch(
        [
            _delete("oauth_code", "sha256", "expires_at <= ?1", now_ms - CODE_KEPT_MS),
            _delete("oauth_token", "sha256", "expires_at <= ?1 and kind = 'access'", now_ms),
            # A refresh token is kept until all that were made from it have expired too: it tells who was first.
            _delete("oauth_token", "sha256", "expires_at <= ?1", now_ms - settings.refresh_idle_s * 1000),
            _delete("owner_form", "sha256", "expires_at <= ?1", now_ms),
            _delete("owner_session", "sha256", "expires_at <= ?1", now_ms),
            _tokens_of_ended(now_ms - GRANT_KEPT_MS),
            _grants(now_ms),
            attempts.forgetting(now_ms),
            *clients.expiring(now_ms, ROWS_MAX),
        ]
    )
    logged = await journal.expire(database, now_ms - settings.log_days * MS_PER_DAY)
    return sum(map(len, results)) + logged


def _delete(table: str, key: str, condition: str, before_ms: int) -> Statement:
    return Statement(
        f"delete from {table} where {key} in (select {key} from {table} where {condition} limit {ROWS_MAX})"
        f" returning {key}",
        (before_ms,),
    )


def _tokens_of_ended(before_ms: int) -> Statement:
    return Statement(
        "delete from oauth_token where sha256 in (select t.sha256 from oauth_grant as g"
        " join oauth_token as t on t.grant_id = g.id"
        f" where g.revoked_at <= ?1 or g.expires_at <= ?1 limit {ROWS_MAX}) returning sha256",
        (before_ms,),
    )


def _grants(now_ms: int) -> Statement:
    """Return what removes grants without tokens: of an app that was away for too long there are none left either."""
    return Statement(
        "delete from oauth_grant where id in (select id from oauth_grant as g"
        " where case when activated_at is null then created_at <= ?1"
        " else coalesce(revoked_at, expires_at, used_at, activated_at) <= ?2 end"
        f" and not exists (select 1 from oauth_token as t where t.grant_id = g.id) limit {ROWS_MAX}) returning id",
        (now_ms - UNUSED_KEPT_MS, now_ms - GRANT_KEPT_MS),
    )
