from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shoal.local.embedding import weights
from shoal.schema.errors import WeightsMismatch


def test_the_wheel_holds_the_weights_that_were_tested(wheel_weights: Path):
    weights.check_weights(wheel_weights)


def test_the_file_says_its_sizes(wheel_weights: Path):
    parsed = weights.read_weights(wheel_weights)
    assert parsed.shape == weights.Shape(384, 12, 12, 1536, 250_037, 512, pytest.approx(1e-12))
    assert len(parsed.pieces) == 250_002
    assert [piece for piece, _ in parsed.pieces[:5]] == ["<s>", "<pad>", "</s>", "<unk>", ","]


def test_the_weights_fill_the_places_that_the_graph_names(wheel_weights: Path):
    arrays = weights.onnx_arrays(weights.read_weights(wheel_weights))
    assert sum(array.nbytes for _, array in arrays) == weights.DATA_BYTES


def test_other_weights_are_refused_with_both_checksums(tmp_path: Path):
    other = tmp_path / "other.bin"
    other.write_bytes(b"E5S1 but not ours")
    with pytest.raises(WeightsMismatch, match=weights.WEIGHTS_SHA256[:12]) as caught:
        weights.convert(other, tmp_path)
    assert caught.value.details["path"] == str(other)


def test_another_format_is_refused(tmp_path: Path):
    other = tmp_path / "other.bin"
    other.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(WeightsMismatch, match="E5S1"):
        weights.read_weights(other)


def test_progress_grows_to_one(wheel_weights: Path, tmp_path: Path):
    shares: list[float] = []
    weights.convert(wheel_weights, tmp_path, shares.append)
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] == 1.0


@given(
    arrays(np.uint8, (3, 2, weights.BLOCK // 2)),
    arrays(np.float16, (3, 2), elements=st.floats(-1, 1, width=16)),
)
def test_repacking_loses_nothing(packed: np.ndarray, scales: np.ndarray):
    """Both layouts mean (number - 8) * scale; only where a number lies differs."""
    raw = np.concatenate([scales[..., None].view(np.uint8), packed], axis=-1).reshape(-1)
    numbers, found_scales = weights.repack(raw, 3, 2 * weights.BLOCK)
    as_ggml = np.concatenate([packed & 15, packed >> 4], axis=-1)
    as_onnx = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(3, 2, weights.BLOCK)
    assert (as_onnx == as_ggml).all()
    assert (found_scales == scales.astype(np.float32)).all()
