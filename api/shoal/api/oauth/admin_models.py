"""What the owner's routes take and give. Times in answers are ISO 8601 in UTC."""

from typing import Annotated, Final, Literal

from pydantic import Field

from shoal.core.statements import INT_MAX
from shoal.schema.limits import PAGE_DEFAULT
from shoal.schema.models import Answer, Request

SPACES_MAX: Final = 64
"""Spaces that one token may name."""
DAYS_MAX: Final = 3_650
"""Longest life that a token can be given, in days; without one it lives until it is revoked."""
_ID_MAX_CHARS: Final = 2_048

Deeds = list[Literal["read", "write", "admin"]]


class TokenRequest(Request):
    """Make a token for a device or a script."""

    name: Annotated[str, Field(description="By which you know it again")]
    device: Annotated[str | None, Field(description="Name of the machine it is for")] = None
    spaces: Annotated[
        dict[str, Deeds] | None, Field(description="Deeds by space, * for every; default: read and write in main")
    ] = None
    sync: Annotated[bool, Field(description="Whether it may keep a copy in step")] = False
    expires_in_days: Annotated[int | None, Field(ge=1, le=DAYS_MAX, description="Default: never")] = None


class TokenMade(Answer):
    """A new token, which can't be shown again."""

    id: str
    token: str


class TokenOut(Answer):
    """An app that was let in, or a token that was made. Not the token itself."""

    id: str
    kind: str
    """`app` or `device`."""
    client_id: str | None
    name: str
    device: str | None
    spaces: dict[str, list[str]]
    sync: bool
    created_at: str
    used_at: str | None
    """To the day."""
    expires_at: str | None


class TokensAnswer(Answer):
    """Those by which someone can come in, the last used first."""

    tokens: list[TokenOut]


class Removed(Answer):
    """What has ended."""

    id: str


class ClientRequest(Request):
    """Register an app beforehand, which then needs neither a registration of its own nor a document."""

    name: Annotated[str, Field(description="As the consent page shows it")]
    redirect_uris: Annotated[list[str], Field(description="Where codes may be sent, exactly")]
    auth_method: Annotated[
        Literal["none", "client_secret_post", "client_secret_basic"],
        Field(description="none: a public client, which has no secret"),
    ] = "none"


class ClientOut(Answer):
    """An app that was registered beforehand."""

    client_id: str
    name: str
    redirect_uris: list[str]
    auth_method: str


class ClientMade(ClientOut):
    """A new one; its secret can't be shown again."""

    client_secret: str | None


class ClientsAnswer(Answer):
    """Those registered beforehand, oldest first."""

    clients: list[ClientOut]


class LogRequest(Request):
    """Read the log of writes, the newest first."""

    token: Annotated[str | None, Field(max_length=_ID_MAX_CHARS, description="Only by this token's id")] = None
    client: Annotated[str | None, Field(max_length=_ID_MAX_CHARS, description="Only by this app's name")] = None
    before: Annotated[int | None, Field(ge=0, le=INT_MAX, description="`next` of the page before")] = None
    limit: Annotated[int, Field(description="1..100 entries")] = PAGE_DEFAULT


class LogLine(Answer):
    """Memories of one space that were changed together; never what they say."""

    n: int
    at: str
    action: str
    space: str
    client: str
    token: str
    device: str
    ids: list[str]


class LogAnswer(Answer):
    """A page of the log; `next` is missing on the last."""

    entries: list[LogLine]
    next: int | None = None
