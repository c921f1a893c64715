import asyncio
from typing import Any

import pytest
from tests.api.oauth import flow
from tests.api.oauth.doubles import ISSUER, Clock
from tests.api.oauth.flow import REDIRECT
from tests.api.oauth.test_sessions import signed_in
from tests.api.oauth.visits import asking, register, remember, seen, sent_back, told_by, visitor

from shoal.api.messages import Language
from shoal.api.oauth import consent_page
from shoal.api.oauth.asked import Asked
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.choices import SPACES_SHOWN_MAX
from shoal.api.oauth.records import Client, ClientKind, Reach
from shoal.core.caller import Scope
from shoal.core.protocols import Statement
from shoal.core.times import MS_PER_DAY

ALL = "memory:read memory:write memory:admin sync"
READ, WRITE, ADMIN = Scope.READ, Scope.WRITE, Scope.ADMIN
DOCUMENT = "https://client.example.com/oauth/client.json"
APP = "cursor://anysphere.cursor-mcp/oauth/callback"
LOOPBACK = "http://127.0.0.1:8791/cb"


@pytest.fixture
async def known(authority: Authority) -> Authority:
    """An authority that knows an app."""
    await register(authority)
    return authority


async def reach_of(authority: Authority) -> Reach:
    """Return what the one grant allows."""
    (row,) = await authority.database.query("select reach from oauth_grant")
    return Reach.from_json(str(row["reach"]))


async def decided(authority: Authority, asked: dict[str, str], **checked: str) -> Any:
    async with visitor(authority) as owner:
        await owner.sign_in()
        return await owner.decide(asked=asked, **checked)


async def test_allowing_as_proposed_gives_what_was_asked_on_main(known: Authority):
    told = sent_back(await decided(known, {"scope": ALL}))
    assert told["state"] == "a state"
    assert told["iss"] == ISSUER
    assert await reach_of(known) == Reach({"main": frozenset({READ, WRITE})})
    client = Client("app-id", ClientKind.REGISTERED, "App", (REDIRECT,))
    tokens = await flow.exchange(known, told["code"], client)
    assert tokens


async def test_of_one_scope_asked_one_is_proposed(known: Authority):
    await decided(known, {"scope": "memory:read"})
    assert await reach_of(known) == Reach({"main": frozenset({READ})})


async def test_what_is_checked_is_allowed_space_by_space(known: Authority):
    await remember(known, "work", "home", "main")
    await decided(
        known,
        {"scope": ALL},
        **{"1-read": "1", "2-write": "1", "2-admin": "1", "every-read": "1", "sync": "1", "other-read": "1"},
        **{"other-name": " new  ideas "},
    )
    assert await reach_of(known) == Reach(
        {
            "main": frozenset({READ, WRITE}),
            "home": frozenset({READ}),
            "work": frozenset({WRITE, ADMIN}),
            "*": frozenset({READ}),
            "new ideas": frozenset({READ}),
        },
        sync=True,
    )


async def test_a_space_that_is_named_beside_its_row_gets_both(known: Authority):
    await decided(known, {"scope": ALL}, **{"other-name": "main", "other-admin": "1"})
    assert await reach_of(known) == Reach({"main": frozenset({READ, WRITE, ADMIN})})


async def test_a_form_allows_nothing_that_was_not_asked_for(known: Authority):
    forged = {"0-admin": "1", "0-write": "1", "every-write": "1", "sync": "1", "9-read": "1", "scope": ALL}
    await decided(known, {"scope": "memory:read"}, **forged)
    assert await reach_of(known) == Reach({"main": frozenset({READ})})


async def test_a_form_has_no_say_in_who_asked_and_where_the_answer_goes(known: Authority):
    await register(known, "Other", ("https://evil.example/",), id_="evil")
    forged = {"client_id": "evil", "redirect_uri": "https://evil.example/", "state": "x", "code_challenge": "y" * 43}
    told = sent_back(await decided(known, {}, **forged))
    assert told["state"] == "a state"
    (row,) = await known.database.query("select client_id, redirect_uri, challenge from oauth_code")
    assert row == {"client_id": "app-id", "redirect_uri": REDIRECT, "challenge": flow.CHALLENGE}


@pytest.mark.parametrize("decision", ["deny", "", "Allow", "allow "])
async def test_everything_but_allow_is_a_refusal(known: Authority, decision: str):
    async with visitor(known) as owner:
        await owner.sign_in()
        told = sent_back(await owner.decide(decision))
    assert told["error"] == "access_denied"
    assert told["state"] == "a state"
    assert await known.database.query("select 1 from oauth_grant") == []


async def test_nothing_checked_is_a_refusal(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        form = seen(await owner.ask()).form("/consent")
        answer = await owner.http.post("/consent", data={"handle": form.fields["handle"], "decision": "allow"})
    assert sent_back(answer)["error"] == "access_denied"
    assert await known.database.query("select 1 from oauth_grant") == []


@pytest.mark.parametrize(
    ("checked", "says"),
    [
        ({"other-read": "1"}, "without naming it"),
        ({"other-read": "1", "other-name": "  "}, "without naming it"),
        ({"other-read": "1", "other-name": "*"}, "No space can have this name"),
        ({"other-read": "1", "other-name": "x" * 65}, "No space can have this name"),
        ({"other-read": "1", "other-name": "a\x01b"}, "No space can have this name"),
    ],
)
async def test_what_can_not_be_followed_is_asked_again_as_it_was_filled_in(
    known: Authority, checked: dict[str, str], says: str
):
    async with visitor(known) as owner:
        await owner.sign_in()
        answer = await owner.decide(asked={"scope": ALL}, days="30", **{"every-read": "1"}, **checked)
        assert answer.status_code == 400
        page = seen(answer)
        assert says in page.text
        assert await known.database.query("select 1 from oauth_grant") == []
        form = page.form("/consent")
        assert form.fields["every-read"] == "1"
        assert form.fields["days"] == "30"
        told = sent_back(await owner.send(form, **{"other-name": "ideas"}, decision="allow"))
    assert "code" in told
    assert (await reach_of(known)).spaces["ideas"] == {READ}


async def test_sync_alone_reaches_nothing_and_is_asked_again(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        form = seen(await owner.ask(scope=ALL)).form("/consent")
        del form.fields["0-read"], form.fields["0-write"]
        answer = await owner.send(form, decision="allow", sync="1")
    assert answer.status_code == 400
    assert "Sync reaches only spaces" in seen(answer).text


@pytest.mark.parametrize(
    ("days", "expected"), [("", None), ("1", 1), ("30", 30), ("90", 90), ("36500", 1), ("-1", 1), ("x", 1)]
)
async def test_access_ends_when_it_was_said(known: Authority, clock: Clock, days: str, expected: int | None):
    await decided(known, {}, days=days)
    (row,) = await known.database.query("select expires_at from oauth_grant")
    assert row["expires_at"] == (None if expected is None else clock() + expected * MS_PER_DAY)


async def test_a_form_is_taken_once(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        form = seen(await owner.ask()).form("/consent")
        answers = await asyncio.gather(*(owner.send(form, decision="allow") for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [303, 403, 403]
        again = await owner.send(form, decision="allow")
    assert again.status_code == 403
    assert "begin again from the app" in seen(again).text
    assert len(await known.database.query("select 1 from oauth_grant")) == 1


async def test_a_form_is_of_its_session(known: Authority):
    async with visitor(known) as owner, visitor(known) as elsewhere, visitor(known) as anyone:
        await owner.sign_in()
        await elsewhere.sign_in()
        form = seen(await owner.ask()).form("/consent")
        for other in (elsewhere, anyone):
            answer = await other.send(form, decision="allow")
            assert answer.status_code == 403
            seen(answer)
        assert (await owner.send(form, decision="allow")).status_code == 303


async def test_a_form_expires(known: Authority, clock: Clock):
    async with visitor(known) as owner:
        await owner.sign_in()
        form = seen(await owner.ask()).form("/consent")
        clock.forward(seconds=known.settings.form_s)
        assert (await owner.send(form, decision="allow")).status_code == 403


async def test_the_account_page_s_handle_lets_no_app_in(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        handle = (await owner.account()).form("/logout").fields["handle"]
        answer = await owner.http.post("/consent", data={"handle": handle, "decision": "allow", "0-read": "1"})
    assert answer.status_code == 403


@pytest.mark.parametrize("decision", ["allow", "deny"])
@pytest.mark.parametrize(
    "change", ["delete from oauth_client", "update oauth_client set redirect_uris = '[\"https://new.example/\"]'"]
)
async def test_an_app_that_went_or_moved_meanwhile_gets_nothing(known: Authority, decision: str, change: str):
    async with visitor(known) as owner:
        await owner.sign_in()
        form = seen(await owner.ask()).form("/consent")
        await known.database.batch([Statement(change)])
        answer = await owner.send(form, decision=decision)
    assert answer.status_code == 400
    assert "location" not in answer.headers
    seen(answer)
    assert await known.database.query("select 1 from oauth_grant") == []


async def test_a_redirect_that_was_left_out_stays_left_out(known: Authority):
    assert "code" in sent_back(await decided(known, {"redirect_uri": ""}))
    (row,) = await known.database.query("select redirect_uri, redirect_uri_given from oauth_code")
    assert row == {"redirect_uri": REDIRECT, "redirect_uri_given": 0}


async def test_a_state_that_is_no_utf8_survives_the_form(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        query = "&".join(f"{name}={value}" for name, value in asking(state="%ff%FE").items()).replace(" ", "%20")
        form = seen(await owner.http.get(f"/authorize?{query}")).form("/consent")
        answer = await owner.send(form, decision="allow")
    assert "state=%FF%FE" in answer.headers["location"]


async def test_an_app_on_this_device_is_opened_from_a_page(authority: Authority):
    await register(authority, redirects=(APP,))
    for decision in ("allow", "deny"):
        async with visitor(authority, "zh-CN") as owner:
            await owner.sign_in()
            answer = await owner.decide(decision, asked={"redirect_uri": APP})
        assert answer.status_code == 200
        told = told_by(str(seen(answer).of("a")[0]["href"]), APP)
        assert told["state"] == "a state"
        assert ("code" in told) == (decision == "allow")


async def test_the_page_may_lead_to_this_redirect(authority: Authority):
    await register(authority, redirects=(APP, REDIRECT, LOOPBACK))
    async with visitor(authority) as owner:
        await owner.sign_in()
        for redirect, source in ((APP, "cursor:"), (REDIRECT, "https://app.example"), (LOOPBACK, LOOPBACK[:-3])):
            answer = await owner.ask(redirect_uri=redirect)
            assert f"form-action 'self' {source}" in answer.headers["content-security-policy"]


async def test_the_page_says_who_asks_and_where_the_answer_goes(authority: Authority):
    await register(authority, "Claude", redirects=(REDIRECT, LOOPBACK, APP))
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = seen(await owner.ask())
        assert "Claude asks to use your memory" in page.text
        assert "Your answer goes to" in page.text and "app.example" in page.text
        assert "proves nothing" in page.text
        assert "registered itself" in page.text
        assert "It asks for: read, write." in page.text
        assert "own computer" not in page.text
        assert "any program on it" in seen(await owner.ask(redirect_uri=LOOPBACK)).text
        assert "takes cursor: links" in seen(await owner.ask(redirect_uri=APP)).text


@pytest.mark.parametrize(
    ("kind", "says"), [(ClientKind.DOCUMENT, "document on client.example.com"), (ClientKind.GIVEN, "set it up here")]
)
async def test_the_page_says_how_the_app_is_known(authority: Authority, kind: ClientKind, says: str):
    client = Client(DOCUMENT, kind, "App", (REDIRECT,))
    asked = Asked(DOCUMENT, REDIRECT, True, flow.CHALLENGE, frozenset({READ}), None, authority.resource)
    answer = await consent_page.shown(authority, await signed_in(authority), client, asked, Language.ENGLISH)
    assert says in bytes(answer.body).decode().replace("<strong><bdi>", "").replace("</bdi>", "")


async def test_enter_in_a_field_decides_nothing(known: Authority):
    async with visitor(known) as owner:
        await owner.sign_in()
        buttons = seen(await owner.ask()).of("button")
    assert "disabled" in buttons[0]
    assert [button["value"] for button in buttons[1:]] == ["allow", "deny"]


async def test_spaces_are_listed_up_to_a_number(known: Authority):
    await remember(known, *(f"space {number:03}" for number in range(SPACES_SHOWN_MAX + 5)))
    async with visitor(known) as owner:
        await owner.sign_in()
        page = seen(await owner.ask())
        boxes = [box for box in page.of("input") if box.get("type") == "checkbox"]
        assert len(boxes) == 2 * (SPACES_SHOWN_MAX + 2)
        assert f"Only the first {SPACES_SHOWN_MAX} spaces" in page.text
        answer = await owner.send(page.form("/consent"), decision="allow", **{f"{SPACES_SHOWN_MAX - 1}-read": "1"})
        assert answer.status_code == 303
    assert (await reach_of(known)).spaces[f"space {SPACES_SHOWN_MAX - 2:03}"] == {READ}


async def test_every_box_and_field_has_a_label(known: Authority):
    await remember(known, "work")
    async with visitor(known, "zh") as owner:
        login = seen(await owner.ask())
        await owner.sign_in()
        for page in (login, seen(await owner.ask(scope=ALL)), await owner.account()):
            named = {label["for"] for label in page.of("label") if "for" in label}
            for box in page.of("input"):
                if box["type"] in ("text", "password"):
                    assert box["id"] in named
            boxes = sum(box["type"] in ("checkbox", "radio") for box in page.of("input"))
            assert sum("for" not in label for label in page.of("label")) == boxes
            ids = [str(attributes["id"]) for _, attributes in page.elements if "id" in attributes]
            assert len(ids) == len(set(ids))
            told = [
                attributes.get("aria-describedby") or attributes.get("aria-labelledby")
                for _, attributes in page.elements
            ]
            assert {name for name in told if name} <= set(ids)
