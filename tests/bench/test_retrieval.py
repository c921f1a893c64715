"""The retrieval benchmark asks the real service and averages by group. The collection is made up."""

from datetime import UTC, datetime

import apsw
from bench.datasets import Collection, Memory, Question
from bench.retrieval import HEADINGS, MODES, Outcome, ask, averages, plant

from shoal.core.fakes import FakeDatabase, FakeEmbedder, FakeVectorIndex
from shoal.core.service import open_memory

WHEN = datetime(2024, 5, 1, tzinfo=UTC)
TALK = Collection(
    name="talk",
    memories=(
        Memory("D1:1", "Ada: I keep bees on the roof", WHEN, "talk/1", 1),
        Memory("D1:2", "Bo: How lovely", WHEN, "talk/1", 2),
        Memory("8", "A note about trains", WHEN),
    ),
    questions=(Question("Who keeps bees?", frozenset({"D1:1"}), "single-hop"),),
)


async def test_a_planted_collection_is_asked_in_every_mode():
    connection = apsw.Connection(":memory:")
    database = FakeDatabase(connection)
    service = await open_memory(
        database, FakeVectorIndex(database), FakeEmbedder(), clock=lambda: 1_750_000_000_000, new_device="0000beef"
    )
    keys = await plant(service, TALK)
    assert sorted(keys.values()) == ["8", "D1:1", "D1:2"]
    outcomes = await ask(service, TALK, keys, list(MODES))
    assert [outcome.mode for outcome in outcomes] == list(MODES)
    assert outcomes[0].figures == (1.0,) * len(HEADINGS)


def test_figures_are_averaged_by_collection_and_for_locomo_by_category_and_as_a_whole():
    def outcome(collection, category, value):
        return [Outcome(collection, category, mode, (value,)) for mode in MODES]

    outcomes = [*outcome("conv-1", "temporal", 1.0), *outcome("conv-2", "open-domain", 0.5)]
    figures = averages([*outcomes, *outcome("madial-en", "en", 0.0)], list(MODES))
    assert list(figures) == ["locomo", "madial_en"]
    assert figures["locomo"]["hybrid"] == {
        "overall": {"R@5": 0.75, "n": 2},
        "3": {"R@5": 0.5, "n": 1},
        "2": {"R@5": 1.0, "n": 1},
    }
    assert figures["madial_en"]["lexical"] == {"overall": {"R@5": 0.0, "n": 1}}
