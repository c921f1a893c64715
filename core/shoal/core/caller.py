"""Who calls: what they may reach, and in which time zone they speak."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shoal.core.text import clean
from shoal.core.times import zone_named
from shoal.schema.errors import InvalidInput, NotAllowed
from shoal.schema.limits import SPACE_MAX_CHARS

DEFAULT_SPACE: Final = "main"
ALL_SPACES: Final = "*"
"""Stands for every space that the caller may read."""


class Scope(StrEnum):
    """What a token allows; bound to each tool and route."""

    READ = "memory:read"
    WRITE = "memory:write"
    ADMIN = "memory:admin"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class Caller:
    """One client of the memory, as its transport's gate has found it to be.

    `spaces` None means every space. `clamps` says whether numbers out of range are moved to the border with a
    note (tools) or refused (REST).
    """

    scopes: frozenset[Scope] = frozenset(Scope)
    spaces: tuple[str, ...] | None = None
    narrower: tuple[tuple[Scope, tuple[str, ...]], ...] = ()
    """Scopes that reach only these spaces, each fewer than `spaces`."""
    default_space: str = DEFAULT_SPACE
    """The space meant when none is named, for a caller of every space; others mean their first."""
    time_zone: str = "UTC"
    client: str = ""
    """Who calls, by a name that the owner knows."""
    token: str = ""
    """The id of what the caller was let in by; the log of writes has it."""
    device: str = ""
    owner: bool = False
    """Whether it is the owner in person, who may let others in."""
    clamps: bool = True

    def require(self, scope: Scope) -> None:
        """Raise NotAllowed unless the caller holds the scope."""
        if scope not in self.scopes:
            raise NotAllowed(f"This needs the scope {scope}.", "Connect again and allow it.", scope=str(scope))

    def space(self, wanted: str | None) -> str:
        """Return one space as it is stored: the wanted one, or the caller's first. Raises NotAllowed, InvalidInput."""
        if wanted in ("", ALL_SPACES):
            raise InvalidInput(f"{wanted!r} names no single space.", "Name one, or leave `space` out.")
        if wanted is not None:
            name = clean(wanted, "space", SPACE_MAX_CHARS)
        else:
            name = self.spaces[0] if self.spaces else self.default_space
        if self.spaces is not None and name not in self.spaces:
            raise NotAllowed(f"The space {name!r} is not yours to reach.", "Name one that your token allows.")
        return name

    def readable(self, wanted: Sequence[str] | str | None) -> tuple[str, ...] | None:
        """Return the spaces to read: one, several, or with `*` all of them (None = no limit).

        Raises NotAllowed, InvalidInput.
        """
        if wanted in (ALL_SPACES, [ALL_SPACES]):
            return self.spaces
        if wanted == []:
            raise InvalidInput("`space` is an empty list.", "Name at least one, `*` for all, or leave it out.")
        names = [wanted] if isinstance(wanted, str) or wanted is None else wanted
        return tuple(dict.fromkeys(self.space(name) for name in names))

    def readable_by_id(self, wanted: Sequence[str] | str | None) -> tuple[str, ...] | None:
        """As `readable`, for a memory that is named by its id: no space given means all, as the id tells which."""
        return self.readable(ALL_SPACES if wanted is None else wanted)

    def zone(self, wanted: str | None) -> str:
        """Return the time zone that a request's times are meant in: the wanted one, or the caller's.

        Raises InvalidTime, also where the request names no time.
        """
        return zone_named(wanted).key if wanted else self.time_zone
