"""`shoal backup`, `shoal restore` and `shoal seed`."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.local.cli.group import Options
from shoal.local.cli.output import as_json, json_option, print_json, progress, size
from shoal.local.cli.words import say

if TYPE_CHECKING:
    from shoal.local.settings import Loaded

WARNINGS_SHOWN: Final = 10
"""Lines of a seed file that are named; a file of another kind would fill the screen."""


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@json_option
@click.pass_obj
def backup_command(options: Options, file: Path | None) -> None:
    """Copy the database to FILE, while it is in use, and check the copy.

    Without FILE the copy goes into the folder `backups` of the home, named by the time.

    \b
    Examples:
      shoal backup
      shoal backup /media/disk/shoal.db
    """
    from shoal.local.keeping import back_up

    loaded = options.load()
    name = f"shoal-{datetime.now().astimezone():%Y%m%d-%H%M%S}.db"
    target = (file or loaded.home.backups / name).absolute()
    with progress(say("backing_up"), hidden=as_json()) as report:
        count = asyncio.run(back_up(loaded.database, target, report))
    if as_json():
        print_json({"path": str(target), "bytes": count, "checked": True})
    else:
        click.echo(say("backed_up", path=target, size=size(count)))


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--from-edge", is_flag=True, help="Instead of FILE, make a new database of what the linked edge has.")
@json_option
@click.pass_obj
def restore_command(options: Options, file: Path | None, from_edge: bool) -> None:
    """Put the backup FILE in the database's place, or what the edge has.

    FILE is checked first. The database from before, damaged or not, is kept beside the new one; with --from-edge, what
    had not been sent is only there. No daemon may run meanwhile.

    \b
    Examples:
      shoal restore ~/.local/share/shoal/backups/shoal-20260301-120000.db
      shoal restore --from-edge
    """
    from shoal.local.client import find_daemon
    from shoal.local.lock import hold_daemon_lock
    from shoal.local.runtime import make_folder

    if (file is None) != from_edge:
        raise click.UsageError("Name a FILE or give --from-edge.")
    loaded = options.load()
    make_folder(loaded)

    def running() -> str | None:
        record = find_daemon(loaded.home)
        return record.url if record else None

    with (
        hold_daemon_lock(loaded.home.daemon_lock, running),
        progress(say("restoring" if file else "recovering"), hidden=as_json()) as report,
    ):
        told, aside = _put_back(loaded, file, report)
    if as_json():
        kept = {"kept_aside": str(aside) if aside else None}
        print_json({"path": str(loaded.database), **kept, **told})
        return
    if file is None:
        click.echo(say("recovered", count=told["memories"], url=told["url"]))
    click.echo(say("restored", path=loaded.database))
    if aside is not None:
        click.echo(say("kept_aside", path=aside))


def _put_back(
    loaded: "Loaded", file: Path | None, report: Callable[[float], None]
) -> tuple[dict[str, Any], Path | None]:
    """Return what is told of the new database, and where the old one is."""
    now = datetime.now().astimezone()
    if file is None:
        from shoal.local.sync.recovery import from_edge

        done = asyncio.run(from_edge(loaded, now, report))
        return {"url": done.url, "memories": done.memories}, done.aside
    from shoal.local.keeping import restore

    return {}, asyncio.run(restore(file.absolute(), loaded.database, now, report))


@click.command("seed")
@click.argument("file", type=click.Path(dir_okay=False), required=False)
@json_option
@click.pass_obj
def seed_command(options: Options, file: str | None) -> None:
    """Store the memories of a JSON Lines FILE; without one a dozen examples in English and Chinese.

    A line is {"type", "content", "entities", "occurredAt", "attachmentUri", "tags"}, of which content must be there.
    Lines that can't be used are skipped and named; the code is 1 when none could. Seeding twice changes nothing.

    \b
    Examples:
      shoal seed
      shoal seed memories.jsonl
    """
    from collections import Counter

    from shoal.local.backend import Backend
    from shoal.local.cli.run import with_memory
    from shoal.local.runtime import ontology_of
    from shoal.local.seed import DEFAULT, plant, read_seed
    from shoal.schema.models import StoreStatus

    loaded = options.load()
    seed = read_seed(file or DEFAULT, ontology_of(loaded))
    done = 0

    async def work(memory: Backend) -> Counter[StoreStatus]:
        with progress(say("seeding"), hidden=as_json()) as report:

            def count(lines: int) -> None:
                nonlocal done
                done += lines
                report(done / max(1, len(seed.lines)))

            counts = await plant(seed, memory.store, loaded.settings.space, count)
        with progress(say("embedding"), hidden=as_json()) as report:
            await memory.embed_all(report)
        return counts

    counts = with_memory(loaded, work)
    for warning in seed.warnings[:WARNINGS_SHOWN]:
        click.echo(warning, err=True)
    if len(seed.warnings) > WARNINGS_SHOWN:
        click.echo(say("more_skipped", count=len(seed.warnings) - WARNINGS_SHOWN), err=True)
    if as_json():
        print_json({**{status.value: counts[status] for status in StoreStatus}, "warnings": seed.warnings})
    else:
        skipped = len(seed.warnings) + counts[StoreStatus.WAS_FORGOTTEN]
        created, merged = counts[StoreStatus.CREATED], counts[StoreStatus.MERGED] + counts[StoreStatus.REVIVED]
        click.echo(say("seeded", created=created, merged=merged, skipped=skipped))
    if seed.warnings and not counts.total():
        raise SystemExit(1)
