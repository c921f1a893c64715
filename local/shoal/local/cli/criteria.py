"""Options that the commands which choose memories share: the filters of find, list and delete."""

import json
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from shoal.schema.errors import InvalidText

F = TypeVar("F", bound=Callable[..., Any])

FILTERS: Final = (
    click.option("--type", "type_", metavar="TYPE", multiple=True, help="Type; a base type covers its subtypes."),
    click.option("--kind", type=click.Choice(["episodic", "semantic", "procedural"]), help="How the memory ages."),
    click.option("--tags", metavar="TAGS", help="Tags, with commas."),
    click.option("--all-tags", is_flag=True, help="Memories that have all the tags instead of any."),
    click.option("--entity", metavar="NAME", help="What the memory is about."),
    click.option("--conversation", metavar="ID", help="One session of a conversation."),
    click.option("--since", metavar="TIME", help="From then on: ISO 8601, 'last week', '上周'."),
    click.option("--until", metavar="TIME", help="Until then."),
    click.option("--time", "time_range", metavar="RANGE", help="In this range: yesterday, 2026-03, '上周'."),
    click.option("--by-created", is_flag=True, help="The times mean when it was stored, not when it happened."),
)


def filter_options(command: F) -> F:
    """Add the filters; the command takes them as **filters for `criteria`."""
    add: Callable[[F], F]
    for add in reversed(FILTERS):
        command = add(command)
    return command


def criteria(
    type_: tuple[str, ...],
    kind: str | None,
    tags: str | None,
    all_tags: bool,
    entity: str | None,
    conversation: str | None,
    since: str | None,
    until: str | None,
    time_range: str | None,
    by_created: bool,
) -> dict[str, Any]:
    """Return the filters as fields of a request, those that were given."""
    found: dict[str, Any] = {
        "type": list(type_) or None,
        "kind": kind,
        "tags": tags,
        "tags_mode": "all" if all_tags else None,
        "entity": entity,
        "conversation_id": conversation,
        "since": since,
        "until": until,
        "time": time_range,
        "time_field": "created" if by_created else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def space_option(command: F) -> F:
    """Add --space."""
    return click.option("--space", metavar="NAME", help="Space; default: the one in the settings.")(command)


def spaces_option(command: F) -> F:
    """Add --space, which may name several."""
    return click.option("--space", metavar="NAME", multiple=True, help="Space, may be repeated; * means all.")(command)


def spaces(space: tuple[str, ...]) -> list[str] | str | None:
    """Return the spaces as a request has them."""
    return "*" if "*" in space else list(space) or None


def metadata(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """Return KEY=VALUE pairs as metadata; a value that is JSON is taken as such, anything else as text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", param_hint="--metadata")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found or None


def text_or_stdin(text: str) -> str:
    """Return the argument, or all of stdin for `-`. Raises InvalidText."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidText("What came on stdin is not UTF-8.", "Convert it first, with iconv for example.") from error
