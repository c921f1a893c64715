"""Which texts run together: few, and of like length, so that little is padded and memory stays flat."""

from collections.abc import Iterator, Sequence
from typing import Final

BATCH_TEXTS: Final = 4
"""On one core 1 to 4 texts a run make 87 a second and 32 make 72, with 110 MB more memory."""
BATCH_BYTES: Final = 4096
"""Texts times the longest one's bytes in one run: about 1,000 tokens. Attention needs memory with the square of
the length: four texts of 512 tokens took 60 MB more than one, sixteen 540 MB."""


def batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the texts' positions in batches, shortest texts first; every position once."""
    # Bytes, not characters: a token is about four bytes in English and in Chinese alike.
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    batch: list[int] = []
    for number in sorted(range(len(texts)), key=sizes.__getitem__):
        if batch and (len(batch) == BATCH_TEXTS or (len(batch) + 1) * sizes[number] > BATCH_BYTES):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
