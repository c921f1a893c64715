"""Compare prefixes and centrings of the default model, vectors alone.

    python -m bench.compare_centring --locomo FILE --madial FOLDER [--cache-dir DIR]

Columns: LoCoMo R@10 with the turn's vector and with that of the previous turn and the turn; MADial-Bench R@10 in
English and Chinese; recall@1 of our own pairs within and across two languages (each against one language's
answers) and against the answers in both; the calibration; and d', the distance between the cosines of related
and unrelated pairs in standard deviations of the unrelated ones, both languages mixed: how well one threshold
can tell them apart.
"""

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from platformdirs import user_cache_path

from bench.datasets import Collection, load_locomo, load_madial
from bench.generic_text import LANGUAGES, PAIR_LANGUAGES, load_pairs, load_passages, load_queries
from bench.make_means import centring_arrays
from bench.metrics import mean, recall_at
from bench.vectors import RawModel, unit
from shoal.core.calibrating import measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_K: Final = 10
_PREFIXES: Final = {"query: on both": ("query: ", "query: "), "query:/passage:": ("query: ", "passage: ")}
_HEADINGS: Final = ("turn", "prev+turn", "MADial en", "MADial zh", "en-en", "zh-zh", "en-zh", "zh-en", "mixed")


@dataclass(frozen=True, slots=True)
class Variant:
    """One centring: what is subtracted a role, and the axes that are projected out, [k, dim]."""

    name: str
    query: "Matrix"
    passage: "Matrix"
    axes: "Matrix"

    def queries(self, raw: "Matrix") -> "Matrix":
        """Centre raw vectors of queries."""
        return self._apply(raw - self.query)

    def passages(self, raw: "Matrix") -> "Matrix":
        """Centre raw vectors of passages."""
        return self._apply(raw - self.passage)

    def _apply(self, centred: "Matrix") -> "Matrix":
        return unit(centred - (centred @ self.axes.T) @ self.axes)


@dataclass(frozen=True, slots=True)
class Judged:
    """A collection's raw vectors and what is relevant."""

    queries: "Matrix"
    passages: "Matrix"
    relevant: list[set[int]]


@dataclass(frozen=True, slots=True)
class Measured:
    """All raw vectors under one pair of prefixes."""

    generic_queries: "dict[str, Matrix]"
    generic_passages: "dict[str, Matrix]"
    turns: list[Judged]
    contexts: list[Judged]
    madial: list[Judged]
    pair_queries: "dict[str, Matrix]"
    pair_passages: "dict[str, Matrix]"


def variants(queries: "dict[str, Matrix]", passages: "dict[str, Matrix]") -> list[Variant]:
    """Return the centrings to compare, made from raw vectors of generic text a language."""
    arrays = centring_arrays(queries, passages)
    query, passage, axes = arrays["query"], arrays["passage"], arrays["axes"]
    zero, no_axes = np.zeros_like(query), axes[:0]
    one = np.concatenate([*queries.values(), *passages.values()]).mean(axis=0)
    return [
        Variant("none", zero, zero, no_axes),
        Variant("one mean", one, one, no_axes),
        Variant("one mean, language axes", one, one, axes),
        Variant("mean a role", query, passage, no_axes),
        Variant("mean a role, language axes", query, passage, axes),
    ]


def _recall(judged: list[Judged], variant: Variant) -> float:
    values: list[float] = []
    for part in judged:
        cosines = variant.queries(part.queries) @ variant.passages(part.passages).T
        for row, relevant in zip(cosines, part.relevant, strict=True):
            values.append(recall_at(np.argsort(-row)[:_K].tolist(), relevant, _K))
    return mean(values)


def _row(measured: Measured, variant: Variant) -> str:
    recalls = [_recall(part, variant) for part in (measured.turns, measured.contexts)]
    recalls += [_recall([part], variant) for part in measured.madial]
    queries = {language: variant.queries(raw) for language, raw in measured.pair_queries.items()}
    passages = {language: variant.passages(raw) for language, raw in measured.pair_passages.items()}
    meanings = len(queries["en"])
    for asked, answered in (("en", "en"), ("zh", "zh"), ("en", "zh"), ("zh", "en")):
        best = (queries[asked] @ passages[answered].T).argmax(axis=1)
        recalls.append(float((best == np.arange(meanings)).mean()))
    all_queries, all_passages = np.concatenate([*queries.values()]), np.concatenate([*passages.values()])
    cosines = all_queries @ all_passages.T
    number = np.arange(len(all_queries)) % meanings
    recalls.append(float((cosines.argmax(axis=1) % meanings == number).mean()))
    calibration = measure(all_queries.tolist(), all_passages.tolist(), meanings)
    unrelated = cosines[number[:, None] != number[None, :]]
    distance = (calibration.related - unrelated.mean()) / unrelated.std()
    cells = " | ".join(f"{value:.3f}" for value in recalls)
    return f"{cells} | {calibration.unrelated:.3f} | {calibration.related:.3f} | {distance:.2f}"


async def _measure(
    query_model: RawModel, passage_model: RawModel, locomo: list[Collection], madial: list[Collection]
) -> Measured:
    async def judge(collection: Collection, texts: list[str]) -> Judged:
        place = {memory.key: number for number, memory in enumerate(collection.memories)}
        return Judged(
            await query_model.vectors([question.text for question in collection.questions]),
            await passage_model.vectors(texts),
            [{place[key] for key in question.relevant} for question in collection.questions],
        )

    pairs = load_pairs()
    return Measured(
        {language: await query_model.vectors(load_queries(language)) for language in LANGUAGES},
        {language: await passage_model.vectors(load_passages(language)) for language in LANGUAGES},
        [await judge(part, [memory.content for memory in part.memories]) for part in locomo],
        [await judge(part, _after_previous(part)) for part in locomo],
        [await judge(part, [memory.content for memory in part.memories]) for part in madial],
        {language: await query_model.vectors(pairs.queries[language]) for language in PAIR_LANGUAGES},
        {language: await passage_model.vectors(pairs.passages[language]) for language in PAIR_LANGUAGES},
    )


def _after_previous(collection: Collection) -> list[str]:
    texts: list[str] = []
    previous = None
    for memory in collection.memories:
        same = previous is not None and previous.conversation_id == memory.conversation_id
        texts.append(f"{previous.content}\n{memory.content}" if previous and same else memory.content)
        previous = memory
    return texts


async def _compare(locomo: Path, madial: Path, cache_dir: Path) -> None:
    conversations = load_locomo(locomo)
    dialogues = [load_madial(madial, language) for language in ("en", "zh")]
    print("| prefix | centring |", " | ".join((*_HEADINGS, "unrelated", "related", "d'")), "|")
    print("|" + "---|" * (len(_HEADINGS) + 5))
    for label, (query_prefix, passage_prefix) in _PREFIXES.items():
        query_model, passage_model = RawModel(cache_dir, query_prefix), RawModel(cache_dir, passage_prefix)
        try:
            measured = await _measure(query_model, passage_model, conversations, dialogues)
        finally:
            query_model.close()
            passage_model.close()
        for variant in variants(measured.generic_queries, measured.generic_passages):
            print(f"| {label} | {variant.name} | {_row(measured, variant)} |")


def main() -> None:
    """Parse the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, required=True, help="LoCoMo's JSON file")
    parser.add_argument("--madial", type=Path, required=True, help="MADial-Bench's folder")
    parser.add_argument("--cache-dir", type=Path, default=user_cache_path("shoal"))
    arguments = parser.parse_args()
    asyncio.run(_compare(arguments.locomo, arguments.madial, arguments.cache_dir))


if __name__ == "__main__":
    main()
