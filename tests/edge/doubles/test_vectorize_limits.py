"""What Vectorize refuses, with production's words."""

from array import array
from typing import Any

import pytest
from tests.edge.doubles.sdk import JsError
from tests.edge.doubles.vectorize import VectorizeBinding, VectorizeEngine

UNPARSED = "VECTOR_UPSERT_ERROR (code = 40023): failed to parse upsert vectors request in json format"


@pytest.fixture
def index() -> VectorizeBinding:
    return VectorizeBinding(VectorizeEngine(3))


def vector(**given: Any) -> dict[str, Any]:
    return {"id": "a", "values": [1, 0, 0], **given}


async def refusal(call: Any) -> str:
    with pytest.raises(JsError) as refused:
        await call
    return refused.value.message


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"id": "x" * 65}, "(code = 40008): id too long; max is 64 bytes, got 65 bytes"),
        ({"id": "鱼" * 22}, "(code = 40008): id too long; max is 64 bytes, got 66 bytes"),
        ({"id": ""}, "(code = 40008): id is empty"),
        (
            {"values": [1, 0]},
            '(code = 40012): invalid vector for id="a", expected 3 dimensions, and got 2 dimensions',
        ),
        ({"namespace": "n" * 65}, "(code = 40009): namespace too long; max is 64 bytes, got 65 bytes"),
        ({"metadata": {"a.b": 1}}, '(code = 40015): invalid metadata key "a.b" for vector id="a"'),
        ({"metadata": {'a"': 1}}, "(code = 40015)"),
        ({"metadata": {"$a": 1}}, "(code = 40015)"),
        ({"metadata": {"": 1}}, "(code = 40015)"),
        (
            {"metadata": {"a": "x" * 10_233}},
            '(code = 40016): oversized metadata for vector id="a"; the compact JSON representation of the metadata '
            "must not exceed 10240 bytes, got 10241 bytes",
        ),
        ({"values": [1, 0, float("nan")]}, UNPARSED),
        ({"values": [1, 0, "x"]}, UNPARSED),
        ({"values": [1, 0, True]}, UNPARSED),
        ({"values": "x"}, UNPARSED),
        ({"id": 7}, UNPARSED),
        ({"id": "\ud835"}, UNPARSED),
        ({"metadata": {"a": "\ud835"}}, UNPARSED),
        ({"metadata": [1]}, UNPARSED),
        ({"namespace": 1}, UNPARSED),
        ({"vector": [1, 0, 0]}, UNPARSED),
    ],
)
async def test_one_bad_vector_refuses_them_all(index: VectorizeBinding, given: dict[str, Any], text: str):
    message = await refusal(index.upsert([vector(id="good"), vector(**given)]))
    assert text in message
    assert message.startswith("VECTOR_UPSERT_ERROR (code = ")
    assert (await index.describe()).vectorCount == 0


async def test_what_just_fits_is_taken(index: VectorizeBinding):
    whole = vector(id="鱼" * 21, namespace="n" * 64, metadata={"a": "x" * 10_232}, values=array("f", [1, 0, 0]))
    await index.insert([whole, *[vector(id=str(number)) for number in range(999)]])
    assert (await index.describe()).vectorCount == 1000


@pytest.mark.parametrize("vectors", [[], "x", [7], {"id": "a"}])
async def test_what_is_no_list_of_vectors_is_refused(index: VectorizeBinding, vectors: Any):
    assert await refusal(index.upsert(vectors)) == UNPARSED


async def test_a_thousand_vectors_are_the_most_of_one_call(index: VectorizeBinding):
    message = await refusal(index.insert([vector(id=str(number)) for number in range(1001)]))
    assert message == "VECTOR_INSERT_ERROR (code = 40007): too many vectors in payload; max is 1000, got 1001"


async def test_twenty_ids_are_the_most_of_a_get_and_a_hundred_of_a_delete(index: VectorizeBinding):
    ids = [str(number) for number in range(101)]
    assert await index.getByIds(ids[:20]) == []
    await index.deleteByIds(ids[:100])
    text = "(code = 40007): too many ids in payload; max id count is"
    assert await refusal(index.getByIds(ids[:21])) == f"VECTOR_GET_ERROR {text} 20, got 21"
    assert await refusal(index.deleteByIds(ids)) == f"VECTOR_DELETE_ERROR {text} 100, got 101"


@pytest.mark.parametrize(("ids", "code"), [([], 40007), (["x" * 65], 40008), ([7], 40026), ("a", 40026)])
async def test_bad_ids_are_refused(index: VectorizeBinding, ids: Any, code: int):
    assert f"VECTOR_GET_ERROR (code = {code})" in await refusal(index.getByIds(ids))
    assert f"VECTOR_DELETE_ERROR (code = {code})" in await refusal(index.deleteByIds(ids))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 0], "(code = 40006): invalid query vector, expected 3 dimensions, and got 2 dimensions"),
        ([], "(code = 40006): invalid query vector, expected 3 dimensions, and got 0 dimensions"),
        ([1, 0, None], "(code = 40026)"),
        ("x", "(code = 40026)"),
    ],
)
async def test_a_bad_query_vector_is_refused(index: VectorizeBinding, values: Any, text: str):
    assert f"VECTOR_QUERY_ERROR {text}" in await refusal(index.query(values))


HEAVY = "with returnValues=true or returnMetadata=all, max top K is 20, but got 21; for a top K up to 100, retry with"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topK": 101}, "(code = 40025): max top K is 100, but got 101"),
        ({"topK": 21, "returnValues": True}, f"(code = 40025): {HEAVY} returnValues=false and returnMetadata=indexed"),
        ({"topK": 21, "returnMetadata": "all"}, f"(code = 40025): {HEAVY}"),
        ({"topK": 0}, "(code = 40026): Failed to parse the request body as JSON: topK"),
        ({"topK": 1.5}, "topK"),
        ({"topK": True}, "topK"),
        (
            {"returnMetadata": False},
            "(code = 40026): Failed to parse the request body as JSON: returnMetadata: expected value",
        ),
        ({"returnValues": "yes"}, "returnValues"),
        ({"namespace": 7}, "namespace"),
        ({"top_k": 3}, "top_k: unknown option"),
    ],
)
async def test_bad_options_are_refused(index: VectorizeBinding, options: dict[str, Any], text: str):
    assert text in await refusal(index.query([1, 0, 0], options))


@pytest.mark.parametrize("options", [7, {"filter": {"a": "\ud835"}}])
async def test_options_that_are_no_object_of_json_are_refused(index: VectorizeBinding, options: Any):
    assert "(code = 40026): Failed to parse the request body" in await refusal(index.query([1, 0, 0], options))


async def test_no_options_are_the_defaults(index: VectorizeBinding):
    assert (await index.query([1, 0, 0], None)).count == 0


async def test_the_binding_itself_refuses_an_unknown_level_of_metadata(index: VectorizeBinding):
    message = await refusal(index.query([1, 0, 0], returnMetadata="some"))
    assert message.startswith("Invalid returnMetadata option. Expected: true, false,")


async def test_the_most_results_are_given_when_asked_within_the_limits(index: VectorizeBinding):
    await index.upsert([vector(id=str(number)) for number in range(150)])
    assert (await index.query([1, 0, 0], topK=100, returnMetadata="indexed")).count == 100
    assert (await index.query([1, 0, 0], topK=20, returnMetadata="all", returnValues=True)).count == 20


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({}, "not empty"),
        ([], "not empty"),
        ({"": 1}, "invalid key"),
        ({"$a": 1}, "invalid key"),
        ({'a"b': 1}, "invalid key"),
        ({"a..b": 1}, "invalid key"),
        ({"k" * 513: 1}, "invalid key"),
        ({"a": {}}, "needs operators"),
        ({"a": {"$like": 1}}, "needs operators"),
        ({"a": {"b": 1}}, "needs operators"),
        ({"a": [1]}, "compares with a string, number, boolean or null"),
        ({"a": {"$eq": {"b": 1}}}, "compares with"),
        ({"a": {"$in": []}}, "needs a list that is not empty"),
        ({"a": {"$in": "x"}}, "needs a list"),
        ({"a": {"$nin": [None]}}, "takes no null"),
        ({"a": {"$in": [1], "$gt": 0}}, "mixes"),
        ({"a": "x" * 2040}, "must be less than 2048 bytes, got 2048 bytes"),
    ],
)
async def test_bad_filters_are_refused(index: VectorizeBinding, condition: Any, text: str):
    message = await refusal(index.query([1, 0, 0], filter=condition))
    assert message.startswith("VECTOR_QUERY_ERROR (code = 40026)")
    assert text in message


async def test_a_filter_of_2047_bytes_is_taken(index: VectorizeBinding):
    assert (await index.query([1, 0, 0], filter={"a": "x" * 2039})).count == 0


async def test_a_query_around_an_unknown_vector_is_refused(index: VectorizeBinding):
    assert await refusal(index.queryById("x")) == 'VECTOR_QUERY_ERROR (code = 40004): vector with id="x" not found'
