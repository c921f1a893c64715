import json
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.local.embedding import cache, weights
from shoal.schema.errors import WeightsMismatch

ENSURE = """
import pathlib, sys
from shoal.local.embedding import cache
shares = []
folder = cache.ensure_model(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), shares.append)
print(bool(shares), folder)
"""


def test_of_two_processes_at_once_one_converts_and_both_get_the_model(wheel_weights: Path, tmp_path: Path):
    command = [sys.executable, "-c", ENSURE, str(wheel_weights), str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    folder = tmp_path / cache.MODEL_FOLDER
    assert answers == [f"False {folder}", f"True {folder}"]
    assert cache.is_complete(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {cache.MODEL_FOLDER, f"{cache.MODEL_FOLDER}.lock"}


@pytest.fixture(scope="module")
def broken(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory of this module's own, for breaking."""
    cache_dir = tmp_path_factory.mktemp("broken")
    folder = cache_dir / cache.MODEL_FOLDER
    folder.mkdir()
    for path in (model_cache / cache.MODEL_FOLDER).iterdir():
        (folder / path.name).hardlink_to(path)
    return cache_dir


@pytest.mark.parametrize("name", ["model.onnx_data", "sentencepiece.model", "complete.json"])
def test_a_folder_that_lost_a_file_is_made_again(wheel_weights: Path, broken: Path, name: str):
    (broken / cache.MODEL_FOLDER / name).unlink()
    assert not cache.is_complete(broken)
    cache.ensure_model(wheel_weights, broken)
    assert cache.is_complete(broken)


def test_a_folder_with_a_cut_file_is_made_again(wheel_weights: Path, broken: Path):
    path = broken / cache.MODEL_FOLDER / "model.onnx_data"
    path.unlink()
    path.write_bytes(bytes(1000))
    cache.ensure_model(wheel_weights, broken)
    assert path.stat().st_size == weights.DATA_BYTES


@pytest.mark.parametrize("mark", ["", "[]", "{}", "null", '{"model.onnx": "x"}'])
def test_a_mark_that_says_nothing_is_no_mark(tmp_path: Path, mark: str):
    (tmp_path / cache.MODEL_FOLDER).mkdir()
    (tmp_path / cache.MODEL_FOLDER / "complete.json").write_text(mark)
    assert not cache.is_complete(tmp_path)


def test_what_a_killed_process_left_is_swept_away(wheel_weights: Path, tmp_path: Path):
    left = tmp_path / f"{cache.MODEL_FOLDER}.1.tmp"
    left.mkdir()
    (left / "model.onnx_data").write_bytes(b"half")
    cache.ensure_model(wheel_weights, tmp_path)
    assert not left.exists()


def test_a_failed_conversion_leaves_nothing(tmp_path: Path):
    source = tmp_path / "weights.bin"
    source.write_bytes(b"wrong")
    with pytest.raises(WeightsMismatch):
        cache.ensure_model(source, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] in ([], [f"{cache.MODEL_FOLDER}.lock"])


def test_the_mark_holds_every_size(model_cache: Path):
    folder = model_cache / cache.MODEL_FOLDER
    sizes = json.loads((folder / "complete.json").read_text())
    assert sizes == {name: (folder / name).stat().st_size for name in sizes}
    assert set(sizes) == {"model.onnx", "model.onnx_data", "sentencepiece.model"}
