"""SQL migrations: additive only, each file idempotent, the same for SQLite and D1.

A statement ends with `;` at the end of a line; there are no triggers, so nothing else needs parsing.
"""

from importlib.resources import files
from typing import Final, NamedTuple

NEWEST: Final = 4
"""Version of the last file, for those who must not read them."""
BREAKING_STEP: Final = 1000
"""A version of a higher thousand is one that older code can't read; additive ones it can."""


class Migration(NamedTuple):
    """One file: its version number and its statements in order."""

    version: int
    name: str
    statements: tuple[str, ...]


def load() -> tuple[Migration, ...]:
    """Return all migrations, oldest first."""
    found: list[Migration] = []
    for file in files(__name__).iterdir():
        if file.name.endswith(".sql"):
            found.append(Migration(int(file.name[:4]), file.name, _split(file.read_text(encoding="utf-8"))))
    return tuple(sorted(found))


def _split(text: str) -> tuple[str, ...]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return tuple(part.strip() for part in "\n".join(lines).split(";\n") if part.strip(" ;\n"))
