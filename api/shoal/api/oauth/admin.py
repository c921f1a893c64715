"""The owner's own routes: tokens for devices and scripts, apps registered beforehand, the log of writes."""

import re
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from shoal.api.arguments import validate_query
from shoal.api.context import context_of
from shoal.api.oauth import clients, documents, grants, redirects
from shoal.api.oauth.admin_models import (
    SPACES_MAX,
    ClientMade,
    ClientOut,
    ClientRequest,
    ClientsAnswer,
    Deeds,
    LogAnswer,
    LogLine,
    LogRequest,
    Removed,
    TokenMade,
    TokenOut,
    TokenRequest,
    TokensAnswer,
)
from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.client_metadata import REDIRECTS_MAX
from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.grants import Because, GrantRow
from shoal.api.oauth.records import DEEDS, NAME_MAX_CHARS, AuthMethod, Client, Reach
from shoal.api.openapi import route_docs
from shoal.api.rest import answered, body_of
from shoal.api.schemas import compact_schema
from shoal.core import journal
from shoal.core.caller import ALL_SPACES, DEFAULT_SPACE, Scope
from shoal.core.text import clean
from shoal.core.times import MS_PER_DAY, iso
from shoal.schema.errors import InvalidInput, NotAllowed, NotFound, TooMany
from shoal.schema.limits import SPACE_MAX_CHARS

_R = TypeVar("_R", bound=BaseModel)
_SCOPES: Final = {deed: scope for scope, deed in DEEDS.items()}
_DEFAULT_SPACES: Final[dict[str, Deeds]] = {DEFAULT_SPACE: ["read", "write"]}
_ID: Final = re.compile(r"[0-9a-f]{32}")
"""A grant's; nothing else is looked up."""
_TOKEN_EXAMPLE: Final = {"name": "backup script", "spaces": {"main": ["read"]}, "expires_in_days": 90}
_CLIENT_EXAMPLE: Final = {"name": "Our app", "redirect_uris": ["https://app.example.com/callback"]}

router: Final = APIRouter(prefix="/api/v1/admin")


def _docs(answer: type[BaseModel], *errors: int, body: type[BaseModel] | None = None, **more: Any) -> dict[str, Any]:
    """Return what FastAPI wants to know of a route; a body's schema stands in the route itself."""
    docs = route_docs(answer, *errors, created=body is not None, body=body, **more)
    if body is not None:
        del docs["responses"][200]
        docs["responses"][201]["description"] = "Made"
        docs["openapi_extra"]["requestBody"]["content"]["application/json"]["schema"] = compact_schema(body)
    return docs


@router.post("/tokens", **_docs(TokenMade, body=TokenRequest, example=_TOKEN_EXAMPLE))
async def make_token(request: Request) -> Response:
    """Make a token for a device or a script. It is shown in this answer and never again."""
    authority = _owners(request)
    wanted = await body_of(request, TokenRequest)
    name = clean(wanted.name, "name", NAME_MAX_CHARS)
    device = clean(wanted.device, "device", NAME_MAX_CHARS) if wanted.device is not None else ""
    reach = _reach(_DEFAULT_SPACES if wanted.spaces is None else wanted.spaces, wanted.sync)
    days = wanted.expires_in_days
    expires_at = None if days is None else authority.clock() + days * MS_PER_DAY
    grant_id, token = await grants.make_device_token(authority, name, device, reach, expires_at)
    return answered(TokenMade(id=grant_id, token=token), 201)


@router.get("/tokens", **_docs(TokensAnswer))
async def list_tokens(request: Request) -> Response:
    """List what lets someone in: the apps that you connected and the tokens that you made."""
    rows = await grants.listed(_owners(request))
    return answered(TokensAnswer(tokens=[_token_out(row) for row in rows]))


@router.delete("/tokens/{token_id}", **_docs(Removed, 404))
async def revoke_token(request: Request, token_id: str) -> Response:
    """End an app's connection or a token, by its id. It is refused from then on."""
    authority = _owners(request)
    if not _ID.fullmatch(token_id) or not await grants.revoke(authority, token_id, Because.OWNER):
        raise NotFound("There is no such token, or it has ended already.", "List them for their ids.")
    return answered(Removed(id=token_id))


@router.post("/clients", **_docs(ClientMade, body=ClientRequest, example=_CLIENT_EXAMPLE))
async def make_client(request: Request) -> Response:
    """Register an app beforehand. Its secret, if it has one, is shown in this answer and never again."""
    authority = _owners(request)
    wanted = await body_of(request, ClientRequest)
    name = clean(wanted.name, "name", NAME_MAX_CHARS)
    _check_redirects(authority, wanted.redirect_uris)
    client, secret = await clients.give(authority, name, wanted.redirect_uris, AuthMethod(wanted.auth_method))
    return answered(ClientMade(**_client_out(client).model_dump(), client_secret=secret), 201)


@router.get("/clients", **_docs(ClientsAnswer))
async def list_clients(request: Request) -> Response:
    """List the apps that you registered beforehand."""
    given = await clients.given(_owners(request))
    return answered(ClientsAnswer(clients=[_client_out(client) for client in given]))


@router.delete("/clients/{client_id:path}", **_docs(Removed, 404))
async def remove_client(request: Request, client_id: str) -> Response:
    """Forget an app, however it came to be known, and end its connections. Its id may be a URL."""
    authority = _owners(request)
    known = clients.is_id(client_id) or documents.is_fetchable(client_id, authority.issuer)
    if not known or not await clients.remove(authority, client_id):
        raise NotFound("There is no such client.", "List the clients or the tokens for their ids.")
    return answered(Removed(id=client_id))


@router.get("/log", **_docs(LogAnswer, query=LogRequest))
async def read_log(request: Request) -> Response:
    """Read who wrote and deleted what, page by page; never what the memories say."""
    authority = _owners(request)
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    wanted = validate_query(LogRequest, pairs)
    entries = await journal.read(
        authority.database, token=wanted.token, client=wanted.client, before=wanted.before, limit=wanted.limit
    )
    lines = [_line(entry) for entry in entries]
    return answered(LogAnswer(entries=lines, next=lines[-1].n if len(lines) == wanted.limit else None))


def _owners(request: Request) -> Authority:
    """Return the authority for a request of the owner. Raises NotAllowed for everyone else."""
    if not context_of(request.scope).caller.owner:
        raise NotAllowed("Only the owner may do this.", "Use the owner's key.")
    return authority_of(request.scope)


def _reach(spaces: dict[str, Deeds], sync: bool) -> Reach:
    if len(spaces) > SPACES_MAX:
        raise TooMany(f"{len(spaces)} spaces; at most {SPACES_MAX}.", "Name fewer, or * for every one.")
    reached: dict[str, frozenset[Scope]] = {}
    for given, deeds in spaces.items():
        space = given if given == ALL_SPACES else clean(given, "space", SPACE_MAX_CHARS)
        reached[space] = reached.get(space, frozenset()) | {_SCOPES[deed] for deed in deeds}
    reach = Reach(reached, sync)
    if not reach.scopes - {Scope.SYNC}:
        raise InvalidInput("The token would reach no space.", "Allow something in a space.", field="spaces")
    return reach


def _check_redirects(authority: Authority, uris: list[str]) -> None:
    """Raise InvalidInput or TooMany unless an app may be registered with these."""
    if not uris:
        raise InvalidInput("`redirect_uris` is empty.", "Give at least one.", field="redirect_uris")
    if len(uris) > REDIRECTS_MAX:
        raise TooMany(f"{len(uris)} redirect URIs; at most {REDIRECTS_MAX}.", "Give fewer.", field="redirect_uris")
    try:
        for uri in uris:
            redirects.check(uri, authority.settings.app_schemes, authority.issuer)
    except OAuthError as error:
        raise InvalidInput(error.description, "Give another one.", field="redirect_uris") from error


def _client_out(client: Client) -> ClientOut:
    return ClientOut(
        client_id=client.id,
        name=client.name,
        redirect_uris=list(client.redirect_uris),
        auth_method=str(client.auth_method),
    )


def _token_out(row: GrantRow) -> TokenOut:
    return TokenOut(
        id=row.id,
        kind=str(row.kind),
        client_id=row.client_id,
        name=row.name,
        device=row.device or None,
        spaces={
            space: [deed for scope, deed in DEEDS.items() if scope in scopes]
            for space, scopes in row.reach.spaces.items()
        },
        sync=row.reach.sync,
        created_at=iso(row.created_at),
        used_at=None if row.used_at is None else iso(row.used_at),
        expires_at=None if row.expires_at is None else iso(row.expires_at),
    )


def _line(entry: journal.LogEntry) -> LogLine:
    return LogLine(
        n=entry.n,
        at=iso(entry.at),
        action=entry.action,
        space=entry.space,
        client=entry.client,
        token=entry.token,
        device=entry.device,
        ids=list(entry.ids),
    )
