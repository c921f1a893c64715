"""One run: some devices and an edge, people who write everywhere, and everything going wrong that may.

All is decided by one seed. Then it heals, and the laws must hold. docs/sync.md has them.
"""

import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.simulation import laws, people
from tests.simulation.driver import Driver, Task, pause
from tests.simulation.network import Network, Transport
from tests.simulation.replicas import Clock, Disk, Replica, connection, named, opened

from shoal.core import replication
from shoal.core.caller import Caller, Scope
from shoal.core.context import Context
from shoal.core.protocols import Statement
from shoal.core.service import Memory
from shoal.schema.errors import ShoalError
from shoal.schema.wire import PushRequest
from shoal.sync import queue
from shoal.sync.engine import Engine, Report

START_MS: Final = 1_790_000_000_000
EVENTS: Final = 60
"""Of one seed, between which up to STEPS steps are taken by what is under way."""
STEPS: Final = 25
DEVICES_MAX: Final = 5
PASSES_MAX: Final = 7
"""Rounds of each device after which all is exchanged: one to push, one to pull what others pushed, and what those of
them bring about that begin anew."""
SKEWS_MS: Final = (0, 0, 0, -50_000, 90_000, 290_000, -290_000, 310_000, -600_000, 900_000, 86_400_000, -86_400_000)
HEALING_LIMIT: Final = 20
"""Cells of a page at least, once all is well: for the sake of time."""
ATTIC: Final = "attic"
"""A space that no token allows: it stays on its device."""

_REASONS_OF_NOTHING: Final = """
select * from sync_refused x where not exists (select 1 from record where rid = x.rid and x.field = '' and dirty = 2)
  and not exists (select 1 from cell where rid = x.rid and field = x.field and dirty = 2)
"""
Key = tuple[int, str, str, str]
"""Who wrote it first, and which cell: id, space, field."""
Stamp = tuple[int, str]


@dataclass
class Summary:
    """What a run was."""

    acknowledged: int
    requests: int
    rounds: int


class Device:
    """A laptop: its file, its people's process and its syncer's."""

    def __init__(self, world: "World", replica: Replica, caller: Caller) -> None:
        self.world = world
        self.replica = replica
        self.transport = Transport(world.network, caller)
        self.spaces: Sequence[str] = people.SPACES if caller.spaces is None else caller.spaces
        """What it has in the end."""
        self.own = {ATTIC}
        """What no edge can take away, unless the device's token allows it: its own spaces, and since it was linked
        anew what it had before."""
        self.backup: bytes | None = None
        self.leaving: list[str] | None = None
        self.copies: list[dict[tuple[str, str, str], Stamp]] = []
        """What the copies hold that were made of spaces which left."""
        self.limit = world.chance.choice((1, 2, 3, 7, 50, 500))
        self.start()

    def start(self) -> None:
        """Begin its processes, on whatever its file holds now."""
        self.memory = opened(self.replica, None)
        self.transport.meanwhile = self._meanwhile
        self.engine = Engine(opened(self.replica, None).context, self.transport, self._keep_copy)

    @property
    def alone(self) -> set[str]:
        """Spaces that it may have for itself."""
        return self.own - set(self.spaces)

    async def _keep_copy(self, spaces: list[str]) -> None:
        self.leaving = spaces
        self.copies.append(self.replica.stamps())
        for _ in range(self.world.chance.randrange(8)):
            await pause()

    def _meanwhile(self, request: PushRequest) -> Task | None:
        chance = self.world.chance
        if chance.random() > self.world.interruptions:
            return None
        record, space = chance.choice(request.cells)[:2]
        person = people.Person(chance, self.memory, space, [record], hot=0.0)
        return self.world.driver.spawn(people.interruption(person), self.engine)

    def round(self) -> Coroutine[Any, None, Report]:
        self.transport.requests = 0
        return self.engine.round(limit=self.limit)


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START_MS
        self.driver = Driver(self.chance)
        self.network = Network(self.chance, self.driver, self._edge_context)
        self.acknowledged: dict[Key, Stamp] = {}
        self.written: dict[tuple[str, str, str, Stamp], Any] = {}
        """Every value that anybody wrote, by its stamp."""
        self.count = 0
        self.rounds = 0
        self.numbers = iter(range(10_000))
        self.edge = self._replica("edge")
        self.edge_memory = opened(self.edge, lambda: f"{self.chance.getrandbits(64):016x}")
        self.edge_backup: bytes | None = None
        self.devices: list[Device] = []
        for _ in range(self.chance.choice((2, 2, 3, 4))):
            replica = self._replica(f"dev{len(self.devices)}")
            replica.clock.skew_ms = self.chance.choice(SKEWS_MS)
            self.devices.append(Device(self, replica, self._token()))
        self._set_weather()

    def _replica(self, name: str, contents: bytes | None = None) -> Replica:
        clock = Clock(lambda: self.now)
        replica = Replica(next(self.numbers), connection(contents), clock, Disk(self.chance), self._committed)
        named(replica, name)
        return replica

    def _edge_context(self) -> Context:
        return self.edge_memory.context

    def _token(self) -> Caller:
        spaces = self.chance.choice((None, None, people.SPACES, ("main",)))
        return Caller(spaces=spaces)

    def _set_weather(self) -> None:
        weather, chance = self.network.weather, self.chance
        bad = chance.choice((0.0, 0.03, 0.1, 0.3))
        weather.lost = bad
        weather.timed_out = chance.choice((0.0, bad))
        weather.busy = chance.choice((0.0, bad / 2))
        weather.repeated = chance.choice((0.0, 0.3))
        self.edge.disk.fails = chance.choice((0.0, 0.0, 0.05, 0.2))
        self.interruptions = chance.choice((0.0, 0.1, 0.4))
        self.deaths = chance.choice((0.0, 0.05, 0.2))
        disasters = [self._restore_edge, self._restore_device, self._clone]
        usual = [
            self._relink,
            self._take_and_give_back,
            self._tokens,
            self._clocks,
            self._refuse,
            self._sleep,
            self._mismatch,
            self._late,
        ]
        self.faults: list[Callable[[], None]] = [fault for fault in usual if chance.random() < 0.5]
        self.faults += [fault for fault in disasters if chance.random() < 0.3]

    # What happens

    def live(self) -> None:
        """Let the events of the seed happen."""
        for _ in range(EVENTS):
            self.now += self.chance.choice((0, 1, 20, 900, 5_000))
            what = self.chance.random()
            if what < 0.5:
                self._write()
            elif what < 0.8:
                self._sync(self.chance.choice(self.devices))
            elif self.faults:
                self.chance.choice(self.faults)()
            if self.chance.random() < 0.15:
                self._mend()
            if self.chance.random() < self.deaths:
                self._die(self.chance.choice(self.devices))
            self.driver.run(self.chance.randrange(STEPS))

    def _mend(self) -> None:
        """What keeps everyone from working doesn't last: else nothing but that would be tried."""
        self.network.weather.mismatched = False
        for device in self.devices:
            if device.transport.caller is None:
                device.transport.caller = Caller(spaces=tuple(device.spaces))

    def _write(self) -> None:
        if self.chance.random() < 0.25:
            self._begin(self.edge_memory, self.edge, self.chance.choice(people.SPACES))
            return
        device = self.chance.choice(self.devices)
        space = ATTIC if self.chance.random() < 0.03 else self.chance.choice(device.spaces)
        self._begin(device.memory, device.replica, space)

    def _begin(self, memory: Memory, replica: Replica, space: str) -> None:
        known = replica.rows("select lower(hex(id)) from record where space = ? and class = 'memory'", space)
        person = people.Person(self.chance, memory, space, [row[0] for row in known])
        self.driver.spawn(people.deed(person), memory)

    def _sync(self, device: Device) -> None:
        if not self.driver.busy(device.engine):
            self.rounds += 1
            self.driver.spawn(device.round(), device.engine, lambda _task: self._has_left(device))

    def _die(self, device: Device) -> None:
        self.driver.kill(device.engine)
        self._has_left(device)
        device.start()

    def _has_left(self, device: Device) -> None:
        if device.leaving is not None:
            device.leaving = None
            self._lose(device.copies)

    def _late(self) -> None:
        if self.network.late:
            self.network.deliver_late(self.chance.randrange(len(self.network.late)))

    def _tokens(self) -> None:
        device = self.chance.choice(self.devices)
        read_only = (Scope.WRITE, ()), (Scope.ADMIN, ())
        device.transport.caller = self.chance.choice(
            (
                None,
                Caller(spaces=("main",)),
                Caller(spaces=("team",)),
                Caller(spaces=people.SPACES),
                Caller(),
                Caller(narrower=read_only),
                Caller(spaces=people.SPACES, narrower=((Scope.WRITE, ("main",)), (Scope.ADMIN, ("main",)))),
            )
        )

    def _relink(self) -> None:
        """Let a device forget the edge, and begin with it anew."""
        device = self.chance.choice(self.devices)
        if not self.driver.busy(device.engine):
            self.driver.finish(device.memory.context.database.batch(replication.unlinked()), device.engine)
            device.own.update(people.SPACES)
            device.start()

    def _take_and_give_back(self) -> None:
        """Take a space from a device, let it die at any point of the round that notices, and give the space back."""
        device = self.chance.choice(self.devices)
        before, device.transport.caller = device.transport.caller, Caller(spaces=("main",))
        self._sync(device)
        self.driver.run(self.chance.randrange(120))
        self._die(device)
        device.transport.caller = before

    def _clocks(self) -> None:
        clock = self.chance.choice([self.edge, *(device.replica for device in self.devices)]).clock
        if clock.stopped_at is not None:
            clock.stopped_at = None
        elif self.chance.random() < 0.5:
            clock.stopped_at = clock()
        elif clock is not self.edge.clock:
            clock.skew_ms = self.chance.choice(SKEWS_MS)

    def _sleep(self) -> None:
        self.now += self.chance.choice((60_000, 3_600_000, 3 * 86_400_000))

    def _refuse(self) -> None:
        weather = self.network.weather
        weather.poison = self.chance.choice(("", "", "tag:beta", "md:"))
        weather.refused = self.chance.choice(("", "", "tag:alpha", "zz:", "type"))

    def _mismatch(self) -> None:
        self.network.weather.mismatched = not self.network.weather.mismatched

    def _restore_edge(self) -> None:
        """Take a copy of the edge's database, or go back to it (D1 Time Travel)."""
        if self.edge_backup is None or self.chance.random() < 0.5:
            self.edge_backup = self.edge.connection.serialize("main")
            return
        self.edge.connection = connection(self.edge_backup)
        self.edge_backup = None
        self._lose()

    def _restore_device(self) -> None:
        """Take a backup of a device, or go back to it; it gets another name then."""
        device = self.chance.choice(self.devices)
        if device.backup is None:
            device.backup = device.replica.connection.serialize("main")
            return
        self.driver.kill(device.engine)
        self.driver.kill(device.memory)
        device.leaving = None
        device.replica.connection = connection(device.backup)
        device.backup = None
        named(device.replica, f"dev{next(self.numbers)}")
        device.start()
        self._lose()

    def _clone(self) -> None:
        """Copy a device's file to another machine."""
        if len(self.devices) == DEVICES_MAX:
            return
        first = self.chance.choice(self.devices)
        contents = first.replica.connection.serialize("main")
        replica = self._replica(f"dev{len(self.devices)}x", contents)
        replica.clock.skew_ms = self.chance.choice(SKEWS_MS)
        device = Device(self, replica, replace(Caller(), spaces=self._spaces(first)))
        device.transport.caller = first.transport.caller
        device.own.update(first.own)
        self.devices.append(device)

    def _spaces(self, device: Device) -> tuple[str, ...] | None:
        return self.chance.choice((None, tuple(device.spaces)))

    # What is known

    def _committed(
        self, replica: Replica, seq: int, statements: Sequence[Statement], before: dict[Any, Stamp] | None
    ) -> None:
        edge = replica is self.edge
        for record, space, field, rank, hlc, value, dirty in replica.written_after(seq):
            if not (hlc.endswith("-edge") if edge else dirty == 1):
                continue
            stamp = (rank, hlc)
            known = self.written.setdefault((record, space, field, stamp), value)
            assert known == value, f"two values under one stamp: {field} {stamp} {known!r} {value!r}"
            self.acknowledged[replica.number, record, space, field] = stamp
            self.count += 1
            if before is not None and (record, space, field) in before:
                self._restamped((record, space, field), before[record, space, field], stamp)
        cells = laws.local_cells(statements)
        laws.check_seen_at_once(replica, cells)
        if cells and not edge:
            own = [row for row in replica.written_after(seq) if row[6] != 1]
            assert own == [], f"a write without its mark: {own}"

    def _restamped(self, cell: tuple[str, str, str], before: Stamp, stamp: Stamp) -> None:
        for key, known in self.acknowledged.items():
            if key[1:] == cell and known == before:
                self.acknowledged[key] = stamp

    def _lose(self, copies: list[dict[tuple[str, str, str], Stamp]] | None = None) -> None:
        """Forget what went with a database that no other replica had: no protocol brings that back.

        What left with its space is in one of the copies that were made of it.
        """
        holding = [one.stamps() for one in (self.edge, *(device.replica for device in self.devices))]
        for key, stamp in list(self.acknowledged.items()):
            if not any(_holds(one, key, stamp) for one in holding):
                kept = copies is None or any(_holds(one, key, stamp) for one in copies)
                assert kept, f"left with its space, and is in no copy: {key} {stamp}"
                del self.acknowledged[key]

    # How it ends

    def heal(self) -> None:
        """Let everything work again, and let all exchange what they have."""
        self.driver.drain()
        for device in self.devices:
            self._has_left(device)
        self.network.weather = type(self.network.weather)()
        self.interruptions = 0.0
        self.edge.disk.fails = 0.0
        while self.network.late:
            self.network.deliver_late(0)
        self.driver.drain()
        self.edge.clock.stopped_at = None
        for device in self.devices:
            everything = tuple(device.spaces) == people.SPACES and device.transport.caller == Caller()
            device.transport.caller = Caller(spaces=None if everything else tuple(device.spaces))
        reports: list[Report] = []
        for number in range(PASSES_MAX):
            reports = [self._exchanged(device) for device in self.devices]
            if number == 0:
                for device in self.devices:
                    assert device.replica.rows(_REASONS_OF_NOTHING) == [], "why what isn't refused any more was refused"
                    self.driver.finish(queue.again(device.memory.context.database), device.engine)
            elif not any(report.pushed or report.pulled or report.gained or report.lost for report in reports):
                return
        raise AssertionError(f"still exchanging after {PASSES_MAX} rounds: {reports}")

    def _exchanged(self, device: Device) -> Report:
        self.now += 1_000
        device.limit = max(device.limit, HEALING_LIMIT)
        try:
            return self.driver.finish(device.round(), device.engine)
        except ShoalError as error:
            raise AssertionError(f"a round failed though all is well: {error.code} {error}") from error
        finally:
            self._has_left(device)

    def check(self) -> None:
        """Check the laws."""
        for replica in (self.edge, *(device.replica for device in self.devices)):
            laws.check_sound(replica)
        edge = {
            spaces: laws.seen(self.edge, self.edge_memory, spaces)
            for spaces in dict.fromkeys([people.SPACES, *(tuple(device.spaces) for device in self.devices)])
        }
        joining = Device(self, self._replica("joining"), Caller())
        self._exchanged(joining)
        for device in (*self.devices, joining):
            self._check_queue(device)
            one = edge[tuple(device.spaces)]
            other = laws.seen(device.replica, device.memory, device.spaces)
            assert one == other, f"the edge and {device.replica.device} differ:\n  {laws.difference(one, other)}"
            assert joining is device or self._elsewhere(device) == [], "something of a space that is not the device's"
        stamps = self.edge.stamps()
        here = [(device.alone, device.replica.stamps()) for device in self.devices]
        for key, stamp in self.acknowledged.items():
            if not any(key[2] in alone and _holds(held, key, stamp) for alone, held in here):
                assert _holds(stamps, key, stamp), f"an acknowledged cell was lost: {key} {stamp}"
        for record, space, field, rank, hlc, value, _ in self.edge.written_after(0):
            known = self.written.get((record, space, field, (rank, hlc)), "nothing")
            assert known == value, f"nobody wrote {field} = {value!r}: {known!r}"

    def _check_queue(self, device: Device) -> None:
        waiting = "select m.space, 'init' from record m where m.dirty > 0 union all select m.space, c.field from cell c"
        waiting += " join record m using (rid) where c.dirty > 0"
        left = [row for row in device.replica.rows(waiting) if row[0] not in device.alone]
        assert left == [], f"still in the queue: {left}"
        assert device.replica.rows("select * from sync_refused") == [], "reasons of what was taken"

    def _elsewhere(self, device: Device) -> list[Any]:
        kept = {*device.spaces, *device.alone}
        return [key for key in device.replica.stamps() if key[1] not in kept]


def _holds(stamps: dict[tuple[str, str, str], Stamp], key: Key, stamp: Stamp) -> bool:
    """Say whether a replica has a cell, or one that dominates it."""
    _, record, space, field = key
    have = stamps.get((record, space, field))
    life = stamps.get((record, space, "init"), (0, ""))[0]
    return (have is not None and have >= stamp) or life > stamp[0]


def run(seed: int) -> Summary:
    """Run one seed. Raises AssertionError for a law that was broken."""
    world = World(seed)
    try:
        world.live()
        world.heal()
        world.check()
    finally:
        world.driver.close()
    return Summary(world.count, world.network.requests, world.rounds)
