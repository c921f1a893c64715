import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.oauth.doubles import ISSUER, NOW_MS, Clock, ScriptedFetcher, made_authority
from tests.api.oauth.flow import rows

from shoal.api.oauth import clients, documents, redirects
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.expiring import ROWS_MAX
from shoal.api.oauth.ports import Fetched, FetchFailed
from shoal.api.oauth.records import Client, ClientKind

URL = "https://app.example/client.json"
DOCUMENT = {"client_id": URL, "client_name": "App", "redirect_uris": ["https://app.example/cb", "http://127.0.0.1/cb"]}
CLIENT = Client(URL, ClientKind.DOCUMENT, "App", ("https://app.example/cb", "http://127.0.0.1/cb"))
JSON = {"content-type": "application/json"}
CHALLENGE = Fetched(403, {"content-type": "text/html"}, b"<html>Are you human?</html>")


def served(cache_control: str | None = None, **different: Any) -> Fetched:
    headers = {} if cache_control is None else {"cache-control": cache_control}
    return Fetched(200, JSON | headers, json.dumps({**DOCUMENT, **different}).encode())


def numbered(n: int) -> str:
    return f"https://app.example/{n}.json"


async def refusal(authority: Authority, url: str = URL) -> OAuthError:
    with pytest.raises(OAuthError) as refused:
        await documents.find(authority, url)
    return refused.value


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        "https://xn--bcher-kva.example/client",
        "https://app.xn--p1ai/client",
        "https://a.b-c.example/x?y=1&z=%20",
        "https://app.example/..client/.well-known/a.b",
        "https://1.2.3.4.example/x",
    ],
)
def test_documents_are_fetched_from_public_names(url: str):
    assert documents.is_fetchable(url, ISSUER)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "://",
        "http://app.example/x",
        "HTTPS://app.example/x",
        "ftp://app.example/x",
        "file:///etc/passwd",
        "https:/app.example/x",
        "https:app.example/x",
        "https://app.example",
        "https://app.example/",
        "https://app.example/?x",
        "https://app.example/x#",
        "https://app.example/x#y",
        "https://app.example:443/x",
        "https://app.example:8443/x",
        "https://app.example:/x",
        "https://user@app.example/x",
        "https://user:secret@app.example/x",
        "https://app.example\\@evil.example/x",
        "https://app.example/x\\..\\y",
        "https://app.example/a/../x",
        "https://app.example/a/..",
        "https://app.example/./x",
        "https://app.example/a/%2e%2E/x",
        "https://app.example/a/.%2e/x",
        "https://app.example/a%2f..%2fx",
        "https://app.example/a%5c..%5cx",
        "https://app.example/%",
        "https://app.example/%zz",
        "https://app.example/ x",
        "https://app.example/x\n",
        "https://app.example/\x00",
        "https://app.example/é",
        " https://app.example/x",
        "https://App.example/x",
        "https://app.example./x",
        "https://app..example/x",
        "https://.app.example/x",
        "https://-app.example/x",
        "https://app-.example/x",
        "https://app_1.example/x",
        "https://bücher.example/x",
        "https://app。example/x",
        "https://app%2eexample/x",
        "https://*.example/x",
        "https://localhost/x",
        "https://router/x",
        "https://app.localhost/x",
        "https://printer.local/x",
        "https://metadata.google.internal/x",
        "https://router.home.arpa/x",
        "https://x.test/x",
        "https://x.invalid/x",
        "https://x.onion/x",
        "https://x.lan/x",
        "https://127.0.0.1/x",
        "https://127.1/x",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/x",
        "https://2130706433/x",
        "https://017700000001/x",
        "https://0177.0.0.1/x",
        "https://0x7f000001/x",
        "https://0x7f.0.0.1/x",
        "https://127.0.0.0x1/x",
        "https://[::1]/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://1.1.1.1.1/x",
        "https://memory.example/authorize",
        "https://app.example/" + "x" * documents.URL_MAX_CHARS,
    ],
    ids=lambda url: repr(url[:44]),
)
async def test_nothing_is_fetched_from_anywhere_else(authority: Authority, fetcher: ScriptedFetcher, url: str):
    assert not documents.is_fetchable(url, ISSUER)
    assert (await refusal(authority, url)).code is Code.INVALID_CLIENT
    assert fetcher.asked == [] and await rows(authority, "select id from oauth_client") == []


@given(st.text() | st.from_regex(r"https://[a-z0-9.\[\]:@%-]{0,20}/[!-~]{0,20}", fullmatch=True))
def test_any_text_is_fetchable_or_not(url: str):
    if documents.is_fetchable(url, ISSUER):
        assert (
            url.isascii() and url.startswith("https://") and not set(url) & set("#\\ ") and "@" not in url.split("/")[2]
        )


async def test_a_client_is_what_its_document_says(authority: Authority, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = served(token_endpoint_auth_method="none", logo_uri="https://app.example/logo.png")
    assert await documents.find(authority, URL) == CLIENT
    assert fetcher.asked == [URL]


async def test_a_document_may_prefer_a_key_if_none_will_do(authority: Authority, fetcher: ScriptedFetcher):
    # As ChatGPT's: one document serves every server.
    fetcher.answers[URL] = served(
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_methods_supported=["private_key_jwt", "none"],
        jwks_uri="https://app.example/jwks.json",
    )
    assert await documents.find(authority, URL) == CLIENT


async def test_a_document_has_five_kib_and_not_a_byte_more(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    longest = json.dumps(DOCUMENT).encode().ljust(documents.DOCUMENT_MAX_BYTES)
    fetcher.answers[URL] = Fetched(200, JSON, longest + b" ")
    assert (await refusal(authority)).code is Code.INVALID_CLIENT
    clock.forward(seconds=60)
    fetcher.answers[URL] = Fetched(200, JSON, longest)
    assert await documents.find(authority, URL) == CLIENT


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/oauth+json"])
async def test_a_document_is_called_json(authority: Authority, fetcher: ScriptedFetcher, kind: str):
    fetcher.answers[URL] = replace(served(), headers={"content-type": kind})
    assert await documents.find(authority, URL) == CLIENT


async def test_a_document_that_withdraws_a_redirect_uri_takes_effect_when_it_is_fetched_again(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    fetcher.answers[URL] = served("max-age=300")
    kept, withdrawn = (await documents.find(authority, URL)).redirect_uris
    fetcher.answers[URL] = served("max-age=300", redirect_uris=[kept])
    assert redirects.chosen(await documents.find(authority, URL), withdrawn) == withdrawn
    clock.forward(seconds=300)
    client = await documents.find(authority, URL)
    assert redirects.chosen(client, kept) == kept
    with pytest.raises(OAuthError):
        redirects.chosen(client, withdrawn)


async def test_a_client_without_a_name_is_called_by_its_host(authority: Authority, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = served(client_name=" \u202e ")
    assert (await documents.find(authority, URL)).name == "app.example"


@pytest.mark.parametrize(
    ("cache_control", "fresh_s"),
    [
        (None, 3_600),
        ("max-age=7200", 7_200),
        ("public, Max-Age=600", 600),
        ("max-age=0", 300),
        ("no-store", 300),
        ("no-cache, max-age=7200", 300),
        ("max-age=999999999", 86_400),
        ("max-age=99999999999999999999", 3_600),
        ("max-age=-5", 3_600),
        ("s-maxage=60", 3_600),
        ("é", 3_600),
    ],
)
async def test_a_copy_is_good_for_as_long_as_the_site_says_within_bounds(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher, cache_control: str | None, fresh_s: int
):
    fetcher.answers[URL] = served(cache_control)
    await documents.find(authority, URL)
    clock.forward(seconds=fresh_s - 1)
    assert await documents.find(authority, URL) == CLIENT and len(fetcher.asked) == 1
    clock.forward(seconds=1)
    fetcher.answers[URL] = served(cache_control, redirect_uris=["https://app.example/new"])
    assert (await documents.find(authority, URL)).redirect_uris == ("https://app.example/new",)
    assert len(fetcher.asked) == 2


@pytest.mark.parametrize(
    "failure",
    [
        FetchFailed("no such host"),
        CHALLENGE,
        replace(CHALLENGE, status=200),
        Fetched(301, {"location": "https://127.0.0.1/"}, b""),
        Fetched(404, JSON, b"{}"),
        Fetched(200, JSON, b""),
        Fetched(200, JSON, b"\xff"),
        Fetched(200, JSON, b"[" * 5000),
        Fetched(200, {}, json.dumps(DOCUMENT).encode()),
        Fetched(200, {"content-type": "text/plain"}, json.dumps(DOCUMENT).encode()),
        Fetched(200, {"content-type": "image/png; x=application/json"}, json.dumps(DOCUMENT).encode()),
        Fetched(200, {"content-type": "text/plain, application/json"}, json.dumps(DOCUMENT).encode()),
        Fetched(200, JSON, json.dumps({**DOCUMENT, "x": "y" * documents.DOCUMENT_MAX_BYTES}).encode()),
    ],
    ids=lambda failure: str(failure)[:60],
)
async def test_while_nothing_can_be_had_a_copy_stands_in_for_seven_days(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher, failure: Fetched | Exception
):
    fetcher.answers[URL] = failure
    assert (await refusal(authority)).code is Code.INVALID_CLIENT
    clock.forward(seconds=60)
    fetcher.answers[URL] = served()
    await documents.find(authority, URL)
    fetcher.answers[URL] = failure
    for _ in range(6):
        clock.forward(days=1)
        # The second look falls into the minute in which nobody asks again.
        assert await documents.find(authority, URL) == await documents.find(authority, URL) == CLIENT
    clock.forward(days=1)
    assert (await refusal(authority)).code is (await refusal(authority)).code is Code.INVALID_CLIENT
    fetcher.answers[URL] = served()
    clock.forward(seconds=60)
    assert await documents.find(authority, URL) == CLIENT


@pytest.mark.parametrize(
    "different",
    [
        {"client_id": URL + "/"},
        {"client_id": "https://app.example:443/client.json"},
        {"client_id": None},
        {"client_id": 1},
        {"redirect_uris": []},
        {"redirect_uris": ["http://evil.example/cb"]},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"],
        },
        {
            "token_endpoint_auth_method": "client_secret_basic",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
        },
        {"client_secret": "x"},
        {"client_secret_expires_at": 0},
        {"grant_types": ["client_credentials"]},
    ],
    ids=str,
)
async def test_a_document_that_says_the_wrong_thing_makes_no_client_and_ends_the_copy(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher, different: dict[str, Any]
):
    fetcher.answers[URL] = served()
    await documents.find(authority, URL)
    clock.forward(seconds=3600)
    fetcher.answers[URL] = served(**different)
    for _ in range(2):
        assert (await refusal(authority)).status in (400, 401)
    clock.forward(seconds=60)
    fetcher.answers[URL] = served()
    assert await documents.find(authority, URL) == CLIENT


@given(st.binary() | st.text().map(str.encode) | st.dictionaries(st.text(), st.text()).map(json.dumps).map(str.encode))
async def test_no_document_makes_anything_but_a_client_or_a_refusal(body: bytes):
    fetcher = ScriptedFetcher({URL: Fetched(200, JSON, body)})
    assert (await refusal(await made_authority(Clock(), fetcher))).description.isascii()


async def test_one_url_makes_us_ask_once_a_minute_however_often_it_is_named(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    for _ in range(5):
        await refusal(authority)
    assert len(fetcher.asked) == 1
    clock.forward(seconds=60)
    await refusal(authority)
    assert len(fetcher.asked) == 2


async def test_two_at_the_same_time_ask_once(authority: Authority, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = served()
    both = await asyncio.gather(*(documents.find(authority, URL) for _ in range(2)), return_exceptions=True)
    assert len(fetcher.asked) == 1 and CLIENT in both
    (other,) = [one for one in both if one != CLIENT]
    assert isinstance(other, OAuthError) and other.code is Code.INVALID_CLIENT


async def test_one_network_has_thirty_documents_fetched_an_hour(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    for n in range(documents.NETWORK_HOURLY):
        await refusal(authority, numbered(n))
    limited = await refusal(authority, numbered(99))
    assert (limited.code, limited.retry_after_s) == (Code.TEMPORARILY_UNAVAILABLE, 3_600)
    assert len(fetcher.asked) == documents.NETWORK_HOURLY
    await refusal(replace(authority, network="192.0.2.2"), numbered(99))
    assert fetcher.asked[-1] == numbered(99)
    clock.forward(seconds=3600)
    await refusal(authority, numbered(100))
    assert fetcher.asked[-1] == numbered(100)


async def test_asking_again_for_the_same_counts_too(authority: Authority, clock: Clock, fetcher: ScriptedFetcher):
    for _ in range(40):
        for n in range(3):
            await refusal(authority, numbered(n))
        clock.forward(seconds=60)
    assert len(fetcher.asked) == documents.NETWORK_HOURLY


async def test_at_the_limit_a_copy_still_stands_in(authority: Authority, clock: Clock, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = served("max-age=300")
    await documents.find(authority, URL)
    for n in range(documents.NETWORK_HOURLY):
        with pytest.raises(OAuthError):
            await documents.find(authority, numbered(n))
    clock.forward(seconds=300)
    assert await documents.find(authority, URL) == CLIENT
    assert fetcher.asked.count(URL) == 1


async def test_all_networks_together_have_three_hundred_fetched(authority: Authority, fetcher: ScriptedFetcher):
    for n in range(documents.HOURLY):
        await refusal(replace(authority, network=str(n // 10)), numbered(n))
    await refusal(replace(authority, network="another"), numbered(-1))
    assert len(fetcher.asked) == documents.HOURLY


async def test_the_upkeep_keeps_copies_for_seven_days_and_failures_for_an_hour(
    authority: Authority, clock: Clock, fetcher: ScriptedFetcher
):
    async def left() -> list[Any]:
        await authority.database.batch(clients.expiring(clock(), ROWS_MAX))
        return [row["id"] for row in await rows(authority, "select id from oauth_client order by id")]

    fetcher.answers[URL] = served()
    await documents.find(authority, URL)
    await refusal(authority, numbered(1))
    assert await left() == [numbered(1), URL]
    clock.forward(seconds=3_661)
    assert await left() == [URL]
    clock.forward(days=6.9)
    assert await left() == [URL]
    clock.forward(days=0.2)
    assert await left() == []


async def test_documents_can_be_switched_off(authority: Authority, fetcher: ScriptedFetcher):
    fetcher.answers[URL] = served()
    assert (await refusal(replace(authority, settings=replace(authority.settings, documents=False)))).status == 401
    assert fetcher.asked == []


def test_a_clients_own_ids_are_never_taken_for_urls():
    assert documents.is_url(URL) and not documents.is_url(f"{NOW_MS:032x}")
