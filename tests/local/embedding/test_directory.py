import json
from pathlib import Path

import numpy as np
import pytest

from shoal.core.protocols import Calibration
from shoal.local.embedding.descriptor import Pooling
from shoal.local.embedding.directory import describe_directory, directory_revision
from shoal.schema.errors import ModelUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    for name in ("model.onnx", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes(b"{}")
    (folder / "config.json").write_text('{"hidden_size": 64}')
    return folder


def test_a_folder_without_a_description_gets_the_usual_values(folder: Path):
    descriptor = describe_directory(folder)
    assert (descriptor.name, descriptor.dim, descriptor.pooling) == ("my-model", 64, Pooling.MEAN)
    assert (descriptor.query_prefix, descriptor.centring, descriptor.calibration) == ("", None, None)


def test_the_description_says_everything(folder: Path):
    np.savez(folder / "centre.npz", allow_pickle=False, query=np.zeros(8))
    description = {
        "name": "mine",
        "quantisation": "int8",
        "dim": 8,
        "pooling": "cls",
        "window": 128,
        "query_prefix": "q: ",
        "passage_prefix": "p: ",
        "centring": "centre.npz",
        "calibration": {"unrelated": 0.2, "related": 0.6},
    }
    (folder / "shoal-model.json").write_text(json.dumps(description))
    descriptor = describe_directory(folder)
    assert (descriptor.name, descriptor.quantisation, descriptor.dim, descriptor.window) == ("mine", "int8", 8, 128)
    assert (descriptor.pooling, descriptor.query_prefix, descriptor.passage_prefix) == (Pooling.CLS, "q: ", "p: ")
    assert descriptor.centring == folder / "centre.npz"
    assert descriptor.calibration == Calibration(0.2, 0.6)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(folder: Path, name: str):
    (folder / name).unlink()
    with pytest.raises(ModelUnavailable, match=rf"lacks {name}\."):
        describe_directory(folder)


@pytest.mark.parametrize(
    "description",
    [
        "no json",
        '{"dim": 0}',
        '{"pooling": "sum"}',
        '{"unknown": 1}',
        '{"calibration": {"unrelated": 0.5, "related": 0.5}}',
        '{"centring": "absent.npz"}',
    ],
)
def test_a_wrong_description_is_refused_with_the_file(folder: Path, description: str):
    (folder / "shoal-model.json").write_text(description)
    with pytest.raises(ModelUnavailable, match=r"shoal-model\.json"):
        describe_directory(folder)


@pytest.mark.parametrize("config", ["{}", '{"hidden_size": "64"}', None])
def test_an_unknown_length_is_asked_for(folder: Path, config: str | None):
    (folder / "config.json").unlink()
    if config:
        (folder / "config.json").write_text(config)
    with pytest.raises(ModelUnavailable, match="dim"):
        describe_directory(folder)


def test_a_broken_config_is_refused(folder: Path):
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelUnavailable, match=r"config\.json"):
        describe_directory(folder)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx_data", "tokenizer.json"])
def test_other_bytes_are_another_revision(folder: Path, name: str):
    before = directory_revision(folder)
    assert directory_revision(folder) == before
    (folder / name).write_bytes(b"other")
    assert directory_revision(folder) != before
