"""Whatever text comes in, no element or attribute comes of it: pages keep the bones that they have with plain text."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.api.oauth import flow
from tests.api.oauth.doubles import Clock, made_authority, seeded
from tests.api.oauth.flow import REDIRECT
from tests.api.oauth.test_account import write
from tests.api.oauth.test_sessions import signed_in
from tests.api.oauth.visits import Seen, asking, register, remember, seen, visitor

from shoal.api.messages import Language
from shoal.api.oauth import account_page, consent_page, grants, returning
from shoal.api.oauth.asked import Asked, Unanswerable
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.authorize import unanswerable
from shoal.api.oauth.login_page import login_page
from shoal.api.oauth.records import Client, ClientKind, Reach
from shoal.api.oauth.words import Line
from shoal.core.caller import Scope

PLAIN = "plain"
HOSTILE = {
    "element": "<script>alert(1)</script>",
    "closing": "</title></style></main></bdi><img src=x onerror=alert(1)>",
    "attribute": "\" onfocus=alert(1) autofocus x=\"' onclick='alert(1)",
    "comment": "--><!-- <![CDATA[ ]]> <?php ?>",
    "references": "&lt;b&gt; &#60;b&#62; &amp;copy; &quot",
    "directions": "\u202emoc.elpmaxe\u202c \u2067x\u2069 \u200f",
    "controls": "a\x00b\x1bc\x7f\x85\u2028\r\n",
    "surrogate": "half \ud83d of one",
    "long": "<b>" * 1366,
    "emoji": "🐟👩‍👩‍👧‍👦 e\u0301\u0301\u0301 ﷽",
    "format": "{name} {0.__class__} %s ${x}",
    "script url": "javascript:alert(1)",
}
OF_DATABASE = {name: text for name, text in HOSTILE.items() if name != "surrogate"}
"""SQLite keeps no half of a surrogate pair."""
READ_WRITE = frozenset({Scope.READ, Scope.WRITE})

Render = Callable[[Authority, str], Awaitable[Seen]]


def parsed(answer: object) -> Seen:
    page = Seen(bytes(answer.body).decode())  # pyright: ignore[reportAttributeAccessIssue]
    assert page.open == [] and page.strays == []
    return page


async def consent_of(authority: Authority, text: str) -> Seen:
    client = Client(f"https://{text}/", ClientKind.DOCUMENT, text, (REDIRECT,))
    asked = Asked(client.id, REDIRECT, True, flow.CHALLENGE, READ_WRITE, text, authority.resource)
    session = await signed_in(authority)
    given = {"other-name": text, "days": text, "0-read": text, text: text}
    answer = await consent_page.shown(authority, session, client, asked, Language.ENGLISH, given=given)
    return parsed(answer)


async def redirect_of(authority: Authority, text: str) -> Seen:
    # No such redirect is ever registered; the page holds all the same. A state comes as bytes, whatever they are.
    text = text.encode(errors="surrogatepass").decode(errors="surrogateescape")
    answer = returning.answered(authority, Language.CHINESE, "cursor://x/" + text, text, {"code": text})
    return parsed(answer)


async def login_of(authority: Authority, text: str) -> Seen:
    return parsed(login_page(Language.CHINESE, f"/authorize?{text}"))


async def detail_of(authority: Authority, text: str) -> Seen:
    error = Unanswerable(Line.UNKNOWN_APP, Line.UNKNOWN_APP_MEND, detail=text)
    return parsed(unanswerable(error, Language.ENGLISH))


async def token_of(authority: Authority, text: str) -> Seen:
    return parsed(account_page.token_page(replace(authority, issuer=text), Language.ENGLISH, text, text))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("render", [consent_of, redirect_of, login_of, detail_of, token_of])
async def test_text_in_a_page_stays_text(render: Render, text: str):
    plain = await render(await made_authority(), PLAIN)
    hostile = await render(await made_authority(), text)
    assert hostile.skeleton == plain.skeleton
    assert own(hostile) == own(plain)


def own(page: Seen) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Return what no text from outside may change: every attribute but for values and the link to the app."""
    return [
        (
            tag,
            [
                (name, value)
                for name, value in attributes.items()
                if name not in ("value", "href", "content", "aria-label")
            ],
        )
        for tag, attributes in page.elements
    ]


async def account_of(authority: Authority, clock: Clock, text: str) -> tuple[Seen, Seen]:
    """Return the account and the consent page over a database full of a text."""
    await register(authority, text)
    reach = Reach({text: READ_WRITE})
    await flow.connected(authority, client=replace(flow.app(), name=text), reach=reach)
    await grants.make_device_token(authority, text, text, reach)
    for row in await grants.listed(authority):
        await authority.database.batch([write(row.id, clock(), text, text)])
    await remember(authority, text)
    async with visitor(authority) as owner:
        await owner.sign_in()
        return await owner.account(), seen(await owner.ask())


@pytest.mark.parametrize("text", OF_DATABASE.values(), ids=OF_DATABASE)
async def test_text_in_the_database_stays_text(authority: Authority, clock: Clock, text: str):
    plain = await account_of(replace(await made_authority(clock), random=seeded()), clock, PLAIN)
    hostile = await account_of(authority, clock, text)
    for one, other in zip(hostile, plain, strict=True):
        assert one.skeleton == other.skeleton
        assert own(one) == own(other)
        assert not set(one.text) & set("\u202e\u202c\u2067\u2069\u200f\x00\x1b\x7f")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_text_in_a_request_stays_text(authority: Authority, text: str):
    await register(authority)
    async with visitor(authority) as anyone:
        for name in asking():
            plain = await anyone.http.get("/authorize", params={**asking(), name: PLAIN})
            raw = text.encode(errors="surrogatepass")
            query = "&".join(
                f"{key}={''.join(f'%{b:02x}' for b in (raw if key == name else value.encode()))}"
                for key, value in asking().items()
            )
            hostile = await anyone.http.get(f"/authorize?{query}")
            assert hostile.status_code == plain.status_code, name
            if plain.status_code != 303:
                assert seen(hostile).skeleton == seen(plain).skeleton
