"""`shoal sync` and `shoal status`."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.local.cli.group import Options
from shoal.local.cli.output import as_json, console, json_option, print_json, progress
from shoal.local.cli.words import say
from shoal.schema.errors import NotLinked, SyncError
from shoal.schema.models import SyncInfo

if TYPE_CHECKING:
    from shoal.local.settings import Loaded
    from shoal.local.sync.access import Access, Standing
    from shoal.local.sync.steps import Step
    from shoal.sync.engine import Report

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400


@click.command("sync")
@click.option("--once", is_flag=True, help="Exchange what there is and end. The default.")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and say what is exchanged.")
@click.option("--retry", is_flag=True, help="Send again what the edge has refused; the reason may be gone.")
@json_option
@click.pass_obj
def sync_command(options: Options, once: bool, watch: bool, retry: bool) -> None:
    """Exchange memories with the edge now: send what was written here, get what others wrote.

    A daemon does so by itself while it runs, and is asked to do it when there is one.

    \b
    Examples:
      shoal sync
      shoal sync --watch
      shoal sync --retry
    """
    if once and watch:
        raise click.UsageError("--once and --watch exclude each other.")

    async def work(access: "Access") -> None:
        try:
            _print_report(await _exchange(access, retry))
        except SyncError as error:
            if not watch or isinstance(error, NotLinked):
                raise
            click.echo(f"{error.message}\n{error.mend}", err=True)
        if watch:
            if not as_json():
                click.echo(say("sync_watching"))
            await access.watch(_print_standing)

    if watch:
        # A script's background job is started with the signal ignored, and could not be ended by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _run(options.load(), work)
    except KeyboardInterrupt:
        if not watch:
            raise


@click.command("status")
@json_option
@click.pass_obj
def status_command(options: Options) -> None:
    """Show how the exchange with the edge stands: what waits, when it last worked, and what went wrong.

    \b
    Examples:
      shoal status
      shoal status --json
    """
    from shoal.local.sync.files import SyncFiles
    from shoal.local.sync.known import known_url

    loaded = options.load()
    known = known_url(SyncFiles.of(loaded.home, loaded.database))

    async def work(access: "Access") -> None:
        standing = await access.standing()
        if as_json():
            print_json({**_as_json(standing), "known_url": known})
            return
        _print_status(standing, known)
        if standing.info.left:
            await access.seen()

    _run(loaded, work)


def _run(loaded: "Loaded", work: "Callable[[Access], Awaitable[None]]") -> None:
    from shoal.local.sync.access import open_access

    async def run() -> None:
        async with open_access(loaded) as access:
            await work(access)

    asyncio.run(run())


async def _exchange(access: "Access", retry: bool) -> "Report":
    """Exchange, with a bar that shows how far it is: half of it for what goes, half for what comes."""
    queued = max(1, (await access.standing()).info.queue)
    with progress(say("sync_exchanging"), hidden=as_json()) as report:

        def hear(step: "Step") -> None:
            report((min(1.0, step.pushed / queued) + step.share) / 2 if step.phase == "push" else (1 + step.share) / 2)

        return await access.exchange(hear, retry=retry)


def _print_report(report: "Report") -> None:
    if as_json():
        print_json({**asdict(report), "gained": report.gained or [], "lost": report.lost or []})
        return
    click.echo(say("sync_done", sent=report.pushed, received=report.pulled))
    if report.gained:
        click.echo(say("sync_gained", spaces=_names(report.gained)))
    if report.restored:
        click.echo(say("sync_restored"), err=True)
    if report.restamped:
        click.echo(say("sync_restamped"), err=True)
    if report.lost:
        click.echo(say("sync_lost", spaces=_names(report.lost)), err=True)
    if report.refused:
        click.echo(say("sync_refused", count=report.refused), err=True)


def _print_standing(standing: "Standing") -> None:
    """Print a line of --watch."""
    if as_json():
        print_json(_as_json(standing))
        return
    failure, now = standing.info.failure, datetime.now().astimezone()
    if failure is not None:
        click.echo(f"{now:%H:%M:%S}  {failure.message} {failure.mend}")
    else:
        so_far = say("sync_so_far", sent=standing.sent, received=standing.received)
        click.echo(f"{now:%H:%M:%S}  {so_far}")


def _as_json(standing: "Standing") -> dict[str, Any]:
    found = {name: getattr(standing, name) for name in ("daemon", "working", "next_s", "sent", "received")}
    return {**standing.info.model_dump(mode="json"), **found}


def _print_status(standing: "Standing", known: str | None) -> None:
    from rich.table import Table

    info, now = standing.info, datetime.now(UTC)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("name", style="dim")
    table.add_column("value", overflow="fold")
    if info.url is None:
        table.add_row(say("status_edge"), say("status_no_link") if known is None else say("status_lost", url=known))
    else:
        table.add_row(say("status_edge"), info.url)
        table.add_row(say("status_now"), _doing(standing))
        table.add_row(say("status_last"), _since(info.last_success, now) if info.last_success else say("status_never"))
        table.add_row(say("status_waiting"), _waiting(info))
    if info.failure is not None and info.linked:
        table.add_row(say("status_failure"), f"{info.failure.message}\n{info.failure.mend}")
        table.add_row("", say("status_since", since=_since(info.failure.since, now)))
    for code, count in info.refused.items():
        table.add_row(say("status_refused"), _reason(code, count))
    if info.skipped:
        table.add_row(say("status_skipped"), say("status_skipped_why", count=info.skipped))
    for one in info.left:
        table.add_row(say("status_left"), say("status_left_how", spaces=_names(one.spaces), backup=one.backup))
    console().print(table)


def _doing(standing: "Standing") -> str:
    if standing.working:
        return say("status_working")
    if standing.next_s is not None:
        return say("status_next", wait=_duration(standing.next_s))
    return say("status_stopped") if standing.daemon else say("status_no_daemon")


def _waiting(info: SyncInfo) -> str:
    text = say("status_nothing")
    if info.queue:
        text = say("status_queue", count=info.queue, age=_duration(info.lag_s or 0))
    if info.not_shared:
        return f"{text}\n" + say("status_not_shared", count=info.not_shared)
    return text


_REASONS: Final[Mapping[str, str]] = {
    "malformed": "refused_malformed",
    "wrong_id": "refused_wrong_id",
    "not_allowed": "refused_not_allowed",
    "refused": "refused_whole",
}


def _reason(code: str, count: int) -> str:
    """Return in words why writes were refused, and what to do; a newer edge may know more reasons."""
    return say(_REASONS[code], count=count) if code in _REASONS else say("refused_other", count=count, code=code)


def _since(moment: str, now: datetime) -> str:
    """Return a time as people read it, and how long ago it is."""
    found = datetime.fromisoformat(moment)
    ago = _duration(max(0.0, (now - found).total_seconds()))
    return f"{found.astimezone():%Y-%m-%d %H:%M:%S} (" + say("status_ago", ago=ago) + ")"


def _duration(seconds: float) -> str:
    """Return a time span by the largest unit that is not zero."""
    if seconds < MINUTE_S:
        return say("status_seconds", count=round(seconds))
    if seconds < HOUR_S:
        return say("status_minutes", count=round(seconds / MINUTE_S))
    if seconds < DAY_S:
        return say("status_hours", count=round(seconds / HOUR_S))
    return say("status_days", count=round(seconds / DAY_S))


def _names(spaces: list[str]) -> str:
    return ", ".join(say("every_space") if space == "*" else space for space in spaces)
