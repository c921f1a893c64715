"""How fast the daemon stores and finds over REST, by number of memories.

    python -m bench.latency --sizes 1000,10000,100000 --json OUT

For each size: a new home, that many memories, all embedded; then stores, searches with new words, one search again
and again, and four clients that store and search at once.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import track

from bench.corpus import Note, notes
from bench.harness import Client, Daemon, machine, percentiles, report, wait_for_vectors, write_json

PLANT_BATCH: Final = 100
OPERATIONS: Final = 200
"""Timed calls of each kind."""
WARM_UP: Final = 10
CLIENTS: Final = 4


def plant(client: Client, planted: list[Note]) -> None:
    """Store notes in batches."""
    for start in track(range(0, len(planted), PLANT_BATCH), description=f"storing {len(planted)}"):
        items = [{"content": n.content, "tags": list(n.tags)} for n in planted[start : start + PLANT_BATCH]]
        client.call("POST", "/api/v1/memories", {"items": items})


def timed(calls: list[Callable[[], Any]]) -> list[float]:
    """Return the seconds that each call took; the first WARM_UP aren't counted."""
    seconds: list[float] = []
    for call in calls:
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UP:]


def storing(client: Client, new: list[Note]) -> list[Callable[[], Any]]:
    """Return calls that store one memory each."""
    return [
        lambda n=n: client.call("POST", "/api/v1/memories", {"content": n.content, "tags": list(n.tags)}) for n in new
    ]


def searching(client: Client, questions: list[str]) -> list[Callable[[], Any]]:
    """Return calls that search once each."""
    return [lambda q=q: client.call("POST", "/api/v1/search", {"query": q}) for q in questions]


def mixed(daemon: Daemon, new: list[Note], asked: list[Note]) -> list[float]:
    """Return the seconds of calls by CLIENTS clients at once, each storing and searching in turn."""

    def work(number: int) -> list[float]:
        client = daemon.client()
        stores = storing(client, new[number::CLIENTS])
        searches = searching(client, [n.question for n in asked[number::CLIENTS]])
        return timed([call for pair in zip(stores, searches, strict=False) for call in pair])

    with ThreadPoolExecutor(CLIENTS) as clients:
        return [second for seconds in clients.map(work, range(CLIENTS)) for second in seconds]


def measure(size: int) -> dict[str, dict[str, float]]:
    """Return the figures for one size."""
    count = OPERATIONS + WARM_UP
    everything = list(notes(size + 2 * count))
    planted, new, mix = everything[:size], everything[size : size + count], everything[size + count :]
    asked = [planted[(i * 7919) % size] for i in range(2 * count)]
    with Daemon() as daemon:
        client = daemon.client()
        plant(client, planted)
        wait_for_vectors(client, Console(stderr=True))
        store = timed(storing(client, new))
        wait_for_vectors(client, Console(stderr=True))
        find_new = timed(searching(client, [n.question for n in asked[:count]]))
        find_repeat = timed(searching(client, [asked[0].question] * count))
        mix_seconds = mixed(daemon, mix, asked[count:])
    return {
        "store": percentiles(store),
        "find_new": percentiles(find_new),
        "find_repeat": percentiles(find_repeat),
        "mixed_4": percentiles(mix_seconds),
    }


@click.command(help=__doc__)
@click.option("--sizes", default="1000,10000,100000", show_default=True, help="Numbers of memories.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the figures.")
def main(sizes: str, out: Path | None) -> None:
    """Run the benchmark."""
    where = machine()
    figures = {size: measure(int(size)) for size in sizes.split(",")}
    rows = [
        [size, name, value["p50_ms"], value["p95_ms"]] for size, row in figures.items() for name, value in row.items()
    ]
    report(where, ["memories", "operation", "p50 ms", "p95 ms"], rows)
    write_json(out, {"machine": where, **figures})


if __name__ == "__main__":
    main()
