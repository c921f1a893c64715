import numpy as np
import pytest
from bench.generic_text import LANGUAGES, load_pairs, load_passages, load_queries
from bench.make_means import centring_arrays


@pytest.fixture
def vectors() -> dict[str, np.ndarray]:
    """Three languages around three centres, in eight dimensions."""
    chance = np.random.default_rng(7)
    return {
        language: (chance.normal(size=(50, 8)) * 0.1 + np.eye(8)[number]).astype(np.float32)
        for number, language in enumerate(("en", "zh", "ja"))
    }


def test_no_language_counts_for_more_by_having_more_text(vectors: dict[str, np.ndarray]):
    more = vectors | {"en": np.concatenate([vectors["en"]] * 9)}
    once, often = centring_arrays(vectors, vectors), centring_arrays(more, vectors)
    assert np.allclose(once["query"], often["query"], atol=1e-5)


def test_after_centring_the_languages_means_coincide(vectors: dict[str, np.ndarray]):
    arrays = centring_arrays(vectors, vectors)
    axes = arrays["axes"]
    assert axes.shape == (2, 8)
    assert np.allclose(axes @ axes.T, np.eye(2), atol=1e-5)
    for of_language in vectors.values():
        mean = of_language.mean(axis=0) - arrays["query"]
        assert np.abs(mean - (mean @ axes.T) @ axes).max() < 1e-4


def test_the_generic_text_is_plenty_and_not_the_measuring_text():
    texts = [text for language in LANGUAGES for text in (*load_queries(language), *load_passages(language))]
    pairs = load_pairs()
    measured = [text for side in (pairs.queries, pairs.passages) for part in side.values() for text in part]
    assert len(texts) >= 400
    assert len(pairs.queries["en"]) >= 40
    assert all(text.strip() for text in (*texts, *measured))
    assert not set(texts) & set(measured)
