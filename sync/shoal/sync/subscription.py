"""What a device subscribes to: its spaces, and how far each has been pulled."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from shoal.core.caller import ALL_SPACES
from shoal.core.cells import compact_json
from shoal.core.protocols import Database, Statement
from shoal.core.replication import HEAD
from shoal.schema.wire import SPACES_MAX, Head, SyncSpaces


class Cursor(NamedTuple):
    """How far some spaces have been pulled: to a sequence number of the edge, which lies in a batch of that name."""

    spaces: SyncSpaces
    seq: int
    batch: str | None


class Change(NamedTuple):
    """What the token allows now, compared with before."""

    gained: list[str]
    lost: list[str]
    """Spaces that have been pulled and may be pulled no more: their memories must leave this device."""


_SET: Final = """
insert into sync_space (space, cursor, batch) select value, ?2, ?3 from json_each(?1) where true
on conflict (space) do update set cursor = excluded.cursor, batch = excluded.batch
"""
_ADD: Final = """
insert or ignore into sync_space (space, cursor, batch)
select j.value, coalesce(w.cursor, 0), w.batch from json_each(?1) j left join sync_space w on w.space = '*'
"""
"""A space that was pulled as one of all is not pulled anew once it is named."""
_KEEP: Final = "delete from sync_space where space not in (select value from json_each(?1))"
_HERE: Final = """
select distinct space from record where rank > 0 or exists (select 1 from cell where cell.rid = record.rid)
"""
"""Not only those that have memories. Reads every record, once in a token's life."""
_TOLD: Final = "insert into meta (k, v) values (?1, ?2) on conflict (k) do update set v = excluded.v"
_RESET: Final = "update sync_space set cursor = 0, batch = null"


async def cursors(database: Database) -> list[Cursor]:
    """Return the cursors, the least first; spaces that are equally far share one. None before the first `adopt`."""
    rows = await database.query("select space, cursor, batch from sync_space order by cursor, batch, space")
    found: list[Cursor] = []
    for row in rows:
        space, seq, batch = cast("str", row["space"]), cast("int", row["cursor"]), cast("str | None", row["batch"])
        if space == ALL_SPACES:
            found.append(Cursor("*", seq, batch))
        elif found and found[-1][1:] == (seq, batch) and found[-1].spaces != "*" and len(found[-1].spaces) < SPACES_MAX:
            found[-1] = Cursor([*found[-1].spaces, space], seq, batch)
        else:
            found.append(Cursor([space], seq, batch))
    return found


def spaces_of(found: Iterable[Cursor]) -> SyncSpaces:
    """Return all the spaces that cursors are for."""
    named: list[str] = []
    for cursor in found:
        if cursor.spaces == "*":
            return "*"
        named += cursor.spaces
    return named


async def compare(database: Database, allowed: SyncSpaces) -> Change:
    """Say what has changed since `adopt` was last called. Spaces of this device alone are no one's to lose."""
    before = spaces_of(await cursors(database))
    if allowed == "*":
        return Change([] if before == "*" else [ALL_SPACES], [])
    if before == "*":
        here = [cast("str", row["space"]) for row in await database.query(_HERE)]
        return Change(sorted(allowed), sorted(set(here) - set(allowed)))
    return Change(sorted(set(allowed) - set(before)), sorted(set(before) - set(allowed)))


async def adopt(database: Database, allowed: SyncSpaces) -> None:
    """Subscribe to these spaces and to no others. What is new is pulled from the start."""
    names = compact_json([ALL_SPACES] if allowed == "*" else sorted(allowed))
    await database.batch([Statement(_ADD, (names,)), Statement(_KEEP, (names,))])


async def part(database: Database, allowed: SyncSpaces, lost: Sequence[str]) -> None:
    """Note that spaces are about to leave: until `adopt` they count as lost, and as not pulled if they come back."""
    names = compact_json([*allowed, *lost])
    await database.batch(
        [Statement(_ADD, (names,)), Statement(_KEEP, (names,)), Statement(_SET, (_names(lost), 0, None))]
    )


def moved(spaces: SyncSpaces, seq: int, batch: str) -> Statement:
    """Return the statement that moves the cursors of these spaces; it goes into the batch of what was pulled."""
    return Statement(_SET, (_names(spaces), seq, batch))


async def head(database: Database) -> Head | None:
    """Return the newest batch of the edge that this device was told of."""
    rows = await database.query("select v from meta where k = ?1", (HEAD,))
    return Head.model_validate_json(cast("str", rows[0]["v"])) if rows else None


def told(newest: Head) -> Statement:
    """Return the statement that notes the edge's newest batch; it goes into the batch of what the answer brought."""
    return Statement(_TOLD, (HEAD, newest.model_dump_json()))


def reset() -> Sequence[Statement]:
    """Return the statements that have everything pulled anew."""
    return Statement(_RESET), Statement("delete from meta where k = ?1", (HEAD,))


def _names(spaces: SyncSpaces | Sequence[str]) -> str:
    return compact_json([ALL_SPACES] if spaces == "*" else list(spaces))
