"""How a device reaches the edge; local/ has the one over HTTP, tests one that loses and repeats what it carries."""

from typing import Protocol

from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncStatus


class Transport(Protocol):
    """The edge, as a device sees it.

    All raise LinkBroken, EdgeUnreachable (whether it was done is unknown), EdgeBusy, EdgeRefused (this request, never)
    and ProtocolMismatch.
    """

    async def status(self) -> SyncStatus:
        """Ask what the token allows."""
        ...

    async def push(self, request: PushRequest) -> PushAnswer:
        """Have cells merged."""
        ...

    async def pull(self, request: PullRequest) -> PullAnswer:
        """Ask for what is new. Raises NotAllowed when a space may be pulled no more, EdgeRestored."""
        ...
