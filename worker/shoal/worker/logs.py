"""The Worker's log: a JSON object a line on the console, where Cloudflare picks it up. Never contents of memories."""

import json
import logging
import sys
import traceback
from pathlib import PurePath
from typing import Any, Final

_QUIET: Final = ("asgi", "mcp", "httpx", "asyncio")
"""Libraries whose notices help nobody here, and may repeat addresses and bodies."""


class JsonLines(logging.Formatter):
    """One record as {level, logger, message, ...}; the access log's fields lie beside (api/shell.py)."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "shoal", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def describe(error: BaseException) -> str:
    """Return an error's type and where it came from, without its text: that may quote what somebody stored."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}"


def set_up_logs() -> None:
    """Send this Worker's log to the console. May run at global scope."""
    console = logging.StreamHandler(sys.stdout)
    console.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[console], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
