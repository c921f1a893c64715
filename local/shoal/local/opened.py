"""Whether a database's file is still the one that was opened, and whether damage was met in it."""

from pathlib import Path
from typing import Final

from shoal.local.translate import corrupt, replaced
from shoal.schema.errors import DatabaseCorrupt

Identity = tuple[int, int]
"""Device and inode (on Windows volume and file index)."""


class OpenedFile:
    """The file behind the connections of one database, shared by the threads that use it.

    SQLite goes on writing to a file that was deleted or renamed, and into one of which it has found pages damaged.
    Both would be acknowledged and lost, so nothing more is read or written then.
    """

    def __init__(self, path: Path) -> None:
        """Remember the file that lies at `path` now. Raises OSError."""
        self._path: Final = path
        self._identity: Final = _identity(path)
        self._damage: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the file may be written to, as by a last checkpoint."""
        return self._damage is None and self._is_in_place()

    def require(self) -> None:
        """Raise DatabaseReplaced or DatabaseCorrupt unless the file can be relied on. About 2 µs."""
        if self._damage is not None:
            raise corrupt(self._path, self._damage)
        if not self._is_in_place():
            raise replaced(self._path)

    def note(self, error: Exception) -> None:
        """Take down an error of this file: damage stays until the file is opened again."""
        if isinstance(error, DatabaseCorrupt) and self._damage is None:
            self._damage = str(error.details.get("finding", error.message))

    def _is_in_place(self) -> bool:
        try:
            return _identity(self._path) == self._identity
        except FileNotFoundError:
            return False


def _identity(path: Path) -> Identity:
    found = path.stat()
    return found.st_dev, found.st_ino
