from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.api.oauth.doubles import request_of

from shoal.api.oauth import forms
from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError

FORM = {"Content-Type": forms.FORM_TYPE}


def test_parameters_are_decoded_once():
    assert forms.parse("a=1+2&b=%E4%BD%A0&c=%2541&d=x%3Dy") == {"a": "1 2", "b": "你", "c": "%41", "d": "x=y"}


def test_a_parameter_without_a_value_counts_as_left_out():
    assert forms.parse("a=&b&c=1&") == {"c": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "a=1&a=2",
        "a=1&a=1",
        "a=&a=1",
        "a=%",
        "a=%zz",
        "a=%e",
        "a=%ff",
        "a=%ED%A0%80",
        "a=é",
        "a=\ud800",
        "a=%00",
        "%00=a",
        f"a={'x' * (forms.VALUE_MAX_CHARS + 1)}",
        "&".join(f"a{n}=1" for n in range(forms.PARAMETERS_MAX + 1)),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_two_servers_could_read_differently_is_refused(text: str):
    with pytest.raises(OAuthError) as refused:
        forms.parse(text)
    assert refused.value.code is Code.INVALID_REQUEST


@given(st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), st.text(min_size=1), max_size=9))
def test_what_browsers_send_comes_back_as_it_was(parameters: dict[str, str]):
    kept = {name: value for name, value in parameters.items() if "\0" not in value and _encodes(value)}
    assert forms.parse(urlencode(kept)) == kept


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@given(st.text() | st.text(alphabet="ab=&;%+0f"))
@example("\ud800=1")
def test_no_text_makes_anything_but_parameters_or_a_refusal(text: str):
    try:
        forms.parse(text)
    except OAuthError as error:
        assert error.code is Code.INVALID_REQUEST


async def test_a_form_is_read_from_the_body(authority: Authority):
    charset = {"Content-Type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}
    for headers in (FORM, charset):
        assert await forms.read_form(request_of(authority, "a=1&b=%20", headers=headers)) == {"a": "1", "b": " "}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"a=1"),
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "multipart/form-data"}, b"a=1"),
        (FORM, b"a=\xff"),
        (FORM, "a=é".encode()),
        (FORM, b"\x1f\x8b\x08\x00"),
    ],
)
async def test_another_body_is_refused(authority: Authority, headers: dict[str, str], body: bytes):
    with pytest.raises(OAuthError) as refused:
        await forms.read_form(request_of(authority, body, headers=headers))
    assert refused.value.code is Code.INVALID_REQUEST
