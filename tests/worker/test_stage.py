import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_layers import LAYERS as ALL_LAYERS
from tests.test_layers import MAY_IMPORT
from worker.stage import ENTRY, LAYERS, ROOT, StagingError, stage


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, ENTRY, "core/shoal/core/ids.py", "schema/shoal/schema/migrations/0001_cells.sql")
    return tmp_path


def test_each_layer_lands_in_one_namespace_and_the_entry_beside_it(root: Path) -> None:
    done = stage(root, root / "out")
    assert files(root / "out") == {"entry.py", "shoal/core/ids.py", "shoal/schema/migrations/0001_cells.sql"}
    assert (root / "out" / "entry.py").read_text() == f"# {ENTRY}\n"
    assert done.size_bytes == sum(path.stat().st_size for path in (root / "out").rglob("*") if path.is_file())


def test_the_laptop_the_tests_and_what_python_leaves_behind_stay_out(root: Path) -> None:
    write(root, "local/shoal/local/daemon.py", "tests/core/test_ids.py", "core/shoal/core/__pycache__/ids.pyc")
    write(root, "core/shoal/core/.ids.py.swp", "worker/vendor.py")
    stage(root, root / "out")
    assert files(root / "out") == {"entry.py", "shoal/core/ids.py", "shoal/schema/migrations/0001_cells.sql"}


def test_staging_twice_touches_nothing(root: Path) -> None:
    stage(root, root / "out")
    for path in (root / "out").rglob("*"):
        os.utime(path, (1, 1))
    assert stage(root, root / "out").changed == 0
    assert {path.stat().st_mtime for path in (root / "out").rglob("*")} == {1}


def test_what_changed_is_copied_and_what_is_gone_is_removed(root: Path) -> None:
    write(root, "core/shoal/core/times/clock.py")
    stage(root, root / "out")
    write(root / "out", "shoal/core/stale/deep/x.py", "python_modules/y.py")
    (root / "core/shoal/core/times/clock.py").unlink()
    (root / "core/shoal/core/ids.py").write_text("# changed\n")
    stage(root, root / "out")
    assert files(root / "out") == {"entry.py", "shoal/core/ids.py", "shoal/schema/migrations/0001_cells.sql"}
    assert (root / "out/shoal/core/ids.py").read_text() == "# changed\n"
    assert {path.name for path in (root / "out/shoal/core").iterdir()} == {"ids.py"}


def test_a_folder_and_a_file_may_take_each_others_place(root: Path) -> None:
    write(root / "out", "shoal/core/ids.py/x.py", "shoal/schema")
    stage(root, root / "out")
    assert files(root / "out") == {"entry.py", "shoal/core/ids.py", "shoal/schema/migrations/0001_cells.sql"}


def test_a_file_that_wrangler_would_leave_out_is_refused_by_name(root: Path) -> None:
    write(root, "core/shoal/core/stopwords.json")
    with pytest.raises(StagingError, match=r"core/shoal/core/stopwords\.json would not reach the Worker"):
        stage(root, root / "out")


def test_without_an_entry_nothing_is_staged(root: Path) -> None:
    (root / ENTRY).unlink()
    with pytest.raises(StagingError, match=ENTRY):
        stage(root, root / "out")
    assert not (root / "out").exists()


def test_all_layers_that_the_worker_may_import_are_staged(tmp_path: Path) -> None:
    assert tuple(layer for layer in ALL_LAYERS if layer in MAY_IMPORT["worker"]) == LAYERS
    stage(ROOT, tmp_path)
    there = {layer for layer in LAYERS if (ROOT / layer / "shoal" / layer).is_dir()}
    assert {path.name for path in (tmp_path / "shoal").iterdir()} == there
    assert {path.name for path in tmp_path.iterdir()} == {"entry.py", "shoal"}


def test_the_service_and_its_migrations_load_from_the_staged_sources(tmp_path: Path) -> None:
    stage(ROOT, tmp_path)
    sources = tuple(str(ROOT / layer) for layer in ALL_LAYERS)
    code = f"""
import sys
sys.path[:] = [{str(tmp_path)!r}, *(path for path in sys.path if path not in {sources!r})]
import shoal.api.rest, shoal.core.service, shoal.schema.migrations
assert shoal.core.service.__file__.startswith({str(tmp_path)!r}), shoal.core.service.__file__
assert shoal.schema.migrations.load()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60, cwd=tmp_path)


def test_the_command_names_the_file_that_is_wrong(root: Path) -> None:
    write(root, "core/shoal/core/stopwords.json")
    script = root / "worker" / "stage.py"
    script.write_text((ROOT / "worker" / "stage.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "stopwords.json" in done.stderr
    assert "Traceback" not in done.stderr
