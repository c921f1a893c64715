"""Packs every Python file that the Worker can import into one file, compiled beforehand.

Compiling is most of a cold start, and no CPython of this machine is of Pyodide's version, so Pyodide itself compiles
each file, once: what it made is kept by the content and the path of the source.
"""

import hashlib
import io
import json
import re
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.edge.rig.tools import CACHE, PYODIDE, RUNTIME, RigError, node

STANDARD_LIBRARY: Final = "/lib/python314.zip"
SITE_PACKAGES: Final = "/lib/python3.14/site-packages"
SOURCES: Final = "/session/metadata"
MODULES: Final = f"{SOURCES}/python_modules"
SHIMS: Final = "/rig/shims"
PYC_TAG: Final = "cpython-314"
COMPILE: Final = Path(__file__).with_name("node") / "compile.mjs"
SHOWN_CHARACTERS: Final = 1500
"""How much of the end of Node's output an error shows."""

Files = dict[str, bytes]
"""Contents by absolute path in Pyodide's file system."""


def tree(folder: Path, mounted_at: str, *, without: Sequence[str] = ()) -> Files:
    """Return a folder's files under the path where Pyodide will find them, without compiled ones and those excluded.

    `without` are patterns as in wrangler.toml: `**` stands for any folders, `*` for anything in a name.
    """
    excluded = re.compile("|".join(map(pattern, without)) or "(?!)")
    files = ((path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        f"{mounted_at}/{name}": path.read_bytes()
        for path, name in files
        if "__pycache__" not in path.parts and not excluded.fullmatch(name)
    }


def pattern(glob: str) -> str:
    """Return the regular expression that wrangler makes of a pattern."""
    stars = {"**/": "(?:[^/]*/)*", "**": ".*", "*": "[^/]*"}
    return "".join(stars.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*)", glob))


def pack(sources: Path, python_modules: Path, target: Path, without: Sequence[str] = ()) -> None:
    """Write the bundle: the Worker's sources, its vendored packages, the shims, the runtime and the standard library.

    Args:
        sources: The staged Worker, its main module at the top.
        python_modules: The vendored packages.
        target: The file to write, in the layout that host/python.mjs reads.
        without: Patterns of what a deployment leaves out of the packages.

    Raises:
        RigError: a folder is missing, or Pyodide couldn't compile.
    """
    for folder in (sources, python_modules):
        if not folder.is_dir():
            raise RigError(f"{folder} is missing: the Worker isn't staged or its packages aren't vendored")
    library = standard_library()
    files = {
        **tree(RUNTIME, f"{SITE_PACKAGES}/_cloudflare"),
        **tree(sources, SOURCES, without=["python_modules/**"]),
        **tree(python_modules, MODULES, without=without),
        **tree(Path(__file__).with_name("shims"), SHIMS),
    }
    inside = {f"{STANDARD_LIBRARY}/{name}": data for name, data in library.items()}
    compiled = compile_all({**files, **inside})
    for path, code in compiled.items():
        if not path.startswith(STANDARD_LIBRARY):
            files[cached_path(path)] = code
    files[STANDARD_LIBRARY] = zipped(library, compiled)
    target.write_bytes(b"".join(layout(files)))


def cached_path(path: str) -> str:
    """Return where the import system looks for the compiled form of a source."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{PYC_TAG}.pyc"


def standard_library() -> Files:
    """Return Pyodide's standard library by path in its archive, which comes uncompiled."""
    with zipfile.ZipFile(PYODIDE / "python_stdlib.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def zipped(library: Mapping[str, bytes], compiled: Mapping[str, bytes]) -> bytes:
    """Return the standard library as an archive again, each source with its compiled form beside it."""
    stored = io.BytesIO()
    # Stored, not deflated: the archive never leaves this machine, and reading it is part of every start.
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as archive:
        for name, data in library.items():
            archive.writestr(zipfile.ZipInfo(name), data)
            code = compiled.get(f"{STANDARD_LIBRARY}/{name}")
            if code is not None:
                archive.writestr(zipfile.ZipInfo(f"{name}c"), code)
    return stored.getvalue()


def layout(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the bundle's parts: the index's length (4 bytes, little endian), the index, the contents."""
    index: dict[str, tuple[int, int]] = {}
    offset = 0
    for path, data in files.items():
        index[path] = (offset, len(data))
        offset += len(data)
    header = json.dumps(index).encode()
    yield struct.pack("<I", len(header))
    yield header
    yield from files.values()


def compile_all(files: Mapping[str, bytes]) -> Files:
    """Return the compiled form of every file that is valid Python, by path; Pyodide compiles what is new."""
    kept = {path: CACHE / "pyc" / key(path, data) for path, data in files.items() if path.endswith(".py")}
    missing = {path: files[path] for path, file in kept.items() if not file.exists()}
    if missing:
        compile_missing(missing, kept)
    compiled = {path: file.read_bytes() for path, file in kept.items()}
    # An empty file stands for a source that isn't Python, as some packages' test data and templates.
    return {path: code for path, code in compiled.items() if code}


def key(path: str, data: bytes) -> str:
    """Return the name under which a compiled source is kept: the path is part of the code."""
    version = (PYODIDE / "package.json").read_bytes()
    return hashlib.blake2b(b"\0".join((version, path.encode(), data)), digest_size=16).hexdigest()


def compile_missing(sources: Mapping[str, bytes], kept: Mapping[str, Path]) -> None:
    """Let Pyodide compile sources, all in one process, and keep what it makes."""
    (CACHE / "pyc").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        jobs: list[dict[str, str]] = []
        for number, (path, data) in enumerate(sources.items()):
            source = Path(folder, str(number))
            source.write_bytes(data)
            jobs.append({"path": path, "source": str(source), "target": str(kept[path])})
        done = subprocess.run(
            [str(node()), str(COMPILE), str(PYODIDE)],
            input=json.dumps(jobs).encode(),
            capture_output=True,
            check=False,
        )
    if done.returncode:
        # Node shows the line that failed, and Pyodide is one line of a megabyte; what went wrong stands at the end.
        told = done.stderr.decode(errors="replace")[-SHOWN_CHARACTERS:].strip()
        raise RigError(f"Pyodide couldn't compile the Worker: {told}")
