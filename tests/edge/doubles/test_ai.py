"""What Workers AI's embedding models take, give and refuse."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.edge.doubles.ai import MODELS, AiBinding, AiEngine, AiFault, tokens
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.invocation import invocation
from tests.edge.doubles.sdk import JsError

from shoal.core.fakes import FakeEmbedder

M3 = "@cf/baai/bge-m3"
QWEN = "@cf/qwen/qwen3-embedding-0.6b"
GEMMA = "@cf/google/embeddinggemma-300m"
BGE = [f"@cf/baai/bge-{size}-en-v1.5" for size in ("small", "base", "large")]


@pytest.fixture
def engine() -> AiEngine:
    return AiEngine.hashed()


@pytest.fixture
def ai(engine: AiEngine) -> AiBinding:
    return AiBinding(engine)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AiEngine]:
    """The real model, converted once for these tests."""
    engine = AiEngine.local(tmp_path_factory.mktemp("models"))
    yield engine
    engine.close()


async def refusal(call: Any) -> str:
    with pytest.raises(JsError) as refused:
        await call
    return str(refused.value)


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("model", "dim"), [(M3, 1024), (BGE[0], 384), (BGE[1], 768), (BGE[2], 1024), (QWEN, 1024), (GEMMA, 768)]
)
async def test_each_model_gives_unit_vectors_of_its_dimension(ai: AiBinding, model: str, dim: int):
    answer = await ai.run(model, {"text": ["one text", "another"]})
    assert answer.shape == [2, dim]
    assert [len(vector) for vector in answer.data] == [dim, dim]
    assert [math.hypot(*vector) for vector in answer.data] == pytest.approx([1, 1])


async def test_only_the_bge_models_say_their_pooling(ai: AiBinding):
    assert (await ai.run(M3, {"text": "x"})).pooling == "cls"
    assert (await ai.run(BGE[0], {"text": "x"})).pooling == "mean"
    assert (await ai.run(BGE[0], {"text": "x", "pooling": "cls"})).pooling == "cls"
    assert "pooling" not in await ai.run(GEMMA, {"text": "x"})


async def test_one_text_alone_gives_one_vector(ai: AiBinding):
    alone = await ai.run(M3, {"text": "one text"})
    assert alone == await ai.run(M3, {"text": ["one text"]})
    assert alone.shape == [1, 1024]


async def test_vectors_come_in_the_order_of_the_texts_and_a_repeat_is_the_same(ai: AiBinding):
    answer = await ai.run(M3, {"text": ["a", "b", "a"]})
    assert answer.data[0] == answer.data[2] != answer.data[1]


async def test_qwen_takes_queries_and_documents_with_an_instruction(ai: AiBinding):
    answer = await ai.run(QWEN, {"queries": ["q"], "documents": ["d", "e"], "instruction": "Find it"})
    assert answer.shape == [3, 1024]
    assert answer.data[1] == (await ai.run(QWEN, {"text": "d"})).data[0]


async def test_real_vectors_know_meaning_in_two_languages_and_padding_changes_no_cosine(real: AiEngine):
    texts = ["Sharks swim in shoals at night.", "鲨鱼在夜里成群游动。", "The build takes nine minutes."]
    wide = (await AiBinding(real).run(M3, {"text": texts})).data
    narrow = (await AiBinding(real).run(BGE[0], {"text": texts})).data
    assert cosine(wide[0], wide[1]) > cosine(wide[0], wide[2]) + 0.1
    assert wide[0][:384] == narrow[0]
    assert not any(wide[0][384:])
    assert math.hypot(*wide[0]) == pytest.approx(1, abs=1e-3)


async def test_a_text_is_embedded_once():
    class Counting(FakeEmbedder):
        texts = 0

        async def embed(self, texts: Any, role: Any) -> Any:
            self.texts += len(texts)
            return await super().embed(texts, role)

    embedder = Counting(384)
    engine = AiEngine(embedder)
    for _ in range(3):
        await engine.run(M3, {"text": ["a", "b", "a"]})
    assert embedder.texts == 2


async def test_not_more_texts_are_remembered_than_fit(monkeypatch: pytest.MonkeyPatch, ai: AiBinding):
    monkeypatch.setattr("tests.edge.doubles.ai.CACHE_TEXTS", 2)
    first = await ai.run(M3, {"text": ["a", "b", "c"]})
    assert first == await ai.run(M3, {"text": ["a", "b", "c"]})


def test_an_embedder_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="384 dimensions, not 64"):
        AiEngine(FakeEmbedder(64))


@pytest.mark.parametrize(
    ("model", "inputs", "text"),
    [
        (M3, {"text": ["x"] * 101}, "5006: Error: Length of '/text' must be <= 100"),
        (QWEN, {"queries": ["x"] * 33}, "5006: Error: Length of '/queries' must be <= 32"),
        (M3, {"text": []}, "Length of '/text' must be >= 1"),
        (M3, {"text": ""}, "Length of '/text/0' must be >= 1"),
        (M3, {"text": ["x", ""]}, "Length of '/text/1' must be >= 1"),
        (M3, {"text": ["x", 7]}, "Type mismatch of '/text/1', not in 'string'"),
        (M3, {}, "oneOf at '/' not met, 0 matches: required properties at '/' are 'text'"),
        (M3, "text", "Type mismatch of '/'"),
        (M3, {"text": "x", "pooling": "cls"}, "unknown property '/pooling'"),
        (GEMMA, {"documents": ["x"]}, "unknown property '/documents'"),
        (BGE[0], {"text": "x", "pooling": "max"}, "'/pooling'"),
        (M3, {"text": "x", "truncate_inputs": "yes"}, "'/truncate_inputs'"),
        (QWEN, {"text": "x", "instruction": 7}, "'/instruction'"),
        (M3, {"text": "鱼" * 8193}, "AiError: 3030: Sequence too long: 8193 > 8192"),
        (BGE[0], {"text": ["x", "word " * 400]}, "AiError: 3030: Sequence too long: 667 > 512"),
        (
            M3,
            {"text": ["鱼" * 6001] * 10},
            "AiError: 3030: Max context reached 60010 tokens but model supports only 60000",
        ),
        ("@cf/nobody/nothing", {"text": "x"}, "5007: No such model @cf/nobody/nothing or task"),
        (7, {"text": "x"}, "5007: No such model 7 or task"),
    ],
)
async def test_what_a_model_does_not_take_is_refused(ai: AiBinding, model: Any, inputs: Any, text: str):
    assert text in await refusal(ai.run(model, inputs))


async def test_what_just_fits_is_taken(ai: AiBinding):
    assert (await ai.run(M3, {"text": ["x"] * 100})).shape == [100, 1024]
    assert (await ai.run(QWEN, {"documents": ["x"] * 32})).shape == [32, 1024]
    assert (await ai.run(M3, {"text": ["鱼" * 6000] * 10})).shape == [10, 1024]


async def test_a_text_that_is_too_long_is_cut_where_that_is_asked_for(ai: AiBinding):
    cut = await ai.run(M3, {"text": "鱼" * 9000, "truncate_inputs": True})
    assert cut == await ai.run(M3, {"text": "鱼" * 8192})


@pytest.mark.parametrize(("text", "count"), [("", 0), ("abc", 1), ("abcd", 2), ("鱼群", 2), ("a鱼", 2)])
def test_tokens_are_estimated_on_the_high_side(text: str, count: int):
    assert tokens(text) == count


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AiFault.RATE_LIMITED, "3021: Rate limit exceeded"),
        (AiFault.CAPACITY, "3040: Capacity temporarily exceeded, please try again."),
        (AiFault.DAILY, "4006: you have used up your daily free allocation of 10,000 neurons, please upgrade"),
        (
            AiFault.ACCOUNT_LIMITED,
            "3036: You have used up your daily free allocation of 10,000 neurons. Please upgrade",
        ),
        (AiFault.INTERNAL, "3043: Internal server error"),
    ],
)
async def test_a_call_fails_on_demand(engine: AiEngine, ai: AiBinding, kind: AiFault, text: str):
    engine.faults.add(Fault(kind))
    assert (await refusal(ai.run(M3, {"text": "x"}))).startswith(f"InferenceUpstreamError: {text}")
    await ai.run(M3, {"text": "x"})


async def test_a_call_can_hang_until_it_is_told_to_fail(engine: AiEngine, ai: AiBinding):
    engine.faults.add(Fault(AiFault.TIMEOUT))
    hanging = asyncio.ensure_future(ai.run(M3, {"text": "x"}))
    await engine.faults.hanging.wait()
    await ai.run(M3, {"text": "y"})
    assert not hanging.done()
    engine.faults.release()
    assert "3046: Request timeout" in await refusal(hanging)


async def test_a_poisoned_text_fails_every_call_that_it_is_in(engine: AiEngine, ai: AiBinding):
    engine.poison = "☠"
    for _ in range(3):
        assert "3043: Internal server error" in await refusal(ai.run(M3, {"text": ["fine", "a ☠ text"]}))
    await ai.run(M3, {"text": ["fine"]})
    engine.poison = None
    await ai.run(M3, {"text": ["a ☠ text"]})


async def test_calls_count_into_the_invocation(ai: AiBinding):
    with invocation() as run:
        await ai.run(M3, {"text": "x"}, {"gateway": {"id": "g"}})
    assert run.calls == {"ai.run": 1}


async def test_what_the_sdk_does_not_send_fails_before_it_is_awaited(ai: AiBinding):
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        ai.run(M3, {"text": ("x",)})


def test_every_documented_model_is_there():
    assert set(MODELS) == {M3, *BGE, QWEN, GEMMA}


def test_the_cache_directory_is_only_used_by_the_real_model(tmp_path: Path):
    AiEngine.local(tmp_path / "models").close()
    assert not (tmp_path / "models").exists(), "nothing is loaded before the first call"
