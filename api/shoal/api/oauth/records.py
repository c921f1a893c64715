"""The things that OAuth keeps, as plain values. The tables they lie in: migration 0003, docs/security.md."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shoal.core.caller import ALL_SPACES, Scope

CLIENT_SCOPES: Final = (Scope.READ, Scope.WRITE, Scope.ADMIN, Scope.SYNC)
"""All that can be asked for, in the order in which lists show them."""
DEFAULT_SCOPES: Final = (Scope.READ, Scope.WRITE)
"""What is meant when a client asks for nothing in particular."""
SPACE_SCOPES: Final = (Scope.READ, Scope.WRITE, Scope.ADMIN)
"""Those that are allowed space by space; SYNC is allowed as such, and reaches what these reach."""
DEEDS: Final = {Scope.READ: "read", Scope.WRITE: "write", Scope.ADMIN: "admin"}
"""What SPACE_SCOPES are called in requests, answers and forms."""


NAME_MAX_CHARS: Final = 100
"""Characters of an app's or a device's name."""
COUNTED_MS: Final = 3_600_000
"""For how long registering and fetching a document count towards their limits, which are those of an hour."""


class ClientKind(StrEnum):
    """How a client came to be known."""

    REGISTERED = "registered"
    """By itself (RFC 7591)."""
    DOCUMENT = "document"
    """By the document that its id, a URL, leads to."""
    GIVEN = "given"
    """By the owner beforehand."""


class AuthMethod(StrEnum):
    """How a client proves at the token endpoint that it is itself."""

    NONE = "none"
    POST = "client_secret_post"
    BASIC = "client_secret_basic"


class GrantKind(StrEnum):
    """What was let in."""

    APP = "app"
    DEVICE = "device"


class TokenKind(StrEnum):
    """What a token is for."""

    ACCESS = "access"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class Client:
    """An app that may ask to be let in."""

    id: str
    kind: ClientKind
    name: str
    redirect_uris: tuple[str, ...]
    auth_method: AuthMethod = AuthMethod.NONE
    secret_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """What a grant allows: scopes by space (`*` = every space, also later ones), and whether it may sync.

    As JSON {"main": ["memory:read", "memory:write"], "sync": true} it stands in the database.
    """

    spaces: Mapping[str, frozenset[Scope]]
    sync: bool = False

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return all that it allows somewhere."""
        found = frozenset[Scope]().union(*self.spaces.values())
        return found | {Scope.SYNC} if self.sync else found

    def of(self, scope: Scope) -> tuple[str, ...] | None:
        """Return the spaces that a scope reaches, in the order in which they were allowed; None = every space."""
        named = tuple(space for space, scopes in self.spaces.items() if scope in scopes)
        return None if ALL_SPACES in named else named

    def to_json(self) -> str:
        """Return the form in which it is kept."""
        spaces = {space: sorted(map(str, scopes)) for space, scopes in self.spaces.items() if scopes}
        return json.dumps({"spaces": spaces, "sync": self.sync}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Reach":
        """Return what `to_json` has written."""
        told = json.loads(text)
        return cls({space: frozenset(map(Scope, scopes)) for space, scopes in told["spaces"].items()}, told["sync"])


def scope_text(scopes: Iterable[Scope]) -> str:
    """Return scopes as OAuth writes them: in one order, with spaces between."""
    held = frozenset(scopes)
    return " ".join(scope for scope in CLIENT_SCOPES if scope in held)


def scopes_of(text: str) -> frozenset[Scope]:
    """Return the scopes that a text names; those that we don't know (`openid`, `offline_access`) are passed over."""
    known = {str(scope): scope for scope in CLIENT_SCOPES}
    return frozenset(known[name] for name in text.split() if name in known)


def living(now: str) -> str:
    """Return SQL that holds while the grant `g` has not ended; `now` is the parameter that has the time in ms."""
    return f"g.revoked_at is null and coalesce(g.expires_at > {now}, 1)"
