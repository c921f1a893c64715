"""What the owner sees of the apps and devices that were let in: whose they are, and what they have written."""

import json
from dataclasses import dataclass
from typing import Any, Final, cast

from shoal.api.oauth import grants
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.grants import GrantRow
from shoal.api.oauth.redirects import host_shown

SHOWN_MAX: Final = 50
"""Apps and devices on the page: each costs up to COUNTED_MAX rows of the log."""
COUNTED_MAX: Final = 100
"""Entries of the log that are counted for each."""
LAST_MAX: Final = 5
"""Entries that are shown of each, the newest first."""
HOSTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Write:
    """An entry of the log: what was done, when (ms since 1970), where, to how many memories."""

    at: int
    action: str
    space: str
    memories: int


@dataclass(frozen=True, slots=True)
class Connected:
    """One that was let in."""

    grant: GrantRow
    hosts: tuple[str, ...]
    """Where an app may have its answers sent, at most HOSTS_MAX; none for devices, and apps that are known no more."""
    writes: int
    """Entries of the log, at most COUNTED_MAX."""
    last: tuple[Write, ...]


# By the log's index on (token, n), and never more of it than is shown.
_DETAILS: Final = f"""
select g.value as id,
  (select c.redirect_uris from oauth_grant x join oauth_client c on c.id = x.client_id
    where x.id = g.value) as redirects,
  (select count(*) from (select 1 from write_log where token = g.value limit {COUNTED_MAX})) as writes,
  (select json_group_array(json_object('at', w.at, 'action', w.action, 'space', w.space,
      'memories', json_array_length(w.ids)))
    from (select at, action, space, ids from write_log where token = g.value order by n desc limit {LAST_MAX}) w
  ) as last
from json_each(?1) g
"""


async def connected(authority: Authority) -> tuple[list[Connected], bool]:
    """Return those that can come in, the last used first, at most SHOWN_MAX; and whether there are more."""
    rows = await grants.listed(authority)
    shown = rows[:SHOWN_MAX]
    if not shown:
        return [], False
    details = await authority.database.query(_DETAILS, (json.dumps([row.id for row in shown]),))
    by_id = {cast("str", detail["id"]): detail for detail in details}
    return [_connected(row, by_id[row.id]) for row in shown], len(rows) > len(shown)


def _connected(row: GrantRow, detail: Any) -> Connected:
    redirects: list[str] = json.loads(detail["redirects"] or "[]")
    hosts = tuple(dict.fromkeys(host_shown(uri) for uri in redirects))
    last = tuple(Write(**write) for write in json.loads(detail["last"]))
    return Connected(row, hosts[:HOSTS_MAX], detail["writes"], last)
