"""What crosses between Python and JavaScript."""

import asyncio
import math
from array import array
from datetime import UTC, datetime

import pytest
from tests.edge.doubles.sdk import SAFE_INT_MAX, SENT_INT_MAX, BigInt, JsDict, JsError, from_js, json_bytes, to_js


@pytest.mark.parametrize("value", [None, True, 7, 1.5, "x", ["a", [1]], {"a": {"b": None}}, SENT_INT_MAX])
def test_plain_values_cross_as_they_are(value: object):
    assert to_js(value) == value
    assert from_js(to_js(value)) == value


@pytest.mark.parametrize("value", [(1, 2), bytearray(b"x"), [(1,)], {"a": bytearray()}])
def test_tuples_and_bytearrays_are_refused_wherever_they_are(value: object):
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        to_js(value)


async def test_what_must_still_be_awaited_is_refused():
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(TypeError, match="Awaitable"):
        to_js([future])


@pytest.mark.parametrize("value", [object(), {1, 2}, print, (item for item in ())])
def test_what_would_cross_as_a_proxy_is_refused(value: object):
    with pytest.raises(TypeError):
        to_js(value)


def test_an_integer_that_no_number_holds_becomes_a_bigint():
    assert to_js(SAFE_INT_MAX) == BigInt(SAFE_INT_MAX)
    assert to_js(-SENT_INT_MAX) == -SENT_INT_MAX


def test_whole_numbers_come_back_as_int_and_others_as_float():
    assert [type(number) for number in from_js([1.0, 0.0, 1.5, 2.0**53, math.inf])] == [int, int, float, float, float]


def test_bytes_and_arrays_become_typed_arrays():
    assert to_js(b"\x01\x02") == array("B", [1, 2])
    assert to_js(array("f", [0.5])) == array("f", [0.5])
    assert to_js(memoryview(b"\x01")) == array("B", [1])


def test_the_keys_of_an_answer_are_attributes_too():
    answer = from_js({"meta": {"changes": 1}, "results": [{"a": 1}]})
    assert answer.meta.changes == 1
    assert answer.results[0].a == 1
    answer.more = 2
    assert answer["more"] == 2
    with pytest.raises(AttributeError):
        _ = JsDict().missing


def test_an_error_says_its_name_and_message():
    error = JsError("D1_ERROR: x", "TypeError")
    assert (error.name, error.message, str(error)) == ("TypeError", "D1_ERROR: x", "TypeError: D1_ERROR: x")


def test_json_is_that_of_javascript():
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    value = to_js({"n": math.nan, "w": 7.0, "b": b"\x01\x02", "d": moment, "t": "鱼"})
    assert json_bytes(value).decode() == '{"n":null,"w":7,"b":{"0":1,"1":2},"d":"2026-11-30T12:00:00.000Z","t":"鱼"}'


def test_json_knows_no_bigint_and_no_half_of_a_surrogate_pair():
    with pytest.raises(JsError, match="serialize a BigInt"):
        json_bytes({"a": BigInt(2**60)})
    with pytest.raises(UnicodeEncodeError):
        json_bytes(["\ud835"])
