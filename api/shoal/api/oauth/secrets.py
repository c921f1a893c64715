"""The secrets that this server hands out: unguessable, known by their form, kept only as SHA-256.

The form lets scanners find leaked ones, and lets us refuse anything else without asking the database.
"""

import base64
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

RANDOM_BYTES: Final = 32
_PREFIX: Final = "shoal"
_BODY: Final = r"[A-Za-z0-9_-]{43}"


class Secret(StrEnum):
    """What a secret opens; the letter stands in its text."""

    ACCESS = "a"
    REFRESH = "r"
    CODE = "c"
    DEVICE = "d"
    """The access token of a device or script, made by the owner."""
    MANAGEMENT = "m"
    """A client's own access to its registration (RFC 7592)."""
    CLIENT = "s"
    FORM = "f"
    BROWSER = "b"


def make(kind: Secret, random: Callable[[int], bytes]) -> str:
    """Return a new secret of 256 random bits: `shoal_a_...`, 51 characters."""
    body = base64.urlsafe_b64encode(random(RANDOM_BYTES)).decode().rstrip("=")
    return f"{_PREFIX}_{kind}_{body}"


def is_well_formed(text: str, *kinds: Secret) -> bool:
    """Say whether a text can be a secret of one of these kinds at all."""
    return re.fullmatch(rf"{_PREFIX}_[{''.join(kinds)}]_{_BODY}", text) is not None
