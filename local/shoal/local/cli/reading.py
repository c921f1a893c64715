"""`shoal find`, `shoal get` and `shoal list`."""

from collections.abc import Mapping
from typing import Any

import click

from shoal.api.arguments import validate
from shoal.local.backend import Backend
from shoal.local.cli.criteria import criteria, filter_options, spaces, spaces_option, text_or_stdin
from shoal.local.cli.group import Options
from shoal.local.cli.memories import given
from shoal.local.cli.output import as_json, beginning, console, json_option, print_json, print_notes
from shoal.local.cli.run import with_memory
from shoal.local.cli.words import say
from shoal.schema.errors import NotFound
from shoal.schema.limits import BATCH_MAX, FIND_DEFAULT, PAGE_DEFAULT
from shoal.schema.models import FindRequest, Found, GetAnswer, GetRequest, MemoryOut, StateName


@click.command("find")
@click.argument("query", default="")
@click.option("-n", "--results", type=int, default=FIND_DEFAULT, show_default=True, help="How many, 1 to 50.")
@click.option("--min-score", type=float, help="Leave out what scores less, 0 to 1.")
@click.option("--archived", is_flag=True, help="Search the archive too.")
@click.option("--edges", is_flag=True, help="Show how the results relate to other memories.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@filter_options
@spaces_option
@json_option
@click.pass_obj
def find_command(
    options: Options,
    query: str,
    results: int,
    min_score: float | None,
    archived: bool,
    edges: bool,
    explain: bool,
    space: tuple[str, ...],
    **filters: Any,
) -> None:
    """Search by meaning and by words; `-` reads the query from stdin, no QUERY shows the newest.

    \b
    Examples:
      shoal find "when do we deploy"
      shoal find 部署 --type decision --time 上周
      shoal find "rollback" --json
    """
    request = validate(
        FindRequest,
        given(
            query=text_or_stdin(query),
            n_results=results,
            min_score=min_score,
            include_archived=archived,
            include_edges=edges,
            explain=explain,
            space=spaces(space),
            **criteria(**filters),
        ),
    )
    answer = with_memory(options.load(), lambda memory: memory.find(request))
    if as_json():
        print_json(answer)
        return
    if answer.results:
        _print_found(answer.results)
    else:
        click.echo(say("no_results"))
    print_notes(answer.notes)


@click.command("get")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--edges", is_flag=True, help="Show how they relate to other memories.")
@click.option("--history", is_flag=True, help="Show the versions before and after.")
@spaces_option
@json_option
@click.pass_obj
def get_command(options: Options, ids: tuple[str, ...], edges: bool, history: bool, space: tuple[str, ...]) -> None:
    """Show the memories ID whole.

    \b
    Examples:
      shoal get 0123456789abcdef0123456789abcdef
      shoal get 0123456789abcdef0123456789abcdef --history --json
    """
    request = validate(
        GetRequest, given(ids=list(ids), with_edges=edges, with_history=history, space=spaces(space) or "*")
    )

    async def work(memory: Backend) -> tuple[GetAnswer, dict[str, str]]:
        answer = await memory.get(request)
        versions = list(dict.fromkeys(one for found in answer.memories for one in found.history or ()))[:BATCH_MAX]
        if as_json() or not versions:
            return answer, {}
        texts = await memory.get(GetRequest(ids=versions, space="*"))
        return answer, {one.id: beginning(one.content) for one in texts.memories}

    answer, texts = with_memory(options.load(), work)
    if not answer.memories:
        raise NotFound(f"No memory has the id {', '.join(ids)}.", "`shoal find` and `shoal list` show ids.")
    if as_json():
        print_json(answer)
        return
    for memory in answer.memories:
        _print_memory(memory, texts)
    print_notes(answer.notes)


@click.command("list")
@click.option("--page", type=int, default=1, show_default=True, help="Which page.")
@click.option("--page-size", type=int, default=PAGE_DEFAULT, show_default=True, help="Memories on a page, 1 to 100.")
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest", "updated"]),
    default="newest",
    show_default=True,
    help="By when they happened, or were changed last.",
)
@click.option("--archived", is_flag=True, help="The archive too.")
@click.option("--trash", is_flag=True, help="The trash instead.")
@filter_options
@spaces_option
@json_option
@click.pass_obj
def list_command(
    options: Options,
    page: int,
    page_size: int,
    order: str,
    archived: bool,
    trash: bool,
    space: tuple[str, ...],
    **filters: Any,
) -> None:
    """List memories page by page.

    \b
    Examples:
      shoal list --type decision --since "last month"
      shoal list --trash --json
    """
    request = validate(
        GetRequest,
        given(
            page=page,
            page_size=page_size,
            order=order,
            include_archived=archived,
            trash=trash,
            space=spaces(space),
            **criteria(**filters),
        ),
    )
    answer = with_memory(options.load(), lambda memory: memory.get(request))
    if as_json():
        print_json(answer)
        return
    _print_list(answer.memories)
    click.echo(say("page", page=answer.page or page, count=len(answer.memories)))
    if answer.more:
        click.echo(say("more", page=page + 1))
    print_notes(answer.notes)


def _print_found(results: list[Found]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(say("col_score"), justify="right", no_wrap=True)
    table.add_column(say("col_memory"), overflow="fold")
    for row in results:
        text = Text(row.snippet)
        text.append(f"\n{row.id}  {row.type}  {row.occurred_at[:10]}", style="dim")
        if row.state is not StateName.LIVE:
            text.append(f"  {row.state}", style="yellow")
        if row.tags:
            text.append("  " + " ".join(f"#{tag}" for tag in row.tags), style="cyan")
        if row.why:
            text.append("\n" + "; ".join(row.why), style="dim")
        for edge in row.edges or ():
            text.append(f"\n{edge.source} {edge.relation} {edge.target}", style="dim")
        for name, value in (row.explain or {}).items():
            text.append(f"\n{name} {value:.3f}", style="dim")
        table.add_row(f"{row.score:.2f}", text)
    console().print(table)


def _print_list(memories: list[MemoryOut]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, expand=True)
    for name in ("id", "date", "type"):
        table.add_column(name, no_wrap=True, style="dim")
    table.add_column("content", no_wrap=True, overflow="ellipsis", ratio=1)
    for memory in memories:
        first = " ".join(memory.content.split())
        state = "" if memory.state is StateName.LIVE else f" ({memory.state})"
        table.add_row(memory.id, memory.occurred_at[:10], memory.type + state, Text(first))
    console().print(table)


def _print_memory(memory: MemoryOut, texts: Mapping[str, str]) -> None:
    """Print a memory; `texts` has the beginnings of its versions by id."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column("name", style="dim", no_wrap=True)
    table.add_column("value", overflow="fold")
    facts = {
        "tags": ", ".join(memory.tags),
        "entities": ", ".join(memory.entities),
        "sources": ", ".join(memory.sources),
        "occurred": memory.occurred_at,
        "created_at": memory.created_at,
        "superseded_by": memory.superseded_by,
        "reason": memory.reason,
        "metadata": ", ".join(f"{key}={value}" for key, value in memory.metadata.items()),
    }
    table.add_row(memory.type, Text(f"{memory.id} ({memory.space}, {memory.state})"))
    for name, value in facts.items():
        if value:
            table.add_row(say(name), Text(value))
    for edge in memory.edges or ():
        table.add_row(edge.relation, Text(f"{edge.source} -> {edge.target}"))
    for version in memory.history or ():
        table.add_row("*" if version == memory.id else "", Text(f"{version}  {texts.get(version, '')}".rstrip()))
    out = console()
    out.print(table)
    click.echo(memory.content + "\n")
