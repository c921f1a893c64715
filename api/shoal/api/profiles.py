"""Profiles: which tools a client sees, by the habit that it comes with."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from shoal.api.classic import CLASSIC_TOOLS, kind_of
from shoal.api.registry import DEFAULT_TOOLS, ToolDefinition
from shoal.core.caller import Caller
from shoal.schema.errors import InvalidInput
from shoal.schema.models import MemoryOut


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of tools, with the names of those that its prompts speak of."""

    name: str
    tools: tuple[ToolDefinition, ...]
    find_tool: str
    store_tool: str

    def listed(self, caller: Caller) -> list[ToolDefinition]:
        """Return the tools whose scopes the caller holds."""
        return [tool for tool in self.tools if tool.listed(caller)]

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name, whoever may call it."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def label(self, memory: MemoryOut) -> str:
        """Return what stands in brackets before a recent memory."""
        return kind_of(memory) if self.name == "classic" else f"{memory.kind}/{memory.type}"


DEFAULT_PROFILE: Final = "default"

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(DEFAULT_PROFILE, DEFAULT_TOOLS, find_tool="memory_find", store_tool="memory_store"),
            Profile("classic", CLASSIC_TOOLS, find_tool="recall", store_tool="remember"),
        )
    }
)


def profile_named(name: str) -> Profile:
    """Return a profile. Raises InvalidInput with the names."""
    known = PROFILES.get(name)
    if known is None:
        raise InvalidInput(f"{name!r} is not a profile.", f"Use one of: {', '.join(PROFILES)}.", field="profile")
    return known
