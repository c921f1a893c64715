"""The machine's time zone."""

import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def machine_zone() -> str:
    """Return the IANA name of the machine's time zone, or UTC where it can't be told."""
    if named := os.environ.get("TZ", "").removeprefix(":"):
        candidates = [named]
    else:
        target = Path("/etc/localtime")
        linked = target.resolve().as_posix() if target.is_symlink() else ""
        candidates = [linked.partition("zoneinfo/")[2]]
        written = Path("/etc/timezone")
        if written.is_file():
            candidates.append(written.read_text(encoding="utf-8", errors="replace").strip())
    for name in filter(None, candidates):
        try:
            return ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return "UTC"
