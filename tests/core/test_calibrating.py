import json
import math
import random
from collections.abc import Sequence

import pytest
from tests.core.rig import Embeddings, Rig, opened

from shoal.core import calibrating
from shoal.core.calibration_pairs import PASSAGES, QUERIES
from shoal.core.fakes import FakeDatabase
from shoal.core.protocols import Calibration, Role, Vector
from shoal.schema.errors import ModelUnavailable


def directions(seed: int, count: int, dim: int = 64) -> list[Vector]:
    chance = random.Random(seed)
    found: list[Vector] = []
    for _ in range(count):
        numbers = [chance.gauss(0, 1) for _ in range(dim)]
        found.append([number / math.hypot(*numbers) for number in numbers])
    return found


def test_pairs_are_related_within_and_across_languages():
    meanings = directions(3, 40)
    measured = calibrating.measure([*meanings, *meanings], [*meanings, *meanings], 40)
    assert measured.related == 1.0
    assert 0 < measured.unrelated < 0.3


def test_the_pairs_are_plenty_and_whole():
    assert QUERIES.keys() == PASSAGES.keys() == {"en", "zh"}
    lengths = {len(texts) for side in (QUERIES, PASSAGES) for texts in side.values()}
    assert len(lengths) == 1
    assert lengths.pop() >= 40


class Knowing(Embeddings):
    """Gives a question and its answer one direction, in the languages that it knows; the others lie anywhere."""

    def __init__(self, *languages: str, name: str = "knowing@1") -> None:
        super().__init__(name)
        meanings = directions(5, len(QUERIES["en"]))
        self._known = {
            text: meanings[number]
            for side in (QUERIES, PASSAGES)
            for language in languages
            for number, text in enumerate(side[language])
        }

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        vectors = await super().embed(texts, role)
        return [self._known.get(text, vector) for text, vector in zip(texts, vectors, strict=True)]


def told(rig: Rig) -> Calibration | None:
    return calibrating.kept(rig.value("select v from meta where k = 'calibration'"), rig.embedder.fingerprint)


async def test_a_model_is_measured_once():
    rig = await opened(embedder=Knowing("en", "zh"))
    assert await calibrating.ensure(rig.memory._context)
    found = told(rig)
    assert found is not None
    assert found.related == 1.0
    assert 0 < found.unrelated < 0.3
    asked = len(rig.embedder.texts)
    assert not await calibrating.ensure(rig.memory._context)
    assert len(rig.embedder.texts) == asked


async def test_another_model_is_measured_anew():
    rig = await opened(embedder=Knowing("en", "zh"))
    await calibrating.ensure(rig.memory._context)
    other = await opened(database=FakeDatabase(rig.connection), embedder=Knowing("en", "zh", name="another@1"))
    assert calibrating.kept(rig.value("select v from meta where k = 'calibration'"), "another@1") is None
    assert await calibrating.ensure(other.memory._context)
    assert json.loads(rig.value("select v from meta where k = 'calibration'"))["fingerprint"] == "another@1"


async def test_a_model_of_one_language_is_measured_by_that_one():
    rig = await opened(embedder=Knowing("en"))
    await calibrating.ensure(rig.memory._context)
    found = told(rig)
    assert found is not None
    assert found.related == 1.0


async def test_a_model_that_tells_nothing_apart_is_not_measured_again():
    class Blind(Embeddings):
        async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
            return [[1.0] + [0.0] * 63 for _ in texts]

    rig = await opened(embedder=Blind())
    assert await calibrating.ensure(rig.memory._context)
    assert told(rig) is None
    assert not await calibrating.ensure(rig.memory._context)


async def test_a_model_that_fails_leaves_no_figures():
    class Broken(Embeddings):
        async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
            raise ModelUnavailable("It is gone.", "Mend it.")

    rig = await opened(embedder=Broken())
    with pytest.raises(ModelUnavailable):
        await calibrating.ensure(rig.memory._context)
    assert rig.rows("select v from meta where k = 'calibration'") == []


async def test_without_a_model_there_is_nothing_to_measure():
    rig = await opened(embedder=None)
    assert not await calibrating.ensure(rig.memory._context)
