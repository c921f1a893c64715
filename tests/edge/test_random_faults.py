"""Whatever is done while whatever fails, in any order: what was acknowledged holds, and in the end the index agrees.

A seed says all that happens; a failure names it.
"""

import random
from typing import Any

import httpx
import pytest
from tests.edge.agreement import agree
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.queue import QueueFault
from tests.edge.edge import COFFEE, HOURLY, OFTEN, Edge

from shoal.core.ids import memory_id, turn_key

CONTENTS = [f"{COFFEE} Number {n}." for n in range(8)] + [f"{'The train leaves. ' * 200}At {n}." for n in range(3)]
STEPS = 30
D1_FAULTS = [D1Fault.NETWORK_LOST, D1Fault.OVERLOADED, D1Fault.RESET_BY_ERROR, D1Fault.RESET_BY_TIMEOUT]
STATEMENTS = [None, "vector_gone", "vector_state", "set want", "insert into record", "update meta"]
ABSENT, GONE = "absent", "purged"
STATES = {0: GONE, 1: "live", 2: "archived", 3: "trashed"}
THERE, AWAY = {"live", "archived"}, {"trashed", GONE, ABSENT}

Expected = dict[str, set[str]]
"""The states that a memory may have, by its id: several where an outcome was not told."""


class Story:
    """What happens under one seed."""

    def __init__(self, edge: Edge, seed: int) -> None:
        self.edge = edge
        self.random = random.Random(seed)
        self.expected: Expected = {}

    def run(self, steps: int) -> None:
        """Take so many steps, some of which let something fail."""
        for _ in range(steps):
            self.random.choice([self.fail, self.store, self.store, self.change, self.delete, self.revive, self.wait])()

    def fail(self) -> None:
        """Let one of the next calls of a service fail."""
        edge, applied, after = self.edge, self.random.random() < 0.5, self.random.randrange(3)
        match self.random.choice(["d1", "d1", "queue", "ai", "vectorize", "lag"]):
            case "d1":
                fault, on = self.random.choice(D1_FAULTS), self.random.choice(STATEMENTS)
                # An overloaded database has begun nothing.
                begun = applied and fault is not D1Fault.OVERLOADED
                edge.rig.fail("d1", fault, applied=begun, after=after, on=on)
            case "queue":
                edge.rig.fail("queue", self.random.choice(list(QueueFault)), applied=applied)
            case "ai":
                edge.order("ai", self.random.choice(["rate_limited", "internal", "capacity"]), after=after)
            case "vectorize":
                on = self.random.choice(["upsert", "deleteByIds", "query", "describe", "getByIds"])
                kind = self.random.choice(["rate_limited", "refused"])
                edge.order("vectorize", kind, on=on, applied=applied, after=after)
            case _:
                edge.standin.control(lag_s=self.random.choice([0, "forever"]))

    def store(self) -> None:
        """Store a text that may be there, in the trash or purged."""
        content, revive = self.random.choice(CONTENTS), self.random.random() < 0.5
        turn = {"conversation_id": "c", "position": self.random.randrange(4)} if self.random.random() < 0.2 else {}
        one = memory_id("main", content, turn_key("c", turn["position"]) if turn else None)
        before = self.expected.get(one, {ABSENT})
        answer = self.send("POST", "/memories", json={"content": content, "revive": revive, **turn})
        if answer is None:
            self.expected[one] = before | {"live"}
        elif answer.status_code == 409:
            self.expected[one] = before & AWAY
        else:
            assert answer.json()["id"] == one
            # What is stored again leaves the archive.
            self.expected[one] = {"live"}

    def change(self) -> None:
        """Change what the index filters by."""
        if (one := self.any()) is None:
            return
        change = self.random.choice(
            [{"type": "decision"}, {"archived": True}, {"archived": False}, {"occurred_at": "2020-01-01"}]
        )
        then = self.expected[one] & THERE
        if "archived" in change:
            then = {"archived"} if change["archived"] else {"live"}
        self.settled(one, self.send("PATCH", f"/memories/{one}", json=change), then, AWAY)

    def delete(self) -> None:
        """Put a memory into the trash, or purge it."""
        if (one := self.any()) is None:
            return
        purge = self.random.random() < 0.3
        query = {"confirm": "true", **({"purge": "true"} if purge else {})}
        answer = self.send("DELETE", f"/memories/{one}", params=query)
        self.settled(one, answer, {GONE} if purge else {"trashed"}, {GONE, ABSENT} if purge else AWAY)

    def revive(self) -> None:
        """Take a memory out of the trash."""
        if (one := self.any()) is not None:
            self.settled(one, self.send("POST", f"/memories/{one}/revive"), THERE, {*THERE, GONE, ABSENT})

    def any(self) -> str | None:
        """Return one of the memories that there may be."""
        return self.random.choice(sorted(self.expected)) if self.expected else None

    def settled(self, one: str, answer: httpx.Response | None, then: set[str], otherwise: set[str]) -> None:
        """Note what a memory may be after an answer: `then` when it was done, `otherwise` when it wasn't found."""
        before = self.expected[one]
        if answer is None:
            self.expected[one] = before | then
        else:
            self.expected[one] = before & otherwise if answer.status_code == 404 else then
        assert self.expected[one], f"{before} cannot have become so: {answer}"

    def wait(self) -> None:
        """Let the queue run dry, or cron come."""
        self.random.choice(
            [self.edge.rig.drain, lambda: self.edge.rig.cron(OFTEN), lambda: self.edge.rig.cron(HOURLY)]
        )()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Return the answer, None when the outcome is not known."""
        answer = self.edge.http.request(method, f"/api/v1{path}", **options)
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "storage_busy"
            return None
        assert answer.status_code in {200, 201, 404, 409}, answer.text
        return answer

    def check(self) -> None:
        """Compare what there is with what may be."""
        found = {
            one: STATES[state]
            for one, state in self.edge.rows("select lower(hex(id)), state from record where class = 'memory'")
        }
        there = {one: found.get(one, ABSENT) for one in self.expected}
        assert {one: (there[one], states) for one, states in self.expected.items() if there[one] not in states} == {}
        assert found.keys() <= self.expected.keys()


def told(edge: Edge, seed: int, steps: int = STEPS) -> None:
    """Let a story happen, everything heal, and two reconciles run: the second for what only the first let be seen."""
    story = Story(edge, seed)
    story.run(steps)
    edge.heal()
    edge.catch_up()
    story.check()
    # What was written lately the audit leaves alone for a while.
    edge.rig.set_clock(3600)
    edge.catch_up()
    edge.catch_up()
    agree(edge)


@pytest.mark.parametrize("seed", range(2))
def test_a_few_stories(edge: Edge, seed: int):
    told(edge, seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_stories(edge: Edge):
    for seed in range(2, 152):
        edge.empty()
        try:
            told(edge, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
