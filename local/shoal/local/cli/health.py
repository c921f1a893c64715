"""`shoal stats` and `shoal doctor`."""

import asyncio

import click

from shoal.local.cli.group import Options
from shoal.local.cli.output import as_json, console, json_option, print_json, print_notes, progress, size
from shoal.local.cli.run import with_memory
from shoal.local.cli.words import say
from shoal.schema.models import StatsAnswer


@click.command("stats")
@json_option
@click.pass_obj
def stats_command(options: Options) -> None:
    """Count memories by type and space, and say what doesn't work as it should.

    \b
    Examples:
      shoal stats
      shoal stats --json
    """
    answer = with_memory(options.load(), lambda memory: memory.stats())
    if as_json():
        print_json(answer)
        return
    _print_stats(answer)
    print_notes(answer.degraded)


@click.command("doctor")
@json_option
@click.pass_obj
def doctor_command(options: Options) -> None:
    """Check settings, database, indexes, model, daemon and disk, and say what to do about what is found.

    Changes nothing; works on a damaged or locked database. Ends with code 1 when something must be mended.

    \b
    Examples:
      shoal doctor
      shoal doctor --json
    """
    from shoal.local.doctor import Level, examine

    with progress(say("checking"), hidden=as_json()) as report:
        findings = asyncio.run(examine(options.home, options.config, options.database, report))
    worst = max((list(Level).index(finding.level) for finding in findings), default=0)
    if as_json():
        print_json({"level": list(Level)[worst].value, "findings": [finding.as_dict() for finding in findings]})
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("col_state", "col_check", "col_found"):
            table.add_column(say(column), overflow="fold")
        styles = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "bold red"}
        for finding in findings:
            text = Text(finding.message)
            if finding.mend:
                text.append(f"\n{finding.mend}", style="bold")
            table.add_row(Text(finding.level.value, style=styles[finding.level]), finding.check, text)
        console().print(table)
        if not worst:
            click.echo(say("all_well"))
    if list(Level)[worst] is Level.ERROR:
        raise SystemExit(1)


def _print_stats(answer: StatsAnswer) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("name", style="dim")
    table.add_column("value", overflow="fold")
    table.add_row(say("total"), str(answer.total))
    for name in ("live", "archived", "trashed"):
        table.add_row(say(name), str(getattr(answer, name)))
    table.add_row(say("pending"), str(answer.pending_embeddings))
    model = answer.model
    table.add_row(say("model"), " ".join(filter(None, (model.fingerprint, model.state, model.reason))))
    if answer.database_bytes is not None:
        table.add_row(say("bytes"), size(answer.database_bytes))
    for label, counts in (("by_type", answer.by_type), ("by_space", answer.spaces)):
        if counts:
            table.add_row(say(label), ", ".join(f"{name} {count}" for name, count in counts.items()))
    console().print(table)
