"""How soon the edge and laptops see each other's writes, how long a new laptop takes, and what sync costs a store.

    python -m bench.sync --json OUT

The real Worker runs in the rig of tests/edge; the laptops are daemons with homes of their own, linked to it by tokens.
Both are this one machine: the network takes nothing, but all share its cores. One write at a time.
"""

import gzip
import http.client
import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import apsw
import click
from rich.console import Console
from rich.progress import track

from bench.corpus import Note, notes
from bench.edge_operations import body_of
from bench.edge_worker import OWNER_KEY, EdgeWorker
from bench.harness import SHOAL, Client, Daemon, machine, report, write_json
from shoal.core.drafts import draft
from shoal.schema.migrations import NEWEST
from shoal.schema.models import StoreItem
from shoal.schema.ontology import Ontology
from shoal.schema.sql import Mode
from shoal.schema.wire import CELLS_MAX, PROTO

WRITES: Final = 40
"""Writes each way whose way is timed."""
BOOTSTRAPPED: Final = 10_000
PUSHES: Final = 20
STORES: Final = 400
"""Timed stores of each laptop, linked and not, in turns."""
WARM_UP: Final = 20
STORE_PAUSE_S: Final = 0.02
IDLE_AFTER_S: Final = 75.0
"""After so long without a request a laptop polls by its interval again."""
IDLE_WRITES: Final = 20
IDLE_PAUSE_S: Final = (0.0, 15.0)
POLL_S: Final = 0.01
SEEN_WITHIN_S: Final = 60.0
PLANT_BATCH: Final = 500
PAUSE_S: Final = (0.2, 3.0)
"""Between two timed writes, so that they meet the interval at all of its moments."""

TARGETS: Final = (
    ("visible_up_p50_s", 0.5),
    ("visible_up_p95_s", 1.5),
    ("visible_down_p95_s", 15.0),
    ("visible_down_active_p95_s", 2.0),
    ("bootstrap_10k_s", 60.0),
    ("push500_p50_ms", 400.0),
    ("store_p50_ratio_linked_over_unlinked", 1.1),
)

console: Final = Console(stderr=True)


def sync_token(port: int, name: str) -> str:
    """Let the owner make a token for a laptop."""
    owner = Client(port, OWNER_KEY)
    asked = {"name": name, "device": name, "spaces": {"*": ["read", "write", "admin"]}, "sync": True}
    try:
        return owner.call("POST", "/api/v1/admin/tokens", asked)["token"]
    finally:
        owner.rest()


def link(home: Path, url: str, token: str) -> None:
    """Link a home to the edge."""
    subprocess.run(
        [SHOAL, "link", url, "--token-stdin", "--json"],
        input=token.encode(),
        env={**os.environ, "SHOAL_HOME": str(home)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def seen_after_s(write: Callable[[str], Any], finder: Client, words: Iterator[str], rng: random.Random) -> list[float]:
    """Return the seconds from each acknowledged write until `finder` finds it by its words."""
    took: list[float] = []
    for _ in range(WRITES):
        time.sleep(rng.uniform(*PAUSE_S))
        word = next(words)
        write(f"The code word is {word}.")
        began = time.perf_counter()
        while not finds(finder, word):
            if time.perf_counter() - began > SEEN_WITHIN_S:
                raise RuntimeError(f"{word} was not seen within {SEEN_WITHIN_S:.0f} s")
            time.sleep(POLL_S)
        took.append(time.perf_counter() - began)
    return took


def finds(client: Client, word: str) -> bool:
    """Say whether a search finds the memory that has this word."""
    results = client.call("POST", "/api/v1/search", {"query": word})["results"]
    return any(word in result["snippet"] for result in results)


def code_words(rng: random.Random) -> Iterator[str]:
    """Yield words that nothing else has."""
    while True:
        yield f"zq{rng.getrandbits(40):010x}"


def storer(client: Client) -> Callable[[str], Any]:
    """Return what stores a text."""
    return lambda content: client.call("POST", "/api/v1/memories", {"content": content})


def ways(worker: EdgeWorker, laptop: Daemon) -> dict[str, float]:
    """Time writes from the laptop to the edge and back: as it is while it is used, and after a quiet minute."""
    rng = random.Random(8377)
    words = code_words(rng)
    up = seen_after_s(storer(laptop.client()), worker.client, words, rng)
    # Each search on the laptop is activity, so this is how soon somebody who works there sees it.
    down = seen_after_s(storer(worker.client), laptop.client(), words, rng)
    return {
        "visible_up_p50_s": quantile(up, 50),
        "visible_up_p95_s": quantile(up, 95),
        "visible_down_active_p95_s": quantile(down, 95),
        "visible_down_p95_s": quantile(idle_arrivals(worker, laptop, words, rng), 95),
    }


def idle_arrivals(worker: EdgeWorker, laptop: Daemon, words: Iterator[str], rng: random.Random) -> list[float]:
    """Return the seconds from writes at the edge until they are in the database of a laptop that nobody uses."""
    took: list[float] = []
    time.sleep(IDLE_AFTER_S)
    database = apsw.Connection(str(laptop.home / "shoal.db"), flags=apsw.SQLITE_OPEN_READONLY)
    for _ in track(range(IDLE_WRITES), "arrivals at an idle laptop", console=console):
        time.sleep(rng.uniform(*IDLE_PAUSE_S))
        stored = worker.client.call("POST", "/api/v1/memories", {"content": f"The code word is {next(words)}."})
        began = time.perf_counter()
        while not database.execute("select 1 from record where id = unhex(?)", (stored["id"],)).get:
            if time.perf_counter() - began > SEEN_WITHIN_S:
                raise RuntimeError("an idle laptop did not get a memory")
            time.sleep(POLL_S)
        took.append(time.perf_counter() - began)
    database.close()
    return took


def quantile(seconds: Sequence[float], percent: int) -> float:
    """Return a percentile, rounded to milliseconds."""
    return round(statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 3)


def bootstrap(worker: EdgeWorker, given: Sequence[Note], home: Path) -> float:
    """Plant memories at the edge, and return the seconds that an empty laptop without a model takes to have them."""
    for start in track(range(0, len(given), PLANT_BATCH), "planting at the edge", console=console):
        page = given[start : start + PLANT_BATCH]
        worker.client.call("POST", "/api/v1/memories", {"items": [body_of(note) for note in page]})
    worker.settle()
    link(home, worker.rig.url, sync_token(port_of(worker), "fresh"))
    environment = {**os.environ, "SHOAL_HOME": str(home), "SHOAL_MODEL": "off"}
    began = time.perf_counter()
    subprocess.run([SHOAL, "sync", "--once", "--json"], env=environment, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    database = apsw.Connection(str(home / "shoal.db"), flags=apsw.SQLITE_OPEN_READONLY)
    there = database.execute("select count(*) from record where class = 'memory' and state = 1").get
    database.close()
    if there < len(given):
        raise RuntimeError(f"{there} of {len(given)} memories arrived")
    return took


def push_ms(worker: EdgeWorker, given: Sequence[Note]) -> list[float]:
    """Return the milliseconds of pushes of CELLS_MAX cells each: memories with their tags, as a laptop sends them."""
    token = sync_token(port_of(worker), "pusher")
    took: list[float] = []
    cells = wire_cells(given)
    connection = http.client.HTTPConnection("127.0.0.1", port_of(worker), timeout=120)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Content-Encoding": "gzip"}
    for number in range(PUSHES):
        page = cells[number * CELLS_MAX : (number + 1) * CELLS_MAX]
        request = {"proto": PROTO, "schema_version": NEWEST, "device": "bench", "cells": page}
        body = gzip.compress(json.dumps(request, ensure_ascii=False).encode())
        began = time.perf_counter()
        connection.request("POST", "/sync/push", body, headers)
        answer = json.load(connection.getresponse())
        took.append((time.perf_counter() - began) * 1000)
        if answer.get("refused") != [] or len(page) != CELLS_MAX:
            raise RuntimeError(f"a push of {len(page)} cells was answered {answer}")
        worker.settle()
    connection.close()
    return took


def wire_cells(given: Sequence[Note]) -> list[list[Any]]:
    """Return the cells of new memories, stamped one after the other."""
    now = time.time_ns() // 1_000_000
    ontology = Ontology.builtin()
    local = [
        cell
        for note in given
        for cell in draft(StoreItem(content=note.content, tags=list(note.tags)), "main", ontology, now, "UTC").cells(
            Mode.STORE
        )
        if cell.field != "archived"
    ]
    return [
        [cell.id, cell.space, cell.field, 1, f"{now * 65_536 + number:019d}-bench", cell.value]
        for number, cell in enumerate(local)
    ]


def store_ratio(linked: Daemon, unlinked: Daemon, given: Iterator[Note]) -> dict[str, float]:
    """Time stores in turns on two laptops, one of which is linked; return both medians and their ratio."""
    clients = {"linked": linked.client(), "unlinked": unlinked.client()}
    took: dict[str, list[float]] = {name: [] for name in clients}
    for number in track(range(STORES + WARM_UP), "stores, linked and not", console=console):
        for name, client in clients.items():
            note = next(given)
            began = time.perf_counter()
            client.call("POST", "/api/v1/memories", {"content": note.content, "tags": list(note.tags)})
            if number >= WARM_UP:
                took[name].append(time.perf_counter() - began)
            # As people and agents do; back to back, both daemons would only wait for each other's cores.
            time.sleep(STORE_PAUSE_S)
    medians = {name: statistics.median(seconds) * 1000 for name, seconds in took.items()}
    return {
        "store_p50_linked_ms": round(medians["linked"], 3),
        "store_p50_unlinked_ms": round(medians["unlinked"], 3),
        "store_p50_ratio_linked_over_unlinked": round(medians["linked"] / medians["unlinked"], 3),
    }


def port_of(worker: EdgeWorker) -> int:
    """Return the port that the Worker listens on."""
    return int(worker.rig.url.rpartition(":")[2])


def measure() -> dict[str, Any]:
    """Return all figures."""
    corpus = iter(notes(BOOTSTRAPPED + PUSHES * CELLS_MAX + 2 * (STORES + WARM_UP)))
    figures: dict[str, Any] = {}
    with EdgeWorker() as worker, TemporaryDirectory(prefix="shoal-bench-sync-") as folder:
        homes = {name: Path(folder, name) for name in ("linked", "unlinked", "fresh")}
        link(homes["linked"], worker.rig.url, sync_token(port_of(worker), "linked"))
        with Daemon(homes["linked"]) as linked:
            figures |= ways(worker, linked)
            with Daemon(homes["unlinked"]) as unlinked:
                figures |= store_ratio(linked, unlinked, corpus)
        pushes = push_ms(worker, [next(corpus) for _ in range(PUSHES * CELLS_MAX)])
        figures["push500_p50_ms"] = round(statistics.median(pushes), 1)
        figures["bootstrap_10k_s"] = round(
            bootstrap(worker, [next(corpus) for _ in range(BOOTSTRAPPED)], homes["fresh"]), 1
        )
        figures["breaches"] = [f"{breach.rule}: {breach.detail}" for breach in worker.rig.breaches()]
    return figures


@click.command(help=__doc__)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures to this file.")
def main(path: Path | None) -> None:
    """Measure and report."""
    figures = {"machine": machine(), **measure()}
    rows = [[name, figures[name], most, "met" if figures[name] <= most else "MISSED"] for name, most in TARGETS]
    report(figures["machine"], ["figure", "is", "at most", ""], rows)
    write_json(path, figures)


if __name__ == "__main__":
    main()
