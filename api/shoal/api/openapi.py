"""The OpenAPI document of REST and a page that shows it, without scripts and without anything from elsewhere."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from shoal.api.schemas import Schema, compact_schema
from shoal.core.caller import Scope
from shoal.schema.models import DeleteRequest, FindRequest, StoreRequest, UpdateRequest

_BEARER: Final = "bearer"
_OAUTH: Final = "oauth2"
PUBLIC: Final[Schema] = {"security": []}
"""What the document says of a route that needs no token."""
_REF: Final = "#/components/schemas/{model}"
_BODIES: Final = (StoreRequest, FindRequest, UpdateRequest, DeleteRequest)
_IN_PATH: Final = {UpdateRequest.__name__: "id"}
"""Fields that the path says already: a body may repeat them."""
_SCOPES: Final = {
    Scope.READ: "Search and read memories",
    Scope.WRITE: "Store memories; with memory:read also change and delete them",
    Scope.ADMIN: "Erase memories for good",
    Scope.SYNC: "Keep a copy on another device",
}
_ERRORS: Final = {
    400: "The body is not JSON",
    401: "No valid token",
    403: "The token's scope or spaces don't reach this, or the page's origin is not allowed",
    404: "No such memory or path",
    409: "Confirmation is required, or the text was forgotten",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    422: "A field can't be used; `field` and `problems` name it, `item` the number of it among several",
    429: "Too many requests; `Retry-After` says when to come back",
    503: "The storage or the model refused; nothing was written, unless `message` says that it is not known",
}


class ErrorDetail(BaseModel):
    """What happened and what to do now; some errors add fields, such as `field`, `problems` or `limit`."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    mend: str
    request_id: str


class ErrorBody(BaseModel):
    """The one shape of everything that isn't 2xx."""

    error: ErrorDetail


def route_docs(
    answer: type[BaseModel],
    *errors: int,
    needs: Iterable[Scope] = (),
    created: bool = False,
    body: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    without: frozenset[str] = frozenset(),
    example: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what FastAPI wants to know of a route: its answers, its errors, its scopes, its body or its query."""
    responses: dict[int | str, dict[str, Any]] = {200: {"model": answer, "description": "Done"}}
    if created:
        responses[201] = {"model": answer, "description": "A memory was created"}
    for status in sorted({401, 403, 422, 429, 503, *errors} | ({400, 413, 415} if body else set())):
        responses[status] = {"model": ErrorBody, "description": _ERRORS[status]}
    extra: dict[str, Any] = {"security": [{_BEARER: [str(scope) for scope in Scope if scope in set(needs)]}]}
    if body is not None:
        content = {"schema": {"$ref": _REF.format(model=body.__name__)}, "example": example}
        extra["requestBody"] = {"required": True, "content": {"application/json": content}}
    if query is not None:
        extra["parameters"] = _parameters(compact_schema(query, without=without))
    return {"responses": responses, "openapi_extra": extra, "response_model": None}


def _parameters(schema: Schema) -> list[Schema]:
    return [
        {"name": name, "in": "query", "required": False, "schema": sub, "description": sub.get("description", "")}
        for name, sub in schema["properties"].items()
    ]


def document(app: FastAPI, *, oauth: bool) -> Schema:
    """Return the OpenAPI document of the app, with the request bodies' schemas and the scopes of each operation.

    `oauth`: tokens are got from this server's own authorization server.
    """
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, bodies = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REF)
    components = made.setdefault("components", {})
    schemas = components["schemas"] = {**bodies["$defs"], **components.get("schemas", {})}
    for model, field in _IN_PATH.items():
        required = [name for name in schemas[model]["required"] if name != field]
        schemas[model] = {**schemas[model], "required": required}
    components["securitySchemes"] = {_BEARER: {"type": "http", "scheme": "bearer"}}
    made["security"] = [{_BEARER: []}]
    if oauth:
        components["securitySchemes"][_OAUTH] = _oauth_scheme()
        operations = [operation for path in made["paths"].values() for operation in path.values()]
        for described in (made, *(one for one in operations if "security" in one)):
            described["security"] += [{_OAUTH: one[_BEARER]} for one in described["security"]]
    return made


def _oauth_scheme() -> Schema:
    flow = {
        "authorizationUrl": "/authorize",
        "tokenUrl": "/token",
        "refreshUrl": "/token",
        "scopes": {str(scope): about for scope, about in _SCOPES.items()},
    }
    return {"type": "oauth2", "flows": {"authorizationCode": flow}}


def docs_page(made: Schema) -> str:
    """Return the OpenAPI document as a plain HTML page."""
    rows = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2><p>{escape(_words(operation))}</p>"
        f"{_parameter_list(operation)}{_example(operation)}"
        for path, operations in made["paths"].items()
        for method, operation in operations.items()
    ]
    title = escape(made["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:16px/1.5 system-ui;max-width:50rem;margin:2rem auto;padding:0 1rem}h2{font-size:1rem}"
        "pre{background:#8881;padding:.5rem;overflow:auto}</style>"
        f"<h1>{title}</h1><p>{escape(made['info']['description'])}</p>"
        f'<p><a href="/openapi.json">openapi.json</a></p>{"".join(rows)}</html>'
    )


def _words(operation: Schema) -> str:
    return str(operation.get("description") or operation.get("summary") or "")


def _parameter_list(operation: Schema) -> str:
    items = [
        f"<li><code>{escape(p['name'])}</code> {escape(p.get('description', ''))}</li>"
        for p in operation.get("parameters", [])
    ]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _example(operation: Schema) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return f"<pre>{escape(json_of(content['example']))}</pre>" if content.get("example") else ""


def json_of(value: object) -> str:
    """Return a value as readable JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)
