"""The network between a device and the edge: it loses, delays and repeats, and it says no as the real one does."""

import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.simulation.driver import Driver, NeverEnds, Task, pause

from shoal.core.caller import Caller
from shoal.core.context import Context
from shoal.schema.errors import (
    EdgeBusy,
    EdgeRefused,
    EdgeRestored,
    EdgeUnreachable,
    InsufficientScope,
    LinkBroken,
    NotAllowed,
    ProtocolMismatch,
    ShoalError,
    StorageError,
)
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, Refusal, RefusalCode, SyncStatus
from shoal.sync import server

REQUESTS_MAX: Final = 3_000
"""Of one round: a queue that drains, and pages that end, take far fewer."""


class Weather:
    """What may go wrong, and how often (0..1)."""

    def __init__(self) -> None:
        self.lost = 0.0
        """A request, or its answer."""
        self.timed_out = 0.0
        """The edge does it, later."""
        self.repeated = 0.0
        """A push arrives once more, at any time."""
        self.busy = 0.0
        self.poison = ""
        """The edge refuses a whole request with a cell whose field begins so,"""
        self.refused = ""
        """and of a request each cell whose field begins so."""
        self.mismatched = False
        """The edge speaks another version."""


class Network:
    """All requests pass through here."""

    def __init__(self, chance: random.Random, driver: Driver, edge: Callable[[], Context]) -> None:
        self.chance = chance
        self.driver = driver
        self.edge = edge
        self.weather = Weather()
        self.late: list[tuple[Transport, str]] = []
        """Pushes that will arrive again."""
        self.requests = 0

    def happens(self, probability: float) -> bool:
        return probability > 0 and self.chance.random() < probability

    def deliver_late(self, number: int) -> None:
        """Let a push arrive again."""
        transport, body = self.late.pop(number)
        self.driver.spawn(transport.push_at_edge(body), self)


class Transport:
    """One device's way to the edge. `caller` is what its token allows; None once it was revoked."""

    def __init__(self, network: Network, caller: Caller) -> None:
        self.network = network
        self.caller: Caller | None = caller
        self.requests = 0
        """In this round."""
        self.meanwhile: Callable[[PushRequest], Task | None] = lambda _request: None
        """What somebody does on the device while a push is under way."""

    async def status(self) -> SyncStatus:
        answer = await self._through(self._status_at_edge)
        return SyncStatus.model_validate_json(answer)

    async def push(self, request: PushRequest) -> PushAnswer:
        body = request.model_dump_json()
        task = self.meanwhile(request)
        while task is not None and not task.done:
            await pause()
        if self.network.happens(self.network.weather.repeated):
            self.network.late.append((self, body))
        return PushAnswer.model_validate_json(await self._through(lambda: self.push_at_edge(body)))

    async def pull(self, request: PullRequest) -> PullAnswer:
        body = request.model_dump_json()
        return PullAnswer.model_validate_json(await self._through(lambda: self._pull_at_edge(body)))

    async def _through(self, serve: Callable[[], Coroutine[Any, None, str]]) -> str:
        network, weather = self.network, self.network.weather
        network.requests += 1
        self.requests += 1
        if self.requests > REQUESTS_MAX:
            raise NeverEnds(f"a round of over {REQUESTS_MAX} requests")
        await pause()
        if network.happens(weather.lost):
            raise EdgeUnreachable("No answer.", "Try again.")
        if network.happens(weather.busy):
            raise EdgeBusy("Too many requests.", "Wait.", retry_after_s=1.0)
        if network.happens(weather.timed_out):
            network.driver.spawn(serve(), network)
            raise EdgeUnreachable("No answer in time.", "Try again.")
        try:
            answer = await serve()
        except (EdgeRestored, ProtocolMismatch, EdgeRefused, LinkBroken):
            raise
        except InsufficientScope as error:
            raise LinkBroken(error.message, error.mend) from error
        except NotAllowed:
            raise
        except StorageError as error:
            raise EdgeBusy(error.message, error.mend, retry_after_s=0.0) from error
        except ShoalError as error:
            raise EdgeRefused(error.message, error.mend, refused_status=error.status) from error
        await pause()
        if network.happens(weather.lost):
            raise EdgeUnreachable("The answer was lost.", "Try again.")
        return answer

    def _let_in(self) -> Caller:
        if self.caller is None:
            raise LinkBroken("The token was revoked.", "Link again.")
        if self.network.weather.mismatched:
            raise ProtocolMismatch("The edge speaks another version.", "Update.")
        return self.caller

    async def _status_at_edge(self) -> str:
        return (await server.status(self.network.edge(), self._let_in())).model_dump_json()

    async def push_at_edge(self, body: str) -> str:
        caller, weather = self._let_in(), self.network.weather
        request = PushRequest.model_validate_json(body)
        fields = [str(cell[2]) for cell in request.cells]
        if weather.poison and any(field.startswith(weather.poison) for field in fields):
            raise EdgeRefused("Bad request.", "None.", refused_status=400)
        refused = [n for n, field in enumerate(fields) if weather.refused and field.startswith(weather.refused)]
        kept = [n for n in range(len(fields)) if n not in refused]
        request = request.model_copy(update={"cells": [request.cells[n] for n in kept]})
        answer = await server.push(self.network.edge(), request, caller)
        refusals = [refusal.model_copy(update={"index": kept[refusal.index]}) for refusal in answer.refused]
        refusals += [Refusal(index=n, code=RefusalCode.MALFORMED, message="Not known here.") for n in refused]
        return answer.model_copy(update={"refused": refusals}).model_dump_json()

    async def _pull_at_edge(self, body: str) -> str:
        request = PullRequest.model_validate_json(body)
        return (await server.pull(self.network.edge(), request, self._let_in())).model_dump_json()
