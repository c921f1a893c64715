"""OAuth's paths and what answers at each, as one app: documents, endpoints for apps, pages for people.

Each part is imported at its first request: a Worker that serves the memory's callers never loads the pages. A shell
must stand around it (shoal.api.shell), and a request's scope must hold its Authority.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from starlette.types import Scope as HttpScope

from shoal.api.context import context_of
from shoal.api.oauth import paths
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.metadata import AUTHORIZATION_SERVER_PATHS, PROTECTED_RESOURCE_PATHS
from shoal.api.oauth.paths import Form, form_of
from shoal.api.shell import allowed_methods, error_headers, error_response, internal_error
from shoal.schema.errors import MethodNotAllowed, NotFound, ShoalError

Endpoint = Callable[[Request], Awaitable[Response]]

_ROUTES: Final[Mapping[str, Mapping[str, str]]] = {
    **{path: {"GET": "metadata.authorization_server"} for path in AUTHORIZATION_SERVER_PATHS},
    **{path: {"GET": "metadata.protected_resource"} for path in PROTECTED_RESOURCE_PATHS},
    paths.AUTHORIZE: {"GET": "authorize.authorize"},
    paths.LOGIN: {"POST": "login.login"},
    paths.LOGOUT: {"POST": "login.logout"},
    paths.CONSENT: {"POST": "consent.consent"},
    paths.ACCOUNT: {"GET": "account.account"},
    paths.ACCOUNT_REVOKE: {"POST": "account.revoke"},
    paths.ACCOUNT_PASSPHRASE: {"POST": "account.passphrase"},
    paths.ACCOUNT_TOKEN: {"POST": "account.token"},
    paths.TOKEN: {"POST": "token_endpoint.token"},
    paths.REGISTER: {"POST": "registration.register"},
    f"{paths.REGISTER}/{{client_id}}": {"GET": "registration.show", "DELETE": "registration.remove"},
    paths.REVOKE: {"POST": "revocation.revoke"},
    paths.INTROSPECT: {"POST": "revocation.introspect"},
}
"""By path and method: a function of this package that takes a Request and returns a Response."""


def oauth_face() -> ASGIApp:
    """Return the app, without its shell. It may be built at global scope: nothing is drawn, asked or imported yet."""
    app = Starlette(
        routes=[Route(path, _by_method(path), methods=list(methods)) for path, methods in _ROUTES.items()],
        exception_handlers={
            OAuthError: _oauth_refused,
            ShoalError: _refused,
            HTTPException: _http_refused,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    return app


def present(error: ShoalError, request_id: str, scope: HttpScope) -> Response:
    """Show an error on one of OAuth's paths: to people as a page, to apps as OAuth does, else in the usual shape."""
    match form_of(scope["path"]):
        case Form.PAGE:
            from shoal.api.oauth.problem_page import problem_page

            return problem_page(error, request_id, scope)
        case Form.OAUTH:
            told = {"error": str(_code(error.status)), "error_description": _description(error)}
            return JSONResponse(told, error.status)
        case Form.SHOAL:
            return error_response(error, request_id)


def _by_method(path: str) -> Endpoint:
    endpoints = _ROUTES[path]

    async def endpoint(request: Request) -> Response:
        # The shell has made a GET of a HEAD.
        module, _, name = endpoints[request.method].partition(".")
        return await cast("Endpoint", getattr(import_module(f"shoal.api.oauth.{module}"), name))(request)

    return endpoint


def _code(status: int) -> Code:
    if status in (429, 503):
        return Code.TEMPORARILY_UNAVAILABLE
    return Code.SERVER_ERROR if status >= 500 else Code.INVALID_REQUEST


def _description(error: ShoalError) -> str:
    """Return what an error says in the characters that OAuth allows (RFC 6749, 5.2)."""
    text = f"{error.message} {error.mend}".replace('"', "'").replace("\\", "/")
    return "".join(character if " " <= character <= "~" else "?" for character in text)


async def _oauth_refused(request: Request, error: Exception) -> Response:
    """Answer what a page could not read; endpoints answer their own refusals."""
    refused = cast("OAuthError", error)
    if form_of(request.url.path) is Form.PAGE:
        from shoal.api.oauth.problem_page import unreadable_page

        return unreadable_page(refused, request.scope)
    from shoal.api.oauth.responses import refused as told

    return told(refused)


async def _refused(request: Request, error: Exception) -> Response:
    return _presented(request, cast("ShoalError", error))


async def _http_refused(request: Request, error: Exception) -> Response:
    status = cast("HTTPException", error).status_code
    if status != 405:
        return _presented(request, NotFound("There is no such path.", "See /docs for those that there are."))
    allowed = ", ".join(allowed_methods(request.scope))
    answer = _presented(request, MethodNotAllowed(f"{request.method} is not for this path.", f"Use {allowed}."))
    answer.headers["Allow"] = allowed
    return answer


async def _failed(request: Request, _error: Exception) -> Response:
    # Starlette raises the error again after this answer, and the shell logs it.
    return _presented(request, internal_error())


def _presented(request: Request, error: ShoalError) -> Response:
    answer = present(error, context_of(request.scope).request_id, request.scope)
    answer.headers.update(error_headers(error, request.scope))
    return answer
