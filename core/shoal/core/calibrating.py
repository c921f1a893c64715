"""What a model's cosines mean, measured once where the model runs: thresholds never travel between models."""

import json
from collections.abc import Sequence
from itertools import chain
from operator import mul
from typing import Any, Final, cast

from shoal.core.calibration_pairs import PASSAGES, QUERIES
from shoal.core.cells import compact_json
from shoal.core.context import Context
from shoal.core.protocols import Calibration, Role, SqlValue, Statement, Vector

_TWENTIETHS: Final = 20
_UNRELATED: Final = 18
"""Of 19 cuts into twentieths the last: the 95th percentile."""
_DIGITS: Final = 3
_KEEP: Final = "insert into meta (k, v) values ('calibration', ?1) on conflict (k) do update set v = excluded.v"


def measure(queries: Sequence[Vector], passages: Sequence[Vector], meanings: int) -> Calibration:
    """Return what cosines mean, from unit vectors of questions and of the passages that answer them.

    Row i and row i + meanings mean the same in another language; every such pair counts as related.
    """
    from statistics import median, quantiles  # done once a model, while a Worker would pay for it at each start

    related: list[float] = []
    unrelated: list[float] = []
    for i, query in enumerate(queries):
        for j, passage in enumerate(passages):
            (related if i % meanings == j % meanings else unrelated).append(sum(map(mul, query, passage)))
    high = quantiles(unrelated, n=_TWENTIETHS, method="inclusive")[_UNRELATED]
    return Calibration(unrelated=round(high, _DIGITS), related=round(median(related), _DIGITS))


async def ensure(context: Context) -> bool:
    """Measure the model in use and keep the figures, unless that was done; return whether it was done now.

    Embeds 184 short texts, once a model. Raises ModelError, StorageError.
    """
    embedder = context.embedder
    if embedder is None:
        return False
    rows = await context.database.query("select v from meta where k = 'calibration'")
    if rows and _told(rows[0]["v"])["fingerprint"] == embedder.fingerprint:
        return False
    queries = await embedder.embed(list(chain.from_iterable(QUERIES.values())), Role.QUERY)
    passages = await embedder.embed(list(chain.from_iterable(PASSAGES.values())), Role.PASSAGE)
    measured = _of_languages(queries, passages)
    figures = None if measured is None else {"unrelated": measured.unrelated, "related": measured.related}
    told = compact_json({"fingerprint": embedder.fingerprint, "figures": figures})
    await context.database.batch([Statement(_KEEP, (told,))])
    return True


def _of_languages(queries: Sequence[Vector], passages: Sequence[Vector]) -> Calibration | None:
    """Return the figures of all languages together, else of the first alone, which a model of one language knows.

    None for a model that tells nothing apart.
    """
    meanings = len(QUERIES["en"])
    for rows in (len(queries), meanings):
        measured = measure(queries[:rows], passages[:rows], meanings)
        if measured.related > measured.unrelated:
            return measured
    return None


def kept(value: SqlValue, fingerprint: str) -> Calibration | None:
    """Return the figures in meta 'calibration'; None where they are another model's, or where there are none."""
    told = _told(value)
    figures = told["figures"] if told["fingerprint"] == fingerprint else None
    return None if figures is None else Calibration(**figures)


def _told(value: SqlValue) -> dict[str, Any]:
    return {"fingerprint": None, "figures": None} if value is None else json.loads(cast("str", value))
