"""Measures of a ranked list against the set of relevant items, each 0..1; `relevant` must not be empty."""

from collections.abc import Collection, Hashable, Sequence
from math import log2


def recall_at(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return the share of the relevant items among the first k."""
    return len(_found(ranked, relevant, k)) / len(set(relevant))


def hit_at(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return 1 when at least one relevant item is among the first k, else 0."""
    return float(bool(_found(ranked, relevant, k)))


def all_at(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return 1 when every relevant item is among the first k, else 0."""
    return float(len(_found(ranked, relevant, k)) == len(set(relevant)))


def ndcg_at(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first k, with gains 0 and 1.

    DCG = sum of 1 / log2(rank + 1) over relevant items (ranks from 1), divided by that of the best order
    (Järvelin and Kekäläinen, 2002).
    """
    wanted = set(relevant)
    gain = sum(1 / log2(rank + 1) for rank, item in enumerate(ranked[:k], 1) if item in wanted)
    return gain / sum(1 / log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def _found(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> set[Hashable]:
    return set(ranked[:k]) & set(relevant)
