"""Runs many seeds in parallel: `python -m tests.simulation --seeds 20000` (make simulate SEEDS=20000)."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

CHUNK: Final = 10
"""Seeds that a process runs at a time."""
FAILURES_SHOWN: Final = 10


@dataclass
class Outcome:
    """What became of some seeds."""

    seeds: int = 0
    acknowledged: int = 0
    requests: int = 0
    rounds: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, other: "Outcome") -> None:
        self.seeds += other.seeds
        self.acknowledged += other.acknowledged
        self.requests += other.requests
        self.rounds += other.rounds
        self.failures.update(other.failures)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.acknowledged} acknowledged cells, {self.rounds} rounds,"
            f" {self.requests} requests, {len(self.failures)} failed"
        )


def replay(seed: int) -> str:
    """Return the command that runs one seed again."""
    return f".venv/bin/python -m tests.simulation --first {seed} --seeds 1"


def run(seeds: Iterable[int]) -> Outcome:
    """Run seeds here and collect what they break."""
    from tests.simulation import world  # in the process that runs them

    outcome = Outcome()
    for seed in seeds:
        outcome.seeds += 1
        try:
            summary = world.run(seed)
        except Exception as error:
            outcome.failures[seed] = f"{type(error).__name__}: {error}"
            continue
        outcome.acknowledged += summary.acknowledged
        outcome.requests += summary.requests
        outcome.rounds += summary.rounds
    return outcome


def run_parallel(first: int, seeds: int, processes: int) -> Iterator[Outcome]:
    """Run seeds in several processes; yield the sum so far after each chunk."""
    chunks = [range(start, min(start + CHUNK, first + seeds)) for start in range(first, first + seeds, CHUNK)]
    total = Outcome()
    with ProcessPoolExecutor(processes) as pool:
        for outcome in pool.map(run, chunks):
            total.add(outcome)
            yield total


def main() -> int:
    """Return 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    began = time.monotonic()
    total = Outcome()
    for total in run_parallel(options.first, options.seeds, options.processes):
        print(f"\r{total}, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{total}, {time.monotonic() - began:.1f} s")
    for seed, what in sorted(total.failures.items())[:FAILURES_SHOWN]:
        print(f"\nseed {seed} failed: {what}\nrun it again: {replay(seed)}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
