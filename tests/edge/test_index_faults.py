"""Vectorize late, refusing, forgetful or confused: searches go on by words, and in the end it holds what it should."""

import pytest
from tests.edge.agreement import reconciled
from tests.edge.edge import COFFEE, OFTEN, Edge, codes

from shoal.schema.limits import PASSAGES_MAX
from shoal.worker.vector_ids import Version, vector_id

MARK = "0123456789abcdef"
HOUR_S = 3600
FOR_EVER = {"times": None}


def lose(edge: Edge, ids: list[str]) -> None:
    """Take vectors from the index behind the Worker's back; what was written lately it would give more time."""
    edge.vectorize("deleteByIds", ids)
    edge.rig.set_clock(HOUR_S)


def calls(edge: Edge, since: int, kind: str) -> int:
    """Return how often the index was asked something since then, by the Worker."""
    return sum(each.vectorize.get(kind, 0) for each in edge.rig.invocations(since))


# Late


def test_what_the_index_does_not_show_yet_is_found_by_words_and_made_only_once(edge: Edge):
    edge.standin.control(lag_s="forever")
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert edge.meant() == []
    assert [row["id"] for row in edge.find("coffee machine")] == [one]
    since = edge.rig.mark()
    edge.rig.cron(OFTEN)
    edge.rig.drain()
    assert calls(edge, since, "upsert") == 0
    edge.standin.control(settle=True)
    assert edge.meant() == [one]
    reconciled(edge)


def test_what_the_index_still_shows_though_it_is_gone_is_not_found(edge: Edge):
    gone, purged, kept = (edge.store(f"{COFFEE} {n}") for n in range(3))
    edge.settle()
    edge.standin.control(lag_s="forever")
    edge.delete(gone)
    edge.delete(purged, purge=True)
    edge.rig.drain()
    assert len(edge.vector_ids()) == 3
    assert edge.meant(n_results=3) == [kept]
    reconciled(edge)


@pytest.mark.parametrize(
    ("change", "filters"),
    [
        ({"type": "decision"}, {"type": "note"}),
        ({"occurred_at": "2020-01-01"}, {"since": "2021-01-01"}),
        ({"archived": True}, {}),
    ],
    ids=["type", "time", "archived"],
)
def test_a_filter_goes_by_the_database_where_the_index_is_behind(edge: Edge, change: dict, filters: dict):
    one = edge.store(COFFEE)
    edge.settle()
    assert edge.meant(**filters) == [one]
    edge.standin.control(lag_s="forever")
    edge.update(one, **change)
    edge.rig.drain()
    assert edge.meant(**filters) == []
    reconciled(edge)


def test_a_change_that_the_index_has_lost_is_made_again(edge: Edge):
    edge.standin.control(lag_s="forever")
    one = edge.store(COFFEE)
    edge.rig.drain()
    # What waits is deleted before it was ever seen: as if it had never come.
    lose(edge, believed(edge))
    edge.standin.control(settle=True, lag_s=0)
    assert edge.vector_ids() == []
    edge.catch_up()
    assert edge.meant() == [one]
    reconciled(edge)


def believed(edge: Edge) -> list[str]:
    """Return the ids of the vectors that the database believes in."""
    versions = edge.rows("select rid, mark, passages from vector_state")
    return [one for version in versions for one in Version(*version).ids]


# Refusing


@pytest.mark.parametrize("kind", ["rate_limited", "refused"])
@pytest.mark.parametrize("applied", [False, True], ids=["refused", "done-and-lost"])
def test_a_change_that_fails_is_made_again_by_the_queue(edge: Edge, kind: str, applied: bool):
    edge.order("vectorize", kind, on="upsert", applied=applied)
    since = edge.rig.mark()
    one = edge.store(COFFEE)
    edge.rig.drain()
    assert [each.retries for each in edge.rig.invocations(since) if each.kind == "queue"] == [(10,), ()]
    assert edge.meant() == [one]
    reconciled(edge)


@pytest.mark.parametrize("applied", [False, True], ids=["refused", "done-and-lost"])
def test_a_removal_that_fails_is_made_again(edge: Edge, applied: bool):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("vectorize", "refused", on="deleteByIds", applied=applied, times=3)
    edge.delete(one, purge=True)
    reconciled(edge)
    assert edge.vector_ids() == []


def test_an_index_that_stays_down_costs_neither_memories_nor_messages_nor_answers(edge: Edge):
    edge.order("vectorize", "refused", **FOR_EVER)
    one = edge.store(COFFEE)
    edge.rig.drain()
    answer = edge.search("coffee machine")
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert set(codes(answer)) == {"lexical_only", "pending", "undelivered"}
    stats = edge.stats()
    assert (stats["pending_embeddings"], stats["dead_letters"], stats["failed_embeddings"]) == (1, 1, 0)
    assert edge.health()["status"] == "degraded"
    edge.rig.cron(OFTEN)
    edge.heal()
    reconciled(edge)
    assert edge.stats()["dead_letters"] == 1
    assert edge.ask("POST", "/admin/requeue") == {"requeued": 0}
    assert edge.health() | {"model": None} == {
        "status": "ok",
        "version": "0.1.0",
        "model": None,
        "pending": 0,
        "degraded": [],
    }


@pytest.mark.parametrize("kind", ["rate_limited", "refused"])
def test_a_search_that_the_index_refuses_is_answered_by_words_and_says_so(edge: Edge, kind: str):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("vectorize", kind, on="query")
    answer = edge.search("coffee machine")
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert codes(answer) == ["lexical_only"]
    assert codes(edge.search("coffee machine")) == []


def test_a_search_that_the_index_leaves_empty_is_answered_by_words(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("vectorize", "empty", on="query")
    assert [row["why"] for row in edge.find("coffee machine")] == [["words"]]
    assert edge.meant() == [one]


@pytest.mark.long
def test_a_search_waits_for_the_index_only_so_long(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()
    edge.order("vectorize", "timeout", on="query")
    answer = edge.search("coffee machine")
    assert [(row["id"], row["why"]) for row in answer["results"]] == [(one, ["words"])]
    assert codes(answer) == ["lexical_only"]


# Forgetful and confused


def test_vectors_that_the_index_has_lost_are_made_anew(edge: Edge):
    edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(30)])
    edge.rig.drain()
    ids = edge.vector_ids()
    lose(edge, ids[::2])
    reconciled(edge)
    assert edge.vector_ids() == ids


def test_ghosts_are_not_found_and_go(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()
    (present,) = edge.vectorize("getByIds", edge.vector_ids())
    rid = edge.value("select rid from record")
    # Of a memory that never was, of another version of one that is.
    ghosts = [vector_id(77 * PASSAGES_MAX, MARK), vector_id(rid * PASSAGES_MAX, MARK)]
    edge.vectorize("upsert", [{**present, "id": ghost} for ghost in ghosts])
    # A search that meets them has them removed.
    assert edge.meant() == [one]
    edge.settle()
    assert edge.vector_ids() == [present["id"]]
    edge.vectorize("upsert", [{**present, "id": ghost} for ghost in ghosts])
    reconciled(edge)


def test_vectors_that_are_none_of_ours_disturb_no_search(edge: Edge):
    one = edge.store(COFFEE)
    edge.rig.drain()
    (present,) = edge.vectorize("getByIds", edge.vector_ids())
    strangers = ["1", "no number.0123456789abcdef", f"1024.{MARK}0", "Ω"]
    edge.vectorize("upsert", [{**present, "id": stranger} for stranger in strangers])
    assert edge.meant() == [one]
    edge.rig.cron(OFTEN)
    assert edge.meant() == [one]


def test_metadata_that_has_gone_wrong_leads_nobody_astray_and_is_put_right(edge: Edge):
    one = edge.store(COFFEE, space="mine")
    other = edge.store(f"{COFFEE} It is old.", space="theirs")
    edge.rig.drain()
    ids = edge.vector_ids()
    first, second = edge.vectorize("getByIds", ids)
    told = {first["id"]: second["metadata"], second["id"]: first["metadata"]}
    edge.vectorize("upsert", [{**vector, "metadata": told[vector["id"]]} for vector in (first, second)])
    edge.rig.set_clock(HOUR_S)
    assert edge.meant(space="mine") == []
    assert edge.meant(space="theirs") == []
    assert sorted(edge.meant(space="*")) == sorted([one, other])
    reconciled(edge)
    assert edge.meant(space="mine") == [one]


def test_an_index_that_was_lost_as_a_whole_is_built_anew(edge: Edge):
    edge.store_all([{"content": f"{COFFEE} {n}", "tags": [f"t{n % 3}"]} for n in range(40)])
    edge.rig.drain()
    lose(edge, edge.vector_ids())
    assert edge.meant() == []
    reconciled(edge)
    assert len(edge.meant()) == 5


def test_neighbours_that_the_index_does_not_see_are_no_fault(edge: Edge):
    edge.standin.control(missing=1)
    edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(5)])
    reconciled(edge)
    assert len(edge.meant()) == 5
