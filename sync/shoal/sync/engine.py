"""A device's half: one round pushes what waits, then pulls what is new, and may stop anywhere.

Whatever was cut off is done again by the next round: a push that was merged already changes nothing, and the cursor
moves in the batch that merges the page it is about.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from shoal.core.apply import CLOCK_MAX_MS, apply
from shoal.core.cells import Cell
from shoal.core.context import Context
from shoal.core.journal import Action, Author
from shoal.core.protocols import Statement
from shoal.schema.errors import EdgeRefused, EdgeRestored, NotAllowed, SyncError
from shoal.schema.migrations import NEWEST
from shoal.schema.wire import (
    CELLS_MAX,
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
from shoal.sync import clock, leaving, queue, subscription
from shoal.sync.subscription import Cursor
from shoal.sync.transport import Transport
from shoal.sync.wire_cells import CellRefused, wire_cell

RESTAMPS_MAX: Final = 2
"""Times that a round stamps its cells anew; if the edge still finds them ahead, its own clock has gone back."""
EDGE: Final = Author(Action.SYNC, "edge", "", "")
"""Who has written what is pulled, as this device's log has it."""

_A = TypeVar("_A", PushAnswer, PullAnswer, SyncStatus)


class Phase(StrEnum):
    """What a round is at."""

    PUSH = "push"
    PULL = "pull"


@dataclass(slots=True)
class Report:
    """What a round has done."""

    pushed: int = 0
    """Cells that the edge has taken."""
    pulled: int = 0
    """Cells that came from the edge, the device's own among them."""
    refused: int = 0
    """Cells laid aside because the edge will not take them."""
    skipped: int = 0
    """Cells of the edge that this version can't read."""
    restamped: bool = False
    """Whether the device's clock was ahead, and its cells were stamped anew."""
    restored: bool = False
    """Whether the edge's database was found to be of an earlier time, so that all was exchanged anew."""
    gained: list[str] | None = None
    lost: list[str] | None = None
    """Spaces that the token now allows, or allows no more; the latter have left this device."""


Hear = Callable[[Phase, Report], None]
"""Is told after each page."""


class Engine:
    """Replicates one device's memory. One round at a time: who calls holds a lock that other processes respect.

    `keep_copy` is awaited with the names of spaces that are about to leave this device, and makes a copy of them.
    """

    def __init__(
        self, context: Context, transport: Transport, keep_copy: Callable[[list[str]], Awaitable[None]]
    ) -> None:
        self._context = context
        self._transport = transport
        self._keep_copy = keep_copy
        self._pulled_by = replace(context.replica, dirty=False)
        self._offset_ms = 0
        self._head: Head | None = None
        self._allowed: tuple[SyncSpaces, SyncSpaces] | None = None
        """What the token may pull and push to, as the last answer said."""

    async def round(self, hear: Hear = lambda _phase, _report: None, limit: int = CELLS_MAX) -> Report:
        """Exchange all that there is to exchange; `limit` cells a page.

        Raises SyncError for what can't be done now, NotAllowed while spaces come and go, StorageError; what was done
        until then stays done.
        """
        report = Report()
        database = self._context.database
        self._offset_ms = await self._noted_offset()
        self._head = await subscription.head(database)
        subscribed = bool(await subscription.cursors(database))
        if not subscribed:
            # What an edge had that this device was linked with before, this one may not have.
            await queue.all_of(database, "*")
        if self._allowed is None or not subscribed:
            await self._ask()
            await self._resubscribe(report)
        try:
            await self._exchange(report, hear, limit)
        except EdgeRestored:
            await self._begin_anew()
            report.restored = True
            await self._exchange(report, hear, limit)
        return report

    async def _exchange(self, report: Report, hear: Hear, limit: int) -> None:
        try:
            await self._push(report, hear, limit)
            await self._pull(report, hear, limit)
        except NotAllowed:
            # A space went while the round was under way; what it took with it is told by the edge.
            await self._ask()
        if await self._resubscribe(report):
            await self._push(report, hear, limit)
            await self._pull(report, hear, limit)

    async def _push(self, report: Report, hear: Hear, limit: int) -> None:
        after, restamps = queue.START, 0
        while True:
            cells, following = await queue.page(self._context.database, self._writable, after, limit)
            if following is None:
                return
            after = following
            if not cells:
                continue
            ahead = await self._send(cells, report)
            if ahead is not None:
                if restamps == RESTAMPS_MAX:
                    raise SyncError(
                        "The edge finds this device's writes ahead of its clock, though they bear its time.",
                        "Wait: its clock has been set back. Nothing is lost.",
                    )
                await clock.set_back(self._context.database, ahead)
                report.restamped = True
                after, restamps = queue.START, restamps + 1
            hear(Phase.PUSH, report)

    async def _send(self, cells: Sequence[queue.Queued], report: Report) -> str | None:
        """Push a page and note what became of it; return the edge's clock if cells were too far ahead of it."""
        database = self._context.database
        request = PushRequest(**self._about(), cells=[one.cell for one in cells])
        try:
            answer = await self._told(self._transport.push(request))
        except EdgeRefused as error:
            if len(cells) > 1:
                middle = len(cells) // 2
                first = await self._send(cells[:middle], report)
                return await self._send(cells[middle:], report) or first
            answer = None
            refusals = {0: Refusal(index=0, code=RefusalCode.REFUSED, message=error.message)}
        else:
            refusals = {refusal.index: refusal for refusal in answer.refused if 0 <= refusal.index < len(cells)}
        told: list[Statement] = []
        if answer is not None:
            told, self._head = [subscription.told(answer.head)], answer.head
        taken = [one for index, one in enumerate(cells) if index not in refusals]
        ahead = [refusal for refusal in refusals.values() if refusal.code is RefusalCode.CLOCK_AHEAD]
        aside = [
            queue.Refused(cells[index], refusal.code, refusal.message)
            for index, refusal in refusals.items()
            if refusal.code is not RefusalCode.CLOCK_AHEAD
        ]
        await database.batch([*queue.taken(taken), *queue.refused(aside, self._context.clock()), *told])
        report.pushed += len(taken)
        report.refused += len(aside)
        return answer.clock if answer is not None and ahead else None

    async def _pull(self, report: Report, hear: Hear, limit: int) -> None:
        # The least first: once it has come as far as the next, the two go on together.
        while True:
            behind: list[Cursor] = []
            for cursor in await subscription.cursors(self._context.database):
                if await self._pull_page(cursor, report, limit):
                    behind.append(cursor)
                hear(Phase.PULL, report)
            if not behind:
                return

    async def _pull_page(self, cursor: Cursor, report: Report, limit: int) -> bool:
        """Pull and merge one page; return whether there is more."""
        request = PullRequest(**self._about(), spaces=cursor.spaces, cursor=cursor.seq, batch=cursor.batch, limit=limit)
        answer = await self._told(self._transport.pull(request))
        moves = [subscription.moved(cursor.spaces, answer.cursor, answer.batch), subscription.told(answer.head)]
        news, self._head = answer.head != self._head, answer.head
        cells = self._readable(answer.cells, report)
        if cells:
            context = self._context
            await apply(context.database, cells, self._pulled_by, context.clock(), EDGE, also=[*moves, queue.settled()])
            report.pulled += len(cells)
            if context.announce is not None:
                context.announce(list(dict.fromkeys(cell.id for cell in cells)))
        elif news or (answer.cursor, answer.batch) != cursor[1:]:
            await self._context.database.batch(moves)
        return answer.more

    def _readable(self, sent: Sequence[Any], report: Report) -> list[Cell]:
        """Return the cells of a page, without those that would break a reader of this version."""
        cells: list[Cell] = []
        for one in sent:
            try:
                cells.append(wire_cell(one, CLOCK_MAX_MS))
            except CellRefused:
                report.skipped += 1
        return cells

    async def _begin_anew(self) -> None:
        """Pull everything and push everything: always safe, since merging a cell twice changes nothing."""
        database = self._context.database
        await queue.all_of(database, subscription.spaces_of(await subscription.cursors(database)))
        # Last: if this breaks off before, the edge says the same once more.
        await database.batch(subscription.reset())
        self._head = None

    async def _ask(self) -> None:
        await self._told(self._transport.status())

    async def _told(self, answering: Awaitable[_A]) -> _A:
        """Wait for an answer and learn from what every answer tells."""
        context = self._context
        asked = context.clock()
        answer = await answering
        self._allowed = (answer.spaces, answer.writable)
        answered = context.clock()
        if 0 <= answered - asked <= clock.ANSWER_MAX_MS:
            offset = answer.server_time - (asked + answered) // 2
            self._offset_ms = await clock.learn(context.database, self._offset_ms, offset)
        return answer

    async def _resubscribe(self, report: Report) -> bool:
        """Take up the spaces that the token allows and give up the others; return whether anything changed."""
        database, (allowed, _) = self._context.database, self._allowed or ([], [])
        change = await subscription.compare(database, allowed)
        if not change.gained and not change.lost:
            return False
        if change.lost:
            await subscription.part(database, allowed, change.lost)
            while await leaving.anything(database, change.lost):
                # What somebody writes there meanwhile is not in the copy: it stays for another.
                up_to = await leaving.last_write(database)
                await self._keep_copy(change.lost)
                await leaving.leave(self._context, change.lost, up_to)
        await subscription.adopt(database, allowed)
        report.gained, report.lost = change.gained or report.gained, change.lost or report.lost
        return True

    async def _noted_offset(self) -> int:
        rows = await self._context.database.query("select v from meta where k = 'sync_offset_ms'")
        return cast("int", rows[0]["v"]) if rows else 0

    @property
    def _writable(self) -> SyncSpaces:
        return self._allowed[1] if self._allowed is not None else []

    def _about(self) -> dict[str, Any]:
        return {"proto": PROTO, "schema_version": NEWEST, "device": self._context.replica.device, "head": self._head}
