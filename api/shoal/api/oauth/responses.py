"""How OAuth's endpoints answer apps: JSON that no cache may keep (RFC 6749, 5.1 and 5.2)."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shoal.api.oauth.errors import Code, OAuthError

Endpoint = Callable[[Request], Awaitable[Response]]
_UNCACHED: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def told(value: Mapping[str, Any], status: int = 200) -> Response:
    """Return an answer."""
    return JSONResponse(value, status, dict(_UNCACHED))


def refused(error: OAuthError) -> Response:
    """Return a refusal."""
    headers = dict(_UNCACHED)
    if error.code is Code.INVALID_CLIENT:
        headers["WWW-Authenticate"] = 'Basic realm="shoal"'  # RFC 7617, 2 wants the realm
    if error.code is Code.INVALID_TOKEN:
        headers["WWW-Authenticate"] = f'Bearer error="{error.code}"'
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse(error.as_dict(), error.status, headers)


def answering(endpoint: Endpoint) -> Endpoint:
    """Let an endpoint refuse by raising OAuthError."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except OAuthError as error:
            return refused(error)

    return answer
