"""The converted default model in the user's cache: made once, whole or not at all, by whichever process is first."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shoal.local.embedding import tokenizer, weights

_CONVERSION: Final = 2
"""Raise it when what we write changes, so that an older folder isn't used."""
MODEL_FOLDER: Final = f"e5-small-q4-{weights.WEIGHTS_SHA256[:8]}-v{_CONVERSION}"
_MARK: Final = "complete.json"
"""Written last. Holds each file's size: a folder that lost or cut a file is made again."""
_LOCK_TIMEOUT_S: Final = 120.0
"""A conversion takes about 2 s; a slow disk may need much longer."""


def is_complete(cache_dir: Path) -> bool:
    """Tell whether the converted model lies in the cache with every file at its full size. Reads no weights."""
    return _is_whole(cache_dir / MODEL_FOLDER)


def ensure_model(
    source: Path, cache_dir: Path, progress: Callable[[float], None] | None = None, *, renew: bool = False
) -> Path:
    """Return the converted model's folder; convert first when it is missing, broken or `renew` is set.

    Safe with several processes at once: one converts, the others wait and use its work. Raises WeightsMismatch,
    OSError (TimeoutError when another process holds the lock for two minutes).
    """
    from filelock import FileLock

    folder = cache_dir / MODEL_FOLDER
    if not renew and _is_whole(folder):
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir / f"{MODEL_FOLDER}.lock", timeout=_LOCK_TIMEOUT_S):
        if renew or not _is_whole(folder):
            _make(source, folder, progress)
    return folder


def _make(source: Path, folder: Path, progress: Callable[[float], None] | None) -> None:
    # We hold the lock, so what other temporary folders there are was left by killed processes.
    for left in folder.parent.glob(f"{folder.name}.*.tmp"):
        shutil.rmtree(left)
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        weights.convert(source, temporary, progress)
        sizes = {name: (temporary / name).stat().st_size for name in _files()}
        (temporary / _MARK).write_text(json.dumps(sizes), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _is_whole(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / _MARK).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == sizes[name] for name in _files())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _files() -> tuple[str, ...]:
    return (*weights.MODEL_FILES, tokenizer.FILE)
