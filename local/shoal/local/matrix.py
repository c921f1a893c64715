"""One bit a dimension of every vector, in memory: which are probably near, in about a millisecond for 100,000.

The bit says whether a number lies above the mean of its dimension, and the distance is the number of bits that
differ. Against the plain sign this matters: the vectors of many models share a large common part. On 7,839 real
ones with a mean cosine of .84, 256 candidates held .86 of the true nearest ten by the sign and .994 by the mean.

Imported on first use, as numpy costs start-up time and memory that a small database needn't pay.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_WORD_BITS: Final = 64
_GROWTH: Final = 1.5
_ROWS_MIN: Final = 4_096

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]


class BitMatrix:
    """Keys and their bits, in the order of arrival. A key that came again or went stays as a ghost.

    Rows are only ever added, behind those that a search in another thread may be looking at.
    """

    def __init__(self, mean: Floats) -> None:
        """Take the mean from a sample of the vectors; it needn't be exact."""
        self.size = 0
        self._mean = mean
        words = -(-len(mean) // _WORD_BITS)
        self._keys: Keys = np.empty(_ROWS_MIN, np.int64)
        # Column by column: each pass reads memory in sequence.
        self._bits: NDArray[np.uint64] = np.empty((words, _ROWS_MIN), np.uint64)

    def append(self, keys: Keys, vectors: Floats) -> None:
        """Add rows; `vectors` has one for each key."""
        end = self.size + len(keys)
        if end > len(self._keys):
            self._grow(max(end, int(len(self._keys) * _GROWTH)))
        self._keys[self.size : end] = keys
        self._bits[:, self.size : end] = self._pack(vectors).T
        self.size = end

    def nearest(self, query: Floats) -> Keys:
        """Return all keys, the probably nearest first."""
        size = self.size
        bits = self._pack(query[np.newaxis])[0]
        differ = np.zeros(size, np.uint16)
        for column, word in zip(self._bits, bits, strict=True):
            differ += np.bitwise_count(column[:size] ^ word)
        # A stable sort of 16-bit numbers is a radix sort: as fast as a partition.
        return self._keys[np.argsort(differ, kind="stable")]

    def _pack(self, vectors: Floats) -> NDArray[np.uint64]:
        octets = np.packbits(vectors > self._mean, axis=1)
        padding = len(self._bits) * (_WORD_BITS // 8) - octets.shape[1]
        return np.pad(octets, ((0, 0), (0, padding))).view(np.uint64)

    def _grow(self, rows: int) -> None:
        # New arrays, never resized in place: another thread may read the old ones.
        self._keys = np.concatenate([self._keys, np.empty(rows - len(self._keys), np.int64)])
        more = np.empty((len(self._bits), rows - self._bits.shape[1]), np.uint64)
        self._bits = np.concatenate([self._bits, more], axis=1)
