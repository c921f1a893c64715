"""Unpack a body, never further than to a bound: a few kilobytes can unpack to gigabytes."""

import zlib
from typing import Final

from shoal.schema.errors import BodyTooLarge, MalformedBody

_GZIP: Final = 16 + zlib.MAX_WBITS
"""What tells zlib to expect gzip's header and to check its trailer."""


def inflated(packed: bytes, max_bytes: int) -> bytes:
    """Return what a gzip stream of one member (RFC 1952) holds.

    Raises BodyTooLarge where that is more than `max_bytes`, as soon as one more is there; MalformedBody.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        unpacked = member.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise _broken() from error
    if len(unpacked) > max_bytes:
        raise BodyTooLarge(
            "The body is too large once it is unpacked.", f"Send at most {max_bytes} bytes a request.", limit=max_bytes
        )
    if not member.eof or member.unused_data:
        raise _broken()
    return unpacked


def _broken() -> MalformedBody:
    return MalformedBody("The body is not gzip, or not all of it.", "Pack it as one gzip stream, or send it unpacked.")
