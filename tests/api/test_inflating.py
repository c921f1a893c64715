"""Bodies are unpacked to a bound and no further, and only when they are whole."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.inflating import inflated
from shoal.schema.errors import BodyTooLarge, MalformedBody

MAX_BYTES = 1_000
TEXT = "记忆 and more ".encode() * 20


@given(st.binary(max_size=MAX_BYTES), st.integers(0, 9))
def test_what_was_packed_comes_back(content: bytes, level: int) -> None:
    assert inflated(gzip.compress(content, level), MAX_BYTES) == content


def test_the_bound_is_exact() -> None:
    assert len(inflated(gzip.compress(bytes(MAX_BYTES)), MAX_BYTES)) == MAX_BYTES
    with pytest.raises(BodyTooLarge) as raised:
        inflated(gzip.compress(bytes(MAX_BYTES + 1)), MAX_BYTES)
    assert raised.value.details == {"limit": MAX_BYTES}


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            inflated(bomb, 1_000_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5_000_000


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(gzip.compress(TEXT)[:-1], id="cut in the trailer"),
        pytest.param(gzip.compress(TEXT)[:20], id="cut in the middle"),
        pytest.param(gzip.compress(TEXT)[:-8] + bytes(8), id="another checksum"),
        pytest.param(gzip.compress(TEXT) + b"x", id="something behind it"),
        pytest.param(gzip.compress(TEXT) * 2, id="two members"),
        pytest.param(zlib.compress(TEXT), id="zlib"),
        pytest.param(TEXT, id="not packed"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_not_one_whole_stream_is_malformed(broken: bytes) -> None:
    with pytest.raises(MalformedBody):
        inflated(broken, MAX_BYTES)


@given(st.binary(max_size=100), st.integers(0, 100), st.binary(max_size=4))
def test_no_bytes_do_anything_else_than_unpack_or_be_refused(content: bytes, place: int, other: bytes) -> None:
    packed = gzip.compress(content)
    try:
        inflated(packed[:place] + other + packed[place + len(other) :], MAX_BYTES)
    except (BodyTooLarge, MalformedBody) as error:
        assert error.mend
