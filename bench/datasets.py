"""Retrieval data sets as plain dataclasses. The data is passed by path and never copied into the project.

LoCoMo (github.com/snap-research/LoCoMo, CC BY-NC 4.0): long conversations of two people in sessions, with
questions and the turns that answer them. MADial-Bench (github.com/hejunqing/MADial-Bench, MIT): dialogues in
which an assistant should recall one of a person's memories.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

LOCOMO_CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN_ID = re.compile(r"D:?(\d+):0*(\d+)")
"""Evidence is written by hand: `D1:3`, `D:1:3`, `D1:03`, several in one string."""
_SPOKEN_LINE = re.compile(r'^<([^>]+)>\s*[:：]\s*["“]?(.*?)["”]?$', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory to store. `key` names it inside its collection."""

    key: str
    content: str
    occurred_at: datetime | None = None
    conversation_id: str | None = None
    position: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One query and the keys of the memories that answer it (at least one)."""

    text: str
    relevant: frozenset[str]
    category: str


@dataclass(frozen=True, slots=True)
class Collection:
    """What one space holds and what is asked of it."""

    name: str
    memories: tuple[Memory, ...]
    questions: tuple[Question, ...]


def load_locomo(path: Path) -> list[Collection]:
    """Load LoCoMo at turn level: a collection a conversation, a memory a turn.

    A memory's conversation is its session, its position the turn's number there. Questions whose evidence
    names no turn that exists are left out.
    """
    return [_locomo_collection(sample) for sample in json.loads(path.read_text(encoding="utf-8"))]


def _locomo_collection(sample: dict[str, Any]) -> Collection:
    conversation = sample["conversation"]
    memories: list[Memory] = []
    for number in _session_numbers(conversation):
        when = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for turn in conversation[f"session_{number}"]:
            memories.append(_locomo_turn(turn, sample["sample_id"], when.replace(tzinfo=UTC)))
    known = {memory.key for memory in memories}
    questions: list[Question] = []
    for item in sample["qa"]:
        relevant = turn_keys(item.get("evidence", ())) & known
        if relevant:
            questions.append(Question(str(item["question"]), relevant, LOCOMO_CATEGORIES[item["category"]]))
    return Collection(sample["sample_id"], tuple(memories), tuple(questions))


def _session_numbers(conversation: dict[str, Any]) -> list[int]:
    return sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))


def _locomo_turn(turn: dict[str, Any], sample_id: str, when: datetime) -> Memory:
    match = _TURN_ID.fullmatch(turn["dia_id"])
    if match is None:
        raise ValueError(f"{sample_id}: {turn['dia_id']!r} is no turn id")
    session, position = match.groups()
    caption = turn.get("blip_caption")
    shared = f" [shares a photo: {caption}]" if caption else ""
    return Memory(
        key=f"D{session}:{position}",
        content=f"{turn['speaker']}: {turn['text']}{shared}",
        occurred_at=when,
        conversation_id=f"{sample_id}/{session}",
        position=int(position),
    )


def turn_keys(evidence: Iterable[object]) -> frozenset[str]:
    """Return the turn keys (`D<session>:<turn>`, no leading zeros) that a list of evidence names."""
    return frozenset(f"D{s}:{t}" for entry in evidence for s, t in _TURN_ID.findall(str(entry)))


def load_madial(folder: Path, language: str) -> Collection:
    """Load one language (`en` or `zh`) of MADial-Bench: every memory, a question a dialogue.

    The question is the turns before the first test turn, a line each, without the speakers' names. Before a
    later test turn the assistant has told the memory already, so it would answer its own question.
    """
    memories = tuple(
        _madial_memory(key, fields)
        for record in _json_lines(folder / f"{language}_memory.jsonl")
        for key, fields in record.items()
    )
    known = {memory.key for memory in memories}
    questions: list[Question] = []
    for record in _json_lines(folder / f"{language}_dialogue.jsonl"):
        relevant = frozenset(str(key) for key in record["relevant-id"]) & known
        if relevant:
            before = record["dialogue"][1 : record["test-turn"][0]]
            questions.append(Question("\n".join(map(_spoken, before)), relevant, language))
    return Collection(f"madial-{language}", memories, tuple(questions))


def _madial_memory(key: str, fields: dict[str, Any]) -> Memory:
    when = re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", str(fields["time"]).strip())
    return Memory(
        key=key,
        content=f"{fields['event']} ({fields['time']}, {fields['scene']}, {fields['emotion']})",
        occurred_at=datetime(*map(int, when.groups()), tzinfo=UTC) if when else None,
    )


def _spoken(line: str) -> str:
    match = _SPOKEN_LINE.match(line.strip())
    return match.group(2) if match else line.strip()


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
