"""The tokenizer of XLM-R (and so of multilingual-e5) as the files that fastembed reads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

FILES: Final = ("tokenizer.json", "tokenizer_config.json", "config.json")
_WINDOW: Final = 512
_BOS, _PAD, _EOS, _UNK = 0, 1, 2, 3
_SPECIAL: Final = {"<s>": _BOS, "<pad>": _PAD, "</s>": _EOS, "<unk>": _UNK}
_METASPACE: Final = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def write_tokenizer(pieces: Sequence[tuple[str, float]], folder: Path) -> None:
    """Write the three files. `pieces` are the unigram model's pieces with their scores, in order of their ids."""
    config = {"model_max_length": _WINDOW, "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
    for name, content in (
        ("tokenizer.json", _tokenizer(pieces)),
        ("tokenizer_config.json", config | {"unk_token": "<unk>"}),
        ("config.json", {"pad_token_id": _PAD}),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _tokenizer(pieces: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(content, number) for content, number in _SPECIAL.items()],
        # What SentencePiece's nmt_nfkc does to text, in steps that the tokenizers library knows.
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                _replace(r"[\u200b\ufeff]"),
                {"type": "NFKC"},
                _replace(r"[\t\n\r\u3000\u00a0]"),
                _replace(" {2,}"),
            ],
        },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _METASPACE]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [_template("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, _template("</s>")],
            "pair": [],
            "special_tokens": {
                name: {"id": name, "ids": [_SPECIAL[name]], "tokens": [name]} for name in ("<s>", "</s>")
            },
        },
        "decoder": _METASPACE,
        "model": {"type": "Unigram", "unk_id": _UNK, "byte_fallback": False, "vocab": list(pieces)},
    }


def _replace(pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": " "}


def _template(token: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": token, "type_id": 0}}


def _added_token(content: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": True}
