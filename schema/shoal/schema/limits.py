"""Every bound of the product, with its unit. An error that meets one names it."""

from typing import Final

CONTENT_MAX_BYTES: Final = 256 * 1024
"""UTF-8 bytes of one memory's content; FTS text of a Chinese one is about 3.7 times as long, D1 takes 2 MB."""

TAG_MAX_CHARS: Final = 128
TAGS_MAX: Final = 64
ENTITY_MAX_CHARS: Final = 256
ENTITIES_MAX: Final = 64
SOURCE_MAX_CHARS: Final = 512
SPACE_MAX_CHARS: Final = 64
CONVERSATION_MAX_CHARS: Final = 256
POSITION_MAX: Final = 2**31 - 1
METADATA_KEY_MAX_CHARS: Final = 64
METADATA_KEYS_MAX: Final = 64
METADATA_MAX_BYTES: Final = 16 * 1024
"""UTF-8 bytes of one memory's metadata as compact JSON."""

BATCH_MAX: Final = 500
"""Memories in one store call; also the ids of one get, delete or update."""

FIND_DEFAULT: Final = 5
FIND_MAX: Final = 50
PAGE_DEFAULT: Final = 20
PAGE_MAX: Final = 100
QUERY_MAX_CHARS: Final = 4_000
"""Characters of a query; longer ones are cut with a note, since no model here reads more."""

BODY_MAX_BYTES: Final = 1024 * 1024
"""Bytes of one HTTP request's body: the longest memory, in Chinese and written with \\u escapes still fits."""
INFLATED_MAX_BYTES: Final = 2_000_000
"""Bytes of a replica's request once it is unpacked: what D1 takes as one value."""
SEQ_MAX: Final = 2**53 - 1
"""Greatest sequence number: numbers pass through JavaScript."""

PASSAGES_MAX: Final = 1024
"""Passages of one memory: a passage's FTS row and its vector are numbered `rid * PASSAGES_MAX + passage`."""

TRASH_DAYS_DEFAULT: Final = 30
LOG_DAYS_DEFAULT: Final = 90
"""How long the log of writes is kept."""
