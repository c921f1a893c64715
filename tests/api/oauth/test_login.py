import pytest
from tests.api.oauth.doubles import ISSUER, OWNER_KEY, Clock
from tests.api.oauth.flow import REDIRECT
from tests.api.oauth.visits import register, seen, visitor

from shoal.api.oauth import passphrase
from shoal.api.oauth.attempts import FREE_KEYS, FREE_PASSPHRASES
from shoal.api.oauth.authority import Authority
from shoal.core.protocols import Statement

WRONG = "2" * 32


async def test_the_owner_key_signs_in_and_leads_on(authority: Authority):
    async with visitor(authority) as owner:
        answer = await owner.sign_in("/authorize?client_id=x&state=%22")
        assert answer.headers["location"] == "/authorize?client_id=x&state=%22"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-shoal=shoal_b_")
        for flag in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={authority.settings.session_s}"):
            assert f"; {flag}" in cookie
        assert seen(await owner.http.get("/account")).form("/logout")


async def test_the_key_is_taken_as_people_type_it(authority: Authority):
    typed = "-".join(OWNER_KEY[start : start + 4] for start in range(0, 32, 4)).lower()
    async with visitor(authority) as owner:
        assert (await owner.http.post("/login", data={"secret": f" {typed} "})).status_code == 303


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/authorize?",
        "/\\evil.example",
        "/authorize",
        "/authorize/../x?",
        "/authorize?a\r\nSet-Cookie: a=b",
        "/authorize?é",
        "/authorize?" + "x" * 32_001,
        "/consent",
        "/account/../x",
        "/account?done=set",
        "javascript:alert(1)",
        "",
    ],
)
async def test_signing_in_leads_nowhere_else(authority: Authority, elsewhere: str):
    async with visitor(authority) as owner:
        answer = await owner.sign_in(elsewhere)
    assert answer.headers["location"] == "/account"


@pytest.mark.parametrize("secret", [WRONG, "a wrong passphrase", "", "\x01", "x" * 32_000])
async def test_a_wrong_secret_shows_the_page_again_with_where_to_go(authority: Authority, secret: str):
    async with visitor(authority) as anyone:
        answer = await anyone.http.post("/login", data={"secret": secret, "next": "/authorize?client_id=x"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    page = seen(answer)
    assert page.forms[0].fields["next"] == "/authorize?client_id=x"
    assert [p for p in page.of("p") if p.get("role") == "alert"]
    assert secret == "" or secret not in answer.text


async def test_too_many_wrong_keys_have_to_wait_and_are_told_how_long(authority: Authority, clock: Clock):
    async with visitor(authority) as anyone:
        for _ in range(FREE_KEYS):
            answer = await anyone.http.post("/login", data={"secret": WRONG})
            assert answer.status_code == 403
        answer = await anyone.http.post("/login", data={"secret": OWNER_KEY})
        assert answer.status_code == 429
        wait_s = int(answer.headers["retry-after"])
        assert f"{-(-wait_s // 60)} min" in seen(answer).text
        clock.forward(seconds=wait_s)
        await anyone.sign_in()


async def test_a_wrong_passphrase_that_brings_a_wait_says_so(authority: Authority):
    async with visitor(authority, "zh") as anyone:
        for _ in range(FREE_PASSPHRASES - 1):
            await anyone.http.post("/login", data={"secret": "no such passphrase"})
        answer = await anyone.http.post("/login", data={"secret": "no such passphrase"})
    assert answer.status_code == 403
    assert "1 分钟后重试" in seen(answer).text


async def test_passphrases_failed_from_everywhere_leave_the_key(authority: Authority):
    await authority.database.batch([locked_everywhere(authority)])
    async with visitor(authority) as owner:
        answer = await owner.http.post("/login", data={"secret": "a passphrase of mine"})
        assert answer.status_code == 429
        assert "only the owner key" in seen(answer).text
        await owner.sign_in()


def locked_everywhere(authority: Authority):

    now = authority.clock()
    return Statement("insert into owner_attempt values ('passphrase', 100, ?, ?)", (now, now + 3_600_000))


async def test_a_passphrase_of_another_version_is_told_apart(authority: Authority):
    await passphrase.set_passphrase(authority, "seven boats under a willow")

    await authority.database.batch([Statement("update owner_passphrase set scheme = 'newer'")])
    async with visitor(authority) as owner:
        answer = await owner.http.post("/login", data={"secret": "seven boats under a willow"})
    assert answer.status_code == 503
    assert "owner key" in seen(answer).text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://memory.example", f"{ISSUER}:8443"])
async def test_a_form_of_another_origin_signs_nobody_in(authority: Authority, origin: str):
    async with visitor(authority, Origin=origin) as anyone:
        answer = await anyone.http.post("/login", data={"secret": OWNER_KEY})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    seen(answer)


async def test_a_form_of_our_own_origin_does(authority: Authority):
    async with visitor(authority, Origin=ISSUER) as owner:
        await owner.sign_in()


@pytest.mark.parametrize("scope", ["memory:read", "nonsense"])
async def test_the_page_shown_again_may_still_lead_to_the_app(authority: Authority, scope: str):
    await register(authority)
    async with visitor(authority) as anyone:
        form = seen(await anyone.ask(scope=scope)).forms[0]
        answer = await anyone.send(form, secret=WRONG)
    assert "form-action 'self' https://app.example " in answer.headers["content-security-policy"]


async def test_the_page_shown_again_for_nothing_leads_nowhere_else(authority: Authority):
    async with visitor(authority) as anyone:
        for next_ in ("/account", f"/authorize?client_id=no&redirect_uri={REDIRECT}"):
            answer = await anyone.http.post("/login", data={"secret": WRONG, "next": next_})
            assert "form-action 'self';" in answer.headers["content-security-policy"]


async def test_each_sign_in_begins_a_session_of_its_own(authority: Authority):
    async with visitor(authority) as owner:
        first = (await owner.sign_in()).headers["set-cookie"]
        assert (await owner.sign_in()).headers["set-cookie"] != first


async def test_signing_out_ends_this_session_alone(authority: Authority):
    async with visitor(authority) as here, visitor(authority) as there:
        await here.sign_in()
        await there.sign_in()
        answer = await here.send((await here.account()).form("/logout"))
        assert answer.status_code == 200
        assert "__Host-shoal=; Max-Age=0" in answer.headers["set-cookie"]
        seen(answer)
        assert (await here.account()).forms[0].action == "/login"
        assert (await there.account()).form("/logout")


async def test_signing_out_everywhere_ends_them_all(authority: Authority):
    async with visitor(authority) as here, visitor(authority) as there:
        await here.sign_in()
        await there.sign_in()
        form = (await here.account()).form("/logout")
        assert ("everywhere", "1") in form.buttons
        await here.send(form, everywhere="1")
        assert (await there.account()).forms[0].action == "/login"


async def test_signing_out_needs_a_handle(authority: Authority):
    async with visitor(authority) as owner:
        await owner.sign_in()
        answer = await owner.http.post("/logout", data={"handle": "shoal_f_" + "x" * 43})
        assert answer.status_code == 403
        assert (await owner.account()).form("/logout")


async def test_who_is_not_signed_in_is_not_signed_out(authority: Authority):
    async with visitor(authority) as anyone:
        answer = await anyone.http.post("/logout", data={"everywhere": "1"})
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/login", "/logout", "/consent", "/account/revoke", "/account/passphrase", "/account/token"]
)
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{}", "application/json"),
        (b"", ""),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"handle=a&handle=b", "application/x-www-form-urlencoded"),
        (b"secret=%00", "application/x-www-form-urlencoded"),
        (b"&".join([b"a%d=1" % n for n in range(300)]), "application/x-www-form-urlencoded"),
    ],
)
async def test_what_is_no_form_is_told_on_a_page(authority: Authority, path: str, body: bytes, content_type: str):
    async with visitor(authority) as owner:
        await owner.sign_in()
        answer = await owner.http.post(path, content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert "can't be read" in seen(answer).text
