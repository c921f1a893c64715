"""Workers AI as core's Embedder."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import pytest
from tests.edge.doubles.ai import AiFault
from tests.worker.world import NOW, World

from shoal.core.protocols import Phase, Role
from shoal.schema.errors import ModelBusy, ModelError, ModelOverQuota, ModelUnavailable
from shoal.worker import workers_ai
from shoal.worker.budget import Budget
from shoal.worker.models import DEFAULT, KNOWN, EdgeModel
from shoal.worker.workers_ai import WorkersAiEmbedder, translate


class Answers:
    """A binding that answers what it was told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def run(self, model: str, inputs: Mapping[str, Any]) -> Any:
        return self.answer


def embedder(world: World, model: EdgeModel = DEFAULT, budget: Budget | None = None) -> WorkersAiEmbedder:
    return WorkersAiEmbedder(world.env.AI, model, world.clock, budget or Budget())


def answering(answer: object, dim: int = 2) -> WorkersAiEmbedder:
    model = EdgeModel(name="@cf/some/model", dim=dim)
    return WorkersAiEmbedder(Answers(answer), model, lambda: NOW, Budget())


@pytest.mark.parametrize("model", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("role", Role)
async def test_every_known_model_gives_unit_vectors_of_its_length(world: World, model: EdgeModel, role: Role):
    budget = Budget()
    vectors = await embedder(world, model, budget).embed(["a fish", "鱼群在夜里游得更深。", "word " * 3_000], role)
    assert [len(vector) for vector in vectors] == [model.dim] * 3
    assert all(math.hypot(*vector) == pytest.approx(1) for vector in vectors)


async def test_a_query_is_exactly_one_call(world: World):
    budget = Budget()
    await embedder(world, budget=budget).embed(["鱼" * 4_000], Role.QUERY)
    assert budget.calls == {"ai": 1}


async def test_many_texts_are_few_calls_in_order(world: World):
    budget = Budget()
    one = embedder(world, budget=budget)
    texts = [f"text number {n}" for n in range(250)]
    vectors = await one.embed(texts, Role.PASSAGE)
    assert budget.calls == {"ai": 3}
    assert vectors[200] == (await one.embed([texts[200]], Role.PASSAGE))[0]


async def test_it_is_ready_and_says_what_it_is(world: World):
    one = embedder(world)
    assert one.state.phase is Phase.READY
    assert (one.dim, one.fingerprint, one.calibration) == (1024, DEFAULT.fingerprint, None)


async def test_vectors_are_normalised():
    [vector] = await answering({"data": [[3, 4]]}).embed(["x"], Role.QUERY)
    assert list(vector) == pytest.approx([0.6, 0.8])


# Errors


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (AiFault.RATE_LIMITED, ModelBusy),
        (AiFault.CAPACITY, ModelBusy),
        (AiFault.DAILY, ModelOverQuota),
        (AiFault.ACCOUNT_LIMITED, ModelOverQuota),
        (AiFault.INTERNAL, ModelError),
    ],
)
async def test_each_failure_has_its_error(world: World, fault: AiFault, error: type[ModelError]):
    world.fail_ai(fault)
    with pytest.raises(ModelError) as refused:
        await embedder(world).embed(["x"], Role.QUERY)
    assert type(refused.value) is error
    assert refused.value.__context__ is None


async def test_a_used_up_quota_says_until_when(world: World):
    world.fail_ai(AiFault.DAILY)
    with pytest.raises(ModelOverQuota) as refused:
        await embedder(world).embed(["x"], Role.QUERY)
    assert refused.value.details["until"] == "2026-09-22T00:00:00Z"


async def test_a_call_that_hangs_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers_ai, "WAIT_S", 0.01)
    world.fail_ai(AiFault.TIMEOUT)
    with pytest.raises(ModelBusy, match="did not answer"):
        await embedder(world).embed(["x"], Role.QUERY)
    world.ai.faults.release()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: 3046: Request timeout", ModelBusy),
        ("Error: Network connection lost.", ModelBusy),
        ("Error: Too many subrequests by single Worker invocation.", ModelBusy),
        ("AiError: 5007: No such model @cf/x/y or task", ModelUnavailable),
        ("AiError: 5016: User has not agreed to the model terms", ModelUnavailable),
        ("AiError: 3030: Max context reached 85920 tokens but model supports only 60000", ModelError),
        ("AiError: 5006: Error: Length of '/text/0' must be >= 1", ModelError),
        ("InferenceUpstreamError: something nobody has seen: secret words", ModelError),
    ],
)
def test_what_else_production_says_is_understood(text: str, error: type[ModelError]):
    told = translate(text, "@cf/x/y", NOW)
    assert type(told) is error
    assert "secret" not in str(told)


async def test_a_refused_text_is_an_error_of_that_call_alone(world: World):
    one = embedder(world)
    world.ai.poison = "POISON"
    with pytest.raises(ModelError) as refused:
        await one.embed(["fine", "POISON"], Role.PASSAGE)
    assert type(refused.value) is ModelError
    assert len(await one.embed(["fine"], Role.PASSAGE)) == 1


@pytest.mark.parametrize(
    "answer",
    [None, {}, {"data": None}, {"data": []}, {"data": [[1, 0], [0, 1]]}, {"request_id": "queued"}],
    ids=str,
)
async def test_an_answer_without_a_vector_for_each_text_is_refused(answer: object):
    with pytest.raises(ModelError, match="did not answer with 1 vectors"):
        await answering(answer).embed(["x"], Role.QUERY)


async def test_vectors_of_another_length_are_no_memorys_fault():
    with pytest.raises(ModelUnavailable, match="length 3, not 2"):
        await answering({"data": [[1, 0, 0]]}).embed(["x"], Role.QUERY)


@pytest.mark.parametrize("vector", [[0, 0], [math.inf, 1], [math.nan, 1]], ids=str)
async def test_what_is_no_direction_is_refused(vector: list[float]):
    with pytest.raises(ModelError, match="no direction"):
        await answering({"data": [vector]}).embed(["x"], Role.QUERY)


async def test_a_value_that_the_runtime_cant_pass_on_is_a_fault_of_ours(world: World):
    model = DEFAULT.model_copy(update={"name": ("not", "a", "name")})
    with pytest.raises(TypeError):
        await embedder(world, model).embed(["x"], Role.QUERY)


async def test_calls_are_left_for_what_must_follow(world: World):
    budget = Budget(calls_max=workers_ai.CALLS_KEPT + 1)
    one = embedder(world, budget=budget)
    await one.embed(["x"], Role.QUERY)
    with pytest.raises(ModelBusy, match="no more calls"):
        await one.embed(["x"], Role.QUERY)
    assert budget.calls == {"ai": 1}
