from dataclasses import replace
from typing import Any

import pytest
from tests.api.oauth import flow
from tests.api.oauth.doubles import Clock
from tests.api.oauth.flow import REDIRECT
from tests.api.oauth.visits import register, remember, seen, visitor

from shoal.api.oauth import grants, passphrase
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.connected import COUNTED_MAX, LAST_MAX, SHOWN_MAX
from shoal.api.oauth.records import Reach
from shoal.core.caller import Scope
from shoal.core.protocols import Statement
from shoal.core.times import MS_PER_DAY

PASSPHRASE = "seven boats under a willow"


def write(token: str, at: int, action: str = "store", space: str = "main", ids: str = '["a", "b"]') -> Statement:
    return Statement(
        "insert into write_log (at, action, space, client, token, device, ids) values (?, ?, ?, 'App', ?, '', ?)",
        (at, action, space, token, ids),
    )


async def grant_ids(authority: Authority) -> list[str]:
    return [row.id for row in await grants.listed(authority)]


async def connected(authority: Authority, **different: Any) -> str:
    """Let an app in and return its grant's id."""
    await register(authority)
    await flow.connected(authority, **different)
    (grant_id,) = await grant_ids(authority)
    return grant_id


async def test_who_is_not_signed_in_signs_in_first(authority: Authority):
    async with visitor(authority) as anyone:
        page = await anyone.account()
    assert [form.action for form in page.forms] == ["/login"]
    assert page.forms[0].fields["next"] == "/account"


async def test_without_apps_it_says_how_to_connect_one(authority: Authority):
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = await owner.account()
    assert authority.resource in page.text
    assert "/account/revoke" not in [form.action for form in page.forms]


async def test_it_says_what_each_app_may_and_has_done(authority: Authority, clock: Clock):
    reach = Reach({"main": frozenset({Scope.READ, Scope.WRITE}), "*": frozenset({Scope.READ})}, sync=True)
    grant_id = await connected(authority, reach=reach, expires_at=clock() + 30 * MS_PER_DAY)
    await authority.database.batch(
        [write(grant_id, clock() + number * 60_000, "delete" if number else "store", "work") for number in range(7)]
    )
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = await owner.account()
    for part in ("App", "app.example", "main: read, write", "Every space, also later ones: read", "sync"):
        assert part in page.text
    assert "2026-10-21" in page.text, "until when"
    assert "7, the last ones:" in page.text
    assert page.text.count("deleted 2 in work") == LAST_MAX
    assert "stored" not in page.text


async def test_of_many_writes_some_are_counted(authority: Authority, clock: Clock):
    grant_id = await connected(authority)
    await authority.database.batch([write(grant_id, clock()) for _ in range(COUNTED_MAX + 20)])
    async with visitor(authority) as owner:
        await owner.sign_in()
        assert f"{COUNTED_MAX} or more" in (await owner.account()).text


async def test_times_are_those_of_the_setting_s_zone(authority: Authority):
    zoned = replace(authority, settings=replace(authority.settings, default_time_zone="Asia/Shanghai"))
    await connected(zoned)
    async with visitor(zoned, "zh-CN") as owner:
        await owner.sign_in()
        page = await owner.account()
    assert "2026-09-21 22:13 CST" in page.text


async def test_an_app_whose_client_went_is_still_shown(authority: Authority):
    await connected(authority)
    await authority.database.batch([Statement("delete from oauth_client")])
    async with visitor(authority) as owner:
        await owner.sign_in()
        assert (await owner.account()).form("/account/revoke", "grant")


async def test_revoking_ends_it_and_says_so(authority: Authority):
    grant_id = await connected(authority)
    async with visitor(authority) as owner:
        await owner.sign_in()
        form = (await owner.account()).form("/account/revoke", "grant")
        answer = await owner.send(form)
        assert answer.status_code == 303
        page = seen(await owner.http.get(answer.headers["location"]))
        assert "can't reach your memory any more" in page.text
        assert grant_id not in page.text
        assert await grant_ids(authority) == []
        assert await flow.ended_because(authority) == ["owner"]
        form = (await owner.account()).form("/logout")
        form.action, form.fields["grant"] = "/account/revoke", grant_id
        assert (await owner.send(form)).headers["location"] == "/account?done=gone"


@pytest.mark.parametrize("path", ["/account/revoke", "/account/passphrase", "/account/token"])
async def test_every_form_needs_session_and_handle(authority: Authority, path: str):
    grant_id = await connected(authority)
    sent = {
        "grant": grant_id, "passphrase": PASSPHRASE, "again": PASSPHRASE, "name": "x", "0-read": "1",
    }  # fmt: skip
    async with visitor(authority) as owner, visitor(authority) as anyone, visitor(authority) as elsewhere:
        await owner.sign_in()
        await elsewhere.sign_in()
        handle = (await owner.account()).form("/logout").fields["handle"]
        for who, given in ((anyone, handle), (elsewhere, handle), (owner, ""), (owner, handle[:-1] + "x")):
            answer = await who.http.post(path, data={**sent, "handle": given})
            assert answer.status_code == 403
            assert seen(answer).of("a")[0]["href"] == "/account"
        assert await grant_ids(authority) == [grant_id]
        assert not await passphrase.is_set(authority)
        first = await owner.http.post(path, data={**sent, "handle": handle})
        assert first.status_code in (200, 303)
        assert (await owner.http.post(path, data={**sent, "handle": handle})).status_code == 403


async def test_a_token_is_made_and_shown_once(authority: Authority, clock: Clock):
    await remember(authority, "work")
    async with visitor(authority) as owner:
        await owner.sign_in()
        form = (await owner.account()).form("/account/token", "name")
        answer = await owner.send(form, name=" backup  script ", days="90", sync="1", **{"1-read": "1"})
        assert answer.status_code == 200
        page = seen(answer)
        (token,) = [text for text in page.texts if text.startswith("shoal_d_")]
        assert "backup script" in page.text
        after = await owner.account()
        assert "backup script" in after.text and "Device or script" in after.text
        assert token not in repr(after.texts)
    (row,) = await grants.listed(authority)
    assert row.reach == Reach(
        {"main": frozenset({Scope.READ, Scope.WRITE}), "work": frozenset({Scope.READ})}, sync=True
    )
    assert row.expires_at == clock() + 90 * MS_PER_DAY


@pytest.mark.parametrize(
    ("different", "says"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "x" * 101}, "needs a name"),
        ({"name": "a\x01b"}, "needs a name"),
        ({"other-read": "1", "other-name": "*"}, "No space can have this name"),
    ],
)
async def test_a_token_that_can_not_be_made_is_asked_for_again(
    authority: Authority, different: dict[str, str], says: str
):
    async with visitor(authority) as owner:
        await owner.sign_in()
        form = (await owner.account()).form("/account/token", "name")
        answer = await owner.send(form, **{"name": "script", "every-read": "1", **different})
        assert answer.status_code == 400
        page = seen(answer)
        assert says in page.text
        assert page.of("details") == [{"open": None}]
        form = page.form("/account/token", "name")
        assert form.fields["every-read"] == "1"
        assert (await owner.send(form, **{"name": "script", "other-name": "fine"})).status_code == 200
    assert len(await grant_ids(authority)) == 1


async def test_a_token_for_nothing_is_not_made(authority: Authority):
    async with visitor(authority) as owner:
        await owner.sign_in()
        handle = (await owner.account()).form("/account/token", "name").fields["handle"]
        answer = await owner.http.post("/account/token", data={"handle": handle, "name": "script"})
    assert answer.status_code == 400
    assert "Nothing was checked" in seen(answer).text
    assert await grant_ids(authority) == []


async def test_a_passphrase_is_set_used_and_removed(authority: Authority):
    async with visitor(authority) as owner, visitor(authority) as elsewhere:
        await owner.sign_in()
        await elsewhere.sign_in()
        form = (await owner.account()).form("/account/passphrase", "passphrase")
        answer = await owner.send(form, passphrase=PASSPHRASE, again=PASSPHRASE)
        assert answer.headers["location"] == "/account?done=set"
        assert PASSPHRASE not in (await owner.http.get("/account?done=set")).text
        assert (await elsewhere.account()).forms[0].action == "/login", "others are signed out"
        assert (await elsewhere.http.post("/login", data={"secret": PASSPHRASE})).status_code == 303
        form = (await owner.account()).form("/account/passphrase", "remove")
        assert (await owner.send(form)).headers["location"] == "/account?done=removed"
        assert (await elsewhere.http.post("/login", data={"secret": PASSPHRASE})).status_code == 403
        page = seen(await owner.http.get("/account?done=removed"))
        assert [p["role"] for p in page.of("p") if "role" in p] == ["status"]


@pytest.mark.parametrize(
    ("language", "given", "again", "says"),
    [
        ("en", PASSPHRASE, PASSPHRASE + "s", "differ"),
        ("en", "short", "short", "fewer than 14 characters"),
        ("zh", "short", "short", "少于 14 个字符"),
        ("zh", "", "", "少于 14 个字符"),
    ],
)
async def test_a_passphrase_that_is_not_taken_changes_nothing(
    authority: Authority, language: str, given: str, again: str, says: str
):
    async with visitor(authority, language) as owner:
        await owner.sign_in()
        form = (await owner.account()).form("/account/passphrase", "passphrase")
        answer = await owner.send(form, passphrase=given, again=again)
        assert answer.status_code == 400
        page = seen(answer)
        assert says in page.text
        assert not given or given not in answer.text
        assert page.form("/logout")
    assert not await passphrase.is_set(authority)


@pytest.mark.parametrize("done", ["nonsense", "<script>", "", "set&done=revoked"])
async def test_what_was_done_is_said_in_our_words(authority: Authority, done: str):
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = seen(await owner.http.get("/account", params={"done": done}))
    assert [p for p in page.of("p") if p.get("role")] == []


async def test_many_apps_take_few_questions_and_no_end_of_a_page(authority: Authority):
    reach = Reach({"main": frozenset({Scope.READ})})
    for number in range(SHOWN_MAX + 3):
        await grants.make_device_token(authority, f"device {number}", "", reach)
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = await owner.account()
    assert sum(form.action == "/account/revoke" for form in page.forms) == SHOWN_MAX
    assert f"Only the {SHOWN_MAX}" in page.text


async def test_redirects_of_an_app_are_shown_as_hosts(authority: Authority):
    await register(authority, redirects=(REDIRECT, REDIRECT + "2", "https://two.example/", "https://three.example/"))
    await flow.connected(authority)
    async with visitor(authority) as owner:
        await owner.sign_in()
        page = await owner.account()
    assert page.texts.count("app.example") == 1
    assert "two.example" in page.texts
