"""What core relies on in an Embedder, whichever it is."""

import math

import pytest

from shoal.core.protocols import Embedder, Role, Vector

TEXTS = ("Sharks swim in shoals.", "鱼群在夜里游得更深。", "x", "The build takes nine minutes.", "¡Qué bueno!")


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("role", Role)
async def test_vectors_have_length_one_and_the_said_dimension(embedder: Embedder, role: Role):
    for vector in await embedder.embed([*TEXTS, " ", "?!", "word " * 5_000], role):
        assert len(vector) == embedder.dim
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-3)


async def test_vectors_come_in_the_order_of_the_texts(embedder: Embedder):
    forwards = await embedder.embed(TEXTS, Role.PASSAGE)
    backwards = await embedder.embed(TEXTS[::-1], Role.PASSAGE)
    assert all(cosine(one, other) > 0.999 for one, other in zip(forwards, backwards[::-1], strict=True))


async def test_a_text_has_the_same_vector_alone_and_in_company(embedder: Embedder):
    together = await embedder.embed(TEXTS, Role.QUERY)
    alone = [(await embedder.embed([text], Role.QUERY))[0] for text in TEXTS]
    assert all(cosine(one, other) > 0.999 for one, other in zip(together, alone, strict=True))


async def test_no_texts_give_no_vectors(embedder: Embedder):
    assert await embedder.embed([], Role.PASSAGE) == []


async def test_a_text_is_nearer_to_itself_than_to_another(embedder: Embedder):
    [query] = await embedder.embed(TEXTS[:1], Role.QUERY)
    [same, other] = await embedder.embed([TEXTS[0], TEXTS[3]], Role.PASSAGE)
    assert cosine(query, same) > cosine(query, other)


async def test_the_fingerprint_says_something_and_stays(embedder: Embedder):
    before = embedder.fingerprint
    await embedder.embed(["text"], Role.QUERY)
    assert before
    assert embedder.fingerprint == before


async def test_a_calibration_keeps_unrelated_below_related(embedder: Embedder):
    calibration = embedder.calibration
    assert calibration is None or -1 <= calibration.unrelated < calibration.related <= 1
