"""Parameters of OAuth requests: query strings and urlencoded bodies (RFC 6749, 3.1, 3.2 and appendix B)."""

import re
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from shoal.api.oauth.errors import Code, OAuthError

MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
TEXT_MAX_CHARS: Final = 32_768
"""Of a whole query string or body: a `state` of 4 KiB, every byte of it percent-encoded, fits twice."""
PARAMETERS_MAX: Final = 40
"""No request of ours needs half as many; unknown ones are passed over, not stored."""
NAME_MAX_CHARS: Final = 100
VALUE_MAX_CHARS: Final = 8_192
"""After decoding. What single parameters may have is for those who read them."""

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse(text: str) -> dict[str, str]:
    """Return the parameters of an urlencoded text; those without a value count as not sent (RFC 6749, 3.1).

    Raises OAuthError(INVALID_REQUEST): a parameter twice, too many or too long, bad encoding.
    """
    if len(text) > TEXT_MAX_CHARS:
        raise _refusal(f"The parameters are too long; at most {TEXT_MAX_CHARS} characters together.")
    # Whatever encodes for the web leaves ASCII; the rest would be read differently by different servers.
    if not text.isascii() or _BAD_ESCAPE.search(text):
        raise _refusal("The parameters are not urlencoded; percent-encode them as UTF-8.")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise _refusal("The parameters are not urlencoded; percent-encode them as UTF-8.") from None
    except ValueError:
        raise _refusal(f"There are too many parameters; at most {PARAMETERS_MAX}.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        _check(name, value)
        if name in found:
            raise _refusal("A parameter was sent more than once; send each once.")
        found[name] = value
    return {name: value for name, value in found.items() if value}


async def read_form(request: Request) -> dict[str, str]:
    """Return the parameters of a request's body. Raises OAuthError(INVALID_REQUEST)."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise _refusal(f"The body is not a form; send it with Content-Type: {MEDIA_TYPE}.")
    # Bytes above ASCII become characters above ASCII, which `parse` refuses.
    return parse((await request.body()).decode("latin-1"))


def _check(name: str, value: str) -> None:
    if len(name) > NAME_MAX_CHARS or len(value) > VALUE_MAX_CHARS:
        raise _refusal(f"A parameter is too long; at most {VALUE_MAX_CHARS} characters.")
    if "\0" in name or "\0" in value:
        raise _refusal("A parameter has a NUL character; leave it out.")


def _refusal(description: str) -> OAuthError:
    return OAuthError(Code.INVALID_REQUEST, description)
