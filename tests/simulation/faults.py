"""What may go wrong, besides what the network and the disks do: each fault is a function of the world."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.simulation import people
from tests.simulation.replicas import connection, named

from shoal.core import replication
from shoal.core.caller import Caller, Scope
from shoal.sync import server

if TYPE_CHECKING:
    from tests.simulation.world import World

SKEWS_MS: Final = (0, 0, 0, -50_000, 90_000, 290_000, -290_000, 310_000, -600_000, 900_000, 86_400_000, -86_400_000)
"""How far clocks are off: seconds, just within what the edge takes, just beyond, and a day."""
DEVICES_MAX: Final = 5
_ROUND_STEPS: Final = 120
"""About what a round takes until it notices that a space was lost,"""
_LEAVING_STEPS: Final = 40
"""and until that has left."""
_NO_WRITING: Final = ((Scope.WRITE, ()), (Scope.ADMIN, ()))
_WRITING_IN_MAIN: Final = ((Scope.WRITE, ("main",)), (Scope.ADMIN, ("main",)))
_TOKENS: Final = (
    None,
    Caller(spaces=("main",)),
    Caller(spaces=("team",)),
    Caller(spaces=people.SPACES),
    Caller(),
    Caller(narrower=_NO_WRITING),
    Caller(spaces=people.SPACES, narrower=_WRITING_IN_MAIN),
)


def arrive_late(world: "World") -> None:
    """A push arrives once more, however old it is."""
    if world.network.late:
        world.network.deliver_late(world.chance.randrange(len(world.network.late)))


def change_token(world: "World") -> None:
    """The owner revokes a token, or allows it other spaces, or reading alone."""
    world.chance.choice(world.devices).transport.caller = world.chance.choice(_TOKENS)


def link_anew(world: "World") -> None:
    """A device forgets the edge, and begins with it anew."""
    device = world.chance.choice(world.devices)
    if not world.driver.busy(device.engine):
        world.driver.finish(device.memory.context.database.batch(replication.unlinked()), device.engine)
        device.own.update(people.SPACES)
        device.start()


def take_and_give_back(world: "World") -> None:
    """A space is taken from a device, which dies while it leaves or soon after, and given back."""
    device = world.chance.choice(world.devices)
    before, device.transport.caller = device.transport.caller, Caller(spaces=("main",))
    world.sync(device)
    for _ in range(_ROUND_STEPS):
        if not device.leaving:
            world.driver.run(1)
    world.driver.run(world.chance.randrange(_LEAVING_STEPS))
    world.die(device)
    device.transport.caller = before


def disturb_clock(world: "World") -> None:
    """A clock stands still, goes on, or is set to another time."""
    clock = world.chance.choice([world.edge, *(device.replica for device in world.devices)]).clock
    if clock.stopped_at is not None:
        clock.stopped_at = None
    elif world.chance.random() < 0.5:
        clock.stopped_at = clock()
    elif clock is not world.edge.clock:
        clock.skew_ms = world.chance.choice(SKEWS_MS)


def sleep(world: "World") -> None:
    """All sleep: for a minute, an hour, days, or until the trash is due."""
    world.now += world.chance.choice((60_000, 3_600_000, 3 * 86_400_000, 31 * 86_400_000))


def refuse(world: "World") -> None:
    """The edge refuses some cells, or every request that has them."""
    world.network.weather.poison = world.chance.choice(("", "", "tag:beta", "md:"))
    world.network.weather.refused = world.chance.choice(("", "", "tag:alpha", "zz:", "type"))


def mismatch(world: "World") -> None:
    """The edge speaks another version for a while."""
    world.network.weather.mismatched = not world.network.weather.mismatched


def trim_history(world: "World") -> None:
    """The edge forgets all but its newest batches: who was away for longer begins anew."""
    world.edge.connection.execute(server._TRIM, (world.chance.randrange(1, 20),))


def restore_edge(world: "World") -> None:
    """Take a copy of the edge's database, or go back to it (D1 Time Travel)."""
    if world.edge_backup is None or world.chance.random() < 0.5:
        world.edge_backup = world.edge.connection.serialize("main")
        return
    world.edge.connection = connection(world.edge_backup)
    world.edge_backup = None
    world.lose()


def restore_device(world: "World") -> None:
    """Take a backup of a device, or go back to it; its file gets another name then."""
    device = world.chance.choice(world.devices)
    if device.backup is None:
        device.backup = device.replica.connection.serialize("main")
        return
    world.driver.kill(device.engine)
    world.driver.kill(device.memory)
    device.leaving = False
    device.replica.connection = connection(device.backup)
    device.backup = None
    named(device.replica, f"dev{next(world.numbers)}")
    device.start()
    world.lose()


def clone(world: "World") -> None:
    """Copy a device's file to another machine; the copy gets a name of its own."""
    if len(world.devices) == DEVICES_MAX:
        return
    first = world.chance.choice(world.devices)
    spaces = world.chance.choice((None, tuple(first.spaces)))
    device = world.add_device(Caller(spaces=spaces), first.replica.connection.serialize("main"))
    device.transport.caller = first.transport.caller
    device.own.update(first.own)


Fault = Callable[["World"], None]
USUAL: Final[tuple[Fault, ...]] = (
    arrive_late,
    change_token,
    link_anew,
    take_and_give_back,
    disturb_clock,
    sleep,
    refuse,
    mismatch,
    trim_history,
)
DISASTERS: Final[tuple[Fault, ...]] = (restore_edge, restore_device, clone)
