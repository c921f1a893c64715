"""Make the default model's centring file and measure its calibration.

    python -m bench.make_means [--out FILE] [--cache-dir DIR]

Means: of the languages' means, a role each, so that no language counts for more than another. Axes: orthonormal,
spanning the differences between the languages' means (six languages leave five). Prints the calibration that
belongs into shoal.local.embedding.descriptor. A new file means a new fingerprint: every vector is made again.
"""

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from platformdirs import user_cache_path

from bench.generic_text import LANGUAGES, load_pairs, load_passages, load_queries
from bench.vectors import RawModel, unit
from shoal.core.calibrating import measure
from shoal.core.protocols import Role
from shoal.local.embedding.centring import Centring
from shoal.local.embedding.descriptor import E5_SMALL_Q4

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DECIMALS: Final = 6
"""So that another processor's last bits don't make another file."""


def centring_arrays(
    queries: "Mapping[str, NDArray[np.float32]]", passages: "Mapping[str, NDArray[np.float32]]"
) -> "dict[str, NDArray[np.float32]]":
    """Return `query` [dim], `passage` [dim] and `axes` [languages - 1, dim] from raw vectors a language [n, dim]."""
    query_means = np.stack([queries[language].mean(axis=0) for language in queries])
    passage_means = np.stack([passages[language].mean(axis=0) for language in queries])
    query, passage = query_means.mean(axis=0), passage_means.mean(axis=0)
    differences = (query_means - query) + (passage_means - passage)
    axes = np.linalg.svd(differences, full_matrices=False)[2][: len(queries) - 1]
    arrays = {Role.QUERY.value: query, Role.PASSAGE.value: passage, "axes": axes}
    return {name: np.round(array, _DECIMALS).astype(np.float32) for name, array in arrays.items()}


async def _make(out: Path, cache_dir: Path) -> None:
    model = RawModel(cache_dir)
    try:
        queries = {language: await model.vectors(load_queries(language)) for language in LANGUAGES}
        passages = {language: await model.vectors(load_passages(language)) for language in LANGUAGES}
        pairs = load_pairs()
        pair_queries = await model.vectors([text for texts in pairs.queries.values() for text in texts])
        pair_passages = await model.vectors([text for texts in pairs.passages.values() for text in texts])
    finally:
        model.close()
    arrays = centring_arrays(queries, passages)
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    centring = Centring(out)
    calibration = measure(
        unit(centring.apply(pair_queries, Role.QUERY)).tolist(),
        unit(centring.apply(pair_passages, Role.PASSAGE)).tolist(),
        len(pairs.queries["en"]),
    )
    texts = sum(len(vectors) for vectors in (*queries.values(), *passages.values()))
    print(f"{out}: {texts} texts, {len(arrays['axes'])} axes\n{calibration}")


def main() -> None:
    """Parse the arguments and make the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=E5_SMALL_Q4.centring)
    parser.add_argument("--cache-dir", type=Path, default=user_cache_path("shoal"))
    arguments = parser.parse_args()
    asyncio.run(_make(arguments.out, arguments.cache_dir))


if __name__ == "__main__":
    main()
