"""Filters of a search by meaning, though the index knows only some of them: what passes is found, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.edge.edge import COFFEE, ESPRESSO, Edge, codes

Item = dict[str, Any]
COUNT = 48


def items() -> list[Item]:
    """Return memories that all answer the question, different in everything else."""
    return [
        {
            "content": f"{COFFEE} Note {n}.",
            "type": ("note", "decision", "bug", "procedure")[n % 4],
            "tags": [f"project:p{n % 3}", *(["hot"] if n % 5 == 0 else [])],
            "entities": ["Ana"] if n % 2 else ["Bo", "Ana Maria"],
            "occurred_at": f"2026-{n % 12 + 1:02}-15",
            "conversation_id": f"c{n % 6}",
            "position": n,
        }
        for n in range(COUNT)
    ]


def in_months(first: int, last: int) -> Callable[[int, Item], bool]:
    return lambda n, item: first <= int(item["occurred_at"][5:7]) <= last


FILTERS: list[tuple[Item, Callable[[int, Item], bool]]] = [
    ({}, lambda n, item: True),
    ({"type": "decision"}, lambda n, item: item["type"] == "decision"),
    ({"type": ["bug", "procedure"]}, lambda n, item: item["type"] in ("bug", "procedure")),
    ({"kind": "procedural"}, lambda n, item: item["type"] == "procedure"),
    ({"tags": "hot"}, lambda n, item: "hot" in item["tags"]),
    ({"tags": ["hot", "project:p1"], "tags_mode": "all"}, lambda n, item: n % 5 == 0 and n % 3 == 1),
    ({"tags": "project:*"}, lambda n, item: True),
    ({"entity": "Ana"}, lambda n, item: n % 2 == 1),
    ({"conversation_id": "c2"}, lambda n, item: n % 6 == 2),
    ({"since": "2026-03-01", "until": "2026-06-01"}, in_months(3, 5)),
    ({"time": "2026-03"}, in_months(3, 3)),
    ({"since": "2026-07-01", "type": "note", "tags": "project:p2"}, lambda n, item: n % 12 == 8),
    ({"time_field": "created", "since": "2020-01-01"}, lambda n, item: True),
    ({"time_field": "created", "until": "2020-01-01"}, lambda n, item: False),
    ({"space": "elsewhere"}, lambda n, item: False),
]


@pytest.fixture(scope="module")
def stored(opened: Edge) -> dict[str, int]:
    """The number of each memory by its id; one more lies in another space, one in the archive, one in the trash."""
    opened.empty()
    ids = opened.store_all(items())
    opened.store(COFFEE, space="other")
    opened.update(opened.store(f"{COFFEE} Archived."), archived=True)
    opened.delete(opened.store(f"{COFFEE} Gone."))
    opened.settle()
    return {one: number for number, one in enumerate(ids)}


@pytest.mark.parametrize(("filters", "passes"), FILTERS, ids=[str(filters) for filters, _ in FILTERS])
def test_what_passes_is_found_by_its_meaning_and_by_its_words(
    opened: Edge, stored: dict[str, int], filters: Item, passes: Callable[[int, Item], bool]
):
    expected = {n for n, item in enumerate(items()) if passes(n, item)}
    with opened.rig.watched():
        for query in (ESPRESSO, "coffee machine"):
            found = {stored[row["id"]] for row in opened.find(query, n_results=50, **filters)}
            assert found == expected
        listed = opened.ask("GET", "/memories", params={"page_size": "100", **filters})["memories"]
        assert {stored[memory["id"]] for memory in listed} == expected


def test_every_space_the_archive_and_the_trash_are_there_when_they_are_asked_for(opened: Edge, stored: dict[str, int]):
    with opened.rig.watched():
        assert len(opened.find(ESPRESSO, space="*", n_results=50)) == COUNT + 1
        assert len(opened.find(ESPRESSO, space=["other", "nowhere"])) == 1
        assert len(opened.find(ESPRESSO, include_archived=True, n_results=50)) == COUNT + 1
        assert opened.find("archived", include_archived=True)[0]["state"] == "archived"
        trash = opened.ask("GET", "/memories", params={"trash": "true"})["memories"]
        assert [memory["content"] for memory in trash] == [f"{COFFEE} Gone."]


def test_what_lies_behind_the_nearest_hundred_is_found_by_its_words_and_else_said_to_be_missing(edge: Edge):
    edge.store_all([{"content": f"{COFFEE} Number {n}."} for n in range(120)])
    rare = edge.store("The train leaves at nine.", tags="rare")
    edge.settle()
    answer = edge.search(ESPRESSO, tags="rare")
    assert (answer["results"], codes(answer)) == ([], ["partial"])
    answer = edge.search("train", tags="rare")
    assert [row["id"] for row in answer["results"]] == [rare]
    # What the index filters by itself hides nothing.
    answer = edge.search("When does the railway carriage depart?", type="note", since="2020-01-01")
    assert (answer["results"][0]["id"], codes(answer)) == (rare, [])


@pytest.mark.parametrize("count", [3, 100, 400])
def test_more_spaces_than_the_index_can_be_asked_for_are_searched_all_the_same(edge: Edge, count: int):
    names = [f"空间-space-{n}" * 3 for n in range(count)]
    mine = edge.store(COFFEE, space=names[-1])
    edge.store(COFFEE, space="not one of them")
    edge.settle()
    assert edge.meant(space=names) == [mine]


def test_versions_and_relations_come_with_the_memories_that_have_them(edge: Edge):
    first = edge.store("Staging listens on port 8443.", tags="ops")
    second = edge.update(first, content="Staging listens on port 9443.")["superseded_by"]
    third = edge.update(second, content="Staging listens on port 9444.")["superseded_by"]
    edge.settle()
    for one in (first, second, third):
        whole = edge.get(one, with_edges="true", with_history="true")
        assert whole["history"] == [first, second, third]
        assert {edge["relation"] for edge in whole["edges"]} == {"supersedes"}
        assert len(whole["edges"]) == (2 if one == second else 1)
    found = edge.find("which port does staging use", include_edges=True)
    assert found[0]["id"] == third
    assert {row["id"]: len(row["edges"]) for row in found} == {first: 1, second: 2, third: 1}
    assert edge.get(first)["superseded_by"] == second


def test_a_search_says_how_its_scores_came_about(edge: Edge):
    edge.store(COFFEE)
    edge.rig.drain()
    (row,) = edge.find(f"{ESPRESSO} kitchen", explain=True)
    assert row["why"] == ["words", "meaning"]
    assert row["explain"]


def test_statistics_count_what_is_there(edge: Edge):
    edge.store_all([{"content": f"fact {n}", "type": "bug" if n % 3 else "decision"} for n in range(6)])
    edge.store("elsewhere", space="other")
    edge.delete(edge.store("gone"))
    edge.update(edge.store("old"), archived=True)
    edge.rig.drain()
    stats = edge.stats()
    assert (stats["total"], stats["live"], stats["archived"], stats["trashed"]) == (8, 7, 1, 1)
    assert stats["by_type"] == {"bug": 4, "decision": 2, "note": 2}
    assert stats["spaces"] == {"main": 7, "other": 1}
    assert (stats["pending_embeddings"], stats["degraded"]) == (0, [])
    assert stats["database_bytes"] > 100_000
    assert stats["model"]["fingerprint"].startswith("workers-ai@cf/baai/bge-m3/1024")
