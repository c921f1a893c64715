import base64
import hmac
from dataclasses import replace
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from tests.api.oauth.doubles import Clock, ScriptedFetcher, made_authority

from shoal.api.oauth import client_auth, clients
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import AuthMethod, Client, ClientKind
from shoal.core.protocols import Statement

REDIRECTS = ["https://app.example/cb"]
URL = "https://app.example/client.json"


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


async def proven(authority: Authority, form: dict[str, str], headers: dict[str, str] | None = None) -> Client:
    return await client_auth.authenticate(authority, Headers(headers or {}), form)


async def refusal(authority: Authority, form: dict[str, str], headers: dict[str, str] | None = None) -> OAuthError:
    with pytest.raises(OAuthError) as refused:
        await proven(authority, form, headers)
    return refused.value


async def with_secret(authority: Authority, method: AuthMethod) -> tuple[str, str]:
    client, secret = await clients.give(authority, "App", REDIRECTS, method)
    assert secret is not None
    return client.id, secret


async def test_a_public_client_names_itself(authority: Authority):
    client, secret = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    assert secret is None
    assert await proven(authority, {"client_id": client.id}) == client


async def test_a_secret_is_taken_where_it_was_registered_to_be(authority: Authority):
    client_id, secret = await with_secret(authority, AuthMethod.POST)
    assert (await proven(authority, {"client_id": client_id, "client_secret": secret})).id == client_id
    other_id, other = await with_secret(authority, AuthMethod.BASIC)
    assert (await proven(authority, {}, basic(other_id, other))).id == other_id
    assert (await proven(authority, {"client_id": other_id}, basic(other_id, other))).id == other_id


async def test_basic_credentials_are_form_encoded_before(authority: Authority):
    client_id, secret = await with_secret(authority, AuthMethod.BASIC)
    encoded = "".join(f"%{ord(character):02X}" for character in secret)
    assert (await proven(authority, {}, basic(quote_plus(client_id), encoded))).id == client_id


async def test_only_the_registered_way_proves_anything(authority: Authority):
    posting, posted = await with_secret(authority, AuthMethod.POST)
    basing, based = await with_secret(authority, AuthMethod.BASIC)
    public, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    for form, headers in [
        ({"client_id": posting}, {}),
        ({}, basic(posting, posted)),
        ({"client_id": basing}, {}),
        ({"client_id": basing, "client_secret": based}, {}),
        ({"client_id": public.id, "client_secret": "x"}, {}),
        ({}, basic(public.id, "")),
        ({}, basic(public.id, "x")),
        ({"client_id": posting, "client_secret": based}, {}),
        ({}, basic(basing, posted)),
        ({}, basic(basing, "")),
    ]:
        assert (await refusal(authority, form, headers)).code is Code.INVALID_CLIENT


@pytest.mark.parametrize("sent", AuthMethod)
@pytest.mark.parametrize("registered", AuthMethod)
async def test_of_all_ways_one_is_each_clients_own(authority: Authority, registered: AuthMethod, sent: AuthMethod):
    client, secret = await clients.give(authority, "App", REDIRECTS, registered)
    form, headers = {
        AuthMethod.NONE: ({"client_id": client.id}, {}),
        AuthMethod.POST: ({"client_id": client.id, "client_secret": secret or "x"}, {}),
        AuthMethod.BASIC: ({}, basic(client.id, secret or "x")),
    }[sent]
    if sent is registered:
        assert await proven(authority, form, headers) == client
    else:
        refused = await refusal(authority, form, headers)
        assert (refused.code, refused.as_dict()) == (Code.INVALID_CLIENT, clients.unknown().as_dict())


@pytest.mark.parametrize(
    "id_and_secret", ["%zz:x", "%ff:x", "a%00b:x", "\x00:x", "%ED%A0%80:x", "a:b:c", ":", "a%3Ab:c"]
)
async def test_basic_credentials_that_are_no_clients_prove_nothing(authority: Authority, id_and_secret: str):
    header = "Basic " + base64.b64encode(id_and_secret.encode()).decode()
    assert (await refusal(authority, {}, {"authorization": header})).code is Code.INVALID_CLIENT


async def test_the_schemes_name_may_be_written_in_any_case(authority: Authority):
    client_id, secret = await with_secret(authority, AuthMethod.BASIC)
    header = basic(client_id, secret)["authorization"].replace("Basic", "bASIC")
    assert (await proven(authority, {}, {"authorization": header})).id == client_id


async def test_two_ways_at_once_are_a_mistake(authority: Authority):
    client_id, secret = await with_secret(authority, AuthMethod.BASIC)
    both = {"client_id": client_id, "client_secret": secret}
    assert (await refusal(authority, both, basic(client_id, secret))).code is Code.INVALID_REQUEST
    assert (await refusal(authority, {"client_id": "x"}, basic(client_id, secret))).code is Code.INVALID_REQUEST
    twice = Headers(raw=[(b"authorization", basic(client_id, secret)["authorization"].encode())] * 2)
    with pytest.raises(OAuthError) as refused:
        await client_auth.authenticate(authority, twice, {})
    assert refused.value.code is Code.INVALID_REQUEST


async def test_the_answer_does_not_tell_an_unknown_client_from_a_wrong_secret(authority: Authority):
    client_id, _ = await with_secret(authority, AuthMethod.POST)
    wrong = await refusal(authority, {"client_id": client_id, "client_secret": "shoal_s_" + "x" * 43})
    unknown = await refusal(authority, {"client_id": "0" * 32, "client_secret": "shoal_s_" + "x" * 43})
    assert wrong.status == unknown.status == 401
    assert wrong.as_dict() == unknown.as_dict()


async def test_secrets_are_compared_in_constant_time(authority: Authority, monkeypatch: pytest.MonkeyPatch):
    client_id, secret = await with_secret(authority, AuthMethod.POST)
    compared: list[tuple[str, str]] = []

    def noting(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", noting)
    await proven(authority, {"client_id": client_id, "client_secret": secret})
    assert len(compared) == 1 and secret not in compared[0]


async def test_a_client_whose_time_is_over_or_that_was_removed_registers_again(authority: Authority, clock: Clock):
    client, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    lapsing = Statement("update oauth_client set expires_at = ?1", (clock() + 1000,))
    await authority.database.batch([lapsing])
    assert await proven(authority, {"client_id": client.id}) == client
    clock.forward(seconds=1)
    assert (await refusal(authority, {"client_id": client.id})).status == 401
    other, _ = await clients.give(authority, "App", REDIRECTS, AuthMethod.NONE)
    await clients.remove(authority, other.id)
    assert (await refusal(authority, {"client_id": other.id})).code is Code.INVALID_CLIENT


async def test_a_client_of_a_document_is_known_by_its_url_even_while_its_site_is_away(
    authority: Authority, fetcher: ScriptedFetcher
):
    client = await proven(authority, {"client_id": URL})
    assert (client.id, client.kind, client.redirect_uris) == (URL, ClientKind.DOCUMENT, ())
    assert fetcher.asked == []


async def test_a_url_that_no_document_may_have_is_no_client(authority: Authority):
    assert (await refusal(authority, {"client_id": "http://127.0.0.1/x"})).code is Code.INVALID_CLIENT
    assert (await refusal(authority, {}, basic(URL, "x"))).code is Code.INVALID_CLIENT
    closed = replace(authority, settings=replace(authority.settings, documents=False))
    assert (await refusal(closed, {"client_id": URL})).code is Code.INVALID_CLIENT


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic ", "Basic !!!!", "Basic YQ==", "Basic /w==", "Basic Og==", "Bearer x", "Basic JWZmOngl", "é"],
)
async def test_a_header_that_can_not_be_read_is_refused(authority: Authority, header: str):
    assert (await refusal(authority, {"client_id": "x"}, {"authorization": header})).code in (
        Code.INVALID_CLIENT,
        Code.INVALID_REQUEST,
    )


@given(st.text(), st.text(), st.text(st.characters(max_codepoint=255)) | st.binary().map(base64.b64encode))
async def test_nothing_that_is_sent_proves_or_breaks_anything(client_id: str, secret: str, header: str | bytes):
    authority = await made_authority()
    encoded = header.decode() if isinstance(header, bytes) else header
    for form, headers in [
        ({"client_id": client_id}, {}),
        ({"client_id": client_id, "client_secret": secret}, {}),
        ({}, {"authorization": f"Basic {encoded}"}),
        ({}, {"authorization": encoded}),
    ]:
        if all(form.values()):
            await refusal(authority, form, headers)
