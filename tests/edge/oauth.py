"""An app that connects by OAuth, and the owner who lets it in with a browser: both by plain HTTP, step by step.

    with Flow(rig.url, OWNER_KEY) as flow:
        tokens = flow.connect()                        # register, ask, sign in, allow, exchange
        with flow.caller(tokens["access_token"]) as http: ...

Each step is a method of its own that returns the server's answer as it came, for tests of what goes wrong; `connect`
and what it is made of assert that all goes well. Nothing is known of the server but its URL and the owner's key.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any, Final, Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

REDIRECT: Final = "https://app.example/callback"
SCOPE: Final = "memory:read memory:write"
TIMEOUT_S: Final = 60.0
_PLAIN: Final[dict[str, Any]] = {"verify": False, "trust_env": False, "timeout": TIMEOUT_S, "follow_redirects": False}
"""On this machine certificates and proxies are of no use, and take longer to read than most requests."""
_FIELDS: Final = {"memory:read": "read", "memory:write": "write", "memory:admin": "admin"}
"""Of a space's row in a form, by scope."""


@dataclass
class Form:
    """A form as a browser would send it: hidden fields, what is typed, checked boxes."""

    action: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    boxes: set[str] = field(default_factory=set[str])
    """Names of all boxes, checked or not."""


@dataclass(frozen=True)
class Pkce:
    """A verifier and its challenge by S256 (RFC 7636)."""

    verifier: str
    challenge: str

    @classmethod
    def new(cls) -> Self:
        verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(verifier.encode()).digest()
        return cls(verifier, base64.urlsafe_b64encode(digest).rstrip(b"=").decode())


class Browser:
    """The owner's browser: keeps cookies by name, whatever the scheme, and follows nothing by itself."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.http = httpx.Client(base_url=url, headers=headers, **_PLAIN)
        self.cookies: dict[str, str] = {}

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Load a page."""
        return self._send("GET", path, **options)

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> httpx.Response:
        """Send a form, as one of the server's own pages would."""
        return self._send(
            "POST", path, data=dict(form), headers={"origin": str(self.http.base_url).rstrip("/"), **headers}
        )

    def submit(self, page: httpx.Response, action: str, **different: str) -> httpx.Response:
        """Send a form that a page shows, but for what differs; the empty text unchecks a box."""
        found = {**form_of(page, action).fields, **different}
        return self.post(action, {name: value for name, value in found.items() if value})

    def _send(self, method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any) -> httpx.Response:
        given = dict(headers or {})
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.http.request(method, path, headers=given, **options)
        for line in answer.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                if morsel["max-age"] == "0" or not morsel.value:
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return answer


class Flow:
    """One app and one browser against one server. `client_id` and `client_secret` are of the last registration."""

    def __init__(self, url: str, owner_key: str, *, redirect_uri: str = REDIRECT, address: str = "") -> None:
        """Describe it; `address` is where both come from, as Cloudflare would say; else all of a test are one."""
        headers = {"cf-connecting-ip": address} if address else {}
        self.url = url
        self.owner_key = owner_key
        self.redirect_uri = redirect_uri
        self.app = httpx.Client(base_url=url, headers=headers, **_PLAIN)
        """The app's own way to the server."""
        self.browser = Browser(url, headers)
        self.client_id = ""
        self.client_secret: str | None = None
        self.pkce = Pkce.new()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self.app.close()
        self.browser.http.close()

    @property
    def resource(self) -> str:
        """What tokens are for."""
        return f"{self.url}/mcp"

    # The app

    def discover(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Go the way of MCP clients: from the 401 to the resource's metadata, from there to the server's."""
        refused = self.app.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert refused.status_code == 401, refused.text
        _, _, found = refused.headers["www-authenticate"].partition('resource_metadata="')
        resource = self.app.get(found.partition('"')[0]).raise_for_status().json()
        assert resource["resource"] == self.resource
        server = self.app.get(f"{resource['authorization_servers'][0]}/.well-known/oauth-authorization-server")
        return resource, server.raise_for_status().json()

    def register(self, **metadata: Any) -> httpx.Response:
        """Register, as a public client unless told otherwise, and go on as that client when it was accepted."""
        wanted = {
            "client_name": "An app",
            "redirect_uris": [self.redirect_uri],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        answer = self.app.post("/register", json=wanted)
        if answer.status_code == 201:
            self.client_id = answer.json()["client_id"]
            self.client_secret = answer.json().get("client_secret")
        return answer

    def request(self, **different: str) -> dict[str, str]:
        """Return the parameters of an authorization request; those that are given empty are left out."""
        usual = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": SCOPE,
            "state": "a state",
            "code_challenge": self.pkce.challenge,
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        return {name: value for name, value in {**usual, **different}.items() if value}

    def exchange(self, code: str, **different: str) -> httpx.Response:
        """Exchange a code for tokens."""
        return self.token(
            grant_type="authorization_code",
            code=code,
            redirect_uri=self.redirect_uri,
            code_verifier=self.pkce.verifier,
            resource=self.resource,
            **different,
        )

    def refresh(self, refresh_token: str, **different: str) -> httpx.Response:
        """Exchange a refresh token for the next tokens."""
        return self.token(grant_type="refresh_token", refresh_token=refresh_token, **different)

    def revoke(self, token: str, **different: str) -> httpx.Response:
        """Give a token back."""
        return self.app.post("/revoke", data=self._identified({"token": token, **different}))

    def token(self, **form: str) -> httpx.Response:
        """Ask the token endpoint; fields that are given empty are left out."""
        return self.app.post("/token", data=self._identified(form))

    def caller(self, token: str, **headers: str) -> httpx.Client:
        """Return what calls the memory with a token."""
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {token}", **headers}, **_PLAIN)

    # The owner

    def ask(self, **different: str) -> httpx.Response:
        """Send the browser to the server with an authorization request."""
        return self.browser.get("/authorize", params=self.request(**different))

    def sign_in(self, page: httpx.Response | None = None, secret: str | None = None) -> httpx.Response:
        """Sign in on a page that asks for it, or for the account page."""
        asking = page or self.browser.get("/account")
        return self.browser.submit(asking, "/login", secret=self.owner_key if secret is None else secret)

    def consent_page(self, **different: str) -> httpx.Response:
        """Ask, sign in where that is asked for, and return the consent page."""
        return self.past_sign_in(self.ask(**different))

    def past_sign_in(self, page: httpx.Response) -> httpx.Response:
        """Sign in where a page asks for it, and return the consent page behind it."""
        if "/login" in _actions(page):
            signed_in = self.sign_in(page)
            assert signed_in.status_code == 303, signed_in.text
            page = self.browser.get(signed_in.headers["location"])
        assert "/consent" in _actions(page), f"{page.status_code} {page.text}"
        return page

    def decide(
        self, page: httpx.Response, spaces: Mapping[str, str] | None = None, decision: str = "allow", **different: str
    ) -> httpx.Response:
        """Answer a consent page: as it stands, or with scopes by space (`*` for every space) and nothing else."""
        checked: dict[str, str] = {}
        if spaces is not None:
            checked = dict.fromkeys(form_of(page, "/consent").boxes, "")
            for space, scopes in spaces.items():
                row = {"main": "0", "*": "every"}.get(space, "other")
                checked.update({f"{row}-{_FIELDS[scope]}": "1" for scope in scopes.split()})
                if row == "other":
                    checked["other-name"] = space
        return self.browser.submit(page, "/consent", decision=decision, **{**checked, **different})

    # All of it

    def allowed(self, spaces: Mapping[str, str] | None = None, **different: str) -> str:
        """Ask, let the app in, and return the code that it is given."""
        answer = told_at_redirect(self.decide(self.consent_page(**different), spaces), self.redirect_uri)
        assert answer["iss"] == self.url
        assert answer.get("state") == self.request(**different).get("state")
        return answer["code"]

    def connect(self, spaces: Mapping[str, str] | None = None, **different: str) -> dict[str, Any]:
        """Do all of it, registering where that was not done yet, and return the token endpoint's answer."""
        if not self.client_id:
            assert (answer := self.register()).status_code == 201, answer.text
        answer = self.exchange(self.allowed(spaces, **different))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _identified(self, form: Mapping[str, str]) -> dict[str, str]:
        own = {"client_id": self.client_id, "client_secret": self.client_secret or ""}
        return {name: value for name, value in {**own, **form}.items() if value}


def told_at_redirect(answer: httpx.Response, redirect_uri: str = REDIRECT) -> dict[str, str]:
    """Return what an app is told at its redirect; the answer must lead there."""
    assert answer.status_code == 303, f"{answer.status_code} {answer.text}"
    location = answer.headers["location"]
    assert location.startswith(redirect_uri), location
    values = parse_qs(urlsplit(location).query, strict_parsing=True)
    assert all(len(each) == 1 for each in values.values()), location
    return {name: value for name, (value,) in values.items()}


def form_of(page: httpx.Response, action: str) -> Form:
    """Return the form of a page that is sent to a path."""
    found = [form for form in _Forms(page).forms if form.action == action]
    assert found, f"no form to {action}: {page.status_code} {page.text}"
    return found[0]


def _actions(page: httpx.Response) -> list[str]:
    return [form.action for form in _Forms(page).forms]


class _Forms(HTMLParser):
    """Takes the forms out of a page."""

    def __init__(self, page: httpx.Response) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._page = page
        self.feed(page.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(urlsplit(urljoin(str(self._page.url), given.get("action", ""))).path))
        if tag == "input" and given.get("name") and self.forms:
            self._input(self.forms[-1], given)

    def _input(self, form: Form, given: Mapping[str, str]) -> None:
        name = given["name"]
        if given.get("type") == "checkbox":
            form.boxes.add(name)
        if given.get("type") not in ("checkbox", "radio") or "checked" in given:
            form.fields[name] = given.get("value", "")


def call_tool(http: httpx.Client, name: str, **arguments: Any) -> httpx.Response:
    """Call a tool over MCP."""
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return http.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
