"""Each folder is a layer that may import only those above it; the first three do no I/O of their own."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
LAYERS: Final = ("schema", "core", "sync", "api", "local", "worker")
MAY_IMPORT: Final = {
    "schema": {"schema"},
    "core": {"schema", "core"},
    "sync": {"schema", "core", "sync"},
    "api": {"schema", "core", "sync", "api"},
    "local": {"schema", "core", "sync", "api", "local"},
    "worker": {"schema", "core", "sync", "api", "worker"},
}

PURE: Final = ("schema", "core", "sync")
"""Layers without I/O, clocks or chance: those come in as arguments."""
PURE_MODULES: Final = {
    *("asyncio", "bisect", "collections", "collections.abc", "dataclasses", "enum", "functools", "heapq", "html"),
    *("itertools", "json", "math", "operator", "re", "string", "struct", "types", "typing", "unicodedata"),
    *("array", "base64", "contextlib", "copy", "datetime", "hashlib", "statistics", "textwrap", "graphlib"),
    "importlib.resources",  # migrations are data of the package
    "pydantic",
    "zoneinfo",  # the time zone database, from tzdata where the system has none
}
NOT_FROM: Final = {
    "asyncio": {"open_connection", "start_server", "create_subprocess_exec", "create_subprocess_shell", "to_thread"}
}
"""What does I/O or starts threads, out of modules that are allowed otherwise."""
CLOCKS: Final = {"now", "today", "utcnow"}
"""Methods that read the clock, whatever the class is called here."""
BUILTINS_OUT: Final = {"open", "input", "print", "exec", "eval", "breakpoint", "__import__"}


def files(layer: str) -> list[Path]:
    return sorted((ROOT / layer / "shoal").rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported anywhere, inside functions and for typing too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            module = node.module or ""
            if module.count(".") <= 1 and module.startswith("shoal"):
                # `from shoal import core`, `from shoal.core import deleting`
                yield from (f"{module}.{name.name}" for name in node.names)
            else:
                yield module


def parsed() -> list[tuple[str, Path, ast.Module]]:
    return [(layer, path, ast.parse(path.read_text())) for layer in LAYERS for path in files(layer)]


PARSED: Final = parsed()


def test_there_is_something_to_look_at():
    assert {"schema", "core", "api", "local", "worker"} <= {layer for layer, _, _ in PARSED}


def test_a_layer_imports_only_layers_above_it_and_local_and_worker_never_meet():
    for layer, path, tree in PARSED:
        for module in imports(tree):
            if module.split(".")[0] == "shoal":
                assert module.split(".")[1] in MAY_IMPORT[layer], f"{path}: {module}"


def test_schema_core_and_sync_import_nothing_that_does_io_or_knows_the_time():
    for layer, path, tree in PARSED:
        if layer in PURE:
            for module in imports(tree):
                assert module in PURE_MODULES or module.startswith("shoal."), f"{path}: {module}"


def forbidden(node: ast.AST) -> bool:
    """Say whether a place names something that does I/O or knows the time, to call it now or later."""
    if isinstance(node, ast.Name):
        return node.id in BUILTINS_OUT
    if isinstance(node, ast.ImportFrom):
        return any(name.name in NOT_FROM.get(node.module or "", ()) for name in node.names)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.attr in NOT_FROM.get(node.value.id, ())
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS


def test_schema_core_and_sync_name_nothing_that_does_io_or_knows_the_time():
    for layer, path, tree in PARSED:
        for node in ast.walk(tree) if layer in PURE else ():
            assert not forbidden(node), f"{path}:{getattr(node, 'lineno', '?')}"


@pytest.mark.parametrize(
    "code",
    [
        "open('x')",
        "read = open",
        "asyncio.to_thread(f)",
        "from asyncio import to_thread as later",
        "from datetime import datetime as d\nd.now()",
        "datetime.date.today()",
    ],
)
def test_the_look_for_io_and_clocks_sees_through_other_names(code: str):
    assert any(forbidden(node) for node in ast.walk(ast.parse(code)))


WRITING_BESIDE_APPLY: Final = {
    "core/shoal/core/indexing.py": r"update record set want =",
    "sync/shoal/sync/queue.py": r"update (record|cell) set dirty =",
    "sync/shoal/sync/clock.py": r"update (record|cell) \{_ANEW\}",
    "sync/shoal/sync/leaving.py": r"delete from |update record set rank = 0, hlc = ''",
}
"""What else may be written, and where: the marks of vectors and of the queue, stamps, and a space that leaves."""


def test_only_the_shared_statements_write_memories():
    """All writes of what memories say go through `apply`."""
    writing = re.compile(
        r"(insert|replace|update|delete)( or \w+)?( into| from)? (record|cell|label|content_fts|label_fts)\b.*"
    )
    found = {
        (path.relative_to(ROOT).as_posix(), match[0])
        for _, path, _ in PARSED
        for match in writing.finditer(path.read_text())
        if path != ROOT / "schema" / "shoal" / "schema" / "sql.py"
    }
    assert {path for path, _ in found} == WRITING_BESIDE_APPLY.keys()
    assert all(re.match(WRITING_BESIDE_APPLY[path], text) for path, text in found)


def test_the_namespace_package_has_no_init_of_its_own():
    assert not [layer for layer in LAYERS if (ROOT / layer / "shoal" / "__init__.py").exists()]
    for layer in ("schema", "core", "api", "local", "worker"):
        assert (ROOT / layer / "shoal" / layer / "__init__.py").exists()


def test_every_module_of_schema_core_and_sync_loads_without_numpy_or_anything_of_the_laptop():
    modules = [
        ".".join(path.relative_to(ROOT / layer).with_suffix("").parts).removesuffix(".__init__")
        for layer, path, _ in PARSED
        if layer in PURE
    ]
    code = f"""
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"numpy", "apsw", "fastembed", "sqlite_vec", "sqlite3", "uvicorn", "click", "httpx"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
for module in {modules!r}:
    importlib.import_module(module)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built as a release is. uv has the backend since `make setup`; without it, it fetches it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [str(ROOT / ".tools" / "bin" / "uv"), "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT)]
    if subprocess.run([*command, "--offline"], check=False, capture_output=True, timeout=100).returncode:
        subprocess.run(command, check=True, capture_output=True, timeout=100)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_only_shoal_lands_in_site_packages(wheel: zipfile.ZipFile):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    (info,) = [top for top in tops if top.endswith(".dist-info")]
    assert tops == {"shoal", info}


def test_the_wheel_holds_every_module_and_every_migration(wheel: zipfile.ZipFile):
    names = set(wheel.namelist())
    for layer, path, _ in PARSED:
        assert str(path.relative_to(ROOT / layer)) in names
    migrations = sorted((ROOT / "schema" / "shoal" / "schema" / "migrations").glob("*.sql"))
    assert migrations
    assert {str(path.relative_to(ROOT / "schema")) for path in migrations} <= names
    assert not [name for name in names if name.endswith("shoal/__init__.py")]
