"""What is packed for Pyodide: compiled once, and never out of date."""

import json
import struct
from pathlib import Path

import pytest
from tests.edge.rig import bundle
from tests.edge.rig.bundle import MODULES, SOURCES, STANDARD_LIBRARY, cached_path, pack
from tests.edge.rig.runtime import find_helper
from tests.edge.rig.tools import RigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "CACHE", tmp_path / "cache")
    # The standard library has 500 files: one says as much.
    monkeypatch.setattr(bundle, "standard_library", lambda: {"this.py": b"print('zen')"})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """What Pyodide is asked to compile, each time; it isn't started."""
    asked: list[set[str]] = []

    def compile_missing(sources: dict[str, bytes], kept: dict[str, Path]) -> None:
        asked.append(set(sources))
        for path, data in sources.items():
            kept[path].parent.mkdir(parents=True, exist_ok=True)
            kept[path].write_bytes(b"compiled " + data)

    monkeypatch.setattr(bundle, "compile_missing", compile_missing)
    return asked


def unpack(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    (size,) = struct.unpack_from("<I", data)
    index = json.loads(data[4 : 4 + size])
    return {name: data[4 + size + at : 4 + size + at + length] for name, (at, length) in index.items()}


def packed(folder: Path, **sources: str) -> dict[str, bytes]:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "modules").mkdir(exist_ok=True)
    for name, text in sources.items():
        (folder / "src" / f"{name}.py").write_text(text)
    pack(folder / "src", folder / "modules", folder / "bundle.bin")
    return unpack(folder / "bundle.bin")


def test_sources_packages_and_library_are_packed_with_what_pyodide_has_compiled(tmp_path: Path):
    (tmp_path / "modules" / "some").mkdir(parents=True)
    (tmp_path / "modules" / "some" / "data.txt").write_text("data")
    files = packed(tmp_path, entry="answer = 42", template="{{ not python }")
    assert files[f"{SOURCES}/entry.py"] == b"answer = 42"
    compiled = files[cached_path(f"{SOURCES}/entry.py")]
    # Flags 1: a hash instead of a time. Without the flag 2 the import system doesn't look at the source again.
    assert compiled[4:8] == struct.pack("<I", 1)
    assert f"{SOURCES}/entry.py".encode() in compiled
    assert files[f"{MODULES}/some/data.txt"] == b"data"
    assert b"this.pyc" in files[STANDARD_LIBRARY]
    # What isn't Python, as some packages' templates, is packed as it is.
    assert f"{SOURCES}/template.py" in files
    assert cached_path(f"{SOURCES}/template.py") not in files


def test_a_file_is_compiled_once_and_again_only_when_it_changes(tmp_path: Path, asked: list[set[str]]):
    packed(tmp_path, one="x = 1", two="x = 2")
    packed(tmp_path)
    files = packed(tmp_path, two="x = 3")
    first, second = asked
    assert {f"{SOURCES}/one.py", f"{SOURCES}/two.py", f"{STANDARD_LIBRARY}/this.py"} <= first
    assert second == {f"{SOURCES}/two.py"}
    assert files[cached_path(f"{SOURCES}/two.py")] == b"compiled x = 3"


@pytest.mark.usefixtures("asked")
def test_packages_are_packed_without_what_a_deployment_leaves_out(tmp_path: Path):
    names = [".stamp", "one/a.py", "one/a.pyi", "one/tests/t.py", "two/old/b.py", "two/older.py", "tests/t.py"]
    for name in names:
        (tmp_path / "modules" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "modules" / name).write_text("")
    (tmp_path / "src").mkdir()
    without = ["**/*.pyi", "**/tests/**", ".*", "two/old/**"]
    pack(tmp_path / "src", tmp_path / "modules", tmp_path / "bundle.bin", without)
    kept = {path.removeprefix(f"{MODULES}/") for path in unpack(tmp_path / "bundle.bin") if path.startswith(MODULES)}
    assert kept & {*names} == {"one/a.py", "two/older.py"}


@pytest.mark.usefixtures("asked")
def test_compiled_files_of_another_python_are_left_out(tmp_path: Path):
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "src" / "__pycache__" / "entry.cpython-311.pyc").write_bytes(b"old")
    assert not [name for name in packed(tmp_path, entry="") if "cpython-311" in name]


def test_a_pyodide_that_fails_is_told_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bundle, "COMPILE", tmp_path / "nowhere.mjs")
    with pytest.raises(RigError, match=r"(?s)couldn't compile the Worker: .*Cannot find module") as raised:
        packed(tmp_path, entry="")
    assert len(str(raised.value)) < 2 * bundle.SHOWN_CHARACTERS


def test_a_helper_is_found_behind_its_name_wherever_else_the_name_stands():
    binary = (
        b"import pyodide-internal:a.py\0\0\0 not python (\0pyodide-internal:a.py\0\0\0\0def f():\n    return 1\n\0rest"
    )
    assert find_helper(binary, "a.py") == b"def f():\n    return 1\n"


def test_a_workerd_without_the_helpers_is_told():
    with pytest.raises(RigError, match=r"workerd holds no a\.py"):
        find_helper(b"nothing", "a.py")
