"""One run: some devices and an edge, people who write everywhere, and everything going wrong that may.

All is decided by one seed. Then it heals, and the laws must hold. docs/sync.md has them.
"""

import random
from dataclasses import dataclass
from typing import Final

from tests.simulation import faults, laws, people
from tests.simulation.device import ATTIC, Device
from tests.simulation.driver import Driver
from tests.simulation.ledger import Ledger
from tests.simulation.network import Network, Weather
from tests.simulation.replicas import Clock, Disk, Replica, connection, named, opened

from shoal.core.caller import Caller
from shoal.core.service import Memory
from shoal.schema.errors import ShoalError
from shoal.sync import queue
from shoal.sync.engine import Report

START_MS: Final = 1_790_000_000_000
EVENTS: Final = 60
"""Of one seed, between which up to STEPS steps are taken by what is under way."""
STEPS: Final = 25
PASSES_MAX: Final = 7
"""Rounds of each device after which all is exchanged: one to push, one to pull what others pushed, and what those of
them bring about that begin anew."""
HEALING_LIMIT: Final = 20
"""Cells of a page at least, once all is well: for the sake of time."""


@dataclass
class Summary:
    """What a run was."""

    acknowledged: int
    requests: int
    rounds: int


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START_MS
        self.driver = Driver(self.chance)
        self.network = Network(self.chance, self.driver, lambda: self.edge_memory.context)
        self.ledger = Ledger()
        self.rounds = 0
        self.numbers = iter(range(10_000))
        self.edge = self._replica("edge")
        self.edge_memory = opened(self.edge, lambda: f"{self.chance.getrandbits(64):016x}")
        self.edge_backup: bytes | None = None
        self.devices: list[Device] = []
        self.interruptions = self.chance.choice((0.0, 0.1, 0.4))
        for _ in range(self.chance.choice((2, 2, 3, 4))):
            self.add_device(Caller(spaces=self.chance.choice((None, None, people.SPACES, ("main",)))))
        self.deaths = self.chance.choice((0.0, 0.05, 0.2))
        self.faults = [fault for fault in faults.USUAL if self.chance.random() < 0.5]
        self.faults += [fault for fault in faults.DISASTERS if self.chance.random() < 0.3]
        self._set_weather()

    def _set_weather(self) -> None:
        weather, chance = self.network.weather, self.chance
        weather.lost = bad = chance.choice((0.0, 0.03, 0.1, 0.3))
        weather.timed_out = chance.choice((0.0, bad))
        weather.busy = chance.choice((0.0, bad / 2))
        weather.repeated = chance.choice((0.0, 0.3))
        self.edge.disk.fails = chance.choice((0.0, 0.0, 0.05, 0.2))

    def _replica(self, name: str, contents: bytes | None = None) -> Replica:
        clock = Clock(lambda: self.now)
        disk = Disk(self.chance)
        replica = Replica(next(self.numbers), connection(contents), clock, disk, self.ledger.committed)
        named(replica, name)
        return replica

    def add_device(self, caller: Caller, contents: bytes | None = None) -> Device:
        """Add a device, with a new file or with these contents."""
        replica = self._replica(f"dev{next(self.numbers)}", contents)
        replica.clock.skew_ms = self.chance.choice(faults.SKEWS_MS)
        device = Device(self.chance, self.network, replica, caller)
        device.interruptions = self.interruptions
        self.devices.append(device)
        return device

    # What happens

    def live(self) -> None:
        """Let the events of the seed happen."""
        for _ in range(EVENTS):
            self.now += self.chance.choice((0, 1, 20, 900, 5_000))
            what = self.chance.random()
            if what < 0.5:
                self._write()
            elif what < 0.8:
                self.sync(self.chance.choice(self.devices))
            elif self.faults:
                self.chance.choice(self.faults)(self)
            if self.chance.random() < 0.15:
                self._mend()
            if self.chance.random() < self.deaths:
                self.die(self.chance.choice(self.devices))
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

    def sync(self, device: Device) -> None:
        """Begin a round, unless one is under way."""
        if not self.driver.busy(device.engine):
            self.rounds += 1
            self.driver.spawn(device.round(), device.engine, lambda _task: self._has_left(device))

    def die(self, device: Device) -> None:
        """End a device's syncer, and sometimes its people's process as well, wherever they are."""
        self.driver.kill(device.engine)
        if self.chance.random() < 0.3:
            self.driver.kill(device.memory)
        self._has_left(device)
        device.start()

    def _has_left(self, device: Device) -> None:
        if device.leaving:
            device.leaving = False
            self.ledger.lose(self._holding(), device.copies)

    def lose(self) -> None:
        """Account for a disaster: what no replica holds any more is lost for good."""
        self.ledger.lose(self._holding())

    def _holding(self) -> list[dict[tuple[str, str, str], tuple[int, str]]]:
        return [one.stamps() for one in (self.edge, *(device.replica for device in self.devices))]

    # How it ends

    def heal(self) -> None:
        """Let everything work again, and let all exchange what they have."""
        self.driver.drain()
        self.network.weather = Weather()
        self.edge.disk.fails = 0.0
        while self.network.late:
            self.network.deliver_late(0)
        self.driver.drain()
        self.edge.clock.stopped_at = None
        for device in self.devices:
            self._has_left(device)
            device.interruptions = 0.0
            everything = tuple(device.spaces) == people.SPACES and device.transport.caller == Caller()
            device.transport.caller = Caller(spaces=None if everything else tuple(device.spaces))
        reports: list[Report] = []
        for number in range(PASSES_MAX):
            reports = [self._exchanged(device) for device in self.devices]
            if number == 0:
                for device in self.devices:
                    laws.check_reasons(device.replica)
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
        """Check the laws. A device that joins now has only words and labels that were made anew."""
        for replica in (self.edge, *(device.replica for device in self.devices)):
            laws.check_sound(replica)
        joining = self.add_device(Caller())
        self._exchanged(joining)
        edge = {
            spaces: laws.seen(self.edge, self.edge_memory, spaces)
            for spaces in dict.fromkeys(tuple(device.spaces) for device in self.devices)
        }
        for device in self.devices:
            name, spaces = device.replica.device, tuple(device.spaces)
            laws.check_drained(device.replica, device.alone)
            found = laws.seen(device.replica, device.memory, spaces)
            assert edge[spaces] == found, f"the edge and {name} differ:\n  {laws.difference(edge[spaces], found)}"
            if device is not joining:
                laws.check_no_other_space(device.replica, {*spaces, *device.alone})
        self.ledger.check(self.edge, [(device.alone, device.replica.stamps()) for device in self.devices])


def run(seed: int) -> Summary:
    """Run one seed. Raises AssertionError for a law that was broken."""
    world = World(seed)
    try:
        world.live()
        world.heal()
        world.check()
    finally:
        world.driver.close()
    return Summary(world.ledger.count, world.network.requests, world.rounds)
