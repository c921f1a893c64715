import asyncio
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from shoal.core.protocols import Embedder, Phase, Role
from shoal.local.embedding import FastembedEmbedder, choose, open_embedder
from shoal.local.embedding.cache import MODEL_FOLDER, ensure_model
from shoal.local.embedding.fastembedder import BACKGROUND_NICE, RETRY_AFTER_S
from shoal.local.embedding.weights import MODEL_FILES
from shoal.schema.errors import ModelError, ModelUnavailable


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_a_question_finds_its_answer_in_the_other_language(embedder: FastembedEmbedder):
    questions = ["Where does the cat sleep?", "什么时候发布新版本?"]
    answers = ["猫晚上在沙发上睡觉。", "We publish the next release on Monday.", "Der Zug nach Bonn fährt um neun."]
    asked = await embedder.embed(questions, Role.QUERY)
    told = await embedder.embed(answers, Role.PASSAGE)
    best = [max(range(3), key=lambda number: cosine(query, told[number])) for query in asked]
    assert best == [0, 1]


async def test_calibration_tells_related_from_unrelated(embedder: FastembedEmbedder):
    assert embedder.calibration
    (query,) = await embedder.embed(["Which editor does she like best?"], Role.QUERY)
    near, far = await embedder.embed(
        ["Her favourite program for writing code is Vim.", "Bananas were on sale at the market."], Role.PASSAGE
    )
    assert embedder.calibration.relevance(cosine(query, near)) > 0.9
    assert embedder.calibration.relevance(cosine(query, far)) < 0.1


async def test_vectors_are_of_length_one_and_of_the_said_dimension(embedder: FastembedEmbedder):
    for role in Role:
        for vector in await embedder.embed(["a", "你好", "", "x" * 5000], role):
            assert len(vector) == embedder.dim == 384
            assert math.isclose(cosine(vector, vector), 1, abs_tol=1e-5)


async def test_company_in_a_batch_does_not_change_a_vector(embedder: FastembedEmbedder):
    texts = ["short", "a text of middling length about boats", "long " * 60, "咖啡" * 30, "another", "last one"]
    together = await embedder.embed(texts, Role.PASSAGE)
    for text, vector in zip(texts, together, strict=True):
        (alone,) = await embedder.embed([text], Role.PASSAGE)
        assert cosine(alone, vector) > 0.999


async def test_vectors_come_in_the_order_of_the_texts(embedder: FastembedEmbedder):
    texts = [f"{'word ' * (20 - number)}{number}" for number in range(20)]
    vectors = await embedder.embed(texts, Role.PASSAGE)
    backwards = await embedder.embed(texts[::-1], Role.PASSAGE)
    assert all(cosine(one, other) > 0.999 for one, other in zip(vectors, backwards[::-1], strict=True))


async def test_no_texts_give_no_vectors(embedder: FastembedEmbedder):
    assert await embedder.embed([], Role.PASSAGE) == []
    assert await embedder.embed([], Role.QUERY) == []


async def test_what_lies_beyond_the_window_is_cut_off(embedder: FastembedEmbedder):
    head = "word " * embedder.window
    one, other = await embedder.embed([head + "apple", head + "something else entirely"], Role.PASSAGE)
    assert cosine(one, other) > 0.9999


async def test_the_roles_are_centred_apart(embedder: FastembedEmbedder):
    (query,) = await embedder.embed(["boats"], Role.QUERY)
    (passage,) = await embedder.embed(["boats"], Role.PASSAGE)
    assert cosine(query, passage) < 0.999


async def test_a_repeated_query_is_not_computed_again(embedder: FastembedEmbedder):
    (first,) = await embedder.embed(["seen before?"], Role.QUERY)
    again, new, twice = await embedder.embed(["seen before?", "not seen", "not seen"], Role.QUERY)
    assert again is first
    assert twice is new


async def test_a_query_does_not_wait_for_a_background_batch(embedder: FastembedEmbedder):
    texts = [f"{number} " + "background text " * 40 for number in range(60)]
    background = asyncio.create_task(embedder.embed(texts, Role.PASSAGE))
    await asyncio.sleep(0.05)
    for number in range(3):
        await embedder.embed([f"urgent {number}"], Role.QUERY)
    await embedder.embed(["just written", "and this"], Role.PASSAGE)
    assert not background.done()
    assert len(await background) == len(texts)


def thread_ids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc/self/task").iterdir()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a nice value per thread")
async def test_the_background_is_nice_and_the_foreground_is_not(embedder: FastembedEmbedder):
    await embedder.embed([f"text {number}" for number in range(9)], Role.PASSAGE)
    nice = {os.getpriority(os.PRIO_PROCESS, thread) for thread in thread_ids()}
    # The tests themselves may run with a nice value.
    assert nice == {os.getpriority(os.PRIO_PROCESS, 0), max(BACKGROUND_NICE, os.getpriority(os.PRIO_PROCESS, 0))}


async def test_a_cancelled_batch_stops(model_cache: Path):
    embedder = open_embedder(None, None, model_cache)
    await embedder.prepare()
    task = asyncio.create_task(embedder.embed(["x " * 300] * 400, Role.PASSAGE))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(asyncio.to_thread(embedder.close), timeout=10)


async def test_states_run_from_unloaded_over_loading_to_ready(tmp_path: Path):
    told: list[tuple[Phase, float | None]] = []
    embedder = open_embedder(None, None, tmp_path, lambda _share: told.append(now()))

    def now() -> tuple[Phase, float | None]:
        return embedder.state.phase, embedder.state.progress

    fingerprint = embedder.fingerprint
    assert now() == (Phase.UNLOADED, None)
    await embedder.prepare()
    assert {phase for phase, _ in told} == {Phase.LOADING}
    assert told[-1] == (Phase.LOADING, 1.0)
    assert now() == (Phase.READY, None)
    assert embedder.fingerprint == fingerprint
    embedder.close()


async def test_a_model_that_stands_in_for_another_says_so_in_every_state(tmp_path: Path):
    embedder = open_embedder("no-such-model", None, tmp_path)
    for phase in (Phase.UNLOADED, Phase.READY):
        assert embedder.state.phase is phase
        assert embedder.state.reason is not None
        assert "'no-such-model'" in embedder.state.reason
        await embedder.prepare()
    embedder.close()


async def test_a_broken_file_of_the_right_size_is_mended_while_loading(wheel_weights: Path, tmp_path: Path):
    folder = ensure_model(wheel_weights, tmp_path)
    graph = folder / "model.onnx"
    graph.write_bytes(bytes(graph.stat().st_size))
    embedder = open_embedder(None, None, tmp_path)
    assert len(await embedder.embed(["works"], Role.QUERY)) == 1
    embedder.close()


async def test_a_model_of_the_hub_that_cannot_be_fetched_is_unavailable_with_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = 0.0
    choice = choose("bge-small-en", tmp_path / "absent", tmp_path)
    embedder = FastembedEmbedder(choice, tmp_path, clock=lambda: now)
    # Set only now: the chain thinks that there is a network.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="Could not load model") as caught:
        await embedder.embed(["x"], Role.QUERY)
    assert caught.value.details["skipped"][0]["source"] == "directory"
    assert embedder.state.phase is Phase.UNAVAILABLE
    assert embedder.state.reason == str(caught.value)
    with pytest.raises(ModelUnavailable) as again:
        await embedder.embed(["x"], Role.PASSAGE)
    assert again.value is caught.value
    now = RETRY_AFTER_S
    with pytest.raises(ModelUnavailable) as later:
        await embedder.prepare()
    assert later.value is not caught.value
    embedder.close()


async def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    embedder = open_embedder(None, None, in_the_way)
    with pytest.raises(ModelUnavailable, match="file"):
        await embedder.prepare()
    embedder.close()


@pytest.fixture
def own_folder(model_cache: Path, tmp_path: Path) -> Path:
    """The default model's graph and weights with a tokenizer of six words, as a user might keep them."""
    folder = tmp_path / "own"
    folder.mkdir()
    for name in MODEL_FILES:
        (folder / name).hardlink_to(model_cache / MODEL_FOLDER / name)
    words = {word: number for number, word in enumerate(("<s>", "<pad>", "</s>", "<unk>", "hello", "query"))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 512, "pad_token": "<pad>"}')
    return folder


async def test_a_folder_of_ones_own_is_used_as_described(own_folder: Path, tmp_path: Path):
    (own_folder / "shoal-model.json").write_text('{"name": "mine", "dim": 384, "query_prefix": "query: "}')
    embedder = open_embedder(None, own_folder, tmp_path)
    (vector,) = await embedder.embed(["hello"], Role.QUERY)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert embedder.fingerprint.startswith("mine@")
    assert embedder.calibration is None
    embedder.close()


async def test_a_wrong_dimension_is_told_not_stored(own_folder: Path, tmp_path: Path):
    (own_folder / "shoal-model.json").write_text('{"dim": 100}')
    embedder = open_embedder(None, own_folder, tmp_path)
    with pytest.raises(ModelError, match="384 numbers"):
        await embedder.embed(["hello"], Role.QUERY)
    embedder.close()


async def test_a_folder_whose_model_is_no_model_is_unavailable(own_folder: Path, tmp_path: Path):
    (own_folder / "model.onnx").unlink()
    (own_folder / "model.onnx").write_bytes(b"no graph")
    (own_folder / "shoal-model.json").write_text('{"dim": 384}')
    embedder = open_embedder(None, own_folder, tmp_path)
    with pytest.raises(ModelUnavailable, match="can't be loaded"):
        await embedder.embed(["hello"], Role.QUERY)
    embedder.close()


def test_it_is_an_embedder(embedder: FastembedEmbedder):
    as_protocol: Embedder = embedder
    assert as_protocol.dim == 384
