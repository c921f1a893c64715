"""`shoal delete`, `shoal revive` and `shoal purge`."""

import sys
from typing import Any, Final

import click

from shoal.api.arguments import validate
from shoal.local.backend import Backend
from shoal.local.cli.criteria import criteria, filter_options, spaces, spaces_option
from shoal.local.cli.group import Options
from shoal.local.cli.memories import given
from shoal.local.cli.output import as_json, beginning, json_option, print_json, print_notes
from shoal.local.cli.run import with_memory
from shoal.local.cli.words import say
from shoal.schema.errors import ConfirmationRequired, NotFound
from shoal.schema.models import DeleteAnswer, DeleteRequest, DeleteStatus, GetRequest

SHOWN_MAX: Final = 20
"""Memories that a question lists; the count says how many more there are."""


@click.command("delete")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--reason", help="Why; kept with the memory.")
@filter_options
@spaces_option
@json_option
@click.pass_obj
def delete_command(
    options: Options,
    ids: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    reason: str | None,
    space: tuple[str, ...],
    **filters: Any,
) -> None:
    """Put memories into the trash, by ID or by filter. `shoal revive` brings them back for 30 days.

    \b
    Examples:
      shoal delete 0123456789abcdef0123456789abcdef
      shoal delete --tags topic:old --until "last year" --dry-run
    """
    _remove(options, _request(ids, reason, False, space, filters), yes, dry_run)


@click.command("purge")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@filter_options
@spaces_option
@json_option
@click.pass_obj
def purge_command(
    options: Options,
    ids: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    space: tuple[str, ...],
    **filters: Any,
) -> None:
    """Erase memories for good, by ID or by filter: text, vectors and search rows. Only a hash remains.

    Backups that were made before still hold them.

    \b
    Examples:
      shoal purge 0123456789abcdef0123456789abcdef
      shoal purge --entity "Former Customer" --yes
    """
    _remove(options, _request(ids, None, True, space, filters), yes, dry_run)


@click.command("revive")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@click.pass_obj
def revive_command(options: Options, ids: tuple[str, ...]) -> None:
    """Take the memories ID out of the trash.

    \b
    Examples:
      shoal revive 0123456789abcdef0123456789abcdef
    """
    answer = with_memory(options.load(), lambda memory: memory.revive(ids))
    if as_json():
        print_json(answer)
    else:
        click.echo(say("came_back", count=len(answer.ids)))
        if answer.not_found:
            click.echo(say("not_in_trash", ids=", ".join(answer.not_found)), err=True)
    if answer.not_found:
        raise SystemExit(1)


def _request(
    ids: tuple[str, ...], reason: str | None, purge: bool, space: tuple[str, ...], filters: dict[str, Any]
) -> dict[str, Any]:
    chosen = criteria(**filters)
    if not ids and not chosen:
        raise click.UsageError("Name an ID or a filter.")
    return given(
        ids=list(ids) or None, reason=reason, purge=purge, space=spaces(space) or ("*" if ids else None), **chosen
    )


def _remove(options: Options, fields: dict[str, Any], yes: bool, dry_run: bool) -> None:
    async def work(memory: Backend) -> DeleteAnswer:
        if not yes or dry_run:
            preview = await memory.delete(validate(DeleteRequest, {**fields, "dry_run": True}))
            if preview.status is DeleteStatus.NOT_FOUND or (dry_run and as_json()):
                return preview
            if not dry_run:
                _require_someone_to_ask(preview)
            click.echo(await _preview(memory, preview, fields["purge"]), err=not dry_run)
            if dry_run or not _agreed(preview, fields["purge"]):
                return preview
        return await memory.delete(validate(DeleteRequest, {**fields, "confirm": True}))

    answer = with_memory(options.load(), work)
    if answer.status is DeleteStatus.NOT_FOUND:
        raise NotFound("No memory matches.", "`shoal find` and `shoal list` show ids.")
    if as_json():
        print_json(answer)
        return
    click.echo(say(answer.status.value, count=len(answer.ids), until=(answer.restorable_until or "")[:10]))
    print_notes(answer.notes)


def _require_someone_to_ask(preview: DeleteAnswer) -> None:
    """Raise ConfirmationRequired where nobody can be asked."""
    if not _can_ask():
        raise ConfirmationRequired(
            f"This would remove {len(preview.ids)} memories.", "Add --yes, or run it on a terminal."
        )


def _agreed(preview: DeleteAnswer, purge: bool) -> bool:
    return click.confirm(say("confirm_purge" if purge else "confirm_delete", count=len(preview.ids)), err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


async def _preview(memory: Backend, preview: DeleteAnswer, purge: bool) -> str:
    """Return what would go in words: nobody knows a memory by its id."""
    ids = preview.ids[:SHOWN_MAX]
    found = await memory.get(GetRequest(ids=ids, space="*"))
    shown = [say("would_purge" if purge else "would_delete")]
    shown += [f"{one.id}  {beginning(one.content)}" for one in found.memories]
    if len(preview.ids) > SHOWN_MAX:
        shown.append("...")
    return "\n".join(shown)
