"""Two laptops and an edge that are killed and cut off while people write to all three: they come to the same, and
nothing that was acknowledged is lost.

What is written follows from the seed; when the kills come does not, as nothing else does on a real machine.
"""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.edge.agreement import reconciled
from tests.edge.edge import Edge
from tests.laptops import same
from tests.laptops.laptop import Laptop
from tests.laptops.replica import Cell, Replica, Stamp
from tests.laptops.writer import THINGS, Answer, Unheard, Writer

LAPTOP_PAUSE_S: Final = 0.04
EDGE_PAUSE_S: Final = 0.15
"""Between two writes, on average; at the edge a caller may make 10 requests a second."""
CUT_S: Final = 1.5
RECONCILED_AT_ONCE: Final = 300
"""Memories whose vectors one run of cron makes."""
WORDS: Final = (*(word for pair in THINGS for word in pair), "alpha", "标签")
BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
OWN_WORDS: Final = 10
"""Of each writer, that are looked for."""

Fault = Callable[[], None]


def at_the_edge(edge: Edge, method: str, path: str, body: Any = None) -> Answer:
    """Ask the edge over REST. Raises Unheard when no answer of the Worker comes, or when it is too busy."""
    try:
        # A client each: others close and open the edge's own meanwhile.
        with edge.client() as http:
            answer = http.request(method, f"/api/v1{path}", json=body)
            said = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unheard from error
    if answer.status_code in BUSY:
        raise Unheard
    return Answer(answer.status_code, said)


class Trouble:
    """What goes wrong, and how often it did."""

    def __init__(self, edge: Edge, laptops: Sequence[Laptop], chance: random.Random) -> None:
        self.edge = edge
        self.laptops = laptops
        self.chance = chance
        self.kills = 0

    def laptop(self, number: int) -> None:
        """Kill a laptop's daemon; it comes back at once."""
        self.kills += 1
        self.laptops[number].kill()
        self.laptops[number].start()

    def worker(self) -> None:
        """Kill workerd, with all that it is in the middle of and the messages in its queues; it comes back at once."""
        self.kills += 1
        self.edge.crash()
        self.wake()

    def cut(self) -> None:
        """Take the network away for a while, in which a laptop dies."""
        self.edge.rig.stop()
        time.sleep(CUT_S)
        self.laptop(self.chance.randrange(len(self.laptops)))
        self.edge.restart()
        self.wake()

    def outage(self) -> None:
        """Kill workerd, and take the network away."""
        self.kills += 1
        self.edge.kill()
        self.cut()

    def wake(self) -> None:
        """Have the laptops notice at once that the edge is back, as a change of network does."""
        for one in self.laptops:
            one.run("sync", "--once")


@pytest.mark.parametrize("seed", [1])
def test_laptops_and_an_edge_that_are_killed_and_cut_off_come_to_the_same(edge: Edge, laptops: list[Laptop], seed: int):
    chance = random.Random(seed)
    trouble = Trouble(edge, laptops, chance)
    everyone = people(edge, laptops, chance)
    write_through([partial(trouble.laptop, 0), trouble.outage], everyone, chance, longest_s=1.0)
    assert trouble.kills == 3
    check(edge, laptops, everyone, chance)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [2, 3])
def test_many_kills_lose_nothing(edge: Edge, laptops: list[Laptop], seed: int):
    chance = random.Random(seed)
    trouble = Trouble(edge, laptops, chance)
    everyone = people(edge, laptops, chance)
    faults: list[Fault] = [
        *[partial(trouble.laptop, number) for number in (0, 1) for _ in range(7)],
        *[trouble.worker] * 4,
        *[trouble.cut] * 2,
        *[trouble.outage] * 2,
    ]
    chance.shuffle(faults)
    write_through(faults, everyone, chance, longest_s=3.0)
    assert trouble.kills >= 20
    check(edge, laptops, everyone, chance)


def people(edge: Edge, laptops: Sequence[Laptop], chance: random.Random) -> list[Writer]:
    """Return somebody for each replica, the edge first."""
    behind = Replica(Path(edge.database.connection.filename))
    return [
        Writer("edge", random.Random(chance.random()), partial(at_the_edge, edge), behind, EDGE_PAUSE_S),
        *(Writer(one.name, random.Random(chance.random()), one.ask, one.replica, LAPTOP_PAUSE_S) for one in laptops),
    ]


def write_through(faults: Sequence[Fault], everyone: Sequence[Writer], chance: random.Random, longest_s: float) -> None:
    """Let people write while one thing after the other goes wrong, at random moments."""
    for one in everyone:
        one.start()
    try:
        for fault in faults:
            time.sleep(chance.uniform(0.2, longest_s))
            fault()
        time.sleep(chance.uniform(0.2, longest_s))
    finally:
        for one in everyone:
            one.stop()


def check(edge: Edge, laptops: Sequence[Laptop], everyone: Sequence[Writer], chance: random.Random) -> None:
    """Check what has become of all that was written."""
    # The requests that were counted are held against nobody.
    edge.counted.rows("delete from _mf_ratelimit_buckets")
    with edge.rig.watched():
        same.exchanged(laptops)
        at_edge, *others = everyone
        stamps = at_edge.replica.stamps()
        assert same.lost(newest(everyone), stamps) == []
        words = [*WORDS, *(word for one in everyone for word in chance.sample(one.own, min(OWN_WORDS, len(one.own))))]
        shown, found = same.seen(at_edge.ask), same.found(at_edge.ask, words)
        for one in others:
            same.check_same("cells", stamps, one.replica.stamps(), one.name)
            same.check_same("memories", shown, same.seen(one.ask), one.name)
            same.check_same("searches", found, same.found(one.ask, words), one.name)
        for laptop in laptops:
            same.check_healthy(laptop)
        for _ in range(len(shown) // RECONCILED_AT_ONCE + 1):
            edge.catch_up()
        reconciled(edge)
        same.check_edge_healthy(edge)
    acknowledged, unheard = sum(one.acknowledged for one in everyone), sum(one.unheard for one in everyone)
    print(f"{acknowledged} writes acknowledged, {unheard} unheard; {len(shown)} memories shown, {len(stamps)} cells")


def newest(everyone: Sequence[Writer]) -> dict[Cell, Stamp]:
    """Return the newest stamp of each cell that stood in any database after an acknowledgement."""
    merged: dict[Cell, Stamp] = {}
    for writer in everyone:
        for cell, stamp in writer.stamps.items():
            merged[cell] = max(stamp, merged.get(cell, stamp))
    return merged
