"""The edge over HTTP: implements shoal.sync.transport.Transport."""

import httpx

from shoal.local.sync.credentials import Bearer
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncStatus


class HttpTransport:
    """Asks the edge at `url` (https://host, no path), over connections that are kept; nothing is logged.

    Every method raises LinkBroken (401; 403 insufficient_scope), NotAllowed (403 not_allowed), EdgeBusy (429, 5xx;
    `retry_after_s` in `details`), EdgeUnreachable (no answer, or one that is not the edge's), EdgeRefused (400, 413,
    422: this request, never), EdgeRestored and ProtocolMismatch (409; 404: an edge without replication), SyncError.
    """

    def __init__(self, url: str, credentials: Bearer, client: httpx.AsyncClient | None = None) -> None:
        """Connect on first use. A client that is given is closed with it."""
        raise NotImplementedError

    async def status(self) -> SyncStatus:
        """Ask what the token allows: GET /sync/status."""
        raise NotImplementedError

    async def push(self, request: PushRequest) -> PushAnswer:
        """Have cells merged: POST /sync/push."""
        raise NotImplementedError

    async def pull(self, request: PullRequest) -> PullAnswer:
        """Ask for what is new: POST /sync/pull."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections."""
        raise NotImplementedError


def new_client() -> httpx.AsyncClient:
    """Return a client as all requests to an edge need it: bounded in time, following no redirects, TLS verified."""
    raise NotImplementedError
