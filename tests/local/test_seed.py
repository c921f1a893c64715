import json
from collections import Counter
from pathlib import Path

import pytest

from shoal.local.seed import DEFAULT, SEED_BATCH, parse_seed, plant, read_seed
from shoal.schema.errors import InvalidTag, NotFound
from shoal.schema.models import StoreAnswer, StoreBatchAnswer, Stored, StoreRequest, StoreStatus
from shoal.schema.ontology import Ontology

ONTOLOGY = Ontology.builtin()


class Memory:
    """Takes what is stored, and refuses a tag."""

    def __init__(self) -> None:
        self.requests: list[StoreRequest] = []

    async def store(self, asked: StoreRequest) -> StoreAnswer | StoreBatchAnswer:
        items = asked.items or []
        if any(item.tags == "bad" for item in items):
            raise InvalidTag("That tag is bad.", "Choose another.")
        self.requests.append(asked)
        one = Stored(success=True, id="", content_hash="", type="", tags=[], status=StoreStatus.CREATED)
        return StoreBatchAnswer(success=True, results=[one] * len(items))


def lines(*rows: object) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)


def test_a_line_becomes_a_memory() -> None:
    row = {
        "type": "semantic",
        "content": "内容",
        "entities": ["a"],
        "occurredAt": "2026-01-02T03:04:05Z",
        "attachmentUri": "file:///x.png",
        "tags": ["t"],
    }
    ((number, item),) = parse_seed(lines(row), ONTOLOGY).lines
    assert number == 1
    assert (item.content, item.type, item.entities, item.tags) == ("内容", "learning", ["a"], ["t"])
    assert (item.occurred_at, item.metadata, item.source) == (
        "2026-01-02T03:04:05Z",
        {"attachment_uri": "file:///x.png"},
        "seed",
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{nonsense", "not JSON"),
        ("[1]", "not an object"),
        ({"type": "note"}, "content is empty"),
        ({"content": "  "}, "content is empty"),
        ({"content": 5}, "content is empty"),
        ({"content": "x", "type": "nonsense"}, "'nonsense' is not a type"),
        ({"content": "x", "type": 5}, "type is not a word"),
        ({"content": "x", "tags": 5}, "tags"),
    ],
)
def test_a_bad_line_is_skipped_and_named(row: object, reason: str) -> None:
    seed = parse_seed(lines({"content": "good"}, "", row, {"content": "good too"}), ONTOLOGY)
    assert [line.number for line in seed.lines] == [1, 4]
    (warning,) = seed.warnings
    assert warning.startswith("Line 3 was skipped: ")
    assert reason in warning


def test_a_line_separator_inside_a_text_does_not_cut_the_line() -> None:
    (line,) = parse_seed(lines({"content": "a\u2028b"}), ONTOLOGY).lines
    assert line.item.content == "a\u2028b"


def test_the_shipped_memories_are_a_dozen_in_two_languages_without_a_fault() -> None:
    seed = read_seed(DEFAULT, ONTOLOGY)
    assert seed.warnings == []
    assert len(seed.lines) == 12
    assert sum(not line.item.content.isascii() for line in seed.lines) >= 3


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="missing"):
        read_seed(str(tmp_path / "missing.jsonl"), ONTOLOGY)


async def test_portions_are_bounded_in_number_and_bytes() -> None:
    memory = Memory()
    short = [{"content": f"{n}"} for n in range(SEED_BATCH + 1)]
    long = [{"content": f"{n}" + "長" * 40_000} for n in range(3)]
    done: list[int] = []
    seed = parse_seed(lines(*short, *long), ONTOLOGY)
    counts = await plant(seed, memory.store, "work", done.append)
    assert counts == Counter({StoreStatus.CREATED: SEED_BATCH + 4})
    assert done == [SEED_BATCH, 3, 1]
    assert {request.space for request in memory.requests} == {"work"}


async def test_a_memory_that_is_refused_takes_no_other_with_it() -> None:
    seed = parse_seed(lines({"content": "a"}, {"content": "b", "tags": "bad"}, {"content": "c"}), ONTOLOGY)
    counts = await plant(seed, Memory().store, "main")
    assert counts[StoreStatus.CREATED] == 2
    assert seed.warnings == ["Line 2 was skipped: That tag is bad."]
