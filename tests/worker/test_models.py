"""Models on Workers AI: what a call takes, and what the variable MODEL may say."""

import json

import pytest

from shoal.core.protocols import Role
from shoal.schema.errors import NotConfigured
from shoal.worker.models import DEFAULT, KNOWN, EdgeModel, model_named, tokens

SMALL = KNOWN["@cf/baai/bge-small-en-v1.5"]
QWEN = KNOWN["@cf/qwen/qwen3-embedding-0.6b"]
GEMMA = KNOWN["@cf/google/embeddinggemma-300m"]


def inputs(model: EdgeModel, texts: list[str], role: Role) -> list[dict[str, object]]:
    return [model.inputs(part, role) for part in model.calls(texts, role)]


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        (DEFAULT, {"text": ["x"]}, {"text": ["x"]}),
        (
            SMALL,
            {"text": ["Represent this sentence for searching relevant passages: x"], "pooling": "cls"},
            {"text": ["x"], "pooling": "cls"},
        ),
        (QWEN, {"queries": ["x"]}, {"documents": ["x"]}),
        (GEMMA, {"text": ["task: search result | query: x"]}, {"text": ["title: none | text: x"]}),
    ],
    ids=lambda value: value.name if isinstance(value, EdgeModel) else None,
)
def test_each_model_gets_its_form(model: EdgeModel, query: dict[str, object], passage: dict[str, object]):
    assert inputs(model, ["x"], Role.QUERY) == [query]
    assert inputs(model, ["x"], Role.PASSAGE) == [passage]


def test_an_instruction_goes_with_queries_only():
    told = QWEN.model_copy(update={"instruction": "Find memories"})
    assert inputs(told, ["x"], Role.QUERY) == [{"queries": ["x"], "instruction": "Find memories"}]
    assert inputs(told, ["x"], Role.PASSAGE) == [{"documents": ["x"]}]


def test_a_call_takes_no_more_texts_than_the_model_allows():
    assert [len(part) for part in DEFAULT.calls(["x"] * 250, Role.PASSAGE)] == [100, 100, 50]
    assert [len(part) for part in QWEN.calls(["x"] * 40, Role.PASSAGE)] == [32, 8]
    assert list(DEFAULT.calls([], Role.PASSAGE)) == []


def test_a_call_takes_no_more_tokens_than_the_model_allows():
    parts = list(DEFAULT.calls(["鱼" * 800] * 100, Role.PASSAGE))
    assert [len(part) for part in parts] == [75, 25]
    assert all(sum(map(tokens, part)) <= 60_000 for part in parts)


def test_a_text_longer_than_the_window_is_cut_and_one_that_fits_is_not():
    [[cut]] = SMALL.calls(["word " * 1_000], Role.QUERY)
    assert tokens(cut) <= SMALL.window
    assert cut.startswith("Represent this sentence")
    assert len(cut) > SMALL.window
    [[whole]] = SMALL.calls(["鱼" * SMALL.window], Role.PASSAGE)
    assert len(whole) == SMALL.window


def test_tokens_are_estimated_on_the_high_side():
    assert tokens("") == 0
    assert tokens("abc") == 1
    assert tokens("abcd") == 2
    assert tokens("鱼群 fish") == 2 + 2


def test_whatever_changes_vectors_changes_the_fingerprint_and_what_fits_into_a_call_does_not():
    changed = [
        {"name": "@cf/other/model"},
        {"dim": 512},
        {"pooling": "mean"},
        {"form": "roles"},
        {"query_prefix": "query: "},
        {"passage_prefix": "passage: "},
        {"instruction": "Find"},
        {"window": 256},
    ]
    models = [EdgeModel.model_validate({**DEFAULT.model_dump(), **change}) for change in changed]
    assert len({model.fingerprint for model in (DEFAULT, *models)}) == len(changed) + 1
    fewer = DEFAULT.model_copy(update={"texts_per_call": 10, "tokens_per_call": 1_000})
    assert fewer.fingerprint == DEFAULT.fingerprint


def test_known_models_are_named_and_none_means_the_default():
    assert model_named("") is DEFAULT
    assert model_named(" @cf/qwen/qwen3-embedding-0.6b ") is QWEN
    assert len({model.fingerprint for model in KNOWN.values()}) == len(KNOWN)


def test_a_model_is_described_by_what_differs():
    assert model_named('{"name": "@cf/baai/bge-m3", "query_prefix": "query: "}') == DEFAULT.model_copy(
        update={"query_prefix": "query: "}
    )
    other = model_named('{"name": "@cf/other/model-2", "dim": 256, "window": 128}')
    assert (other.dim, other.window, other.texts_per_call) == (256, 128, 100)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@cf/unknown/model", "nothing is known"),
        ("bge-m3", "nothing is known"),
        ("{", "not JSON"),
        ('{"dim": 5}', "name: "),
        ('{"name": "@cf/other/model"}', "dim: "),
        ('{"name": "no name", "dim": 5}', "name: "),
        ('{"name": "@cf/other/model\\n", "dim": 5}', "name: "),
        ('{"name": "@cf/other/model", "dim": 1537}', "dim: "),
        ('{"name": "@cf/other/model", "dim": 5, "pooling": "max"}', "pooling: "),
        ('{"name": "@cf/other/model", "dim": 5, "poling": "cls"}', "poling: "),
        ('{"name": "@cf/other/model", "dim": 5, "texts_per_call": 101}', "texts_per_call: "),
    ],
)
def test_what_cant_be_a_model_is_refused_by_name(text: str, says: str):
    with pytest.raises(NotConfigured, match="MODEL") as refused:
        model_named(text)
    assert says in refused.value.message
    json.dumps(refused.value.as_dict())
