"""`shoal store` and `shoal update`."""

from typing import Any

import click

from shoal.api.arguments import validate
from shoal.local.cli.criteria import metadata, space_option, text_or_stdin
from shoal.local.cli.group import Options
from shoal.local.cli.output import as_json, json_option, print_json, print_notes
from shoal.local.cli.run import with_memory
from shoal.local.cli.words import say
from shoal.schema.errors import WasForgotten
from shoal.schema.models import Stored, StoreRequest, UpdateAnswer, UpdateRequest


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}


@click.command("store")
@click.argument("content")
@click.option("--type", "type_", metavar="TYPE", help="Type; default: note.")
@click.option("--tags", metavar="TAGS", help="Tags, with commas.")
@click.option("--metadata", "pairs", metavar="KEY=VALUE", multiple=True, help="Metadata, may be repeated.")
@click.option("--source", default="cli", show_default=True, help="Where it came from.")
@click.option("--entity", "entities", metavar="NAME", multiple=True, help="What it is about, may be repeated.")
@click.option("--occurred-at", metavar="TIME", help="When it happened: ISO 8601, 'yesterday', '昨天'.")
@click.option("--conversation", metavar="ID", help="Session of a conversation that it belongs to.")
@click.option("--position", type=int, help="Turn number in that conversation.")
@click.option("--importance", type=float, help="0 to 2; 1 is usual.")
@click.option("--wait", is_flag=True, help="Return when it can be found by meaning too.")
@click.option("--revive", is_flag=True, help="Bring back a text that was deleted.")
@space_option
@json_option
@click.pass_obj
def store_command(
    options: Options,
    content: str,
    type_: str | None,
    tags: str | None,
    pairs: tuple[str, ...],
    source: str,
    entities: tuple[str, ...],
    occurred_at: str | None,
    conversation: str | None,
    position: int | None,
    importance: float | None,
    wait: bool,
    revive: bool,
    space: str | None,
) -> None:
    """Store CONTENT; `-` reads it from stdin.

    Storing a text again joins its tags and sources to what is known.

    \b
    Examples:
      shoal store "Deploys happen on Fridays" --type decision --tags topic:deploy
      git log -1 --format=%B | shoal store - --type code_edit
    """
    request = validate(
        StoreRequest,
        given(
            content=text_or_stdin(content),
            type=type_,
            tags=tags,
            metadata=metadata(pairs),
            source=source,
            entities=list(entities) or None,
            occurred_at=occurred_at,
            conversation_id=conversation,
            position=position,
            importance=importance,
            wait=wait,
            revive=revive,
            space=space,
        ),
    )
    try:
        answer = with_memory(options.load(), lambda memory: memory.store(request))
    except WasForgotten as error:  # a daemon says it in the words of REST
        raise WasForgotten(say("was_forgotten"), say("revive_text"), **error.details) from error
    if as_json():
        print_json(answer)
    elif isinstance(answer, Stored):
        click.echo(say(answer.status.value, id=answer.id))
        print_notes(answer.notes)
    if not answer.success:
        raise SystemExit(1)


@click.command("update")
@click.argument("memory_id", metavar="ID")
@click.option("--content", help="New text; `-` reads stdin. Makes a new memory that supersedes this one.")
@click.option("--type", "type_", metavar="TYPE", help="New type.")
@click.option("--tags", metavar="TAGS", help="Exactly these tags, with commas.")
@click.option("--add-tags", metavar="TAGS", help="Tags to add.")
@click.option("--remove-tags", metavar="TAGS", help="Tags to remove.")
@click.option(
    "--metadata",
    "pairs",
    metavar="KEY=VALUE",
    multiple=True,
    help="Metadata to set; KEY=null removes. May be repeated.",
)
@click.option("--importance", type=float, help="0 to 2.")
@click.option("--occurred-at", metavar="TIME", help="When it happened.")
@click.option("--archive/--unarchive", "archived", default=None, help="Into or out of the archive.")
@click.option("--revive", is_flag=True, help="Take it out of the trash as well.")
@space_option
@json_option
@click.pass_obj
def update_command(
    options: Options,
    memory_id: str,
    content: str | None,
    type_: str | None,
    tags: str | None,
    add_tags: str | None,
    remove_tags: str | None,
    pairs: tuple[str, ...],
    importance: float | None,
    occurred_at: str | None,
    archived: bool | None,
    revive: bool,
    space: str | None,
) -> None:
    """Change the memory ID.

    \b
    Examples:
      shoal update 0123456789abcdef0123456789abcdef --add-tags status:done
      shoal update 0123456789abcdef0123456789abcdef --content "Deploys happen on Thursdays"
    """
    if tags is not None and (add_tags is not None or remove_tags is not None):
        raise click.UsageError("--tags replaces all tags; use it without --add-tags and --remove-tags.")
    changes = given(add=add_tags, remove=remove_tags) or None
    request = validate(
        UpdateRequest,
        given(
            id=memory_id,
            content=None if content is None else text_or_stdin(content),
            type=type_,
            tags=changes if tags is None else tags,
            metadata=metadata(pairs),
            importance=importance,
            occurred_at=occurred_at,
            archived=archived,
            revive=revive,
            space=space,
        ),
    )
    answer = with_memory(options.load(), lambda memory: memory.update(request))
    if as_json():
        print_json(answer)
    else:
        click.echo(_updated(answer))
        print_notes(answer.notes)


def _updated(answer: UpdateAnswer) -> str:
    if answer.superseded_by is None:
        return say("updated", id=answer.id)
    return say("superseded", id=answer.id, new=answer.superseded_by)
