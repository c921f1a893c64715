"""Lay the Worker's sources out as wrangler bundles them: `python3 worker/stage.py`.

wrangler uploads what lies in the folder of `main`, so the layers that the Worker is made of are copied there:

    build/worker/entry.py               from worker/shoal/worker/entry.py
    build/worker/shoal/<layer>/...      from <layer>/shoal/<layer>/...

wrangler.toml runs this before every bundling, with whatever Python the machine has: the standard library is enough.
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
STAGED: Final = ROOT / "build" / "worker"
LAYERS: Final = ("schema", "core", "sync", "api", "worker")
"""What the Worker may import; each is the folder <layer>/shoal/<layer>."""
ENTRY: Final = "worker/shoal/worker/entry.py"
SUFFIXES: Final = frozenset({".py", ".sql"})
"""What wrangler attaches without rules of our own: modules, and texts that `importlib.resources` finds beside them."""


class StagingError(Exception):
    """The sources can't be laid out; the text says which file is wrong and what to do."""


class Staged(NamedTuple):
    """What lies in the folder now: its files and their bytes, and how many this run wrote or removed."""

    files: int
    size_bytes: int
    changed: int


def sources(root: Path) -> dict[Path, Path]:
    """Return {path in the staged folder: source} of all that the Worker is made of. Raises StagingError."""
    entry = root / ENTRY
    if not entry.is_file():
        raise StagingError(f"{ENTRY} is missing: it is what the Worker starts from.")
    found = {Path("entry.py"): entry}
    for layer in LAYERS:
        for path in sorted((root / layer / "shoal" / layer).rglob("*")):
            name = path.relative_to(root / layer)
            if path.is_dir() or path == entry or any(part[0] == "." or part == "__pycache__" for part in name.parts):
                continue
            if path.suffix not in SUFFIXES:
                # wrangler would leave it out without a word, and the Worker would miss it in production only.
                raise StagingError(
                    f"{layer}/{name.as_posix()} would not reach the Worker: only {' and '.join(sorted(SUFFIXES))} do."
                    " Make it a module, or add a [[rules]] entry to wrangler.toml and its suffix to worker/stage.py."
                )
            found[name] = path
    return found


def stage(root: Path = ROOT, target: Path = STAGED) -> Staged:
    """Make `target` hold exactly the Worker's sources, touching only what differs. Raises StagingError."""
    wanted = sources(root)
    changed = _remove_others(target, wanted)
    size_bytes = 0
    for name, source in wanted.items():
        content = source.read_bytes()
        size_bytes += len(content)
        copy = target / name
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            changed += 1
    return Staged(len(wanted), size_bytes, changed)


def _remove_others(target: Path, wanted: dict[Path, Path]) -> int:
    """Remove what is no source any more, and return how many files and folders that were."""
    folders = {parent for name in wanted for parent in name.parents}
    removed = 0
    # In reverse order a folder's contents come before it, so that it is empty when its turn comes.
    for path in sorted(target.rglob("*"), reverse=True):
        name = path.relative_to(target)
        if path.is_dir() and not path.is_symlink():
            if name not in folders:
                path.rmdir()
                removed += 1
        elif name not in wanted:
            path.unlink()
            removed += 1
    return removed


if __name__ == "__main__":
    try:
        done = stage()
    except StagingError as error:
        sys.exit(f"worker/stage.py: {error}")
    sys.stdout.write(f"{done.files} files, {done.size_bytes / 1000:.0f} kB, {done.changed} changed\n")
