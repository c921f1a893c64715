import base64
import json
from dataclasses import replace
from urllib.parse import quote

import pytest
from tests.api.oauth.doubles import ISSUER, ScriptedFetcher
from tests.api.oauth.flow import REDIRECT
from tests.api.oauth.visits import Seen, asking, register, seen, sent_back, visitor

from shoal.api.oauth.asked import PARAMETERS_MAX, QUERY_MAX_CHARS
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.ports import Fetched
from shoal.api.oauth.records import ClientKind
from shoal.core.caller import Scope

DOCUMENT = "https://client.example.com/oauth/client.json"
LOOPBACK = "http://127.0.0.1:8791/cb"
TABLES = ("oauth_client", "oauth_grant", "oauth_code", "oauth_token", "owner_session", "owner_form", "owner_attempt")


async def kept(authority: Authority) -> str:
    return repr([await authority.database.query(f"select * from {table}") for table in TABLES])


@pytest.fixture
async def known(authority: Authority) -> Authority:
    """An authority that knows an app, whose redirects are a web page's and one on this machine."""
    await register(authority, redirects=(REDIRECT, LOOPBACK))
    return authority


async def error_of(authority: Authority, **different: str) -> dict[str, str]:
    """Return what an app on this machine is told at once, checking what every refusal has."""
    async with visitor(authority) as anyone:
        told = sent_back(await anyone.ask(redirect_uri=LOOPBACK, **different), LOOPBACK)
    assert told["iss"] == ISSUER
    assert told["error_description"].isascii()
    assert not set(told["error_description"]) & {'"', "\\"}
    return told


async def test_a_visitor_signs_in_first_and_nothing_is_kept_of_them(known: Authority):
    before = await kept(known)
    async with visitor(known) as anyone:
        answer = await anyone.ask()
        page = seen(answer)
    assert answer.status_code == 200
    (form,) = page.forms
    assert form.action == "/login"
    assert form.fields["next"].startswith("/authorize?response_type=code&client_id=app-id")
    assert "set-cookie" not in answer.headers
    assert await kept(known) == before


async def test_after_signing_in_the_same_request_is_asked_about(known: Authority):
    async with visitor(known) as owner:
        form = seen(await owner.ask(state="ж &")).forms[0]
        answer = await owner.sign_in(form.fields["next"])
        page = seen(await owner.http.get(answer.headers["location"]))
    assert page.form("/consent")


@pytest.mark.parametrize(
    "different",
    [
        {"client_id": "nobody"},
        {"client_id": "<script>alert(1)</script>"},
        {"client_id": ""},
        {"redirect_uri": "https://app.example/callback/../evil"},
        {"redirect_uri": "https://app.example.evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": ""},
    ],
)
@pytest.mark.parametrize("signed_in", [False, True])
async def test_who_or_where_unknown_is_told_on_a_page_and_sent_nowhere(
    known: Authority, different: dict[str, str], signed_in: bool
):
    async with visitor(known) as anyone:
        if signed_in:
            await anyone.sign_in()
        answer = await anyone.ask(**different, scope="nonsense")
    assert answer.status_code == 400
    assert "location" not in answer.headers
    page = seen(answer)
    assert page.forms == [] and page.of("a") == []
    assert not any(value and value in page.text for value in different.values())


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_who_or_where_twice_is_told_on_a_page(known: Authority, name: str):
    async with visitor(known) as anyone:
        answer = await anyone.http.get("/authorize", params=[*asking().items(), (name, asking()[name])])
    assert answer.status_code == 400
    assert seen(answer).forms == []


@pytest.mark.parametrize(
    ("different", "error"),
    [
        ({"response_type": ""}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "c" * 42}, "invalid_request"),
        ({"code_challenge": "c" * 44}, "invalid_request"),
        ({"code_challenge": "c" * 42 + "="}, "invalid_request"),
        ({"code_challenge": "c" * 43 + "\n"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"scope": "openid"}, "invalid_scope"),
        ({"scope": "MEMORY:READ"}, "invalid_scope"),
        ({"scope": "sync"}, "invalid_scope"),
        ({"resource": "https://memory.example/other"}, "invalid_target"),
        ({"resource": "https://memory.example.evil.example/mcp"}, "invalid_target"),
        ({"resource": "https://memory.example/mcp#x"}, "invalid_target"),
        ({"prompt": "none"}, "access_denied"),
    ],
)
async def test_an_app_is_told_what_is_wrong_with_its_request(known: Authority, different: dict[str, str], error: str):
    told = await error_of(known, **different)
    assert told["error"] == error
    assert told["state"] == "a state"


@pytest.mark.parametrize(
    ("name", "error"), [("state", "invalid_request"), ("scope", "invalid_request"), ("resource", "invalid_target")]
)
async def test_a_parameter_twice_is_refused(known: Authority, name: str, error: str):
    values = asking(redirect_uri=LOOPBACK, resource=known.resource)
    async with visitor(known) as anyone:
        answer = await anyone.http.get("/authorize", params=[*values.items(), (name, values[name])])
    told = sent_back(answer, LOOPBACK)
    assert told["error"] == error
    assert ("state" in told) == (name != "state"), "of two states none is the right one"


async def test_a_state_of_4_kib_comes_back_whole(known: Authority):
    state = ('中"<&+ %' * 1024).encode()[:4096].decode(errors="ignore")
    assert (await error_of(known, state=state, scope="x"))["state"] == state


async def test_a_longer_state_does_not_come_back(known: Authority):
    told = await error_of(known, state="x" * 4097)
    assert told["error"] == "invalid_request"
    assert "state" not in told


@pytest.mark.parametrize(
    "resource", ["", ISSUER, f"{ISSUER}/", f"{ISSUER}/mcp", f"{ISSUER}/mcp/"], ids=["none", "", "/", "/mcp", "/mcp/"]
)
async def test_the_one_resource_has_five_names(known: Authority, resource: str):
    async with visitor(known) as anyone:
        assert seen(await anyone.ask(resource=resource)).forms


@pytest.mark.parametrize(
    ("scope", "offered"),
    [
        ("", {"0-read", "0-write"}),
        ("memory:read offline_access openid", {"0-read"}),
        ("memory:admin memory:write memory:read sync", {"0-read", "0-write", "0-admin", "sync"}),
    ],
)
async def test_scopes_that_are_not_known_are_passed_over(known: Authority, scope: str, offered: set[str]):
    async with visitor(known) as owner:
        await owner.sign_in()
        page = seen(await owner.ask(scope=scope))
    names = {str(box["name"]) for box in page.of("input") if box["type"] == "checkbox"}
    assert {name for name in names if name.startswith("0-") or name == str(Scope.SYNC)} == offered


@pytest.mark.parametrize("client_id", ["app-id", DOCUMENT])
async def test_nobody_is_led_to_a_stranger_s_page_before_signing_in(
    authority: Authority, fetcher: ScriptedFetcher, client_id: str
):
    await register(authority)
    body = json.dumps({"client_id": DOCUMENT, "client_name": "App", "redirect_uris": [REDIRECT]}).encode()
    fetcher.answers[DOCUMENT] = Fetched(200, {"content-type": "application/json"}, body)
    async with visitor(authority) as owner:
        page = seen(await owner.ask(client_id=client_id, scope="nonsense"))
        assert page.forms[0].action == "/login"
        await owner.sign_in()
        assert sent_back(await owner.ask(client_id=client_id, scope="nonsense"))["error"] == "invalid_scope"


async def test_an_app_whose_document_can_not_be_had_is_told_about_on_a_page(authority: Authority):
    async with visitor(authority) as anyone:
        answer = await anyone.ask(client_id=DOCUMENT)
    assert answer.status_code in (400, 503)
    assert "For whoever made the app" in seen(answer).text


async def test_an_app_that_the_owner_set_up_is_told_at_once(authority: Authority):
    await register(authority, kind=ClientKind.GIVEN)
    async with visitor(authority) as anyone:
        assert sent_back(await anyone.ask(scope="nonsense"))["error"] == "invalid_scope"


async def test_the_login_page_may_lead_to_where_the_app_is_answered(known: Authority):
    async with visitor(known) as anyone:
        policy = (await anyone.ask()).headers["content-security-policy"]
    assert "form-action 'self' https://app.example " in policy


@pytest.mark.parametrize(
    "query",
    ["x" * (QUERY_MAX_CHARS + 1), "&".join(f"p{number}=1" for number in range(PARAMETERS_MAX + 1))],
    ids=["long", "many"],
)
async def test_a_request_of_any_size_is_answered(known: Authority, query: str):
    async with visitor(known) as anyone:
        answer = await anyone.http.get(f"/authorize?{query}")
    assert answer.status_code in (400, 414)
    seen(answer)


@pytest.mark.parametrize("junk", ["%", "%zz", "%ff%fe", "a=%00", "=&=&;", "state=%ed%a0%80", ""])
async def test_junk_is_answered(known: Authority, junk: str):
    async with visitor(known) as anyone:
        answer = await anyone.http.get(f"/authorize?{junk}")
        assert answer.status_code == 400
        told = await anyone.http.get(f"/authorize?{junk}&client_id=app-id&redirect_uri={quote(LOOPBACK)}")
        assert told.status_code in (303, 400)


async def test_it_is_asked_for_by_get_alone(known: Authority):
    async with visitor(known) as anyone:
        assert (await anyone.http.post("/authorize", data=asking())).status_code == 405


async def test_the_issuer_is_that_of_the_request(known: Authority):
    elsewhere = replace(known, issuer="https://other.example")
    async with visitor(elsewhere) as anyone:
        told = sent_back(await anyone.ask(redirect_uri=LOOPBACK, scope="x"), LOOPBACK)
    assert told["iss"] == "https://other.example"


async def test_any_challenge_of_sha256_is_taken(known: Authority):
    for byte in (b"\x00", b"\xff"):
        challenge = base64.urlsafe_b64encode(byte * 32).rstrip(b"=").decode()
        async with visitor(known) as anyone:
            assert Seen((await anyone.ask(code_challenge=challenge)).text).forms
