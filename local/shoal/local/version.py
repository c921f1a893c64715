"""The version of this installation, and how two compare."""

import re
from importlib import metadata


def installed() -> str:
    """Return the version of the installed package."""
    return metadata.version("shoal")


def older(one: str, other: str) -> bool:
    """Whether release `one` precedes release `other`, by the numbers that each begins with."""
    return _numbers(one) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
