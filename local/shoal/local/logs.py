"""Where the daemon's log goes: a file that can't grow without bound, and stderr when a person looks on."""

import logging
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Final

from shoal.local.home import Home, private

LOG_MAX_BYTES: Final = 1_000_000
LOG_FILES_KEPT: Final = 3
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class PrivateFile(RotatingFileHandler):
    """A log that only its owner may read, whatever the folder it lies in allows."""

    _told = False

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=private)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once that a full disk takes no log; logging's own way is a traceback for each request."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            sys.stderr.write(f"The log {self.baseFilename} can't be written: {error.strerror or error}.\n")


def set_up_logs(home: Home, level: str, to_stderr: bool) -> None:
    """Send this process's log to the home's file, and to stderr if asked. Contents of memories are never logged."""
    handlers: list[logging.Handler] = [
        PrivateFile(home.log, maxBytes=LOG_MAX_BYTES, backupCount=LOG_FILES_KEPT, encoding="utf-8")
    ]
    if to_stderr:
        console = logging.StreamHandler(sys.stderr)
        # A line a request is for the file; on a screen it would bury what a person should see.
        console.addFilter(lambda record: record.name != "shoal.access")
        handlers.append(console)
    logging.basicConfig(level=level.upper(), format=FORMAT, handlers=handlers, force=True)
    # Libraries log addresses, bodies and notices that help nobody here.
    for name in ("uvicorn", "mcp", "httpx", "httpx2", "asyncio", "filelock"):
        logging.getLogger(name).setLevel(logging.WARNING)
