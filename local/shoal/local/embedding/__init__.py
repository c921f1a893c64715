"""The laptop's embedder: which model, from where, and its vectors. Importing this loads no model and no numpy."""

import os
from collections.abc import Callable
from pathlib import Path

from shoal.local.embedding.chain import Choice, Skipped, Source, choose
from shoal.local.embedding.descriptor import DEFAULT_MODEL, PRESETS, Descriptor, Pooling
from shoal.local.embedding.fastembedder import FastembedEmbedder

__all__ = [
    "DEFAULT_MODEL",
    "PRESETS",
    "Choice",
    "Descriptor",
    "FastembedEmbedder",
    "Pooling",
    "Skipped",
    "Source",
    "choose",
    "open_embedder",
]

# What embeds sends usage to its makers by default, and onnxruntime leaves an identifier of the machine in the user's
# cache. Both look when they are first imported, which is always after this package.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def open_embedder(
    model: str | None,
    model_dir: Path | None,
    cache_dir: Path,
    progress: Callable[[float], None] | None = None,
) -> FastembedEmbedder:
    """Choose a model and return its embedder, not yet loaded; `prepare()` or the first `embed()` loads it.

    `model` is a preset's name, a name of fastembed's list or None for the default; `model_dir` a folder with
    model.onnx; `cache_dir` is where the converted model and downloads are kept. `progress` hears of the
    conversion's share, 0 to 1, in a worker thread. Raises ModelUnavailable with every step's reason.
    """
    return FastembedEmbedder(choose(model, model_dir, cache_dir), cache_dir, progress)
