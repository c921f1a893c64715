"""Which scopes the messages in a body of MCP need, before anything is done about them.

Over HTTP a client learns from a 403 which scopes to ask its user for (the authorization part of the MCP
specification, "scope challenge handling"); a tool's result could not tell it so. What can't be read here needs
nothing here: it is refused later, and whatever is called checks again.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from shoal.api.profiles import Profile
from shoal.api.registry import READS
from shoal.core.caller import Scope

_READING: Final = frozenset(
    {
        "resources/read",
        "resources/subscribe",
        "subscriptions/listen",
        "prompts/get",
        "completion/complete",
    }
)
_NOTHING: Final[frozenset[Scope]] = frozenset()


class Wanted(NamedTuple):
    """What a body asks for."""

    scopes: frozenset[Scope]
    id: str | int | None
    """Of the request, when there is one that can be answered by its id."""


def wanted(body: bytes, profile: Profile) -> Wanted:
    """Return the scopes that a message, or all of a list of messages, need together."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return Wanted(_NOTHING, None)
    if isinstance(found, list):
        needs = [_needs(_object(message), profile) for message in cast("list[object]", found)]
        return Wanted(_NOTHING.union(*needs), None)
    message = _object(found)
    one = message.get("id")
    usable = isinstance(one, str | int) and not isinstance(one, bool)
    return Wanted(_needs(message, profile), one if usable else None)


def _needs(message: Mapping[str, Any], profile: Profile) -> frozenset[Scope]:
    method: object = message.get("method")
    if method == "tools/call":
        params = _object(message.get("params"))
        name: object = params.get("name")
        tool = profile.tool(name) if isinstance(name, str) else None
        return tool.needs(_object(params.get("arguments"))) if tool else _NOTHING
    return READS if isinstance(method, str) and method in _READING else _NOTHING


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
