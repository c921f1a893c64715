"""Centring: take out of a vector what all texts share, and which language it is in.

Raw cosines of multilingual-e5-small lie between .69 and .86 whatever the texts say, and two texts in one
language look more alike than a question and its answer in two. So we subtract the mean of generic text, one mean
a role because questions and statements sit apart, and project out the axes along which the means of languages
differ: v' = (I - A^T A)(v - mean), scaled to length 1, as in Mu and Viswanath, "All-but-the-Top" (2018), with
axes from the languages' means instead of principal components. File: .npz with float32 `query` [dim], `passage`
[dim], `axes` [k, dim] (orthonormal rows). Made by bench/make_means.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.protocols import Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Centring:
    """One centring file, ready to apply."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        with np.load(path, allow_pickle=False) as arrays:
            self._axes: NDArray[np.float32] = arrays["axes"].astype(np.float32)
            self._means: dict[Role, NDArray[np.float32]] = {
                role: arrays[role.value].astype(np.float32) for role in Role
            }

    def apply(self, vectors: "NDArray[np.float32]", role: Role) -> "NDArray[np.float32]":
        """Return the centred vectors [n, dim], not yet of length 1."""
        import numpy as np

        centred = vectors - self._means[role]
        return np.subtract(centred, (centred @ self._axes.T) @ self._axes, dtype=np.float32)
