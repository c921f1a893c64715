"""What SQLite's errors mean to a person. SQL that is wrong stays an apsw error: a fault of the program."""

import errno
from pathlib import Path
from typing import Final

import apsw

from shoal.schema.errors import (
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseReplaced,
    StorageError,
)

# SQLite says 'full' only for ENOSPC, and 'I/O error' for a quota or a limit on the file's size.
_FULL_ERRNOS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def translate(error: Exception, path: Path, system_errno: int = 0) -> Exception:
    """Return the ShoalError for what a person can cause or meet, or else the error itself.

    `system_errno` is the operating system's error number of the connection that failed, 0 when unknown.
    """
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return locked(path)
        case apsw.ReadOnlyError() | OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
            return read_only(path)
        case apsw.FullError() | OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            return full(path)
        case apsw.IOError() if system_errno in _FULL_ERRNOS:
            return full(path)
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError():
            return corrupt(path, str(error))
        case UnicodeEncodeError():
            return StorageError(f"The database's name {str(path)!a} is not UTF-8.", "Choose another with SHOAL_DB.")
        case apsw.IOError() | apsw.NoMemError() | apsw.PermissionsError() | apsw.CantOpenError() | OSError():
            return StorageError(
                f"The database {path} can't be used: {error}.",
                "Check the disk, and that the folder exists and is yours; then try again.",
            )
        case _:
            return error


def locked(path: Path) -> DatabaseLocked:
    """Return the error for a write lock that another process held for too long."""
    return DatabaseLocked(
        f"Another process has held the database {path} for too long; nothing was written.",
        "Try again; if it stays, end the other process (`shoal doctor` names it).",
    )


def read_only(path: Path) -> DatabaseReadOnly:
    """Return the error for a file or a folder that can't be written."""
    return DatabaseReadOnly(
        f"The database {path} can't be written.",
        "Give this user the right to write the file and its folder (SQLite keeps two more files beside it).",
    )


def replaced(path: Path) -> DatabaseReplaced:
    """Return the error for a file that is no longer the one that was opened."""
    return DatabaseReplaced(
        f"The database {path} was moved, deleted or replaced while it was open; nothing was written.",
        "Put it back where it was, or restart shoal, which then opens what lies there.",
    )


def full(path: Path) -> DatabaseFull:
    """Return the error for a full disk."""
    return DatabaseFull(
        f"There is no room left for the database {path}; nothing was written.", "Free some space and try again."
    )


def corrupt(path: Path, finding: str) -> DatabaseCorrupt:
    """Return the error for a damaged file; `finding` is what SQLite says of it."""
    return DatabaseCorrupt(
        f"The database {path} is damaged ({finding}). It was left as it is.",
        "Bring back a backup with `shoal restore`.",
        finding=finding,
    )
