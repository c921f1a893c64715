"""Vectorize as core's VectorIndex, when all goes well: what lies where, what is found, what is asked."""

import math
from collections.abc import Sequence

import pytest
from tests.edge.doubles.vectorize import VectorizeFault
from tests.worker.world import World

from shoal.core.protocols import Filter, Vector, VectorRow
from shoal.core.times import iso
from shoal.schema.errors import VectorIndexError
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.sql import State
from shoal.worker import vectorize_client
from shoal.worker.budget import Budget
from shoal.worker.vector_ids import Version, metadata
from shoal.worker.vectorize import VectorizeIndex
from shoal.worker.vectorize_client import VectorizeClient, translate

DIM = 1024
LONG = "A paragraph about fish that swim in shoals and never alone. " * 60
"""Several passages."""


def unit(*first: float) -> Vector:
    norm = math.hypot(*first)
    return [number / norm for number in first] + [0.0] * (DIM - len(first))


def row(rid: int, vector: Vector, *, passage: int = 0, text: bytes = b"text", space: str = "main") -> VectorRow:
    return VectorRow(rid * PASSAGES_MAX + passage, vector, text * 4, space, "note", "semantic", 0, False)


def index_of(world: World, budget: Budget | None = None, fingerprint: str = "model/1") -> VectorizeIndex:
    budget = budget or Budget()
    return VectorizeIndex(world.env.VECTORIZE, world.database(budget), fingerprint, DIM, world.clock, budget)


async def stored(world: World, count: int) -> list[int]:
    """Return the rids of so many new memories, without vectors."""
    contents = [f"memory number {n} of {count}" for n in range(count)]
    return [world.rid(one) for one in await world.store_all(contents)]


def state(world: World, rid: int) -> tuple[str, int]:
    return world.rows("select mark, passages from vector_state where rid = ?", rid)[0]


# What lies where


async def test_a_stored_memory_lies_in_both_with_what_filters_need(world: World):
    memory_id = await world.store("Staging listens on port 8443", type="configuration", occurred_at=iso(world.now_ms))
    await world.deliver()
    world.assert_in_step()
    [vector_id] = world.indexed()
    [there] = await world.env.VECTORIZE.getByIds([vector_id])
    assert there["metadata"] == metadata(
        space="main", type_name="configuration", kind="semantic", occurred_ms=world.now_ms, archived=False
    )
    model, made_at, mutation = world.rows("select model, made_at, mutation from vector_state")[0]
    assert (model, made_at) == (world.edge().index.fingerprint, world.now_ms)
    assert mutation == (await world.env.VECTORIZE.describe())["processedUpToMutation"]
    assert world.rid(memory_id) * PASSAGES_MAX == int(vector_id.partition(".")[0])


async def test_long_memories_have_a_vector_a_passage(world: World):
    await world.store(LONG)
    await world.deliver()
    world.assert_in_step()
    assert len(world.indexed()) > 2


async def test_a_new_version_takes_the_place_of_the_old(world: World):
    [rid] = await stored(world, 1)
    index = index_of(world)
    await index.upsert([row(rid, unit(1)), row(rid, unit(0, 1), passage=1)])
    await index.upsert([row(rid, unit(0, 0, 1), text=b"new!")])
    mark, passages = state(world, rid)
    assert world.indexed() == Version(rid, mark, passages).ids
    assert passages == 1
    assert world.rows("select * from vector_gone") == []


async def test_the_same_version_again_only_overwrites(world: World):
    [rid] = await stored(world, 1)
    index = index_of(world)
    await index.upsert([row(rid, unit(1))])
    before = world.indexed()
    await index.upsert([row(rid, unit(1))])
    assert world.indexed() == before
    assert world.value("select want from record") == 1


async def test_of_equal_keys_the_last_counts(world: World):
    [rid] = await stored(world, 1)
    await index_of(world).upsert([row(rid, unit(1), text=b"old!"), row(rid, unit(1), text=b"new!")])
    assert len(world.indexed()) == 1


async def test_more_vectors_than_one_call_takes_are_sent_in_several(world: World):
    [one, two] = await stored(world, 2)
    budget = Budget()
    rows = [row(rid, unit(1, n), passage=n, text=b"%04d" % n) for rid in (one, two) for n in range(700)]
    await index_of(world, budget).upsert(rows)
    assert len(world.indexed()) == 1_400
    assert budget.calls == {"d1": 2, "vectorize": 6}


async def test_many_vectors_are_deleted_in_several_calls(world: World):
    [rid] = await stored(world, 1)
    budget = Budget()
    await index_of(world).upsert([row(rid, unit(1, n), passage=n) for n in range(250)])
    await index_of(world, budget).delete([rid, rid, 999])
    assert world.indexed() == []
    assert budget.calls == {"d1": 2, "vectorize": 3}
    assert world.rows("select * from vector_state") == []
    assert world.rows("select * from vector_gone") == []


async def test_an_invocation_that_cant_remove_all_gets_on(world: World):
    for rid in range(1, 5):
        world.rows("insert into vector_state values (?, 'model/1', 'a', 1000, 0, null)", rid)
    with pytest.raises(VectorIndexError):
        await index_of(world, Budget(calls_max=30)).delete([1, 2, 3, 4])
    assert world.rows("select rid from vector_gone") == [(3,), (4,)]
    await index_of(world, Budget(calls_max=30)).delete([1, 2, 3, 4])
    assert world.rows("select * from vector_gone") == []


async def test_nothing_to_put_or_to_delete_asks_nothing(world: World):
    budget = Budget()
    index = index_of(world, budget)
    await index.upsert([])
    await index.delete([])
    assert await index.discard([]) == 0
    assert await index.discard(["not.ours"]) == 0
    assert budget.calls == {}


async def test_a_memory_that_was_deleted_while_its_vectors_were_made_gets_none(world: World):
    [live, dead] = await world.store_all(["stays here", "goes away"])
    await world.delete(dead)
    await index_of(world).upsert([row(world.rid(live), unit(1)), row(world.rid(dead), unit(0, 1))])
    mark, _ = state(world, world.rid(live))
    assert world.indexed() == [f"{world.rid(live) * PASSAGES_MAX}.{mark}"]
    assert world.rows("select * from vector_gone") == []


@pytest.mark.parametrize("vector", [[1.0], [1.0] * DIM, [math.nan] * DIM], ids=["short", "long", "nan"])
async def test_what_is_no_unit_vector_is_refused_before_anything_is_asked(world: World, vector: Vector):
    budget = Budget()
    index = index_of(world, budget)
    with pytest.raises(ValueError, match="vector"):
        await index.upsert([row(1, vector)])
    with pytest.raises(ValueError, match="vector"):
        await index.search(vector, 1, Filter())
    assert budget.calls == {}


# What is found


async def test_hits_carry_the_mark_of_their_version(world: World):
    [rid] = await stored(world, 1)
    index = index_of(world)
    await index.upsert([row(rid, unit(1))])
    [hit] = await index.search(unit(1), 5, Filter())
    assert (hit.key, hit.mark) == (rid * PASSAGES_MAX, state(world, rid)[0])
    assert hit.similarity == pytest.approx(1, abs=1e-6)


async def test_the_nearest_come_first_and_of_equals_the_lower_key(world: World):
    rids = await stored(world, 4)
    index = index_of(world)
    vectors = [unit(0, 1), unit(1), unit(1), unit(-1)]
    await index.upsert([row(rid, vector) for rid, vector in zip(rids, vectors, strict=True)])
    found = [hit.key // PASSAGES_MAX for hit in await index.search(unit(1), 4, Filter())]
    assert found == [rids[1], rids[2], rids[0], rids[3]]
    assert len(await index.search(unit(1), 1, Filter())) == 1
    assert await index.search(unit(1), 0, Filter()) == []


async def test_a_search_asks_for_a_hundred_at_most_and_once(world: World):
    [rid] = await stored(world, 1)
    budget = Budget()
    index = index_of(world, budget)
    await index.upsert([row(rid, unit(1, n / 50), passage=n) for n in range(150)])
    budget.calls.clear()
    assert len(await index.search(unit(1), 500, Filter())) == 100
    assert budget.calls == {"vectorize": 1}


async def test_what_nothing_passes_is_not_asked(world: World):
    budget = Budget()
    assert await index_of(world, budget).search(unit(1), 5, Filter(spaces=())) == []
    assert budget.calls == {}


async def test_filters_hold_inside_the_index(world: World):
    rids = await stored(world, 3)
    index = index_of(world)
    far = [row(rids[0], unit(-1), space="鱼" * 64), row(rids[1], unit(-1), space="鱼" * 63)]
    await index.upsert([*far, *(row(rids[2], unit(1), passage=n) for n in range(200))])
    where = Filter(spaces=("鱼" * 64,))
    assert [hit.key for hit in await index.search(unit(1), 5, where)] == [rids[0] * PASSAGES_MAX]
    assert index.applies(where)
    assert not index.applies(Filter(tags=("a",)))
    assert index.applies(Filter(spaces=()))


async def test_vectors_of_others_in_the_index_are_passed_over(world: World):
    await world.env.VECTORIZE.upsert([{"id": "somebody-elses", "values": unit(1)}])
    assert await index_of(world).search(unit(1), 5, Filter(states=(State.LIVE, State.ARCHIVED))) == []


async def test_neighbours_leave_the_passage_itself_out(world: World):
    rids = await stored(world, 3)
    index = index_of(world)
    await index.upsert([row(rid, unit(1, n / 4)) for n, rid in enumerate(rids)])
    hits = await index.neighbours(rids[0] * PASSAGES_MAX, 1, Filter())
    assert [hit.key for hit in hits] == [rids[1] * PASSAGES_MAX]


async def test_what_has_no_vectors_here_has_no_neighbours(world: World):
    [rid] = await stored(world, 1)
    index = index_of(world)
    await index.upsert([row(rid, unit(1))])
    for key in (rid * PASSAGES_MAX + 1, 999 * PASSAGES_MAX):
        assert await index.neighbours(key, 5, Filter()) == []
    assert await index_of(world, fingerprint="model/2").neighbours(rid * PASSAGES_MAX, 5, Filter()) == []
    await world.env.VECTORIZE.deleteByIds(world.indexed())
    assert await index.neighbours(rid * PASSAGES_MAX, 5, Filter()) == []


# Strays


async def test_a_stray_that_a_search_met_is_removed(world: World):
    [rid] = await stored(world, 1)
    await world.deliver()
    stray = Version(rid, "0" * 16, 2)
    await world.env.VECTORIZE.upsert([{"id": one, "values": unit(1)} for one in [*stray.ids, f"77.{'1' * 16}"]])
    assert await index_of(world).discard([*stray.ids, f"77.{'1' * 16}"]) == 3
    world.assert_in_step()


async def test_no_present_version_and_none_that_is_being_made_is_a_stray(world: World):
    [present, wanted] = await stored(world, 2)
    await world.deliver()
    ids = world.indexed()
    await world.update(world.value("select lower(hex(id)) from record where rid = ?", wanted), type="bug")
    being_made = f"{wanted * PASSAGES_MAX}.{'0' * 16}"
    await world.env.VECTORIZE.upsert([{"id": being_made, "values": unit(1)}])
    assert await index_of(world).discard([*ids, being_made]) == 0
    assert world.indexed() == sorted([*ids, being_made])
    assert world.rows("select * from vector_gone") == []
    assert present != wanted


async def test_a_search_has_strays_removed_by_itself(world: World):
    await world.store("Sharks swim in shoals")
    await world.deliver()
    [vector_id] = world.indexed()
    [there] = await world.env.VECTORIZE.getByIds([vector_id])
    stray = vector_id.partition(".")[0] + "." + "0" * 16
    await world.env.VECTORIZE.upsert([{**there, "id": stray}])
    found = await world.find("Sharks swim in shoals")
    assert len(found.results) == 1
    world.assert_in_step()


async def test_strays_nearer_than_any_memory_keep_none_from_being_found(world: World):
    ids = await world.store_all([f"boat {n} sails" for n in range(9)])
    await world.deliver()
    nearest = await world.env.AI.run("@cf/baai/bge-m3", {"text": ["boat sails"]})
    told = metadata(space="main", type_name="note", kind="semantic", occurred_ms=0, archived=False)
    strays = [f"{(5_000 + n) * PASSAGES_MAX}.{'0' * 16}" for n in range(90)]
    await world.env.VECTORIZE.upsert([{"id": one, "values": nearest["data"][0], "metadata": told} for one in strays])

    async def run(model: str, inputs: dict[str, object]) -> object:
        return nearest

    world.env.AI.run = run  # so that a query is near to the memories without a word of theirs
    found = await world.find("Segelschiff", n_results=50)
    assert sorted(one.id for one in found.results) == sorted(ids)
    assert len(world.indexed()) == 9


# Errors


@pytest.mark.parametrize(
    ("kind", "says"),
    [(VectorizeFault.RATE_LIMITED, "no more requests"), (VectorizeFault.REFUSED, "refused")],
)
async def test_each_failure_is_told(world: World, kind: VectorizeFault, says: str):
    world.fail_vectorize(kind)
    with pytest.raises(VectorIndexError, match=says) as refused:
        await index_of(world).search(unit(1), 1, Filter())
    assert refused.value.__context__ is None


async def test_a_call_that_hangs_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vectorize_client, "READ_WAIT_S", 0.01)
    world.fail_vectorize(VectorizeFault.TIMEOUT)
    with pytest.raises(VectorIndexError, match="did not answer"):
        await index_of(world).search(unit(1), 1, Filter())
    world.vectorize.faults.release()


def test_a_code_is_told_and_nothing_else_of_the_text():
    told = translate("Error: VECTOR_QUERY_ERROR (code = 40026): secret words")
    assert "40026" in str(told)
    assert "secret" not in str(told)


async def test_a_failed_search_still_finds_by_words_and_says_so(world: World):
    memory_id = await world.store("Staging listens on port 8443")
    await world.deliver()
    world.fail_vectorize(VectorizeFault.REFUSED)
    found = await world.find("staging port")
    assert [one.id for one in found.results] == [memory_id]
    assert [note.code for note in found.notes] == ["lexical_only"]


async def test_calls_are_left_for_what_must_follow(world: World):
    [rid] = await stored(world, 1)
    budget = Budget(calls_max=vectorize_client.CALLS_KEPT + 1)
    index = index_of(world, budget)
    with pytest.raises(VectorIndexError, match="no more calls"):
        await index.upsert([row(rid, unit(1))])
    assert world.indexed() == []


@pytest.mark.parametrize(
    ("told", "milliseconds"),
    [
        (1_790_000_000_000, 1_790_000_000_000),
        ("2026-09-21T14:13:20.000Z", 1_790_000_000_000),
        (None, 0),
    ],
)
async def test_the_time_of_the_last_change_is_read_in_every_form(told: object, milliseconds: int):
    class Described:
        async def describe(self) -> dict[str, object]:
            return {"vectorCount": 3, "dimensions": 5, "processedUpToDatetime": told, "processedUpToMutation": "m"}

    info = await VectorizeClient(Described(), Budget()).describe()  # type: ignore[arg-type]  # describe is all it needs
    assert info == (3, 5, milliseconds, "m")


def test_the_limits_are_those_of_the_double():
    from tests.edge.doubles import vectorize_rules as rules

    limits: Sequence[int] = (vectorize_client.DELETE_MAX, vectorize_client.GET_MAX, vectorize_client.HITS_MAX)
    assert limits == (rules.DELETE_MAX_IDS, rules.GET_MAX_IDS, rules.TOP_K_MAX)
    assert vectorize_client.UPSERT_MAX <= rules.UPSERT_MAX_VECTORS
