"""The edge over HTTP: implements shoal.sync.transport.Transport."""

import gzip
from typing import Final, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from shoal.local.sync.asking import Answer, ask, error_of, host_of, new_client
from shoal.local.sync.credentials import Bearer
from shoal.schema.errors import EdgeUnreachable, LinkBroken, ProtocolMismatch
from shoal.schema.wire import PullAnswer, PullRequest, PushAnswer, PushRequest, SyncStatus

GZIP_LEVEL: Final = 6
"""512 KiB of JSON take 10 ms; a higher level takes twice as long for a hundredth less."""
_OK: Final = 200
_UNAUTHORIZED: Final = 401

A = TypeVar("A", bound=BaseModel)


class HttpTransport:
    """Asks the edge at `url` (https://host, no path), over connections that are kept; nothing is logged.

    Every method raises LinkBroken (401; 403 insufficient_scope), NotAllowed (403 not_allowed), EdgeBusy (429, 5xx;
    `retry_after_s` in `details`), EdgeUnreachable (no answer, or one that is not the edge's), EdgeRefused (400, 413,
    422: this request, never), EdgeRestored and ProtocolMismatch (409; 404: an edge without replication), SyncError.
    """

    def __init__(self, url: str, credentials: Bearer, client: httpx.AsyncClient | None = None) -> None:
        """Connect on first use. A client that is given is closed with it."""
        self._url = url
        self._credentials = credentials
        self._client = client

    async def status(self) -> SyncStatus:
        """Ask what the token allows: GET /sync/status."""
        return await self._ask("GET", "/sync/status", None, SyncStatus)

    async def push(self, request: PushRequest) -> PushAnswer:
        """Have cells merged: POST /sync/push."""
        return await self._ask("POST", "/sync/push", request, PushAnswer)

    async def pull(self, request: PullRequest) -> PullAnswer:
        """Ask for what is new: POST /sync/pull."""
        return await self._ask("POST", "/sync/pull", request, PullAnswer)

    async def aclose(self) -> None:
        """Close the connections. Another request would open new ones."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, method: str, path: str, request: BaseModel | None, kind: type[A]) -> A:
        content = None if request is None else gzip.compress(request.model_dump_json().encode(), GZIP_LEVEL, mtime=0)
        token = await self._credentials.bearer()
        answer = await self._send(method, path, content, token)
        if answer.status == _UNAUTHORIZED and isinstance(error_of(answer, self._url), LinkBroken):
            # An access token may end before its time; a device token is refused for good, which bearer() knows.
            token = await self._credentials.bearer(refused=token)
            answer = await self._send(method, path, content, token)
        if answer.status != _OK:
            raise error_of(answer, self._url)
        return self._read(answer, kind)

    async def _send(self, method: str, path: str, content: bytes | None, token: str) -> Answer:
        if self._client is None:
            self._client = new_client(self._url)
        headers = {"authorization": f"Bearer {token}"}
        if content is not None:
            headers |= {"content-type": "application/json", "content-encoding": "gzip"}
        return await ask(self._client, method, self._url + path, headers=headers, content=content)

    def _read(self, answer: Answer, kind: type[A]) -> A:
        try:
            return kind.model_validate_json(answer.body)
        except ValidationError as error:
            found = answer.json()
            if isinstance(found, dict) and "server_time" in found:
                # Its text would repeat what came, so it is not chained.
                raise ProtocolMismatch(
                    f"{host_of(self._url)} answers in a form that this version can't read"
                    f" ({error.error_count()} faults).",
                    "Update shoal on this device.",
                ) from None
        raise EdgeUnreachable(
            f"What answers at {host_of(self._url)} is no edge of shoal.",
            "Look whether a proxy or this network's login page is in the way.",
        )
