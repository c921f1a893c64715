"""What a device and the edge say to each other. docs/sync.md explains the protocol.

A cell travels as a list [id, space, field, rank, hlc, value]: id in hexadecimal; `init` for what never changes, whose
value is an object, or null once it is purged; rank the life that the cell belongs to; hlc its stamp, 19 digits
(milliseconds * 65536 + counter), `-` and the device that wrote it. The receiver merges it by (rank, hlc).
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from shoal.schema.limits import SEQ_MAX

PROTO: Final = 1
"""Of requests and answers; only a change that older replicas would misread raises it."""
CELLS_MAX: Final = 500
"""Cells of one push, and of one page."""
PAGE_BYTES: Final = 512 * 1024
"""Bytes of their JSON; a larger cell goes alone."""
AHEAD_MAX_MS: Final = 5 * 60_000
"""How far a stamp may be ahead of the edge's clock."""
DEVICE_PATTERN: Final = r"^[a-z0-9]{1,32}$"
BATCH_PATTERN: Final = r"^[0-9a-f]{16}$"
SPACES_MAX: Final = 500
"""Spaces that one pull names."""

SyncSpaces = Annotated[list[str], Field(max_length=SPACES_MAX)] | Literal["*"]
"""Spaces by name, or `*` for every one, also later ones."""


class _Message(BaseModel):
    # Unknown fields are passed over: a newer replica may say more.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Head(_Message):
    """The last batch of the edge's history that an answer knew of.

    A device sends back the newest that it was told. If the edge has that batch, it has all that was before it; if not,
    its database was restored to an earlier time, or is another.
    """

    seq: Annotated[int, Field(ge=0, le=SEQ_MAX)]
    batch: Annotated[str, Field(pattern=BATCH_PATTERN)]


class _Request(_Message):
    proto: int
    schema_version: int
    """Version of the sender's migrations."""
    device: Annotated[str, Field(pattern=DEVICE_PATTERN)]
    head: Head | None = None
    """What the last answer said; None before the first."""


class PushRequest(_Request):
    """A device's own writes."""

    cells: list[Any]
    """At most CELLS_MAX; each is checked by itself, so that a bad one keeps no other back."""


class RefusalCode(StrEnum):
    """Why the edge won't take one cell."""

    MALFORMED = "malformed"
    """It breaks a rule of cells: a fault of the program that wrote it."""
    WRONG_ID = "wrong_id"
    """Its content doesn't belong to its id."""
    CLOCK_AHEAD = "clock_ahead"
    """It is stamped more than AHEAD_MAX_MS in the future."""
    NOT_ALLOWED = "not_allowed"
    """The token may not write to its space, or not purge there."""
    REFUSED = "refused"
    """The edge refused the request that had it alone."""


class Refusal(_Message):
    """One cell that was not taken."""

    index: int
    """Its place in the request."""
    code: RefusalCode
    message: str


class _Reply(_Message):
    server_time: int
    """The edge's clock, milliseconds since 1970."""
    clock: Annotated[str, Field(pattern=r"^[0-9]{19}$")]
    """The edge's last stamp, or its time where that is later: no cell there is later."""
    spaces: SyncSpaces
    """Those that the token may pull."""
    writable: SyncSpaces
    """Those that it may push to."""


class PushAnswer(_Reply):
    """What became of a push: all cells are merged but those named."""

    refused: list[Refusal]
    head: Head


class PullRequest(_Request):
    """Asks for what was written after a cursor."""

    spaces: SyncSpaces
    cursor: Annotated[int, Field(ge=0, le=SEQ_MAX)]
    batch: Annotated[str, Field(pattern=BATCH_PATTERN)] | None
    """The name of the batch that the cursor lies in, as the answer gave it; None with cursor 0."""
    limit: Annotated[int, Field(ge=1, le=CELLS_MAX)] = CELLS_MAX


class PullAnswer(_Reply):
    """A page of cells in the order of their merging at the edge."""

    cells: list[Any]
    cursor: int
    """Where the next page begins; of cells of other spaces that were passed over too."""
    batch: Annotated[str, Field(pattern=BATCH_PATTERN)]
    more: bool
    head: Head


class SyncStatus(_Reply):
    """What a device must know before it begins."""

    proto: int
    schema_version: int
    model: str | None
    """Fingerprint of the edge's embedding model."""
