"""OAuth's Fetcher by the runtime's fetch: one GET, bounded in time and size, counted in the invocation's budget."""

from typing import Final

from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.worker.budget import Budget
from shoal.worker.runtime import JavaScript, ReadableStream, ToJs

SERVICE: Final = "fetch"
"""As which the budget counts it."""


class RuntimeFetcher:
    """Implements Fetcher on the runtime's fetch, for one invocation, whose budget it keeps."""

    def __init__(self, js: JavaScript, to_js: ToJs, budget: Budget) -> None:
        self._js = js
        self._to_js = to_js
        self._budget = budget

    async def fetch(self, url: str, *, accept: str, timeout_s: float, max_bytes: int) -> Fetched:
        """GET without cookies or credentials, following no redirects. Raises FetchFailed."""
        if not self._budget.take(SERVICE):
            raise FetchFailed("the invocation has made all the calls that it may")
        options = {
            "method": "GET",
            "headers": {"accept": accept},
            # An answer that leads elsewhere is for the caller to judge.
            "redirect": "manual",
            "signal": self._js.AbortSignal.timeout(round(timeout_s * 1000)),
        }
        try:
            answer = await self._js.fetch(url, self._to_js(options))
            headers = dict(answer.headers.entries())
            return Fetched(answer.status, headers, await _read(answer.body, max_bytes))
        except Exception as error:
            # JavaScript's errors have no class of their own in Python, and their texts may quote the URL.
            raise FetchFailed("no answer came") from error


async def _read(body: ReadableStream | None, max_bytes: int) -> bytes:
    """Return a body, or of a longer one so many bytes and one more."""
    if body is None:
        return b""
    reader = body.getReader()
    read = bytearray()
    while len(read) <= max_bytes:
        piece = await reader.read()
        if piece.done:
            return bytes(read)
        read += piece.value.to_bytes()
    await reader.cancel()
    return bytes(read[: max_bytes + 1])
