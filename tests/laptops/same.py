"""Whether laptops and the edge have come to the same: what people see and find there, and what lies behind it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.edge.edge import Edge
from tests.laptops.laptop import Laptop
from tests.laptops.replica import Cell, Stamp
from tests.laptops.writer import Ask

ROUNDS_MAX: Final = 6
"""In which two laptops must have exchanged all that there is: each sends, then each gets what the other has sent."""
FOUND_MAX: Final = 50
"""The most results that a search may have."""
FAULT: Final = re.compile("Traceback|ERROR|CRITICAL")
"""What a daemon's log says when something of its own has failed."""
SHOWN: Final = 5
"""Differences that a failure shows."""


def exchanged(laptops: Sequence[Laptop]) -> None:
    """Have the laptops exchange until neither has anything to tell."""
    reports: list[Any] = []
    for _ in range(ROUNDS_MAX):
        reports = [one.told("sync", "--once") for one in laptops]
        assert [(one["refused"], one["skipped"]) for one in reports] == [(0, 0)] * len(laptops), reports
        if not any(one["pushed"] or one["pulled"] for one in reports):
            return
    raise AssertionError(f"still exchanging after {ROUNDS_MAX} rounds: {reports}")


def seen(ask: Ask) -> dict[str, Any]:
    """Return every memory that REST shows, with the trash, by id."""
    found: dict[str, Any] = {}
    for trash in ("false", "true"):
        page, more = 0, True
        while more:
            page += 1
            which = f"trash={trash}" if trash == "true" else "include_archived=true"
            answer = ask("GET", f"/memories?space=*&{which}&with_edges=true&page_size=100&page={page}")
            assert answer.status == 200, answer
            # A laptop without a model says so.
            assert {note["code"] for note in answer.body["notes"]} <= {"lexical_only"}, answer.body["notes"]
            more = answer.body["more"]
            for one in answer.body["memories"]:
                one["edges"] = sorted(one["edges"] or (), key=lambda edge: edge["id"])
                found[one["id"]] = one
    return found


def found(ask: Ask, words: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of what is found by each of the words, as words."""
    results: dict[str, list[str]] = {}
    for word in words:
        answer = ask("POST", "/search", {"query": word, "n_results": FOUND_MAX, "include_archived": True})
        assert answer.status == 200, answer
        results[word] = sorted(one["id"] for one in answer.body["results"] if "words" in one["why"])
        assert len(results[word]) < FOUND_MAX, f"{word} is in too many to compare what is found by it"
    return results


def check_same(what: str, here: Mapping[Any, Any], there: Mapping[Any, Any], name: str) -> None:
    """Check that the edge and a laptop have the same, and say where they differ if not."""
    where = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    told = "".join(f"\n  {key}:\n    {here.get(key)}\n    {there.get(key)}" for key in where[:SHOWN])
    assert not where, f"{len(where)} {what} differ between the edge and {name}:{told}"


def lost(acknowledged: Mapping[Cell, Stamp], stamps: Mapping[Cell, Stamp]) -> list[Cell]:
    """Return the cells that were acknowledged, and are neither there nor dominated by a later one or another life."""
    return [cell for cell, stamp in acknowledged.items() if not _holds(stamps, cell, stamp)]


def _holds(stamps: Mapping[Cell, Stamp], cell: Cell, stamp: Stamp) -> bool:
    init = stamps.get((cell[0], cell[1], "init"))
    there = stamps.get(cell)
    return (init is not None and init[0] > stamp[0]) or (there is not None and there >= stamp)


def check_healthy(one: Laptop) -> None:
    """Check that nothing waits or was refused, and that nothing is said to be wrong."""
    status = one.told("status")
    told = {name: status[name] for name in ("linked", "daemon", "queue", "not_shared", "quarantine", "skipped")}
    assert told == {"linked": True, "daemon": True, "queue": 0, "not_shared": 0, "quarantine": 0, "skipped": 0}, status
    assert (status["failure"], status["left"]) == (None, []), status
    assert one.replica.device() == one.device, "a killed daemon's database was taken for a copy"
    logs = "".join(part.read_text(errors="replace") for part in one.home.log.parent.glob(f"{one.home.log.name}*"))
    faults = [line for line in logs.splitlines() if FAULT.search(line)]
    assert not faults, f"failed inside: {faults}"
    assert one.replica.waiting() == []
    assert one.replica.rows("select * from sync_refused") == []


def check_edge_healthy(edge: Edge) -> None:
    """Check that nothing is said to be wrong there, and that no request has failed inside since its last start."""
    health = edge.health()
    assert (health["status"], health["pending"]) == ("ok", 0), health
    failed = [each for each in edge.rig.invocations() if each.error or each.status == 500]
    assert not failed, f"failed inside: {failed}\n{edge.rig.log()[-5:]}"
