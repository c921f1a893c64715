"""A browser of the owner's: it keeps cookies, reads the pages as HTML, and sends their forms as they stand."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
from tests.api.oauth.doubles import ISSUER, OWNER_KEY
from tests.api.oauth.flow import CHALLENGE, REDIRECT

from shoal.api.context import CONTEXT_KEY, CallContext
from shoal.api.oauth.authority import AUTHORITY_KEY, Authority
from shoal.api.oauth.face import oauth_face
from shoal.api.oauth.records import AuthMethod, ClientKind
from shoal.api.shell import NOBODY
from shoal.core.protocols import Statement
from shoal.core.service import Memory

_VOID = {"meta", "input", "br", "link"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class Form:
    """A form as a browser sends it: what is typed, checked and hidden in it."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class Seen(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.forms: list[Form] = []
        self.texts: list[str] = []
        self.strays: list[str] = []
        self.open: list[str] = []
        self._in_form = False
        self.feed(html)
        self.close()

    @property
    def skeleton(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element with the names of its attributes."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def form(self, action: str, holding: str = "handle") -> Form:
        """Return the first form that is sent there and has a field."""
        return next(form for form in self.forms if form.action == action and holding in form.fields)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), "an attribute is there twice"
        self.elements.append((tag, attributes))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "form":
            assert attributes["method"] == "post"
            self.forms.append(Form(str(attributes["action"])))
        name = attributes.get("name")
        unchecked = attributes.get("type") in ("checkbox", "radio") and "checked" not in attributes
        if tag == "input" and name and not unchecked:
            self.forms[-1].fields[name] = attributes.get("value") or ""
        if tag == "button" and name:
            self.forms[-1].buttons.append((name, str(attributes["value"])))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements are closed in another order"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.strays.append(data)

    def handle_pi(self, data: str) -> None:
        self.strays.append(data)

    def unknown_decl(self, data: str) -> None:
        self.strays.append(data)


def seen(answer: httpx.Response) -> Seen:
    """Return a page taken apart, with the headers that each has to have."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
    assert policy.endswith("; frame-ancestors 'none'; base-uri 'none'")
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    page = Seen(answer.text)
    assert page.open == []
    assert page.strays == []
    assert page.of("script") == []
    assert page.of("html") == [{"lang": answer.headers["content-language"]}]
    return page


def sent_back(answer: httpx.Response, to: str = REDIRECT) -> dict[str, str]:
    """Return what an app is told by a redirect."""
    assert answer.status_code == 303, answer.text
    return told_by(answer.headers["location"], to)


def told_by(url: str, to: str = REDIRECT) -> dict[str, str]:
    assert url.startswith(to), url
    values = parse_qs(urlsplit(url).query, strict_parsing=True, errors="surrogateescape")
    assert all(len(value) == 1 for value in values.values())
    return {name: value for name, (value,) in values.items()}


class Visitor:
    """The owner, or somebody else, in a browser of their own."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def ask(self, **different: str) -> httpx.Response:
        """Come from an app that asks for access; parameters that are given empty are left out."""
        return await self.http.get("/authorize", params=asking(**different))

    async def sign_in(self, next_: str = "/account") -> httpx.Response:
        answer = await self.http.post("/login", data={"secret": OWNER_KEY, "next": next_})
        assert answer.status_code == 303, answer.text
        return answer

    async def send(self, form: Form, **different: str) -> httpx.Response:
        """Send a form; what is given differs from how it stands."""
        return await self.http.post(form.action, data={**form.fields, **different})

    async def decide(self, decision: str = "allow", asked: Mapping[str, str] | None = None, **checked: str):
        """Ask, and decide on the consent page."""
        page = seen(await self.ask(**(asked or {})))
        return await self.send(page.form("/consent"), decision=decision, **checked)

    async def account(self) -> Seen:
        return seen(await self.http.get("/account"))


def asking(**different: str) -> dict[str, str]:
    usual = {
        "response_type": "code",
        "client_id": "app-id",
        "redirect_uri": REDIRECT,
        "scope": "memory:read memory:write",
        "state": "a state",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    return {name: value for name, value in {**usual, **different}.items() if value}


def app_of(authority: Authority) -> Any:
    """Return OAuth's face for this authority, without the shell."""
    face = oauth_face()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope[AUTHORITY_KEY] = authority
        scope[CONTEXT_KEY] = CallContext(cast("Memory", None), NOBODY)
        await face(scope, receive, send)

    return app


@asynccontextmanager
async def visitor(authority: Authority, language: str = "en", **headers: str) -> AsyncIterator[Visitor]:
    transport = httpx.ASGITransport(app=app_of(authority))
    given = {"Accept-Language": language, **headers}
    async with httpx.AsyncClient(transport=transport, base_url=ISSUER, headers=given) as http:
        yield Visitor(http)


async def register(
    authority: Authority,
    name: str = "App",
    redirects: tuple[str, ...] = (REDIRECT,),
    *,
    kind: ClientKind = ClientKind.REGISTERED,
    id_: str = "app-id",
) -> None:
    """Make an app known."""
    await authority.database.batch(
        [
            Statement(
                "insert into oauth_client (id, kind, name, redirect_uris, auth_method, created_at, expires_at)"
                " values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                (
                    id_,
                    str(kind),
                    name,
                    json.dumps(redirects),
                    str(AuthMethod.NONE),
                    authority.clock(),
                    authority.clock() + 90 * 86_400_000,
                ),
            )
        ]
    )


async def remember(authority: Authority, *spaces: str) -> None:
    """Let spaces hold a memory each, of whose record only the space matters here."""
    await authority.database.batch([remembering(space, number) for number, space in enumerate(spaces)])


def remembering(space: str, number: int) -> Statement:
    return Statement(
        "insert into record (id, space, rank, hlc, seq, class, state, occurred_at)"
        " values (?, ?, 0, '', ?, 'memory', 1, 0)",
        (number.to_bytes(16, "big"), space, number),
    )
