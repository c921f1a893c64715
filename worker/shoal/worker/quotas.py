"""When Cloudflare's daily quotas are given anew."""

from typing import Final

from shoal.core.times import MS_PER_DAY, iso

RESET: Final = "00:00 UTC"


def next_reset_ms(now_ms: int) -> int:
    """Return the next midnight (UTC), milliseconds since 1970."""
    return (now_ms // MS_PER_DAY + 1) * MS_PER_DAY


def next_reset(now_ms: int) -> str:
    """Return the same as ISO 8601, as errors and answers show it."""
    return iso(next_reset_ms(now_ms))
