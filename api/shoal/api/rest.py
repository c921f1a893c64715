"""REST: the same requests and answers as the tools, over plain HTTP, with an OpenAPI document.

Bodies are taken as they are, numbers out of range are refused, and what isn't 2xx has the one shape of errors.
Storing answers 201 when a memory was created, 200 when it merged or was revived, 409 when the text was forgotten;
a batch answers 201 when any was created, with what became of each inside. Deleting without `confirm` answers 409
with the ids that would go.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from shoal.api.arguments import parse_json, validate, validate_query
from shoal.api.context import MemoryProvider, context_of
from shoal.api.gate import Gate, HostRule
from shoal.api.openapi import PUBLIC, docs_page, document, json_of, route_docs
from shoal.api.registry import CHANGES, READS, WRITES
from shoal.api.shell import Shell, allowed_methods, error_headers, error_response, internal_error, new_request_id
from shoal.core.caller import Caller, Scope
from shoal.core.service import Memory
from shoal.schema.errors import (
    ConfirmationRequired,
    InvalidInput,
    MalformedBody,
    MethodNotAllowed,
    NotFound,
    ShoalError,
    WasForgotten,
)
from shoal.schema.models import (
    Answer,
    DeleteAnswer,
    DeleteRequest,
    DeleteStatus,
    FindAnswer,
    FindRequest,
    GetAnswer,
    GetRequest,
    MemoryOut,
    ModelStatus,
    Note,
    RequeueAnswer,
    ReviveAnswer,
    StatsAnswer,
    StoreAnswer,
    StoreBatchAnswer,
    StoreRequest,
    StoreStatus,
    UpdateAnswer,
    UpdateRequest,
)

PUBLIC_PATHS: Final = frozenset({"/healthz", "/openapi.json", "/docs"})
_R = TypeVar("_R", bound=BaseModel)
_ONE: Final = frozenset({"id", "ids"})
"""What the path says already."""
_DOCS_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"

router: Final = APIRouter(prefix="/api/v1")


class Health(Answer):
    """Whether all is well, for anyone who may reach the server: no contents, and no counts but of work that is left."""

    status: str
    """`ok`, or `degraded` when `degraded` says why."""
    version: str
    model: ModelStatus
    pending: int
    """Memories that have no vector yet."""
    degraded: list[Note]


def rest_app(
    memory: MemoryProvider,
    gate: Gate,
    hosts: HostRule,
    *,
    version: str,
    new_id: Callable[[], str] = new_request_id,
    clock: Callable[[], float] = time.perf_counter,
) -> ASGIApp:
    """Return the ASGI app of REST: `/api/v1/*`, `/healthz`, `/openapi.json`, `/docs`."""
    return Shell(rest_face(version=version), memory, gate, hosts, PUBLIC_PATHS, new_id=new_id, clock=clock)


def rest_face(*, version: str, more: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the same without its shell, which must stand around it. `more` are the routes of OAuth's administration.

    It may be built at global scope: nothing here draws random numbers or touches the memory before a request.
    """
    app = FastAPI(
        title="shoal",
        version=version,
        description="One memory for every agent.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=[route for one in (router, *more) for route in one.routes],
    )
    app.state.oauth = bool(more)
    app.add_api_route(
        "/healthz", _health, response_model=None, responses={200: {"model": Health}}, openapi_extra=PUBLIC
    )
    app.add_api_route("/openapi.json", _openapi, include_in_schema=False)
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.add_exception_handler(ShoalError, _refused)
    app.add_exception_handler(HTTPException, _http_refused)
    app.add_exception_handler(Exception, _failed)
    return app


_STORE_EXAMPLE: Final = {"content": "Staging listens on port 8443", "type": "configuration", "tags": ["staging"]}
_FIND_EXAMPLE: Final = {"query": "which port does staging use", "n_results": 5}
_UPDATE_EXAMPLE: Final = {"tags": {"add": ["verified"]}, "metadata": {"draft": None}}
_DELETE_EXAMPLE: Final = {"tags": "draft", "dry_run": True}


@router.post(
    "/memories", **route_docs(StoreAnswer, 409, needs=WRITES, created=True, body=StoreRequest, example=_STORE_EXAMPLE)
)
async def store(request: Request) -> Response:
    """Store one memory, or several as `items`."""
    memory, caller = _served(request)
    answer = await memory.store(await body_of(request, StoreRequest), caller)
    if isinstance(answer, StoreBatchAnswer):
        created = any(result.status is StoreStatus.CREATED for result in answer.results)
        return answered(answer, 201 if created else 200)
    if answer.status is StoreStatus.WAS_FORGOTTEN:
        raise WasForgotten(
            "This text was deleted before; nothing was written.", "Send revive = true to bring it back.", id=answer.id
        )
    if answer.status is StoreStatus.CREATED:
        return answered(answer, 201, {"Location": f"{router.prefix}/memories/{answer.id}"})
    return answered(answer)


@router.get("/memories", **route_docs(GetAnswer, needs=READS, query=GetRequest))
async def list_memories(request: Request) -> Response:
    """List memories page by page, filtered; or read several by `ids`."""
    memory, caller = _served(request)
    return answered(await memory.get(_query(request, GetRequest), caller))


@router.post(
    "/memories/delete", **route_docs(DeleteAnswer, 409, needs=CHANGES, body=DeleteRequest, example=_DELETE_EXAMPLE)
)
async def delete_memories(request: Request) -> Response:
    """Put memories into the trash, or purge them, by ids or by filters."""
    memory, caller = _served(request)
    return answered(await _deleted(memory, await body_of(request, DeleteRequest), caller))


@router.get("/memories/{memory_id}", **route_docs(MemoryOut, 404, needs=READS, query=GetRequest, without=_ONE))
async def get_memory(request: Request, memory_id: str) -> Response:
    """Read one memory, whole."""
    memory, caller = _served(request)
    answer = await memory.get(_query(request, GetRequest, id=memory_id), caller)
    if not answer.memories:
        raise _not_found(memory_id)
    return answered(answer.memories[0])


@router.patch(
    "/memories/{memory_id}", **route_docs(UpdateAnswer, 404, needs=CHANGES, body=UpdateRequest, example=_UPDATE_EXAMPLE)
)
async def update_memory(request: Request, memory_id: str) -> Response:
    """Change a memory; the id stands in the path. New content makes a new memory that supersedes it."""
    memory, caller = _served(request)
    return answered(await memory.update(await body_of(request, UpdateRequest, id=memory_id), caller))


@router.delete(
    "/memories/{memory_id}", **route_docs(DeleteAnswer, 404, 409, needs=CHANGES, query=DeleteRequest, without=_ONE)
)
async def delete_memory(request: Request, memory_id: str) -> Response:
    """Put a memory into the trash, or purge it."""
    memory, caller = _served(request)
    answer = await _deleted(memory, _query(request, DeleteRequest, id=memory_id), caller)
    if answer.status is DeleteStatus.NOT_FOUND:
        raise _not_found(memory_id)
    return answered(answer)


@router.post("/memories/{memory_id}/revive", **route_docs(ReviveAnswer, 404, needs=CHANGES))
async def revive_memory(request: Request, memory_id: str) -> Response:
    """Take a memory out of the trash."""
    memory, caller = _served(request)
    answer = await memory.revive([memory_id], caller)
    if answer.not_found:
        raise _not_found(memory_id)
    return answered(answer)


@router.post("/search", **route_docs(FindAnswer, needs=READS, body=FindRequest, example=_FIND_EXAMPLE))
async def search(request: Request) -> Response:
    """Search by meaning and words."""
    memory, caller = _served(request)
    return answered(await memory.find(await body_of(request, FindRequest), caller))


@router.get("/search", **route_docs(FindAnswer, needs=READS, query=FindRequest))
async def search_by_query(request: Request) -> Response:
    """Search by meaning and words; `q` may stand for `query`."""
    memory, caller = _served(request)
    return answered(await memory.find(_query(request, FindRequest), caller))


@router.get("/stats", **route_docs(StatsAnswer, needs=READS))
async def stats(request: Request) -> Response:
    """Count, and say what doesn't work as it should."""
    memory, caller = _served(request)
    return answered(await memory.stats(caller))


@router.post("/admin/requeue", **route_docs(RequeueAnswer, needs={Scope.ADMIN}))
async def requeue(request: Request) -> Response:
    """Try anew what was given up: memories that the model refused, messages that could not be delivered."""
    memory, caller = _served(request)
    return answered(await memory.requeue(caller))


async def _health(request: Request) -> Response:
    """Say whether all is well. 200 also when degraded: it serves; 503 when the storage fails."""
    memory = context_of(request.scope).memory
    degraded, pending = await memory.check()
    return answered(
        Health(
            status="degraded" if degraded else "ok",
            version=request.app.version,
            model=memory.model_status(),
            pending=pending,
            degraded=degraded,
        )
    )


@lru_cache(maxsize=1)
def _documents(app: FastAPI) -> tuple[str, str]:
    """Return what /openapi.json and /docs show. They take a while to make, and anyone may ask for them."""
    made = document(app, oauth=app.state.oauth)
    return json_of(made), docs_page(made)


async def _openapi(request: Request) -> Response:
    return Response(_documents(request.app)[0], media_type="application/json")


async def _docs(request: Request) -> Response:
    headers = {"Content-Security-Policy": _DOCS_POLICY}
    return Response(_documents(request.app)[1], headers=headers, media_type="text/html")


async def _refused(request: Request, error: Exception) -> Response:
    refused = cast("ShoalError", error)
    headers = error_headers(refused, request.scope)
    return error_response(refused, context_of(request.scope).request_id, headers)


async def _http_refused(request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    headers = dict(refused.headers or {})
    shown: ShoalError
    if refused.status_code == HTTPStatus.NOT_FOUND:
        shown = NotFound("There is no such path.", "See /docs for those that there are.")
    elif refused.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the first route that fits; a path may have several.
        headers["Allow"] = ", ".join(allowed_methods(request.scope))
        if request.method == "OPTIONS":
            return Response(None, HTTPStatus.NO_CONTENT, {"Allow": headers["Allow"]})
        shown = MethodNotAllowed(f"{request.method} is not for this path.", f"Use {headers['Allow']}.")
    else:
        shown = internal_error()
    return error_response(shown, context_of(request.scope).request_id, headers)


async def _failed(request: Request, _error: Exception) -> Response:
    # Starlette raises the error again after this answer, and the shell logs it.
    return error_response(internal_error(), context_of(request.scope).request_id)


def _served(request: Request) -> tuple[Memory, Caller]:
    """Return the memory and the caller, whose numbers out of range are refused here rather than clamped."""
    context = context_of(request.scope)
    return context.memory, replace(context.caller, clamps=False)


async def body_of(request: Request, model: type[_R], **from_path: str) -> _R:
    """Return the request in the body. Raises InvalidInput also when the body contradicts the path."""
    body = await request.body()
    if not body:
        raise MalformedBody("The body is empty.", "Send one JSON object.")
    given = parse_json(body)
    if not isinstance(given, dict):
        return validate(model, given)
    fields = cast("dict[str, Any]", given)
    for name, value in from_path.items():
        if fields.get(name, value) != value:
            raise InvalidInput(f"`{name}` is not the one in the path.", f"Leave `{name}` out.", field=name)
    return validate(model, {**fields, **from_path})


def _query(request: Request, model: type[_R], **from_path: str) -> _R:
    names = {"q": "query"}
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    return validate_query(model, [*((names.get(name, name), value) for name, value in pairs), *from_path.items()])


async def _deleted(memory: Memory, wanted: DeleteRequest, caller: Caller) -> DeleteAnswer:
    answer = await memory.delete(wanted, caller)
    if answer.status is DeleteStatus.CANCELLED and not wanted.dry_run:
        raise ConfirmationRequired(
            f"{len(answer.ids)} memories would go; nothing was deleted.", "Send confirm = true.", ids=answer.ids
        )
    return answer


def _not_found(memory_id: str) -> NotFound:
    return NotFound("There is no such memory.", "Look for its id by a search.", id=memory_id)


def answered(answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as JSON."""
    return Response(answer.model_dump_json(), status, headers, "application/json")
