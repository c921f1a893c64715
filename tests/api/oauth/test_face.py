"""OAuth's paths as one app, in its shell: which answer, to which methods, and in what form each refuses."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from tests.api.oauth.doubles import ISSUER

from shoal.api.gate import HostRule, OpenGate
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.face import oauth_face, present
from shoal.api.oauth.metadata import AUTHORIZATION_SERVER_PATHS, PROTECTED_RESOURCE_PATHS
from shoal.api.oauth.paths import BODY_TYPES, ENDPOINTS, OAUTH_PATHS, PAGES, WELL_KNOWN_PATHS
from shoal.api.shell import Shell
from shoal.core.caller import Caller
from shoal.schema.errors import StorageBusy

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
Failing = Callable[[Scope], Awaitable[Any]]


def app_of(authority: Authority, memory: Failing) -> Any:
    shell = Shell(
        oauth_face(),
        memory,
        OpenGate(Caller()),
        HostRule.anywhere(),
        OAUTH_PATHS,
        accepts=BODY_TYPES,
        present=present,
        open_reads=WELL_KNOWN_PATHS,
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[AUTHORITY_KEY] = authority
        await shell(scope, receive, send)

    return app


async def no_memory(_scope: Scope) -> Any:
    return None


def client(authority: Authority, memory: Failing = no_memory) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app_of(authority, memory), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=ISSUER)


@pytest.fixture
async def http(authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client(authority) as http:
        yield http


def told(answer: httpx.Response, path: str) -> None:
    """Check that a refusal has the form of its path."""
    if path.startswith(PAGES) and "/.well-known/" not in path:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    elif path.startswith(ENDPOINTS):
        assert set(answer.json()) == {"error", "error_description"}
        assert answer.json()["error_description"].isascii()
        assert not set(answer.json()["error_description"]) & set('"\\')
    else:
        assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", [*AUTHORIZATION_SERVER_PATHS, *PROTECTED_RESOURCE_PATHS])
async def test_the_documents_are_at_every_place_where_clients_look(http: httpx.AsyncClient, path: str):
    answer = await http.get(path, headers={"Origin": "https://anywhere.example"})
    assert ISSUER in (answer.json().get("issuer"), *answer.json().get("authorization_servers", []))
    assert answer.headers["access-control-allow-origin"] == "*"
    head = await http.head(path)
    assert (head.status_code, head.content) == (200, b"")


ALLOWED = {
    **dict.fromkeys(("/authorize", "/account"), "GET, HEAD"),
    **dict.fromkeys(
        ("/login", "/logout", "/consent", "/account/revoke", "/account/passphrase", "/account/token"), "POST"
    ),
    **dict.fromkeys(ENDPOINTS, "POST"),
    "/register/x": "DELETE, GET, HEAD",
    "/.well-known/oauth-authorization-server": "GET, HEAD",
}


@pytest.mark.parametrize("path", ALLOWED)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "GET", "POST"])
async def test_other_methods_are_refused_with_those_that_there_are(http: httpx.AsyncClient, method: str, path: str):
    allowed = ALLOWED[path]
    answer = await http.request(method, path)
    if method in allowed.split(", "):
        assert answer.status_code != 405
    else:
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        told(answer, path)


@pytest.mark.parametrize(
    "path", ["/account/nothing", "/register/x/y", "/.well-known/nothing", "/mcp/.well-known/nothing", "/account/"]
)
async def test_paths_that_are_none_are_refused_in_the_form_of_their_place(http: httpx.AsyncClient, path: str):
    answer = await http.get(path)
    assert answer.status_code == 404
    told(answer, path)


def test_what_is_oauths_is_told_by_the_whole_path():
    for path in ("/tokens", "/token/", "/TOKEN", "//token", "/accounts", "/authorize/", "/well-known/x", "/mcp", "/"):
        assert path not in OAUTH_PATHS


@pytest.mark.parametrize("path", [*PAGES, *ENDPOINTS, "/register/x", "/.well-known/oauth-authorization-server"])
async def test_what_fails_before_a_part_is_reached_is_told_in_its_form(authority: Authority, path: str):
    async def busy(_scope: Scope) -> Any:
        raise StorageBusy('The "database" was lost — for a moment.', "Send it again.\\n")

    async with client(authority, busy) as http:
        answer = await http.get(path)
    assert answer.status_code == 503
    told(answer, path)
    if path in ENDPOINTS:
        assert answer.json()["error"] == "temporarily_unavailable"


async def test_a_fault_of_ours_is_told_in_the_form_of_its_path_and_nothing_of_it(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    async def broken(_request: object) -> None:
        raise RuntimeError("a secret of ours")

    monkeypatch.setattr("shoal.api.oauth.token_endpoint.token", broken)
    monkeypatch.setattr("shoal.api.oauth.account.account", broken)
    for method, path in (("POST", "/token"), ("GET", "/account")):
        answer = await http.request(method, path)
        assert answer.status_code == 500
        assert "a secret of ours" not in answer.text
        told(answer, path)
    assert (await http.post("/token")).json()["error"] == "server_error"


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_form_that_cant_be_read_is_told_on_a_page(http: httpx.AsyncClient, language: str):
    for body in ("next=1&next=2", "secret=%ff", "next=%00"):
        answer = await http.post("/login", content=body, headers={**FORM, "Accept-Language": language})
        assert answer.status_code == 400
        told(answer, "/login")


async def test_bodies_of_other_types_are_refused_in_the_form_of_the_path(http: httpx.AsyncClient):
    for path in ("/login", "/token"):
        answer = await http.post(path, content="x", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415
        told(answer, path)


def test_building_it_imports_no_page_and_no_endpoint():
    import subprocess

    code = (
        "import sys; from shoal.api.oauth.face import oauth_face; oauth_face();"
        "print(*(name for name in sys.modules if name.startswith('shoal.api.oauth.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert not loaded & {"pages", "words", "authorize", "login", "consent", "account", "token_endpoint", "identity"}
