"""Answers of the endpoints that programs call: JSON that nobody keeps, and refusals (RFC 6749, 5.1 and 5.2)."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.api.oauth.errors import Code, OAuthError

Endpoint = Callable[[Request], Awaitable[Response]]

NOT_KEPT: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Headers of every answer that may hold a secret; old caches know only the second."""
_CHALLENGES: Final = {
    Code.INVALID_CLIENT: 'Basic realm="shoal"',
    Code.INVALID_TOKEN: 'Bearer error="invalid_token"',
}


def told(value: Mapping[str, Any], status: int = 200) -> Response:
    """Return a JSON answer that must not be cached."""
    return JSONResponse(dict(value), status, NOT_KEPT)


def refused(error: OAuthError, status: int | None = None) -> Response:
    """Return the answer to a request that was refused; `status` where it isn't the error's own."""
    answer = told(error.as_dict(), status or error.status)
    if answer.status_code == 401 and error.code in _CHALLENGES:
        answer.headers["WWW-Authenticate"] = _CHALLENGES[error.code]
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


def answering(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint, with every OAuthError that it raises made the answer."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except OAuthError as error:
            return refused(error)

    return answer
