"""The database taken back to an earlier time while the index stays: numbers of memories are given out a second time,
and the vectors of those that had them before must not speak for those that have them now.
"""

from collections.abc import Callable

import pytest
from tests.edge.agreement import reconciled
from tests.edge.edge import COFFEE, ESPRESSO, Edge

BIRTHDAY = "Ana's birthday is on the ninth of May."
BORN = "On which day was she born?"
PORT = "Staging listens on port 8443."
HOUR_S = 3600


def found(edge: Edge, query: str) -> list[str]:
    """Return what a search finds, as it shows it."""
    return [row["snippet"] for row in edge.find(query)]


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "waiting"])
def test_a_memory_is_not_found_by_the_vector_of_one_that_had_its_number(edge: Edge, indexed: bool):
    kept = edge.store(PORT)
    edge.settle()
    earlier = edge.database.copy()
    for content in (COFFEE, BIRTHDAY):
        edge.store(content)
    edge.settle()
    numbers = edge.rows("select rid from record order by rid")

    edge.database.put_back(earlier)
    if not indexed:
        edge.rig.fail("queue", "Queue disabled (10252)", times=10)
    others = [edge.store(content) for content in ("The train leaves at nine.", "Ships pass the harbour at night.")]
    assert edge.rows("select rid from record order by rid") == numbers
    if indexed:
        edge.settle()
    for query in (ESPRESSO, BORN):
        assert not set(found(edge, query)) & {COFFEE, BIRTHDAY}
        assert edge.meant(query) == []
    assert edge.get(kept)["content"] == PORT
    edge.rig.heal()
    if not indexed:
        # Where no queue has done it, the first reconcile makes what is wanted, and only the next looks for the rest.
        edge.catch_up()
    reconciled(edge)
    assert edge.meant("when does the train go")[0] == others[0]


@pytest.mark.parametrize(
    "later",
    [
        lambda edge, one: edge.update(one, type="decision"),
        lambda edge, one: edge.update(one, archived=True),
        lambda edge, one: edge.update(one, occurred_at="2020-02-02"),
        lambda edge, one: edge.delete(one),
        lambda edge, one: edge.delete(one, purge=True),
        lambda edge, one: edge.store("What came before it.", conversation_id="c", position=1),
    ],
    ids=["type", "archived", "time", "deleted", "purged", "turn-before"],
)
def test_what_happened_in_the_time_that_was_taken_back_is_undone_in_the_index(
    edge: Edge, later: Callable[[Edge, str], object]
):
    one = edge.store(COFFEE, conversation_id="c", position=2)
    edge.settle()
    earlier = edge.database.copy()
    later(edge, one)
    edge.settle()
    edge.database.put_back(earlier)
    assert [row["id"] for row in edge.find("coffee machine")] == [one]
    # What was written lately is given more time before it is looked after.
    edge.rig.set_clock(HOUR_S)
    reconciled(edge)
    assert edge.meant() == [one]


def test_a_database_that_was_emptied_empties_the_index(edge: Edge):
    empty = edge.database.copy()
    edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(60)])
    edge.settle()
    edge.database.put_back(empty)
    assert edge.find(ESPRESSO) == []
    reconciled(edge)
    assert edge.vector_ids() == []
