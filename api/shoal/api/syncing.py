"""The edge's half of replication over HTTP: POST /sync/push, POST /sync/pull, GET /sync/status (docs/sync.md).

Plain ASGI. A shell must stand around it (shoal.api.shell), which unpacks bodies and shows errors in the one shape.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from shoal.api.arguments import parse_json, validate
from shoal.api.context import context_of
from shoal.api.gate import SYNC_PATHS
from shoal.api.shell import JSON, ROUTE_KEY, error_response
from shoal.core.caller import Caller, Scope
from shoal.core.context import Context
from shoal.schema.errors import MethodNotAllowed, NotFound
from shoal.schema.wire import PullRequest, PushRequest
from shoal.sync import server


class _Endpoint(NamedTuple):
    method: str
    allow: str
    """As the header `Allow` has it."""
    needs: tuple[Scope, ...]
    """Told before the body is looked at: who lacks them learns nothing from its faults."""
    answer: Callable[[Context, Caller, bytes], Awaitable[BaseModel]]


async def sync_face(scope: HttpScope, receive: Receive, send: Send) -> None:
    """Serve one request of a replica. Raises ShoalError, which the shell shows."""
    endpoint = _ENDPOINTS.get(scope["path"])
    if endpoint is None:
        raise NotFound("There is no such path.", f"These are: {', '.join(_ENDPOINTS)}.")
    scope[ROUTE_KEY] = scope["path"]
    await (await _answer(endpoint, scope, receive))(scope, receive, send)


async def _answer(endpoint: _Endpoint, scope: HttpScope, receive: Receive) -> Response:
    context, allow = context_of(scope), {"Allow": endpoint.allow}
    if scope["method"] == "OPTIONS":
        return Response(None, 204, allow)
    if scope["method"] != endpoint.method:
        error = MethodNotAllowed(f"{scope['method']} is not for this path.", f"Use {endpoint.allow}.")
        return error_response(error, context.request_id, allow)
    context.caller.require(*endpoint.needs)
    # The shell has read it whole.
    body: bytes = (await receive())["body"]
    answer = await endpoint.answer(context.memory.context, context.caller, body)
    return Response(answer.model_dump_json(), media_type=JSON)


async def _push(context: Context, caller: Caller, body: bytes) -> BaseModel:
    return await server.push(context, validate(PushRequest, parse_json(body)), caller)


async def _pull(context: Context, caller: Caller, body: bytes) -> BaseModel:
    return await server.pull(context, validate(PullRequest, parse_json(body)), caller)


async def _status(context: Context, caller: Caller, _body: bytes) -> BaseModel:
    return await server.status(context, caller)


_ENDPOINTS: Final[Mapping[str, _Endpoint]] = {
    f"{SYNC_PATHS}push": _Endpoint("POST", "POST", server.PUSHING, _push),
    f"{SYNC_PATHS}pull": _Endpoint("POST", "POST", server.PULLING, _pull),
    f"{SYNC_PATHS}status": _Endpoint("GET", "GET, HEAD", server.PULLING, _status),
}
