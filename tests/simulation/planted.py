"""Bugs to plant into the real code: the simulator must find each of them.

Most are mistakes that other systems have made. A patch that no longer fits the code fails, so that none is planted
beside it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

from shoal.core import apply as core_apply
from shoal.core.protocols import Statement
from shoal.schema import sql
from shoal.schema.wire import Head
from shoal.sync import clock, engine, leaving, queue, server, subscription


class Patch(NamedTuple):
    """What takes the place of a name in a module, or in a class."""

    owner: ModuleType | type
    name: str
    value: object


def _text(owner: ModuleType, name: str, old: str, new: str) -> Patch:
    """Return a patch of an SQL text."""
    text: str = getattr(owner, name)
    assert old in text, f"{name} has no {old!r}"
    return Patch(owner, name, text.replace(old, new))


def _texts(owner: ModuleType, name: str, old: str, new: str) -> Patch:
    """Return a patch of several SQL texts."""
    texts: tuple[str, ...] = getattr(owner, name)
    assert any(old in text for text in texts), f"{name} has no {old!r}"
    return Patch(owner, name, tuple(text.replace(old, new) for text in texts))


_NOTHING: Final = "update meta set v = v where 0"
_CELL_WINS: Final = "where (excluded.rank, excluded.hlc) > (cell.rank, cell.hlc)"
_INIT_WINS: Final = "where (excluded.rank, excluded.hlc) > (record.rank, record.hlc)"
_CLOCK: Final = "max((select v from meta where k = 'clock') + 1, "
_RECEIVED: Final = "coalesce((select max(cast(substr(value->>4, 1, 19) as integer)) from json_each(?1)), 0)"
_OFFSET: Final = "(select cast(v as integer) from meta where k = 'sync_offset_ms')"
_STAMPING: Final = ("MERGE_INIT", "MERGE_CELLS", "BUMP")
_CURSOR_OF_OTHERS: Final = (
    "coalesce((select max(cursor) from sync_space), 0), (select batch from sync_space order by cursor desc)"
)


async def _leaves_at_once(_database: Any, _allowed: Any, _lost: Any) -> None:
    pass


async def _merged_apart(*args: Any, also: Sequence[Statement] = ()) -> Any:
    await args[0].batch(list(also))
    return await core_apply.apply(*args)


def _acknowledged_first() -> Patch:
    send = engine.Engine._send

    async def sent(self: Any, cells: Any, report: Any) -> Any:
        await self._context.database.batch(queue.taken(cells))
        return await send(self, cells, report)

    return Patch(engine.Engine, "_send", sent)


def _head_moves_cursor(newest: Head) -> Statement:
    return Statement("update sync_space set cursor = ?1, batch = ?2", (newest.seq, newest.batch))


async def _no_queue(_database: Any, _spaces: Any) -> None:
    pass


def _first_half_only() -> Patch:
    send = engine.Engine._send

    async def sent(self: Any, cells: Any, report: Any) -> Any:
        try:
            await self._transport.push(engine.PushRequest(**self._about(), cells=[one.cell for one in cells]))
        except engine.EdgeRefused:
            await self._context.database.batch(queue.taken(cells[len(cells) // 2 :]))
            cells = cells[: len(cells) // 2] or cells
        return await send(self, cells, report)

    return Patch(engine.Engine, "_send", sent)


def _refused_as_taken(cells: Sequence[queue.Refused], _now_ms: int) -> list[Statement]:
    return queue.taken([one.queued for one in cells])


Plant = Callable[[], Sequence[Patch]]
PLANTED: Final[Mapping[str, Plant]] = {
    "the last to arrive wins": lambda: [_text(sql, "MERGE_CELLS", _CELL_WINS, "where true")],
    "the rank of a cell is ignored": lambda: [
        _text(sql, "MERGE_CELLS", _CELL_WINS, "where excluded.hlc > cell.hlc"),
    ],
    "the rank of an init is ignored": lambda: [
        _text(sql, "MERGE_INIT", _INIT_WINS, "where excluded.hlc > record.hlc"),
    ],
    "a change gets no new sequence number": lambda: [
        _text(sql, "MERGE_CELLS", "value = excluded.value, seq = excluded.seq,", "value = excluded.value,"),
    ],
    "a batch has one sequence number": lambda: [
        _text(sql, "MERGE_CELLS", "c.s + j.key + 1", "c.s + 1"),
        _text(sql, "MERGE_INIT", "c.s + j.key + 1", "c.s + 1"),
    ],
    "sequence numbers are never used up": lambda: [
        _text(sql, "BUMP", "when 'seq' then v + json_array_length(?1)", "when 'seq' then v"),
    ],
    "stamps are of the wall clock alone": lambda: [
        _text(sql, "MERGE_CELLS", _CLOCK, "max(0, "),
        _text(sql, "MERGE_INIT", _CLOCK, "max(0, "),
    ],
    "the clock takes no notice of what it receives": lambda: [
        _text(sql, "BUMP", _RECEIVED, "0"),
    ],
    "the mark stays when a pulled cell wins": lambda: [
        _text(sql, "MERGE_CELLS", "dirty = excluded.dirty", "dirty = cell.dirty"),
    ],
    "a local write has no mark": lambda: [_text(sql, "MERGE_CELLS", "c.s + j.key + 1, ?4", "c.s + j.key + 1, 0 * ?4")],
    "cells of an earlier life stay": lambda: [Patch(sql, "ERASE_CELLS", _NOTHING)],
    "words of a purged text stay": lambda: [Patch(sql, "ERASE_CONTENT", _NOTHING)],
    "labels of a purged memory stay": lambda: [Patch(sql, "ERASE_LABELS", _NOTHING)],
    "cells that come before their init are dropped": lambda: [
        _text(sql, "STUB", "where value->>2", "where 0 and value->>2")
    ],
    "the cursor moves before the merge": lambda: [Patch(engine, "apply", _merged_apart)],
    "an answer's head moves the cursor": lambda: [Patch(subscription, "told", _head_moves_cursor)],
    "a page is ordered by record": lambda: [
        _text(server, "_PAGE", "from later order by seq limit ?6)", "from later order by rid limit ?6)"),
    ],
    "a page's end is taken for the end of all": lambda: [
        _text(server, "_PAGE", "count(*) = ?6 or count(*) < (select count(*) from examined)", "0"),
    ],
    "a pull tells of every space": lambda: [
        _text(server, "_PAGE", "?7 is null or space in (select value from json_each(?7))", "?7 is null or 1"),
    ],
    "a restored edge is not noticed": lambda: [Patch(server, "_check_history", lambda _known: None)],
    "what a restored edge has lost is not sent anew": lambda: [Patch(queue, "all_of", _no_queue)],
    "the head is not compared": lambda: [Patch(server, "_given", lambda _request, now_ms: (now_ms, None, None))],
    "an acknowledgement is by name, not by stamp": lambda: [
        _texts(queue, "_MARK", "rank = j.value->>2 and hlc = j.value->>3 and dirty > 0", "dirty > 0"),
    ],
    "what is sent is taken off the queue first": lambda: [_acknowledged_first()],
    "a refused cell counts as taken": lambda: [Patch(queue, "refused", _refused_as_taken)],
    "of a refused page one half is forgotten": lambda: [_first_half_only()],
    "only fields are stamped anew": lambda: [Patch(clock, "_RESTAMP", clock._RESTAMP[:1])],
    "how far a clock is off is no whole number": lambda: [
        _text(clock, "_OFFSET", "cast(?1 as integer)", "?1"),
        *(_text(sql, name, _OFFSET, _OFFSET.replace("cast(v as integer)", "v")) for name in _STAMPING),
    ],
    "why a cell was refused is never forgotten": lambda: [Patch(queue, "_SETTLED", _NOTHING)],
    "a space that begins to leave keeps its cursor": lambda: [Patch(subscription, "part", _leaves_at_once)],
    "what leaves keeps its fields": lambda: [
        Patch(leaving, "_EMPTY", tuple(text for text in leaving._EMPTY if "from cell" not in text)),
    ],
    "a space that is gained goes on from the others' cursor": lambda: [
        _text(subscription, "_ADD", "coalesce(w.cursor, 0), w.batch", _CURSOR_OF_OTHERS),
    ],
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run with one of the bugs."""
    patches = PLANTED[name]()
    before = [getattr(patch.owner, patch.name) for patch in patches]
    try:
        for patch in patches:
            setattr(patch.owner, patch.name, patch.value)
        yield
    finally:
        for patch, value in zip(patches, before, strict=True):
            setattr(patch.owner, patch.name, value)
