"""Parameters as OAuth sends them: application/x-www-form-urlencoded, each at most once (RFC 6749, 3.1, appendix B)."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from shoal.api.oauth import escapes
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.shell import media_type

FORM_TYPE: Final = "application/x-www-form-urlencoded"
PARAMETERS_MAX: Final = 256
"""The largest form is the consent page's: a few for each of its spaces."""
VALUE_MAX_CHARS: Final = 32_768
"""The longest value is where a sign-in goes on to: a request to /authorize with all of its `state`."""


def parse(text: str) -> dict[str, str]:
    """Return the parameters; those without a value count as left out. Raises OAuthError (invalid_request)."""
    # What is encoded is ASCII; anything else two servers could read differently.
    if not text.isascii() or not escapes.are_whole(text):
        raise OAuthError(Code.INVALID_REQUEST, "The parameters are not encoded. Percent-encode them as UTF-8.")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except ValueError as error:  # UnicodeDecodeError among them
        raise OAuthError(Code.INVALID_REQUEST, "The parameters can not be read. Encode them as UTF-8.") from error
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise OAuthError(Code.INVALID_REQUEST, "A parameter is there twice. Send each once.")
        if "\x00" in name + value or len(value) > VALUE_MAX_CHARS:
            raise OAuthError(Code.INVALID_REQUEST, f"A parameter has a NUL or over {VALUE_MAX_CHARS} characters.")
        given[name] = value
    return {name: value for name, value in given.items() if value}


def required(form: Mapping[str, str], name: str) -> str:
    """Return a parameter that must be there. Raises OAuthError (invalid_request)."""
    if not form.get(name):
        raise OAuthError(Code.INVALID_REQUEST, f"The parameter {name} is missing.")
    return form[name]


async def read_form(request: Request) -> dict[str, str]:
    """Return the parameters in a request's body. Raises OAuthError (invalid_request)."""
    if media_type(request.headers) != FORM_TYPE:
        raise OAuthError(Code.INVALID_REQUEST, f"Send a form, with Content-Type: {FORM_TYPE}.")
    try:
        text = (await request.body()).decode("ascii")
    except UnicodeDecodeError as error:
        raise OAuthError(Code.INVALID_REQUEST, "The form has bytes that are not encoded.") from error
    return parse(text)
