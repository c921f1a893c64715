"""The edge's half: merge what devices push, and hand out what was merged in its order.

The edge orders everything by `seq`. All reads are of the primary database, and a page is read by one statement, so
that a cursor never passes what it has not seen.
"""

import json
from typing import Any, Final, cast

from shoal.core.apply import statements
from shoal.core.caller import ALL_SPACES, Caller, Scope
from shoal.core.cells import INIT, Cell, compact_json
from shoal.core.context import Context
from shoal.core.journal import Action, Author
from shoal.core.protocols import Row, SqlValue, Statement
from shoal.schema.errors import EdgeRestored, NotAllowed, ProtocolMismatch, TooMany
from shoal.schema.migrations import BREAKING_STEP, NEWEST
from shoal.schema.wire import (
    CELLS_MAX,
    PAGE_BYTES,
    PROTO,
    Head,
    PullAnswer,
    PullRequest,
    PushAnswer,
    PushRequest,
    Refusal,
    RefusalCode,
    SyncSpaces,
    SyncStatus,
)
from shoal.sync.queue import CELL_BYTES
from shoal.sync.wire_cells import CellRefused, wire_cell

PULLING: Final = (Scope.SYNC, Scope.READ)
"""Needed in a space to have a copy of it."""
PUSHING: Final = (Scope.SYNC, Scope.READ, Scope.WRITE)
"""Needed in a space to change it through a copy."""
PURGING: Final = (*PUSHING, Scope.ADMIN)
HISTORY_KEPT: Final = 100_000
"""Batches of the history: a device that has been away for more of them pulls and pushes everything anew."""
_NOW: Final = "(select printf('%019d', max(v, cast(?1 as integer) * 65536)) from meta where k = 'clock') as clock"
_TOLD: Final = (
    f"{_NOW}, (select seq from sync_batch order by seq desc limit 1) as head_seq,"
    " (select name from sync_batch order by seq desc limit 1) as head_batch,"
    " (?2 is null or exists (select 1 from sync_batch where seq = ?2 and name = ?3)) as known"
)
"""?1 = the time, ?2, ?3 = the head that the device knows. What every answer tells of the database."""
_TRIM: Final = "delete from sync_batch where seq < (select seq from sync_batch order by seq desc limit 1 offset ?1)"

_UNNAMED: Final = "0" * 16


def _batch_of(seq: str) -> str:
    """Return SQL for the name of the batch in which a sequence number lies.

    A Worker that is older than the table leaves its batches unnamed, while a newer one is being deployed.
    """
    return f"coalesce((select name from sync_batch where seq >= {seq} order by seq limit 1), '{_UNNAMED}')"


_PAGE: Final = f"""
with given (cursor, batch) as (select ?4, ?5),
  fits as (select 1 from given where batch is null and cursor = 0
    union all select 1 from given where batch = {_batch_of("cursor")}
      and cursor <= (select v from meta where k = 'seq')),
  later as (
    select * from (select seq, rid, null as field, octet_length(init) as size, space
      from record indexed by record_seq where seq > ?4 order by seq limit ?6)
    union all
    select x.seq, x.rid, x.field, octet_length(json_quote(x.value)), m.space
      from (select seq, rid, field, value from cell indexed by cell_seq where seq > ?4 order by seq limit ?6) x
      cross join record m on m.rid = x.rid),
  examined as (select *, ?7 is null or space in (select value from json_each(?7)) as kept
    from later order by seq limit ?6),
  page as (select *, sum(iif(kept, coalesce(size, 0) + octet_length(coalesce(field, '')) + {CELL_BYTES}, 0))
    over (order by seq) as up_to, sum(kept) over (order by seq) as number from examined),
  bounded as (select * from page where up_to <= {PAGE_BYTES} or (kept and number = 1) or number = 0),
  told (last, more) as (
    select max(seq), count(*) = ?6 or count(*) < (select count(*) from examined) from bounded),
  end (seq, more) as (select iif(more, last, (select v from meta where k = 'seq')), more from told)
select end.seq as cursor, end.more, {_batch_of("end.seq")} as batch,
  exists (select 1 from fits) as fits, {_TOLD},
  iif(b.rid is null, null, lower(hex(m.id))) as id, b.space, coalesce(b.field, '{INIT}') as field,
  iif(b.field is null, m.rank, c.rank) as rank, iif(b.field is null, m.hlc, c.hlc) as hlc,
  iif(b.field is null, m.init, c.value) as value
from end left join bounded b on b.kept left join record m on m.rid = b.rid
  left join cell c on c.rid = b.rid and c.field = b.field
order by b.seq
"""
"""And ?4 = cursor, ?5 = the name of its batch, ?6 = how many, ?7 = the spaces as JSON, null for every one.

One row at least, whose `id` is null where there is no cell to hand out.
"""


async def status(context: Context, caller: Caller) -> SyncStatus:
    """Say what a device must know before it begins. Raises InsufficientScope."""
    caller.require(*PULLING)
    now = context.clock()
    row = (await context.database.query(f"select {_NOW}", (now,)))[0]
    return SyncStatus(
        **_reply(caller, row, now),
        proto=PROTO,
        schema_version=NEWEST,
        model=None if context.embedder is None else context.embedder.fingerprint,
    )


async def push(context: Context, request: PushRequest, caller: Caller) -> PushAnswer:
    """Merge a device's cells in one batch, but those that break a rule or that its token may not write.

    Raises InsufficientScope, ProtocolMismatch, TooMany, StorageError, and EdgeRestored: its cells are merged then, but
    what was merged before them is not there.
    """
    _check_version(request.proto, request.schema_version)
    caller.require(*PUSHING)
    if len(request.cells) > CELLS_MAX:
        raise TooMany(f"{len(request.cells)} cells were sent.", f"Send at most {CELLS_MAX}.", limit=CELLS_MAX)
    now = context.clock()
    cells: list[Cell] = []
    refused: list[Refusal] = []
    for index, sent in enumerate(request.cells):
        try:
            cells.append(_allowed(wire_cell(sent, now), caller))
        except CellRefused as error:
            refused.append(Refusal(index=index, code=error.code, message=error.message))
    batch = await statements(cells, context.replica, now, Author.of(caller, Action.SYNC)) if cells else []
    # In the same batch: what the answer calls merged is merged in the history that it names.
    row = (await context.database.batch([*batch, Statement(f"select {_TOLD}", _given(request, now))]))[-1][0]
    if cells and context.announce is not None:
        context.announce(list(dict.fromkeys(cell.id for cell in cells)))
    _check_history(row["known"])
    return PushAnswer(**_reply(caller, row, now), refused=refused, head=_head(row))


async def pull(context: Context, request: PullRequest, caller: Caller) -> PullAnswer:
    """Return what was merged after a cursor in some spaces. Nothing is written.

    Raises InsufficientScope, NotAllowed, ProtocolMismatch, EdgeRestored, StorageError.
    """
    _check_version(request.proto, request.schema_version)
    spaces = caller.within(ALL_SPACES if request.spaces == "*" else request.spaces, *PULLING)
    if request.spaces == "*" and spaces is not None:
        raise NotAllowed("Not every space is yours to sync.", "Ask /sync/status which are, and pull those.")
    named = None if spaces is None else compact_json(spaces)
    now = context.clock()
    asked = (*_given(request, now), request.cursor, request.batch, request.limit, named)
    rows = await context.database.query(_PAGE, asked)
    first = rows[0]
    _check_history(first["fits"] and first["known"])
    return PullAnswer(
        **_reply(caller, first, now),
        cells=[_cell(row) for row in rows if row["id"] is not None],
        cursor=cast("int", first["cursor"]),
        batch=cast("str", first["batch"]),
        more=bool(first["more"]),
        head=_head(first),
    )


async def trim_history(context: Context) -> None:
    """Forget the names of the oldest batches."""
    await context.database.batch([Statement(_TRIM, (HISTORY_KEPT,))])


def _given(request: PushRequest | PullRequest, now_ms: int) -> tuple[SqlValue, ...]:
    """Return the parameters of _TOLD."""
    head = request.head
    return (now_ms, None, None) if head is None else (now_ms, head.seq, head.batch)


def _check_history(known: object) -> None:
    if not known:
        raise EdgeRestored(
            "The edge's database is another than the device knows, or was restored to an earlier time.",
            "Pull from cursor 0, and push everything anew.",
        )


def _head(row: Row) -> Head:
    return Head(seq=cast("int", row["head_seq"]), batch=cast("str", row["head_batch"]))


def _reply(caller: Caller, row: Row, now_ms: int) -> dict[str, Any]:
    """Return what every answer tells."""
    return {
        "server_time": now_ms,
        "clock": cast("str", row["clock"]),
        "spaces": _spaces(_reached(caller, PULLING)),
        "writable": _spaces(_reached(caller, PUSHING)),
    }


def _reached(caller: Caller, needs: tuple[Scope, ...]) -> tuple[str, ...] | None:
    return caller.within(ALL_SPACES, *needs) if caller.scopes.issuperset(needs) else ()


def _spaces(reached: tuple[str, ...] | None) -> SyncSpaces:
    return "*" if reached is None else list(reached)


def _check_version(proto: int, schema_version: int) -> None:
    if proto != PROTO or schema_version // BREAKING_STEP != NEWEST // BREAKING_STEP:
        older = proto < PROTO or schema_version < NEWEST
        raise ProtocolMismatch(
            f"The device speaks version {proto} with schema {schema_version}; the edge {PROTO} with {NEWEST}.",
            "Update shoal on the device." if older else "Deploy the newer shoal to the edge.",
        )


def _allowed(cell: Cell, caller: Caller) -> Cell:
    """Return the cell if the caller may write it. Raises CellRefused."""
    purges = cell.field == INIT and cell.value is None
    if not all(caller.reaches(cell.space, scope) for scope in (PURGING if purges else PUSHING)):
        deed = "purge in" if purges else "write to"
        raise CellRefused(RefusalCode.NOT_ALLOWED, f"The device may not {deed} its space.")
    return cell


def _cell(row: Row) -> list[Any]:
    value = row["value"]
    if row["field"] == INIT and value is not None:
        value = json.loads(cast("str", value))
    return [row["id"], row["space"], row["field"], row["rank"], row["hlc"], value]
