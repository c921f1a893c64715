"""Where the fakes are stricter than the real ones, and what tests may rely on. The rest: tests/conformance."""

from collections.abc import Iterator

import apsw
import pytest

from shoal.core.fakes import FakeDatabase, FakeEmbedder
from shoal.core.protocols import Calibration, Role, Statement


@pytest.fixture
def database() -> Iterator[FakeDatabase]:
    connection = apsw.Connection(":memory:")
    yield FakeDatabase(connection)
    connection.close()


async def test_an_integer_that_d1_would_change_is_refused_in_a_result(database: FakeDatabase):
    assert await database.query("select 9007199254740991 as n") == [{"n": 2**53 - 1}]
    assert await database.query("select cast(9007199254740992 as text) as n") == [{"n": str(2**53)}]
    with pytest.raises(ValueError, match="n = 9007199254740992"):
        await database.query("select 9007199254740992 as n")


async def test_such_a_result_undoes_its_batch(database: FakeDatabase):
    await database.batch([Statement("create table item (n integer)")])
    with pytest.raises(ValueError, match="select it as text"):
        await database.batch([Statement("insert into item values (1 << 60) returning n")])
    assert await database.query("select n from item") == []


async def test_texts_that_share_words_are_near_and_others_are_not():
    [one, same_words, other] = await FakeEmbedder(256).embed(
        ["the shark swims", "swims the SHARK", "a quarterly budget"], Role.PASSAGE
    )

    def cosine(a, b) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert cosine(one, same_words) == pytest.approx(1)
    assert cosine(one, other) < 0.4


async def test_the_vectors_are_the_same_in_every_process():
    [vector] = await FakeEmbedder(8).embed(["shark"], Role.QUERY)
    assert list(vector) == pytest.approx([0.0, 0.447214, -0.447214, 0.0, -0.447214, 0.447214, 0.0, -0.447214], abs=1e-6)


def test_a_fingerprint_and_a_calibration_can_be_given():
    calibration = Calibration(0.1, 0.6)
    embedder = FakeEmbedder(fingerprint="other/1", calibration=calibration)
    assert (embedder.fingerprint, embedder.calibration) == ("other/1", calibration)
    assert FakeEmbedder(8).fingerprint != FakeEmbedder(16).fingerprint
