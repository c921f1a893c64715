"""SQLite's and the system's errors become what a person can act on; faults of the program stay what they are."""

import errno
from pathlib import Path

import apsw
import pytest

from shoal.local.translate import translate
from shoal.schema.errors import (
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    StorageError,
)

PATH = Path("/somewhere/shoal.db")


@pytest.mark.parametrize(
    ("error", "system_errno", "expected"),
    [
        (apsw.BusyError(), 0, DatabaseLocked),
        (apsw.LockedError(), 0, DatabaseLocked),
        (apsw.ReadOnlyError(), 0, DatabaseReadOnly),
        (PermissionError(errno.EACCES, "denied"), 0, DatabaseReadOnly),
        (OSError(errno.EROFS, "read-only file system"), 0, DatabaseReadOnly),
        (apsw.FullError(), 0, DatabaseFull),
        (apsw.IOError(), errno.EDQUOT, DatabaseFull),
        (OSError(errno.ENOSPC, "no space"), 0, DatabaseFull),
        (apsw.CorruptError(), 0, DatabaseCorrupt),
        (apsw.NotADBError(), 0, DatabaseCorrupt),
        (apsw.IOError(), errno.EIO, StorageError),
        (apsw.CantOpenError(), 0, StorageError),
        (FileNotFoundError(errno.ENOENT, "no such file"), 0, StorageError),
    ],
    ids=repr,
)
def test_an_error_names_the_file_and_what_to_do(error: Exception, system_errno: int, expected: type[StorageError]):
    translated = translate(error, PATH, system_errno)
    assert type(translated) is expected
    assert isinstance(translated, StorageError)
    assert str(PATH) in translated.message
    assert translated.mend


@pytest.mark.parametrize("error", [apsw.SQLError("no such table"), apsw.ConstraintError("unique"), KeyError("x")])
def test_a_fault_of_the_program_stays_what_it_is(error: Exception):
    assert translate(error, PATH) is error
