"""Guessing is counted before it is judged, and soon has to wait.

A claim counts one attempt as if it had failed, and sets the wait that a failure would bring, in one statement; only
then is the secret looked at. So guesses sent at once can't all slip through before the first of them is counted. Who
proves to be the owner has the claim taken back.

Three counts are kept in `owner_attempt`, each under a key of its own:
- `passphrase:NETWORK`: five failures are free, then each makes that network wait, a minute first, twice as long each
  time, an hour at most. `last_at` is the last failure; a day after it all is forgotten.
- `key:NETWORK`: the same with twenty free, for the owner's key.
- `passphrase`: of all networks together. With the hundredth failure within an hour passphrases are refused for an hour.
  `last_at` is when the hour began that is being counted. There is no such count for the key: it can't be guessed, so
  nobody who fails on purpose can lock the owner out from everywhere.
"""

import json
from enum import StrEnum
from typing import Any, Final

from shoal.api.oauth.authority import Authority
from shoal.core.protocols import Statement

FREE_PASSPHRASES: Final = 5
FREE_KEYS: Final = 20
FREE_PASSPHRASES_OF_ALL: Final = 100
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
FORGOTTEN_AFTER_MS: Final = 24 * _HOUR_MS
_DOUBLINGS_MAX: Final = 20
"""More would leave 64 bits; the longest wait is reached far earlier."""


class Way(StrEnum):
    """With what somebody tries to sign in."""

    KEY = "key"
    PASSPHRASE = "passphrase"  # noqa: S105 - a name, not a secret


class Locked(Exception):
    """No attempt may be made now.

    `everywhere`: passphrases are refused from all networks; else only this network waits. `wait_ms`: for how long.
    """

    def __init__(self, *, everywhere: bool, wait_ms: int) -> None:
        super().__init__("everywhere" if everywhere else "here")
        self.everywhere = everywhere
        self.wait_ms = wait_ms


def _limits(authority: Authority, way: Way) -> str:
    """Return the counts that an attempt belongs to, as the JSON that the statements take apart."""
    free = FREE_KEYS if way is Way.KEY else FREE_PASSPHRASES
    limits: list[dict[str, Any]] = [
        {
            "key": f"{way}:{authority.network}", "free": free, "window": FORGOTTEN_AFTER_MS, "slides": 1,
            "first": _MINUTE_MS, "longest": _HOUR_MS,
        }
    ]  # fmt: skip
    if way is Way.PASSPHRASE:
        limits.append(
            {
                "key": str(way), "free": FREE_PASSPHRASES_OF_ALL, "window": _HOUR_MS, "slides": 0,
                "first": _HOUR_MS, "longest": _HOUR_MS,
            }
        )  # fmt: skip
    return json.dumps(limits)


_CLAIM: Final = f"""
with wanted as (
  select l.value ->> 'key' as key, l.value ->> 'free' as free, l.value ->> 'first' as first,
    l.value ->> 'longest' as longest, a.locked_until,
    case when a.last_at > ?1 - (l.value ->> 'window') then a.failures + 1 else 1 end as failures,
    case when a.last_at > ?1 - (l.value ->> 'window') and not l.value ->> 'slides' then a.last_at else ?1 end as last_at
  from json_each(?2) l left join owner_attempt a on a.key = l.value ->> 'key'
)
insert into owner_attempt (key, failures, last_at, locked_until)
select key, failures, last_at,
  case when failures < free then 0
    else ?1 + min(first * (1 << min(failures - free, {_DOUBLINGS_MAX})), longest) end
from wanted
where not exists (select 1 from wanted where locked_until > ?1)
on conflict (key) do update set
  failures = excluded.failures, last_at = excluded.last_at, locked_until = excluded.locked_until
returning key, locked_until
"""
_LOCKS: Final = """
select key, locked_until from owner_attempt
where key in (select value ->> 'key' from json_each(?2)) and locked_until > ?1
"""
_FORGET: Final = "delete from owner_attempt where last_at <= ?1 - ?2 and locked_until <= ?1 returning key"
_FORGIVE_NETWORK: Final = "delete from owner_attempt where key in (?1, ?2)"
_FORGIVE_ALL: Final = """
update owner_attempt set failures = max(failures - 1, 0),
  locked_until = case when failures - 1 < ?2 then 0 else locked_until end
where key = ?1
"""


async def claim(authority: Authority, way: Way) -> int:
    """Count an attempt that is about to be judged; return for how many ms this network waits if it fails.

    Raises Locked, and then counts nothing: waiting gets no longer by trying.
    """
    now_ms = authority.clock()
    limits = _limits(authority, way)
    claimed, locks = await authority.database.batch(
        [Statement(_CLAIM, (now_ms, limits)), Statement(_LOCKS, (now_ms, limits))]
    )
    waits = {str(row["key"]): max(int(row["locked_until"] or 0) - now_ms, 0) for row in claimed or locks}
    if claimed:
        return max(waits.values())
    raise Locked(everywhere=str(way) in waits, wait_ms=max(waits.values()))


async def forgive(authority: Authority, way: Way) -> None:
    """Take a claim back that turned out to be the owner's, with all that failed from this network before."""
    statements = [Statement(_FORGIVE_NETWORK, tuple(f"{each}:{authority.network}" for each in Way))]
    if way is Way.PASSPHRASE:
        statements.append(Statement(_FORGIVE_ALL, (str(way), FREE_PASSPHRASES_OF_ALL)))
    await authority.database.batch(statements)


def forgetting(now_ms: int) -> Statement:
    """Return what removes counts that no longer matter, for the hourly upkeep."""
    return Statement(_FORGET, (now_ms, FORGOTTEN_AFTER_MS))
