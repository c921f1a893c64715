"""What the edge costs a month at Cloudflare, from the calls and rows that bench.edge has measured.

    python -m bench.edge_costs FIGURES.json

Prices are those of Workers Paid, as Cloudflare's pricing pages had them in November 2026, in US dollars.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

BASE_USD: Final = 5.0
DIM: Final = 1024
"""Of the default model's vectors."""
TOKENS_A_MEMORY: Final = 60
"""Of a text of about 200 characters, and"""
TOKENS_A_SEARCH: Final = 20
"""of a question."""
OPERATIONS_A_MESSAGE: Final = 3
"""Of a queue: written, read, deleted."""
NEURONS_A_TOKEN: Final = 1_075 / 1e6
"""Of @cf/baai/bge-m3."""
CRONS_A_MONTH: Final = {"cron_5_minutes": 30 * 288, "cron_hourly": 30 * 24}
SIZES: Final = (10_000, 100_000, 1_000_000)
SEARCHES_A_MEMORY: Final = 3
NEW_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Price:
    """What is included a month, and what `per` more cost."""

    included: float
    usd: float
    per: float

    def of(self, used: float) -> float:
        """Return the dollars for what was used."""
        return max(0.0, used - self.included) * self.usd / self.per


PRICES: Final = {
    "requests": Price(10e6, 0.30, 1e6),
    "CPU ms": Price(30e6, 0.02, 1e6),
    "D1 rows read": Price(25e9, 0.001, 1e6),
    "D1 rows written": Price(50e6, 1.00, 1e6),
    "D1 GB stored": Price(5, 0.75, 1),
    "queue operations": Price(1e6, 0.40, 1e6),
    "Vectorize dimensions stored": Price(10e6, 0.05, 100e6),
    "Vectorize dimensions queried": Price(50e6, 0.01, 1e6),
    "Workers AI neurons": Price(30 * 10_000, 0.011, 1_000),
}


@dataclass(frozen=True, slots=True)
class Month:
    """How the memory is used. Every new memory is stored by a request of its own."""

    memories: int
    """At its end."""
    new: int
    searches: int


def months(memories: int) -> dict[str, Month]:
    """Return the month in which so many memories are stored, and one in which they lie there and a tenth is new."""
    searches = SEARCHES_A_MEMORY * memories
    return {
        "first": Month(memories, memories, searches),
        "later": Month(memories, round(NEW_SHARE * memories), searches),
    }


def used(month: Month, operations: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return what a month uses of everything that has a price.

    A new memory costs its store, a batch of the queue of its own, and its part of the cron that sees it confirmed.
    """
    confirmed = operations["cron_confirming"]["mean_rows_written"] / operations["cron_confirming"]["memories"]

    def total(name: str) -> float:
        by_request = month.new * operations["store"][name] + month.searches * operations["find"][name]
        by_queue = month.new * operations["queue_1"][name]
        return by_request + by_queue + sum(count * operations[cron][name] for cron, count in CRONS_A_MONTH.items())

    return {
        "requests": 2 * month.new + month.searches + sum(CRONS_A_MONTH.values()),
        "CPU ms": total("cpu_ms"),
        "D1 rows read": total("mean_rows_read"),
        "D1 rows written": total("mean_rows_written") + month.new * confirmed,
        "D1 GB stored": month.memories * operations["store"]["database_bytes"] / 1e9,
        "queue operations": month.new * OPERATIONS_A_MESSAGE,
        "Vectorize dimensions stored": month.memories * DIM,
        "Vectorize dimensions queried": (month.memories + month.searches) * DIM,
        "Workers AI neurons": (month.new * TOKENS_A_MEMORY + month.searches * TOKENS_A_SEARCH) * NEURONS_A_TOKEN,
    }


def bill(month: Month, operations: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the dollars for each thing beyond what is included."""
    return {what: PRICES[what].of(amount) for what, amount in used(month, operations).items()}


def table(figures: Mapping[str, Any]) -> str:
    """Return usage and bills by size as a table in Markdown."""
    operations = {name: dict(one) for name, one in figures["operations"].items()}
    operations["cron_confirming"]["memories"] = figures["memories"]
    operations["store"]["database_bytes"] = figures["database_bytes_a_memory"]
    columns = [(f"{size:,}, {name} month", month) for size in SIZES for name, month in months(size).items()]
    lines = [
        f"| | {' | '.join(name for name, _ in columns)} |",
        f"|---{'|---' * len(columns)}|",
        *(_line(what, [(used(m, operations)[what], bill(m, operations)[what]) for _, m in columns]) for what in PRICES),
        f"| **with the plan's ${BASE_USD:.0f}** | "
        + " | ".join(f"**${BASE_USD + sum(bill(month, operations).values()):.2f}**" for _, month in columns)
        + " |",
    ]
    return "\n".join(lines)


def _line(what: str, cells: list[tuple[float, float]]) -> str:
    shown = (f"{_short(amount)}{f' = ${usd:.2f}' if usd >= 0.005 else ''}" for amount, usd in cells)
    return f"| {what} | {' | '.join(shown)} |"


def _short(amount: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if amount >= size:
            return f"{amount / size:.3g}{unit}"
    return f"{amount:.0f}" if amount >= 10 else f"{amount:.2g}"


@click.command(help=__doc__)
@click.argument("figures", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(figures: Path) -> None:
    """Print the table."""
    click.echo(table(json.loads(figures.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
