"""Percent-encoding (RFC 3986, 2.1)."""

import re
from typing import Final

_BROKEN: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def are_whole(text: str) -> bool:
    """Say whether each `%` begins an escape. Parsers don't agree on what one means that doesn't."""
    return _BROKEN.search(text) is None
