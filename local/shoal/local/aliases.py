"""Other tools' environment names that are understood, in one table. Ours win where both are set.

Kept apart from settings.py so that the stdio shim can read it without pydantic.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PREFIX: Final = "SHOAL_"

ALIASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "db": ("MCP_MEMORY_SQLITE_PATH", "MEMORY_DB_PATH"),
        "seed": ("MOCK_SEED",),
    }
)
"""Setting -> other tools' variables, the first one set wins."""


def setting_from_environment(setting: str, environ: Mapping[str, str]) -> str | None:
    """Return a setting's text from our variable or an alias; None when none of them is set. Empty counts as unset."""
    for name in (PREFIX + setting.upper(), *ALIASES.get(setting, ())):
        if value := environ.get(name):
            return value
    return None
