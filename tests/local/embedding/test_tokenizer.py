from pathlib import Path

import pytest
from tokenizers import Tokenizer

from shoal.local.embedding.cache import MODEL_FOLDER


@pytest.fixture(scope="module")
def tokenizer(model_cache: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_cache / MODEL_FOLDER / "tokenizer.json"))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [0, 2]),
        ("Hello world", [0, 35378, 8999, 2]),
        ("hello world, 你好世界", [0, 33600, 31, 8999, 4, 6, 124084, 3221, 2]),
    ],
)
def test_texts_get_the_ids_of_xlm_r(tokenizer: Tokenizer, text: str, ids: list[int]):
    assert tokenizer.encode(text).ids == ids


@pytest.mark.parametrize("text", ["a b", "a\tb", "a\n\nb", " a  b ", "a\u3000b", "a\u00a0b", "a\u200bb", "ａ b"])
def test_white_space_and_width_make_no_difference(tokenizer: Tokenizer, text: str):
    assert tokenizer.encode(text).ids == tokenizer.encode("a b").ids


def test_an_unknown_character_is_the_unknown_token(tokenizer: Tokenizer):
    assert tokenizer.encode("\ue123").ids == [0, 6, 3, 2]
