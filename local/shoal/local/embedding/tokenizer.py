"""The tokenizer of XLM-R (and so of multilingual-e5), by SentencePiece.

The tokenizers library reads the same pieces, but its search tree for 250,000 of them takes 290 MB; SentencePiece
takes 60, and gave the same ids for 3,735 of 3,737 texts (the other two spell out `</s>` or `▁`, which it reads as
text).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = "sentencepiece.model"
WINDOW: Final = 512
_BOS, _PAD, _EOS, _UNK = 0, 1, 2, 3
_INVISIBLE: Final = re.compile("[\u200b\ufeff]")


def write_model(pieces: Sequence[tuple[str, float]], folder: Path) -> None:
    """Write SentencePiece's file from the unigram model's pieces with their scores, in order of their ids."""
    from sentencepiece import sentencepiece_model_pb2

    protobuf: Any = sentencepiece_model_pb2  # its classes are made at run time, unseen by a type checker
    model = protobuf.ModelProto()
    kinds = {_BOS: "CONTROL", _PAD: "CONTROL", _EOS: "CONTROL", _UNK: "UNKNOWN"}
    known: set[str] = set()
    for number, (piece, score) in enumerate(pieces):
        # Half a character can't be written down; the name keeps the place of a piece that nothing matches.
        usable = piece not in known
        kind = kinds.get(number, "NORMAL") if usable else "UNUSED"
        name = piece if usable else f"<unused {number}>"
        model.pieces.add(piece=name, score=score, type=protobuf.ModelProto.SentencePiece.Type.Value(kind))
        known.add(piece)
    trainer = model.trainer_spec
    trainer.model_type = protobuf.TrainerSpec.UNIGRAM
    trainer.bos_id, trainer.pad_id, trainer.eos_id, trainer.unk_id = _BOS, _PAD, _EOS, _UNK
    model.normalizer_spec.name = "identity"
    (folder / FILE).write_bytes(model.SerializeToString())


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text of a batch, padded to its longest."""

    ids: list[int]
    attention_mask: list[int]


class Tokenizer:
    """What fastembed asks of a tokenizer."""

    def __init__(self, folder: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        # One thread: the caller's, which may be niced.
        self._pieces = SentencePieceProcessor(model_file=str(folder / FILE), num_threads=1)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Return ids and mask a text, begin and end included, cut at the window."""
        rows = [[_BOS, *ids[: WINDOW - 2], _EOS] for ids in self._pieces.encode([normalise(text) for text in texts])]
        longest = max(map(len, rows), default=0)
        return [
            Encoding(row + [_PAD] * (longest - len(row)), [1] * len(row) + [0] * (longest - len(row))) for row in rows
        ]


def normalise(text: str) -> str:
    """Do what SentencePiece's nmt_nfkc does: NFKC, every run of white space one space, nothing invisible."""
    return " ".join(unicodedata.normalize("NFKC", _INVISIBLE.sub(" ", text)).split())
