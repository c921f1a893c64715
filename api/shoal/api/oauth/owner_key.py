"""The owner's key: 160 random bits, told once, by which the owner proves to be the owner.

The server knows only the SHA-256 of its 32 characters. A plain hash is enough: nobody can go through 2^160 keys.
"""

import base64
import hmac
import re
from collections.abc import Callable
from typing import Final

from shoal.api.oauth.authority import sha256

RANDOM_BYTES: Final = 20
GROUP_CHARS: Final = 4
_FORM: Final = re.compile(r"[A-Z2-7]{32}")
"""The letters of base32 (RFC 4648, 6): neither 0, 1, 8 nor 9, so that nothing is taken for O, I, L or B."""
_SPREAD: Final = re.compile(r"[\s\-]+")
_TEXT_MAX_CHARS: Final = 256
"""Of what may be a key with dashes and spaces; more is none."""


def make(random: Callable[[int], bytes]) -> str:
    """Return a new key: eight groups of four characters, with dashes between."""
    text = base64.b32encode(random(RANDOM_BYTES)).decode()
    return "-".join(text[start : start + GROUP_CHARS] for start in range(0, len(text), GROUP_CHARS))


def normalise(text: str) -> str | None:
    """Return the 32 characters of a key, or None where the text can't be one.

    Case, white space and dashes don't matter; nothing else is forgiven.
    """
    if len(text) > _TEXT_MAX_CHARS or not text.isascii():
        return None
    joined = _SPREAD.sub("", text).upper()
    return joined if _FORM.fullmatch(joined) else None


def digest(text: str) -> str | None:
    """Return the SHA-256 of a key, as OWNER_KEY_SHA256 has it; None where the text can't be one."""
    key = normalise(text)
    return None if key is None else sha256(key)


def is_owner_key(text: str, key_sha256: str) -> bool:
    """Say whether a text is the key whose SHA-256 this is; it takes as long whichever characters are wrong."""
    found = digest(text)
    return found is not None and hmac.compare_digest(found.encode(), key_sha256.lower().encode())
