"""A laptop of the simulation: its file, its people's process and its syncer's."""

import random
from collections.abc import Coroutine, Sequence
from typing import Final

from tests.simulation import people
from tests.simulation.driver import Task, pause
from tests.simulation.ledger import Held
from tests.simulation.network import Network, Transport
from tests.simulation.replicas import Replica, opened

from shoal.core.caller import Caller
from shoal.schema.wire import PushRequest
from shoal.sync.engine import Engine, Report

ATTIC: Final = "attic"
"""A space that no token names: it stays on its device, unless that syncs every space."""
COPYING_STEPS: Final = 8


class Device:
    """Its people and its syncer work on one file, as two processes."""

    def __init__(self, chance: random.Random, network: Network, replica: Replica, caller: Caller) -> None:
        self.replica = replica
        self.transport = Transport(network, caller)
        self.spaces: Sequence[str] = people.SPACES if caller.spaces is None else caller.spaces
        """What it has in the end."""
        self.own = {ATTIC}
        """Spaces that no edge can take away: its own, and once it was linked anew those that it had before."""
        self.backup: bytes | None = None
        self.leaving = False
        """Whether a space is leaving it in this round."""
        self.copies: list[Held] = []
        """What the copies hold that were made of such spaces."""
        self.limit = chance.choice((1, 2, 3, 7, 50, 500))
        self.interruptions = 0.0
        """How often people change what is being pushed."""
        self._chance = chance
        self._driver = network.driver
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

    def round(self) -> Coroutine[None, None, Report]:
        """Return a round of its syncer."""
        self.transport.requests = 0
        return self.engine.round(limit=self.limit)

    async def _keep_copy(self, _spaces: list[str]) -> None:
        self.leaving = True
        self.copies.append(self.replica.stamps())
        for _ in range(self._chance.randrange(COPYING_STEPS)):
            await pause()

    def _meanwhile(self, request: PushRequest) -> Task | None:
        if self._chance.random() >= self.interruptions:
            return None
        record, space = self._chance.choice(request.cells)[:2]
        person = people.Person(self._chance, self.memory, space, [record], hot=0.0)
        return self._driver.spawn(people.interruption(person), self.engine)
