"""Rounds with one edge: the engine over HTTP, watched so that one can say how far it is and what it may write.

Imported only where there is a link: httpx and the messages take a tenth of a second.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from shoal.core.context import Context
from shoal.local.sync.credentials import Credentials
from shoal.local.sync.files import SyncFiles
from shoal.local.sync.steps import Hear, Step
from shoal.local.sync.transport import HttpTransport
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncSpaces, SyncStatus
from shoal.sync.engine import Engine, Report
from shoal.sync.transport import Transport


class Closing(Transport, Protocol):
    """A transport that has connections to close."""

    async def aclose(self) -> None:
        """Close them."""
        ...


class Exchange:
    """Implements Transport by another, and notes what its answers tell by the way."""

    def __init__(self, context: Context, transport: Closing, keep_copy: Callable[[list[str]], Awaitable[None]]) -> None:
        self._transport = transport
        self._engine = Engine(context, self, keep_copy)
        self._share = 0.0
        self.writable: SyncSpaces = []
        """The spaces that the device may write to there, as the last answer said."""

    @classmethod
    def over_http(
        cls, context: Context, files: SyncFiles, url: str, keep_copy: Callable[[list[str]], Awaitable[None]]
    ) -> Self:
        """Return the exchange with the edge at `url`, by the link that the files have. Connects on first use."""
        return cls(context, HttpTransport(url, Credentials(files, url)), keep_copy)

    async def round(self, hear: Hear) -> Report:
        """Exchange all that there is to exchange. Raises SyncError, StorageError."""
        self._share = 0.0
        return await self._engine.round(
            lambda phase, report: hear(Step(phase, report.pushed, report.pulled, self._share))
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def status(self) -> SyncStatus:
        """Ask what the token allows."""
        answer = await self._transport.status()
        self.writable = answer.writable
        return answer

    async def push(self, request: PushRequest) -> PushAnswer:
        """Have cells merged."""
        answer = await self._transport.push(request)
        self.writable = answer.writable
        return answer

    async def pull(self, request: PullRequest) -> PullAnswer:
        """Ask for what is new."""
        answer = await self._transport.pull(request)
        self.writable = answer.writable
        self._share = min(1.0, answer.cursor / answer.head.seq) if answer.head.seq else 1.0
        return answer
