import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.api.oauth.doubles import made_authority

from shoal.api.oauth import client_metadata
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.client_metadata import NAME_MAX_CHARS, REDIRECTS_MAX, WORDS_MAX, ClientMetadata, plain
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import AuthMethod

URIS = ["https://app.example/cb"]


def told(authority: Authority, **fields: Any) -> ClientMetadata:
    return client_metadata.checked({"redirect_uris": URIS, **fields}, authority)


def refusal(authority: Authority, given: Any) -> OAuthError:
    with pytest.raises(OAuthError) as refused:
        client_metadata.checked(given, authority)
    return refused.value


def test_what_an_app_leaves_out_is_as_the_rfc_says(authority: Authority):
    least = told(authority)
    assert (least.grant_types, least.response_types) == (["authorization_code"], ["code"])
    assert client_metadata.auth_method(least) is AuthMethod.BASIC
    assert least.name == "app.example"


@pytest.mark.parametrize("method", AuthMethod)
def test_each_way_that_we_know_can_be_registered(authority: Authority, method: AuthMethod):
    assert client_metadata.auth_method(told(authority, token_endpoint_auth_method=str(method))) is method


@pytest.mark.parametrize("method", ["private_key_jwt", "client_secret_jwt", "tls_client_auth", "NONE", "", "none "])
def test_no_other_way_can_be(authority: Authority, method: str):
    if method:
        with pytest.raises(OAuthError) as refused:
            client_metadata.auth_method(told(authority, token_endpoint_auth_method=method))
        assert refused.value.code is Code.INVALID_CLIENT_METADATA
        assert all(known in refused.value.description for known in AuthMethod)
    else:
        assert client_metadata.auth_method(told(authority, token_endpoint_auth_method=method)) is AuthMethod.BASIC


@pytest.mark.parametrize(
    ("method", "supported"),
    [(None, []), ("none", []), ("none", ["private_key_jwt"]), ("private_key_jwt", ["private_key_jwt", "none"])],
)
def test_an_app_of_a_document_can_do_without_a_secret(authority: Authority, method: str | None, supported: list[str]):
    client_metadata.require_public(
        told(authority, token_endpoint_auth_method=method, token_endpoint_auth_methods_supported=supported)
    )


@pytest.mark.parametrize(
    ("method", "supported"),
    [
        ("private_key_jwt", []),
        ("private_key_jwt", ["private_key_jwt"]),
        ("client_secret_basic", ["none"]),
        ("client_secret_post", ["none"]),
        ("client_secret_jwt", ["none"]),
    ],
)
def test_an_app_of_a_document_has_no_shared_secret_and_does_not_insist_on_a_key(
    authority: Authority, method: str, supported: list[str]
):
    about = told(authority, token_endpoint_auth_method=method, token_endpoint_auth_methods_supported=supported)
    with pytest.raises(OAuthError) as refused:
        client_metadata.require_public(about)
    assert refused.value.code is Code.INVALID_CLIENT_METADATA


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (None, "object"),
        ([], "object"),
        ({}, "redirect_uris"),
        ({"redirect_uris": []}, "redirect_uris"),
        ({"redirect_uris": URIS * (REDIRECTS_MAX + 1)}, "redirect_uris"),
        ({"redirect_uris": tuple(URIS)}, "redirect_uris"),
        ({"redirect_uris": URIS, "client_name": ["App"]}, "client_name"),
        ({"redirect_uris": URIS, "grant_types": "authorization_code"}, "grant_types"),
        ({"redirect_uris": URIS, "grant_types": ["x"] * (WORDS_MAX + 1)}, "grant_types"),
        ({"redirect_uris": URIS, "response_types": ["x" * 129]}, "response_types"),
    ],
    ids=str,
)
def test_a_refusal_names_the_field_and_repeats_nothing(authority: Authority, given: Any, field: str):
    refused = refusal(authority, given)
    assert refused.code is Code.INVALID_CLIENT_METADATA
    assert field in refused.description and "app.example" not in refused.description


def test_one_bad_redirect_uri_spoils_all(authority: Authority):
    refused = refusal(authority, {"redirect_uris": [*URIS, "javascript:alert(1)"]})
    assert refused.code is Code.INVALID_REDIRECT_URI and "alert" not in refused.description


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([*AuthMethod, *URIS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*ClientMetadata.model_fields, "x"]), _VALUES) | _VALUES)
async def test_no_value_makes_anything_but_metadata_or_a_refusal(given: Any):
    try:
        about = client_metadata.checked(given, await made_authority())
        assert about.name and client_metadata.auth_method(about)
        client_metadata.require_public(about)
    except OAuthError as error:
        assert error.code in (Code.INVALID_CLIENT_METADATA, Code.INVALID_REDIRECT_URI)
        assert error.description.isascii() and not set(error.description) & set('"\\')


@pytest.mark.parametrize("blank", ["\u115f", "\u1160", "\u2800", "\u3164", "\uffa0", "\ufe0f", "\u034f", "\U000e0100"])
def test_what_shows_nothing_is_no_name(blank: str):
    assert plain(blank) == "" and plain(f"a{blank}b") == "ab"


@given(st.text() | st.text(alphabet="a\u202e\u2066\u200b\u3164\ud800 \n"))
@example("a" * 99 + " b")
def test_any_name_becomes_one_bounded_line_that_stays_as_it_is(name: str):
    shown = plain(name)
    assert len(shown) <= NAME_MAX_CHARS and plain(shown) == shown == shown.strip()
    assert not any(unicodedata.category(character)[0] == "C" for character in shown)
    assert "  " not in shown
    shown.encode()
