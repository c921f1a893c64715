"""What must hold: of each batch as it is written, and of all replicas once they have exchanged what they have."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.simulation import people
from tests.simulation.replicas import Replica

from shoal.core.cells import INIT
from shoal.core.protocols import Statement
from shoal.core.service import Memory
from shoal.schema import sql
from shoal.schema.models import FindRequest, GetRequest
from shoal.schema.sql import State

_ALIVE: Final = (State.LIVE, State.ARCHIVED)
_DERIVED: Final = {"type": "m.type", "occurred_at": "m.occurred_at"}
"""Fields that override what the `init` says: as they are read."""
_REASONS_OF_NOTHING: Final = """
select * from sync_refused x where not exists (select 1 from record where rid = x.rid and x.field = '' and dirty = 2)
  and not exists (select 1 from cell where rid = x.rid and field = x.field and dirty = 2)
"""


def local_cells(statements: Sequence[Statement]) -> list[list[Any]]:
    """Return the local cells of a batch, [id, space, field, null, null, value, mode], as the SQL gets them."""
    for text, params in statements:
        if text in (sql.MERGE_INIT, sql.MERGE_CELLS):
            return [cell for cell in json.loads(str(params[0])) if cell[4] is None]
    return []


def check_seen_at_once(replica: Replica, cells: Iterable[list[Any]]) -> None:
    """A local edit can be seen where it was made as soon as it is acknowledged, and waits for a push there."""
    wanted = {(record, space, field): (value, mode) for record, space, field, _, _, value, mode in cells}
    for (record, space, field), (value, mode) in wanted.items():
        found = replica.rows(
            f"select m.rank, m.life, m.state, {_DERIVED.get(field, 'c.value')}, m.init is not null, m.class"
            " from record m left join cell c on c.rid = m.rid and c.field = ?3 and c.rank = m.rank"
            " where m.id = unhex(?1) and m.space = ?2",
            record,
            space,
            field,
        )
        told = f"{mode} {field} = {value!r} of {record[:6]} at {replica.device}: {found}"
        if field == INIT:
            if value is None:
                assert not found or found[0][0] % 2 == 0 or found[0][0] < found[0][1], told
            else:
                assert found and (found[0][4] or mode == "store"), told
                assert mode != "revive" or found[0][0] == found[0][1], told
            continue
        if not found or found[0][2] not in _ALIVE:
            assert mode != "revive" or not found or found[0][0] % 2 == 0 or found[0][2] == 0, told
            continue
        if field == "trash":
            assert value is None or mode != "edit", told
        elif value == 0 and field != "importance":
            assert found[0][3] in (0, None), told
        else:
            assert found[0][3] == value, told


def check_sound(replica: Replica) -> None:
    """Check what must hold of any database at any time."""
    assert replica.rows("select 1 from cell c join record r using (rid) where c.rank < r.rank") == [], "an earlier life"
    texts = "select rid from record where class = 'memory' and init is not null order by 1"
    assert replica.rows("select distinct rowid / 1024 from content_fts order by 1") == replica.rows(texts)
    labelled = "select rid from record where class = 'memory' and state > 0 order by 1"
    assert replica.rows("select rowid from label_fts order by 1") == replica.rows(labelled)
    used = "select substr(field, instr(field, ':') + 1) from cell"
    assert replica.rows(f"select text from label where text not in ({used})") == [], "words of labels that went"
    newest = "select max(cast(substr(hlc, 1, 19) as integer)) from (select hlc from record union select hlc from cell)"
    assert replica.value(f"select v >= coalesce(({newest}), 0) from meta where k = 'clock'"), "a stamp beyond the clock"


def check_reasons(replica: Replica) -> None:
    """Why a cell was refused is kept as long as it is laid aside, and no longer."""
    assert replica.rows(_REASONS_OF_NOTHING) == [], "why what isn't refused any more was refused"


def check_drained(replica: Replica, alone: set[str]) -> None:
    """Nothing waits or is laid aside, but in spaces that a device has for itself."""
    marked = (
        "select m.space, 'init' from record m where m.dirty > 0 union all"
        " select m.space, c.field from cell c join record m using (rid) where c.dirty > 0"
    )
    left = [row for row in replica.rows(marked) if row[0] not in alone]
    assert left == [], f"still in the queue: {left}"
    check_reasons(replica)


def check_no_other_space(replica: Replica, spaces: set[str]) -> None:
    """A device has nothing of a space that isn't its own."""
    others = [cell for cell in replica.stamps() if cell[1] not in spaces]
    assert others == [], f"something of a space that is not the device's: {others}"


def seen(replica: Replica, memory: Memory, spaces: Sequence[str]) -> dict[str, Any]:
    """Return all that can be seen on a replica, or must be the same on all, in these spaces."""
    named = json.dumps(list(spaces))
    here = "r.space in (select value from json_each(?1))"
    found: dict[str, Any] = {
        "records": replica.rows(
            # A purged row remembers its class where there was something to erase.
            "select lower(hex(id)), space, rank, hlc, init, iif(init is null, null, class), life, state, type,"
            " occurred_at, created_at, updated_at, conversation_id, position, hex(src), hex(dst)"
            f" from record r where rank > 0 and {here} order by 1, 2",
            named,
        ),
        "cells": replica.rows(
            "select lower(hex(r.id)), r.space, c.field, c.rank, c.hlc, c.value from cell c join record r using (rid)"
            f" where {here} order by 1, 2, 3",
            named,
        ),
        "content words": replica.rows(
            "select lower(hex(r.id)), r.space, w.doc % 1024, w.term, w.offset from temp.content_words w"
            f" join record r on r.rid = w.doc / 1024 where {here} order by 1, 2, 3, 5",
            named,
        ),
        "label words": replica.rows(
            "select lower(hex(r.id)), r.space, w.col, w.term, w.offset from temp.label_words w"
            f" join record r on r.rid = w.doc where {here} order by 1, 2, 3, 5",
            named,
        ),
    }
    found.update(asyncio.run(_read(memory, list(spaces))))
    return found


async def _read(memory: Memory, spaces: list[str]) -> dict[str, Any]:
    """Return what people are shown."""
    request = GetRequest(ids=list(people.IDS), space=spaces, with_edges=True, with_history=True)
    memories = (await memory.get(request, people.ALL)).memories
    shown: dict[str, Any] = {
        f"memory {one.space} {one.id}": _in_any_order(one.model_dump(mode="json")) for one in memories
    }
    for word in people.WORDS:
        request_found = FindRequest(query=word, space=spaces, n_results=50)
        results = (await memory.find(request_found, people.ALL)).results
        shown[f"found by {word}"] = sorted((one.space, one.id) for one in results if "words" in one.why)
    return shown


def _in_any_order(memory: dict[str, Any]) -> dict[str, Any]:
    memory["edges"] = sorted(memory["edges"] or (), key=lambda edge: str(edge["id"]))
    return memory


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return in which parts two replicas differ, in a few lines."""
    lines: list[str] = []
    for part in sorted(one.keys() | other.keys()):
        a, b = one.get(part), other.get(part)
        if a != b:
            if isinstance(a, list) and isinstance(b, list):
                a, b = [x for x in a if x not in b], [x for x in b if x not in a]
            lines.append(f"{part}:\n    {str(a)[:1500]}\n    {str(b)[:1500]}")
    return "\n  ".join(lines)
