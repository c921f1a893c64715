"""Who calls: what they may reach, and in which time zone they speak."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shoal.core.text import clean
from shoal.core.times import zone_named
from shoal.schema.errors import InsufficientScope, InvalidInput, NotAllowed
from shoal.schema.limits import SPACE_MAX_CHARS

DEFAULT_SPACE: Final = "main"
ALL_SPACES: Final = "*"
"""Stands for every space that the caller reaches."""


class Scope(StrEnum):
    """What a token allows; bound to each tool and route."""

    READ = "memory:read"
    WRITE = "memory:write"
    ADMIN = "memory:admin"
    SYNC = "sync"


_DEEDS: Final = {Scope.READ: "read", Scope.WRITE: "write", Scope.ADMIN: "administer", Scope.SYNC: "sync"}
"""What each scope allows to do to a space."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One client of the memory, as its transport's gate has found it to be.

    Each scope counts in the spaces that it reaches, and nowhere else: what a caller may write it may be unable to read.
    `spaces` None means every space. `clamps` says whether numbers out of range are moved to the border with a
    note (tools) or refused (REST).
    """

    scopes: frozenset[Scope] = frozenset(Scope)
    spaces: tuple[str, ...] | None = None
    narrower: tuple[tuple[Scope, tuple[str, ...]], ...] = ()
    """Scopes that reach only these spaces, each fewer than `spaces`."""
    default_space: str = DEFAULT_SPACE
    """The space meant when none is named, where every space is allowed; elsewhere the first that is."""
    time_zone: str = "UTC"
    client: str = ""
    """Who calls, by a name that the owner knows."""
    token: str = ""
    """The id of what the caller was let in by; the log of writes has it."""
    device: str = ""
    owner: bool = False
    """Whether it is the owner in person, who may let others in."""
    clamps: bool = True

    def reach(self, scope: Scope) -> tuple[str, ...] | None:
        """Return the spaces in which a scope is allowed: None for every space, none where it isn't held."""
        if scope not in self.scopes:
            return ()
        return dict(self.narrower).get(scope, self.spaces)

    def require(self, *needs: Scope) -> None:
        """Raise InsufficientScope unless all of these scopes are held, wherever they reach."""
        missing = [scope for scope in Scope if scope in needs and scope not in self.scopes]
        if missing:
            raise InsufficientScope(
                f"This needs {'the scope' if len(missing) == 1 else 'the scopes'} {' and '.join(missing)}.",
                "Connect again and allow it; a script or device needs another token.",
                scopes=[str(scope) for scope in Scope if scope in needs or scope in self.scopes],
            )

    def space(self, wanted: str | None, *needs: Scope) -> str:
        """Return one space, as it is stored, in which all of `needs` are allowed: the wanted one, or the caller's own.

        Raises InsufficientScope, NotAllowed, InvalidInput.
        """
        self.require(*needs)
        reached = self._reached(needs)
        if wanted in ("", ALL_SPACES):
            raise InvalidInput(f"{wanted!r} names no single space.", "Name one, or leave `space` out.")
        if wanted is not None:
            name = clean(wanted, "space", SPACE_MAX_CHARS)
        else:
            name = reached[0] if reached else self.default_space
        if reached is not None and name not in reached:
            raise self._refusal(name, needs)
        return name

    def within(self, wanted: Sequence[str] | str | None, *needs: Scope) -> tuple[str, ...] | None:
        """Return the spaces to look in where all of `needs` are allowed: one, several, or with `*` all (None = every).

        Raises InsufficientScope, NotAllowed for a space named that is none of them, InvalidInput.
        """
        if wanted in (ALL_SPACES, [ALL_SPACES]):
            self.require(*needs)
            return self._reached(needs)
        if wanted == []:
            raise InvalidInput("`space` is an empty list.", "Name at least one, `*` for all, or leave it out.")
        names = [wanted] if isinstance(wanted, str) or wanted is None else wanted
        return tuple(dict.fromkeys(self.space(name, *needs) for name in names))

    def within_by_id(self, wanted: Sequence[str] | str | None, *needs: Scope) -> tuple[str, ...] | None:
        """As `within`, for a memory that is named by its id: no space given means all, as the id tells which."""
        return self.within(ALL_SPACES if wanted is None else wanted, *needs)

    def _reached(self, needs: Sequence[Scope]) -> tuple[str, ...] | None:
        """Return the spaces that all of these scopes reach, never more than `spaces`."""
        limits = [limit for limit in (self.spaces, *map(self.reach, needs)) if limit is not None]
        if not limits:
            return None
        return tuple(space for space in limits[0] if all(space in limit for limit in limits))

    def _refusal(self, space: str, needs: Sequence[Scope]) -> NotAllowed:
        """Return the error for a space out of reach, the same whether it exists or not.

        Only of a space that another scope reaches is it told which deed is refused.
        """
        if any(self.reaches(space, scope) for scope in _DEEDS):
            deeds = " and ".join(deed for scope, deed in _DEEDS.items() if self._refuses(space, scope, needs))
        else:
            deeds = "reach"
        return NotAllowed(f"The space {space!r} is not yours to {deeds}.", "Name one that your token allows.")

    def _refuses(self, space: str, scope: Scope, needs: Sequence[Scope]) -> bool:
        return scope in needs and not self.reaches(space, scope)

    def reaches(self, space: str, scope: Scope) -> bool:
        """Say whether a scope is allowed in a space, given as it is stored."""
        reached = self.reach(scope)
        return reached is None or space in reached

    def zone(self, wanted: str | None) -> str:
        """Return the time zone that a request's times are meant in: the wanted one, or the caller's.

        Raises InvalidTime, also where the request names no time.
        """
        return zone_named(wanted).key if wanted else self.time_zone
