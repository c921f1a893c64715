"""How well `find` finds, by words, by vectors and by both, on data that is passed by path.

    python -m bench.retrieval --locomo FILE --madial FOLDER --modes lexical,vector,hybrid --json OUT

LoCoMo at turn level: each turn is a memory, each conversation a space, each session a conversation. MADial-Bench:
the query is a dialogue so far, the memories are unrelated to one another. The product's own service is asked, in
this process, with the settings' model; all collections lie in one database.
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import track

from bench.datasets import LOCOMO_CATEGORIES, Collection, Memory, load_locomo, load_madial
from bench.harness import machine, report, write_json
from bench.metrics import all_at, hit_at, mean, ndcg_at, recall_at
from shoal.core.caller import Caller
from shoal.core.finding import ALL_CHANNELS, Channel
from shoal.core.service import Memory as Service
from shoal.local.home import Home
from shoal.local.runtime import open_runtime
from shoal.local.settings import load
from shoal.schema.limits import BATCH_MAX
from shoal.schema.models import FindRequest, StoreBatchAnswer, StoreItem, StoreRequest

MODES: Final = {
    "lexical": frozenset({Channel.LEXICAL}),
    "vector": frozenset({Channel.VECTOR}),
    "hybrid": ALL_CHANNELS,
}
NAMES: Final = {str(number): name for number, name in LOCOMO_CATEGORIES.items()}
"""LoCoMo's categories by their numbers in its file."""
NUMBERS: Final = {name: number for number, name in NAMES.items()}
RESULTS: Final = 10
EMBED_BATCH: Final = 32
CALLER: Final = Caller(time_zone="UTC", client="bench")
HEADINGS: Final = ("R@5", "R@10", "hit@10", "all@10", "nDCG@10")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question asked in one mode; `figures` in the order of HEADINGS."""

    collection: str
    category: str
    mode: str
    figures: tuple[float, ...]


async def plant(service: Service, collection: Collection) -> dict[str, str]:
    """Store a collection in a space of its name and embed it. Return the key of each memory's id."""
    keys: dict[str, str] = {}
    for start in range(0, len(collection.memories), BATCH_MAX):
        batch = collection.memories[start : start + BATCH_MAX]
        request = StoreRequest(items=[_item(memory) for memory in batch], space=collection.name)
        answer = await service.store(request, CALLER)
        if not isinstance(answer, StoreBatchAnswer):
            raise TypeError("a batch was stored and one answer came")
        keys |= {stored.id: memory.key for stored, memory in zip(answer.results, batch, strict=True)}
    while await service.embed_pending(EMBED_BATCH):
        pass
    return keys


def _item(memory: Memory) -> StoreItem:
    return StoreItem(
        content=memory.content,
        type="conversation_turn" if memory.conversation_id else None,
        occurred_at=memory.occurred_at.isoformat() if memory.occurred_at else None,
        conversation_id=memory.conversation_id,
        position=memory.position,
    )


async def ask(service: Service, collection: Collection, keys: Mapping[str, str], modes: Sequence[str]) -> list[Outcome]:
    """Ask every question of a planted collection in every mode."""
    outcomes: list[Outcome] = []
    for question in track(collection.questions, description=collection.name, console=Console(stderr=True)):
        request = FindRequest(query=question.text, n_results=RESULTS, space=collection.name)
        for mode in modes:
            answer = await service.find(request, CALLER, MODES[mode])
            ranked = [keys[result.id] for result in answer.results]
            figures = (
                recall_at(ranked, question.relevant, 5),
                recall_at(ranked, question.relevant, 10),
                hit_at(ranked, question.relevant, 10),
                all_at(ranked, question.relevant, 10),
                ndcg_at(ranked, question.relevant, 10),
            )
            outcomes.append(Outcome(collection.name, question.category, mode, figures))
    return outcomes


async def measure(collections: Sequence[Collection], modes: Sequence[str]) -> list[Outcome]:
    """Plant all collections in a database of their own, then ask."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as home:
        async with open_runtime(load(Home(Path(home)))) as runtime:
            if runtime.embedder is None:
                raise click.ClickException("No embedding model: vectors can't be measured.")
            planted = [(collection, await plant(runtime.memory, collection)) for collection in collections]
            return [
                outcome
                for collection, keys in planted
                for outcome in await ask(runtime.memory, collection, keys, modes)
            ]


def averages(outcomes: Sequence[Outcome], modes: Sequence[str]) -> dict[str, Any]:
    """Return {"locomo": {mode: {"overall": figures, category: figures}}, "madial_en": ..., ...}."""
    result: dict[str, Any] = {}
    for outcome in outcomes:
        is_locomo = not outcome.collection.startswith("madial")
        name = "locomo" if is_locomo else outcome.collection.replace("-", "_")
        by_mode = result.setdefault(name, {mode: {} for mode in modes})
        groups = ("overall", NUMBERS[outcome.category]) if is_locomo else ("overall",)
        for group in groups:
            by_mode[outcome.mode].setdefault(group, []).append(outcome.figures)
    return {
        name: {
            mode: {group: _figures(members) for group, members in sorted(groups.items(), reverse=True)}
            for mode, groups in by_mode.items()
        }
        for name, by_mode in result.items()
    }


def _figures(members: Sequence[tuple[float, ...]]) -> dict[str, float]:
    means = (round(mean(column), 4) for column in zip(*members, strict=True))
    return {**dict(zip(HEADINGS, means, strict=False)), "n": len(members)}


def _modes(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(value.split(",")))
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}; use {', '.join(MODES)}")
    return modes


@click.command(help=__doc__)
@click.option("--locomo", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="LoCoMo's JSON file.")
@click.option("--madial", type=click.Path(exists=True, file_okay=False, path_type=Path), help="MADial's folder.")
@click.option("--modes", default=",".join(MODES), show_default=True, callback=_modes, help="What to measure.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(locomo: Path | None, madial: Path | None, modes: tuple[str, ...], json_path: Path | None) -> None:
    """Measure retrieval and print the tables."""
    if locomo is None and madial is None:
        raise click.UsageError("Give --locomo, --madial or both: the data is not part of shoal.")
    collections = load_locomo(locomo) if locomo else []
    collections += [load_madial(madial, language) for language in ("en", "zh")] if madial else []
    computer = machine()
    figures = averages(asyncio.run(measure(collections, modes)), modes)
    rows = [
        (name, NAMES.get(group, group), mode, *row.values())
        for name, by_mode in figures.items()
        for group in next(iter(by_mode.values()))
        for mode, row in ((mode, by_mode[mode][group]) for mode in modes)
    ]
    report(computer, ("data", "questions", "mode", *HEADINGS, "n"), rows)
    write_json(json_path, {"machine": computer, **figures})


if __name__ == "__main__":
    main()
