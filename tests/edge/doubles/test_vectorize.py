"""What Vectorize does: when changes are seen, what is found, what fails on demand."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.invocation import invocation
from tests.edge.doubles.sdk import JsError
from tests.edge.doubles.vectorize import FOREVER, VectorizeBinding, VectorizeEngine, VectorizeFault
from tests.edge.doubles.vectorize_store import StoreUnusable, VectorizeStore


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def vector(id_: str, *values: float, **more: Any) -> dict[str, Any]:
    return {"id": id_, "values": list(values), **more}


def opened(dimensions: int = 2, **settings: Any) -> tuple[VectorizeEngine, VectorizeBinding]:
    engine = VectorizeEngine(dimensions, **{"noise": 0.0, **settings})
    return engine, VectorizeBinding(engine)


def ids(answer: Any) -> list[str]:
    return [match.id for match in answer.matches]


async def test_a_change_is_seen_after_the_lag_and_in_order():
    clock = Clock()
    engine, index = opened(lag_s=5, clock=clock)
    first = await index.upsert([vector("a", 1, 0)])
    clock.now += 3
    second = await index.upsert([vector("a", 0, 1)])
    assert engine.waiting == 2
    assert (await index.query([1, 0])).count == 0
    clock.now += 2
    assert (await index.getByIds(["a"]))[0]["values"] == [1, 0]
    assert (await index.describe()).processedUpToMutation == first.mutationId
    clock.now += 3
    assert (await index.getByIds(["a"]))[0]["values"] == [0, 1]
    assert (await index.describe()).processedUpToMutation == second.mutationId


async def test_an_index_says_what_it_holds():
    clock = Clock()
    _, index = opened(clock=clock)
    empty = {"dimensions": 2, "vectorCount": 0, "processedUpToDatetime": None, "processedUpToMutation": None}
    assert await index.describe() == empty
    mutation = await index.insert([vector("a", 1, 0), vector("b", 0, 1)])
    assert await index.describe() == {
        "dimensions": 2,
        "vectorCount": 2,
        "processedUpToDatetime": "2026-09-21T14:13:20.000Z",
        "processedUpToMutation": mutation.mutationId,
    }


async def test_a_lag_can_last_for_ever_and_be_ended():
    engine, index = opened(lag_s=FOREVER)
    await index.upsert([vector("a", 1, 0)])
    assert engine.ids() == []
    engine.settle()
    assert engine.ids() == ["a"]
    await index.deleteByIds(["a"])
    assert engine.ids() == ["a"]
    engine.lag_s = 0
    assert engine.ids() == []


async def test_an_insert_passes_over_what_is_there_and_an_upsert_replaces_all_of_it():
    _, index = opened()
    await index.insert([vector("a", 1, 0, metadata={"n": 1}), vector("a", 0, 1)])
    await index.insert([vector("a", 0, 1), vector("b", 0, 1)])
    [one] = await index.getByIds(["a"])
    assert one == {"id": "a", "values": [1, 0], "metadata": {"n": 1}}
    await index.upsert([vector("a", 1, 1), vector("a", 0, 1)])
    assert await index.getByIds(["a"]) == [{"id": "a", "values": [0, 1]}]


async def test_what_is_unknown_is_passed_over_in_gets_and_deletes():
    engine, index = opened()
    await index.upsert([vector("a", 1, 0)])
    await index.deleteByIds(["x", "a", "a"])
    assert engine.ids() == []
    assert await index.getByIds(["a", "x"]) == []


async def test_the_nearest_come_first_and_five_unless_asked():
    _, index = opened()
    await index.upsert([vector(f"v{number}", math.cos(number / 10), math.sin(number / 10)) for number in range(10)])
    answer = await index.query([1, 0])
    assert ids(answer) == ["v0", "v1", "v2", "v3", "v4"]
    assert answer.count == 5
    assert [match.score for match in answer.matches] == pytest.approx([math.cos(n / 10) for n in range(5)], abs=1e-6)
    assert ids(await index.query([1, 0], {"topK": 2})) == ids(await index.query([1, 0], topK=2)) == ["v0", "v1"]
    assert ids(await index.queryById("v9", {"topK": 2})) == ["v9", "v8"]


async def test_an_answer_holds_what_was_asked_for():
    engine, index = opened()
    engine.create_metadata_index("space", "string")
    engine.create_metadata_index("deep.er", "number")
    metadata = {"space": "m" * 70, "deep": {"er": 2}, "more": "x"}
    await index.upsert([vector("a", 0.1, 0, metadata=metadata, namespace="n")])
    [bare] = (await index.query([1, 0])).matches
    assert bare == {"id": "a", "score": 1, "namespace": "n"}
    [indexed] = (await index.query([1, 0], returnMetadata="indexed")).matches
    assert indexed.metadata == {"space": "m" * 64, "deep": {"er": 2}}
    [whole] = (await index.query([1, 0], returnMetadata="all", returnValues=True)).matches
    assert whole.metadata == metadata
    assert whole["values"] == [pytest.approx(0.1, abs=1e-7), 0]
    assert whole["values"][0] != 0.1, "float32 is kept"
    assert (await index.query([1, 0], returnMetadata=True)).matches[0].metadata == metadata


async def test_scores_are_approximate_unless_values_are_asked_for_and_always_the_same():
    _, index = opened(noise=0.01)
    await index.upsert([vector(f"v{number}", math.cos(number / 10), math.sin(number / 10)) for number in range(10)])
    rough = [match.score for match in (await index.query([1, 0], topK=10)).matches]
    exact = [match.score for match in (await index.query([1, 0], topK=10, returnValues=True)).matches]
    assert exact == pytest.approx([math.cos(n / 10) for n in range(10)], abs=1e-6)
    assert rough == pytest.approx(exact, abs=0.0101)
    assert rough != exact
    assert rough == [match.score for match in (await index.query([1, 0], topK=10)).matches]


async def test_far_neighbours_can_be_missed_but_not_near_ones_nor_by_exact_queries():
    _, index = opened(missing=1.0)
    await index.upsert([vector(f"v{number}", math.cos(number / 10), math.sin(number / 10)) for number in range(10)])
    assert ids(await index.query([1, 0], topK=10)) == [f"v{number}" for number in range(5)]
    assert len(ids(await index.query([1, 0], topK=10, returnValues=True))) == 10


async def test_a_namespace_is_searched_alone():
    _, index = opened()
    await index.upsert([vector("a", 1, 0), vector("b", 0, 1, namespace="n")])
    assert ids(await index.query([1, 0], namespace="n")) == ["b"]
    assert ids(await index.query([1, 0])) == ["a", "b"]


async def test_a_vector_without_direction_is_near_to_nothing():
    _, index = opened()
    await index.upsert([vector("zero", 0, 0), vector("b", 0, 1), vector("a", 1, 0)])
    assert [(match.id, match.score) for match in (await index.query([1, 0])).matches] == [
        ("a", 1),
        ("b", 0),
        ("zero", 0),
    ]


async def test_a_metadata_index_covers_what_is_sent_later():
    engine, index = opened(lag_s=FOREVER)
    await index.upsert([vector("before", 1, 0, metadata={"space": "main"})])
    engine.create_metadata_index("space", "string")
    await index.upsert([vector("after", 1, 0, metadata={"space": "main"})])
    engine.settle()
    assert ids(await index.query([1, 0], filter={"space": "main"})) == ["after"]
    await index.upsert([vector("before", 1, 0, metadata={"space": "main"})])
    engine.settle()
    assert ids(await index.query([1, 0], filter={"space": "main"})) == ["after", "before"]


async def test_at_most_ten_metadata_indexes_of_known_types_can_be_made():
    engine, _ = opened()
    for number in range(10):
        engine.create_metadata_index(f"p{number}", "number")
    with pytest.raises(ValueError, match="at most 10"):
        engine.create_metadata_index("p10", "number")
    with pytest.raises(ValueError, match="there is"):
        engine.create_metadata_index("p0", "number")
    with pytest.raises(ValueError, match="boolean, not date"):
        engine.create_metadata_index("d", "date")


@pytest.mark.parametrize("dimensions", [0, 1537])
def test_dimensions_are_limited(dimensions: int):
    with pytest.raises(ValueError, match="1 to 1536"):
        VectorizeEngine(dimensions)


ROWS = (
    vector("a", 1, 0, metadata={"space": "main", "n": 1, "ok": True, "deep": {"er": "x"}}),
    vector("b", 1, 0, metadata={"space": "work", "n": 2, "ok": False}),
    vector("c", 1, 0, metadata={"space": "work", "n": 3.5, "free": "x"}),
    vector("d", 1, 0, metadata={"space": 7, "n": "3", "ok": 1}),
    vector("e", 1, 0),
)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"space": "main"}, "a"),
        ({"space": {"$eq": "work"}}, "bc"),
        ({"space": {"$ne": "work"}}, "a"),
        ({"space": {"$in": ["main", "work"]}}, "abc"),
        ({"space": {"$nin": ["main"]}}, "bc"),
        ({"space": "work", "n": {"$gt": 2}}, "c"),
        ({"n": {"$lt": 2}}, "a"),
        ({"n": {"$lte": 2}}, "ab"),
        ({"n": {"$gte": 2, "$lt": 3.5}}, "b"),
        ({"n": 1.0}, "a"),
        ({"n": "3"}, ""),
        ({"n": {"$gt": "0"}}, ""),
        ({"space": {"$gt": "main"}}, "bc"),
        ({"ok": True}, "a"),
        ({"ok": 1}, ""),
        ({"ok": {"$ne": True}}, "b"),
        ({"deep.er": "x"}, "a"),
        ({"space": None}, ""),
        ({"free": "x"}, ""),
        ({"free": {"$ne": "y"}}, ""),
        ({"space": "main" + "x" * 100}, ""),
    ],
)
async def test_filters_find_what_the_metadata_indexes_know(condition: dict[str, Any], found: str):
    engine, index = opened()
    for name, type_ in {"space": "string", "n": "number", "ok": "boolean", "deep.er": "string"}.items():
        engine.create_metadata_index(name, type_)
    await index.upsert(list(ROWS))
    assert "".join(ids(await index.query([1, 0], filter=condition))) == found


async def test_a_filter_holds_before_the_nearest_are_counted():
    engine, index = opened()
    engine.create_metadata_index("space", "string")
    rows = [vector(f"m{n}", 1, n / 100, metadata={"space": "main"}) for n in range(50)]
    await index.upsert([*rows, vector("w", 0, 1, metadata={"space": "work"})])
    assert ids(await index.query([1, 0], topK=1, filter={"space": "work"})) == ["w"]


async def test_rows_of_removed_vectors_are_used_again():
    engine, index = opened()
    for round_ in range(5):
        await index.upsert([vector(f"{round_}-{n}", 1, n) for n in range(100)])
        await index.deleteByIds([f"{round_}-{n}" for n in range(99)])
    assert len(engine.ids()) == 5
    assert sorted(ids(await index.query([0, 1], topK=10))) == [f"{n}-99" for n in range(5)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (VectorizeFault.RATE_LIMITED, "VECTOR_UPSERT_ERROR (code = 40041): Too Many Requests"),
        (VectorizeFault.REFUSED, "VECTOR_UPSERT_ERROR: Status + 500"),
    ],
)
@pytest.mark.parametrize("applied", [False, True])
async def test_a_call_fails_on_demand_with_its_work_done_or_not(kind: VectorizeFault, text: str, applied: bool):
    engine, index = opened()
    engine.faults.add(Fault(kind, applied=applied))
    with pytest.raises(JsError) as failed:
        await index.upsert([vector("a", 1, 0)])
    assert failed.value.message == text
    assert engine.ids() == (["a"] if applied else [])
    await index.upsert([vector("b", 1, 0)])


async def test_each_operation_fails_under_its_own_name():
    engine, index = opened()
    engine.faults.add(Fault(VectorizeFault.RATE_LIMITED, times=None))
    calls = {
        "INDEX_GET": index.describe,
        "VECTOR_QUERY": lambda: index.queryById("a"),
        "VECTOR_INSERT": lambda: index.insert([vector("a", 1, 0)]),
        "VECTOR_GET": lambda: index.getByIds(["a"]),
        "VECTOR_DELETE": lambda: index.deleteByIds(["a"]),
    }
    for operation, send in calls.items():
        with pytest.raises(JsError, match=rf"{operation}_ERROR \(code = 40041\)"):
            await send()


async def test_a_call_can_hang_until_it_is_told_to_fail():
    engine, index = opened()
    engine.faults.add(Fault(VectorizeFault.TIMEOUT, on="query"))
    query = asyncio.ensure_future(index.query([1, 0]))
    await engine.faults.hanging.wait()
    await index.upsert([vector("a", 1, 0)])
    assert not query.done()
    engine.faults.release()
    with pytest.raises(JsError, match=r"VECTOR_QUERY_ERROR: Status \+ 504"):
        await query


async def test_queries_and_gets_can_find_nothing_while_changes_work():
    engine, index = opened()
    engine.faults.add(Fault(VectorizeFault.EMPTY, times=None))
    await index.upsert([vector("a", 1, 0)])
    assert await index.query([1, 0]) == {"count": 0, "matches": []}
    assert await index.getByIds(["a"]) == []
    assert (await index.describe()).vectorCount == 1


async def test_calls_count_into_the_invocation():
    _, index = opened()
    with invocation() as run:
        await index.upsert([vector("a", 1, 0)])
        await index.query([1, 0])
    assert run.calls == {"vectorize.upsert": 1, "vectorize.query": 1}


async def test_what_the_sdk_does_not_send_fails_before_it_is_awaited():
    _, index = opened()
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        index.query((1, 0))
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        index.upsert([{"id": "a", "values": (1, 0)}])


async def test_an_unknown_method_is_none():
    engine, _ = opened()
    with pytest.raises(JsError, match="listVectors is not a function"):
        await engine.call("listVectors")


async def test_a_file_keeps_all_that_was_acknowledged(tmp_path: Path):
    path, clock = tmp_path / "vectors.db", Clock()
    engine, index = opened(store=VectorizeStore(path, 2), clock=clock)
    engine.create_metadata_index("space", "string")
    await index.upsert([vector("a", 1, 0, metadata={"space": "main"}, namespace="n"), vector("b", 0, 1)])
    mutation = await index.deleteByIds(["b"])
    before = await index.describe()
    engine.lag_s = FOREVER
    await index.insert([vector("a", 0, 1), vector("c", 0, 1)])
    await index.deleteByIds(["x"])
    engine.close()

    engine, index = opened(store=VectorizeStore(path, 2), lag_s=FOREVER, clock=clock)
    assert engine.metadata_indexes == {"space": "string"}
    assert await index.describe() == before
    assert before.processedUpToMutation == mutation.mutationId
    assert engine.waiting == 2
    [found] = (await index.query([1, 0], filter={"space": "main"}, returnMetadata="all")).matches
    assert found == {"id": "a", "score": 1, "namespace": "n", "metadata": {"space": "main"}}
    engine.settle()
    engine.close()

    engine, index = opened(store=VectorizeStore(path, 2), clock=clock)
    assert (engine.ids(), engine.waiting) == (["a", "c"], 0)
    engine.close()


def test_a_file_of_other_dimensions_is_refused(tmp_path: Path):
    VectorizeStore(tmp_path / "vectors.db", 2).close()
    with pytest.raises(StoreUnusable, match=r"holds vectors of 2 dimensions, not 3\. Use another file"):
        VectorizeStore(tmp_path / "vectors.db", 3)


def test_a_file_that_another_has_open_is_refused(tmp_path: Path):
    first = VectorizeStore(tmp_path / "vectors.db", 2)
    with pytest.raises(StoreUnusable, match="open in another process"):
        VectorizeStore(tmp_path / "vectors.db", 2)
    first.close()
    VectorizeStore(tmp_path / "vectors.db", 2).close()


def test_a_file_that_is_no_index_is_refused(tmp_path: Path):
    path = tmp_path / "vectors.db"
    path.write_text("no database " * 100)
    with pytest.raises(StoreUnusable, match="can't be used: file is not a database"):
        VectorizeStore(path, 2)
    with pytest.raises(StoreUnusable, match="can't be used"):
        VectorizeStore(tmp_path / "nowhere" / "vectors.db", 2)
