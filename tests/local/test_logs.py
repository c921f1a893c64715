"""The daemon's log on a disk that takes no more."""

import errno
import io
import logging
import os
import stat

import pytest

from shoal.local.home import Home
from shoal.local.logs import PrivateFile


@pytest.fixture
def log(home: Home) -> PrivateFile:
    home.ensure()
    handler = PrivateFile(home.log, maxBytes=200, backupCount=2, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("shoal", logging.INFO, __file__, 1, text, None, None)


class FullDisk(io.TextIOWrapper):
    """A file on a disk without room."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def write(self, text: str) -> int:
        """Refuse."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_each_part_of_the_log_can_be_read_by_its_owner_only(home: Home, log: PrivateFile) -> None:
    for number in range(30):
        log.handle(record(f"line {number} " + "x" * 50))
    log.close()
    parts = list(home.log.parent.iterdir())
    assert len(parts) == 3
    assert {stat.S_IMODE(part.stat().st_mode) for part in parts} == {0o600}


def test_a_log_that_cannot_be_written_is_told_once_and_without_its_lines(
    log: PrivateFile, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    log.stream = FullDisk()
    for _ in range(5):
        log.handle(record("a line"))
    errors = capsys.readouterr().err
    assert errors.count("can't be written") == 1
    assert "Traceback" not in errors
    assert "a line" not in errors
