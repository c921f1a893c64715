"""What the edge takes: time by operation, calls of Cloudflare's services, bytes, memory and the CPU of its start.

    python -m bench.edge --json OUT

The real Worker runs in the rig of tests/edge, with 10,000 memories that were stored over REST and embedded through the
queue. One client, warm, one request at a time. Times are taken outside, less what was spent waiting for the stand-ins
of Vectorize and Workers AI, which are not Cloudflare's, and for the rate limit, which is a write into a database here
and answered on the spot there. D1 and Queues are workerd's own. Needs Linux, to read the CPU time of a process.
"""

import functools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import track
from tests.edge.rig.records import Invocation

from bench.corpus import Note, notes
from bench.edge_operations import BATCH, BATCHES, Call, Clientele, Operation, body_of
from bench.edge_worker import EdgeWorker, uploaded
from bench.harness import machine, percentiles, report, write_json

MEMORIES: Final = 10_000
OFTEN: Final = 200
"""Timed calls of an operation with a target, and"""
SELDOM: Final = 20
"""of the others."""
WARM_UP: Final = 200
"""Requests of all kinds before the first is timed: V8 compiles WebAssembly anew, and better, while it runs."""
ROUND: Final = 20
"""Requests between which the queue's batches have no turn: in production they run in another isolate."""
QUIET_CORES: Final = 0.2
"""A round is undisturbed when other programs kept no more than so many cores busy."""
DISTURBED_MAX: Final = 4
"""How many times as many rounds as are needed are made on a machine that isn't quiet."""
PLANT_BATCH: Final = 500
PLANTED_AT_ONCE: Final = 1_000
"""Memories stored before the queue is let run dry."""
MIXED: Final = 1_000
STARTS: Final = 5
"""Starts of each kind, of which the median counts."""
BEHIND: Final = 5
"""Batches of the queue, and events of a cron, of each kind."""
OFTEN_CRON: Final = "*/5 * * * *"
CRONS: Final = {"cron_confirming": OFTEN_CRON, "cron_5_minutes": OFTEN_CRON, "cron_hourly": "7 * * * *"}
MB: Final = 2**20

TARGETS: Final = (
    ("p50_ms.health", 5),
    ("p50_ms.store", 40),
    ("p50_ms.find", 60),
    ("p50_ms.mcp_call", 70),
    ("calls.find.ai", 1),
    ("calls.find.vectorize", 1),
    ("calls.find.d1", 4),
    ("calls.store.d1", 2),
    ("calls.store.queue", 1),
    ("rows_read_by_store", 200),
    ("most_statements", 50),
    ("breaches", 0),
    ("global_cpu_s", 1),
    ("wasm_mb_after_1000", 100),
    ("wasm_mb_grown", 0),
    ("bundle_bytes", 1_000_000),
    ("vendored_bytes", 20_000_000),
)
"""Figures, by their place in the JSON, and the most that each may be. One of the calls of D1 checks the token.
`most_statements` counts those of an invocation, `breaches` whatever production would have refused."""

console: Final = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Round:
    """Requests of one operation, one after the other."""

    took_s: Sequence[float]
    """As the client saw each, less what its invocation waited for stand-ins and the rate limit."""
    invocations: Sequence[Invocation]
    cpu_s: float
    """Of workerd, D1 included."""
    others_cores: float
    """Cores that other programs kept busy meanwhile: what they have makes every time longer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The rounds of an operation that count."""

    rounds: Sequence[Round]

    def figures(self) -> dict[str, Any]:
        """Return times in milliseconds, CPU and D1 as means, and the most calls and rows that a request took."""
        invocations = [one for round_ in self.rounds for one in round_.invocations]
        return {
            **percentiles([took_s for round_ in self.rounds for took_s in round_.took_s]),
            "standin_ms": statistics.median(one.standin_ms for one in invocations),
            "ratelimit_ms": round(statistics.fmean(one.ratelimit_ms for one in invocations), 1),
            "d1_ms": round(statistics.fmean(one.d1.spent_ms for one in invocations), 1),
            "cpu_ms": round(sum(round_.cpu_s for round_ in self.rounds) / len(invocations) * 1000, 1),
            "n": len(invocations),
            "others_cores": round(statistics.fmean(round_.others_cores for round_ in self.rounds), 2),
            **costs(invocations),
        }


def costs(invocations: Sequence[Invocation]) -> dict[str, float]:
    """Return the most that one of the invocations cost, calls by service, statements and rows, and the rows' means."""
    return {
        "d1": max(one.d1.round_trips for one in invocations),
        "statements": max(one.d1.statements for one in invocations),
        "rows_read": max(one.d1.rows_read for one in invocations),
        "rows_written": max(one.d1.rows_written for one in invocations),
        "ai": max(one.ai for one in invocations),
        "vectorize": max(sum(one.vectorize.values()) for one in invocations),
        "queue": max(one.queue_sends for one in invocations),
        "mean_rows_read": round(statistics.fmean(one.d1.rows_read for one in invocations), 1),
        "mean_rows_written": round(statistics.fmean(one.d1.rows_written for one in invocations), 1),
    }


def plant(worker: EdgeWorker, count: int, given: Sequence[Note]) -> dict[str, Note]:
    """Store notes and let them be embedded; return them by id. Both crons have run once, as soon after a deployment."""
    for cron in set(CRONS.values()):
        worker.rig.cron(cron)
    planted: dict[str, Note] = {}
    for start in track(range(0, count, PLANT_BATCH), description=f"storing {count}", console=console):
        page = given[start : min(start + PLANT_BATCH, count)]
        answer = worker.client.call("POST", "/api/v1/memories", {"items": [body_of(note) for note in page]})
        planted.update((one["id"], note) for one, note in zip(answer["results"], page, strict=True))
        if (start + PLANT_BATCH) % PLANTED_AT_ONCE == 0:
            worker.settle()
    worker.settle()
    return planted


def timed(worker: EdgeWorker, operation: Operation) -> Measured:
    """Make requests until enough were made undisturbed; after DISTURBED_MAX as many, the least disturbed ones count."""
    rounds: list[Round] = []
    wanted = -(-operation.count // ROUND)
    while sum(one.others_cores <= QUIET_CORES for one in rounds) < wanted and len(rounds) < wanted * DISTURBED_MAX:
        rounds.append(_round(worker, [operation.make() for _ in range(min(ROUND, operation.count))]))
        worker.settle()
    return Measured(sorted(rounds, key=lambda one: one.others_cores)[:wanted])


def _round(worker: EdgeWorker, calls: Sequence[Call]) -> Round:
    since = worker.rig.mark()
    cpu_s, others_s, began_s = worker.cpu_s(), worker.others_cpu_s(), time.perf_counter()
    took_s: list[float] = []
    for call in calls:
        before = time.perf_counter()
        call()
        took_s.append(time.perf_counter() - before)
    others_cores = (worker.others_cpu_s() - others_s) / (time.perf_counter() - began_s)
    cpu_s = worker.cpu_s() - cpu_s
    requests = [one for one in worker.rig.invocations(since) if one.kind == "fetch"]
    not_ours_ms = (request.standin_ms + request.ratelimit_ms for request in requests)
    own_s = [took - waited_ms / 1000 for took, waited_ms in zip(took_s, not_ours_ms, strict=True)]
    return Round(own_s, requests, cpu_s, others_cores)


def behind(worker: EdgeWorker, clientele: Clientele) -> dict[str, dict[str, float]]:
    """Return what goes on behind requests: the queue's batch of one memory and of many, and the crons.

    The first cron of five minutes finds all that was planted not yet confirmed, the later ones nothing to do.
    """
    figures: dict[str, dict[str, float]] = {}
    for name, calls in {
        "queue_1": [clientele.store() for _ in range(BEHIND)],
        "queue_100": [clientele.store_all(BATCH) for _ in range(BEHIND)],
    }.items():
        figures[name] = _background(worker, "queue", calls, [worker.settle] * BEHIND)
    for name, cron in CRONS.items():
        fire = functools.partial(worker.rig.cron, cron)
        times = 1 if name == "cron_confirming" else BEHIND
        figures[name] = _background(worker, "scheduled", [_nothing] * times, [fire] * times)
    return figures


def _background(worker: EdgeWorker, kind: str, before: Sequence[Call], then: Sequence[Call]) -> dict[str, float]:
    """Return what invocations of a kind cost that come of doing something after a call, and their CPU milliseconds."""
    done: list[Invocation] = []
    cpu_s = 0.0
    for prepare, act in zip(before, then, strict=True):
        prepare()
        before_s = worker.cpu_s()
        done += [one for one in worker.invocations(act) if one.kind == kind]
        cpu_s += worker.cpu_s() - before_s
    return {**costs(done), "cpu_ms": round(cpu_s / len(done) * 1000, 1), "n": len(done)}


def _nothing() -> None:
    pass


def warm_up(worker: EdgeWorker, clientele: Clientele) -> float:
    """Make WARM_UP requests; return the milliseconds of the first over MCP, for which most isolates import the SDK."""
    first = _round(worker, [clientele.mcp("tools/list")])
    for start in range(0, WARM_UP, ROUND):
        for call in clientele.mixed(min(ROUND, WARM_UP - start)):
            call()
        worker.settle()
    return round(first.took_s[0] * 1000)


def itemized(worker: EdgeWorker, clientele: Clientele) -> dict[str, list[dict[str, Any]]]:
    """Return what each statement of a store and of a search reads, writes and takes."""
    worker.rig.itemize(True)
    figures: dict[str, list[dict[str, Any]]] = {}
    for name, call in {"store": clientele.store(), "find": clientele.find()}.items():
        (request,) = [one for one in worker.invocations(call) if one.kind == "fetch"]
        figures[name] = [{**one.model_dump(), "sql": " ".join(one.sql.split())} for one in request.d1.each]
    worker.rig.itemize(False)
    return figures


def mixed(worker: EdgeWorker, clientele: Clientele) -> dict[str, float]:
    """Make MIXED requests of all kinds; return the Wasm memory in MB after them, and by how much the last half grew."""
    sizes: list[float] = []
    for number, call in enumerate(track(clientele.mixed(MIXED), "mixed requests", MIXED, console=console), 1):
        call()
        if number % (MIXED // 2) == 0:
            worker.settle()
            sizes.append(worker.rig.wasm_bytes() / MB)
    half, whole = sizes
    return {"wasm_mb_after_1000": whole, "wasm_mb_grown": whole - half}


def start_figures() -> dict[str, Any]:
    """Return CPU seconds and seconds until ready: medians for an empty Worker, ours, and ours by what it preloads."""
    kinds: dict[str, dict[str, Any]] = {
        "empty": {"empty": True},
        "ours": {},
        "core": {"preload": "core"},
        "all": {"preload": "all"},
    }
    cpu_s: dict[str, list[float]] = {kind: [] for kind in kinds}
    ready_s: list[float] = []
    for _ in track(range(STARTS), description="starts", console=console):
        # In turns, so that a busy minute of the machine touches all kinds alike.
        for kind, options in kinds.items():
            with EdgeWorker(**options) as worker:
                cpu_s[kind].append(worker.rig.cpu_seconds())
                if kind == "ours":
                    ready_s.append(worker.ready_s)
    median_s = {kind: statistics.median(values) for kind, values in cpu_s.items()}
    above = {kind: round(value - median_s["empty"], 2) for kind, value in median_s.items() if kind != "empty"}
    return {
        "global_cpu_s": above["ours"],
        "global_cpu_s_by_preload": {"core": above["core"], "rest": above["ours"], "all": above["all"]},
        "empty_cpu_s": median_s["empty"],
        "ready_s": round(statistics.median(ready_s), 2),
    }


def measure(memories: int) -> dict[str, Any]:
    """Return all figures."""
    # Each operation that stores may need several times as many.
    spare = DISTURBED_MAX * (OFTEN + 2 * SELDOM + BATCH * BATCHES) + 2 * BEHIND * BATCH + MIXED + WARM_UP
    corpus = list(notes(memories + spare))
    with EdgeWorker() as worker:
        wasm_mb_at_start = worker.rig.wasm_bytes() / MB
        planted = plant(worker, memories, corpus)
        clientele = Clientele(worker.client, planted, iter(corpus[memories:]))
        database_bytes = worker.client.call("GET", "/api/v1/stats")["database_bytes"]
        first_mcp_ms = warm_up(worker, clientele)
        operations = {
            operation.name: timed(worker, operation).figures()
            for operation in track(clientele.operations(OFTEN, SELDOM), "operations", console=console)
        }
        operations |= behind(worker, clientele)
        statements = itemized(worker, clientele)
        wasm = mixed(worker, clientele)
        breaches = worker.rig.breaches()
        own_bytes = worker.own_bytes
    calls = {
        name: {service: figures[service] for service in ("d1", "ai", "vectorize", "queue")}
        for name, figures in operations.items()
    }
    return {
        "memories": memories,
        "others_cores": max(figures["others_cores"] for figures in operations.values() if "others_cores" in figures),
        "first_mcp_ms": first_mcp_ms,
        "database_bytes_a_memory": round(database_bytes / memories),
        "p50_ms": {name: figures["p50_ms"] for name, figures in operations.items() if "p50_ms" in figures},
        "calls": calls,
        "rows_read_by_store": operations["store"]["rows_read"],
        "most_statements": max(figures["statements"] for figures in operations.values()),
        "breaches": len(breaches),
        "broken": [f"{breach.rule}: {breach.detail}" for breach in breaches],
        "wasm_mb_at_start": wasm_mb_at_start,
        **wasm,
        "bundle_bytes": own_bytes,
        "vendored_bytes": uploaded(),
        "operations": operations,
        "statements": statements,
    }


def looked_up(figures: dict[str, Any], place: str) -> Any:
    """Return the figure at a place such as `calls.find.d1`."""
    found: Any = figures
    for name in place.split("."):
        found = found[name]
    return found


def show(figures: dict[str, Any]) -> None:
    """Print the figures with a target beside it, then what each operation costs."""
    rows = [[place, looked_up(figures, place), most] for place, most in TARGETS]
    marked = [[*row, "met" if row[1] <= row[2] else "MISSED"] for row in rows]
    title = f"{figures['machine']}; others kept at most {figures['others_cores']} cores busy while times were taken"
    report(title, ["figure", "is", "at most", ""], marked)
    names = ["p50_ms", "p95_ms", "others_cores", "cpu_ms", "d1_ms", "d1", "statements", "rows_read", "rows_written"]
    rows = [[kind, *(one.get(name, "") for name in names)] for kind, one in figures["operations"].items()]
    report(
        "by operation: times in ms without stand-ins and rate limit; calls and rows at most",
        ["operation", *names],
        rows,
    )


@click.command(help=__doc__)
@click.option("--memories", default=MEMORIES, show_default=True, help="How many lie there already.")
@click.option("--json", "out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the figures.")
def main(memories: int, out: Path | None) -> None:
    """Run the benchmark."""
    figures = {"machine": machine(), **start_figures(), **measure(memories)}
    show(figures)
    write_json(out, figures)


if __name__ == "__main__":
    main()
