"""What every vector index demands of a vector."""

from operator import mul
from typing import Final

from shoal.core.protocols import Vector

NORM_TOLERANCE: Final = 0.01
"""Rounding to 32 bits, or to a model's own 4, moves a norm by far less; a vector that is not normalised, by more."""


def check_vector(vector: Vector, dim: int) -> None:
    """Raise ValueError unless the vector has `dim` numbers and length 1: a fault of the program that made it."""
    if len(vector) != dim:
        raise ValueError(f"a vector of length {len(vector)}; the model's have {dim}")
    squares = sum(map(mul, vector, vector))
    # Written so that NaN fails too.
    if not abs(squares - 1) <= 2 * NORM_TOLERANCE:
        raise ValueError(f"not a unit vector: the sum of its squares is {squares}")
