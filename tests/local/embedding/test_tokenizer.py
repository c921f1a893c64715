from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.local.embedding.cache import MODEL_FOLDER
from shoal.local.embedding.tokenizer import WINDOW, Tokenizer, normalise


@pytest.fixture(scope="module")
def tokenizer(model_cache: Path) -> Tokenizer:
    return Tokenizer(model_cache / MODEL_FOLDER)


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_batch([text])[0].ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 2]),
        ("Hello world", [0, 35378, 8999, 2]),
        ("hello world, 你好世界", [0, 33600, 31, 8999, 4, 6, 124084, 3221, 2]),
        ("a \ue123", [0, 10, 6, 3, 2]),
    ],
)
def test_texts_get_the_ids_of_xlm_r(tokenizer: Tokenizer, text: str, expected: list[int]):
    assert ids(tokenizer, text) == expected


def test_a_written_special_token_is_text(tokenizer: Tokenizer):
    assert 2 not in ids(tokenizer, "a </s> b")[1:-1]


@pytest.mark.parametrize("text", ["a b", "a\tb", "a\n\nb", " a  b ", "a\u3000b", "a\u00a0b", "a\u200bb", "ａ b"])
def test_white_space_and_width_make_no_difference(tokenizer: Tokenizer, text: str):
    assert ids(tokenizer, text) == ids(tokenizer, "a b")


def test_a_batch_is_padded_to_its_longest_and_masked(tokenizer: Tokenizer):
    short, long = tokenizer.encode_batch(["Hello", "Hello world"])
    assert (short.ids, short.attention_mask) == ([0, 35378, 2, 1], [1, 1, 1, 0])
    assert (long.ids, long.attention_mask) == ([0, 35378, 8999, 2], [1, 1, 1, 1])


def test_a_text_over_the_window_is_cut_and_still_ends(tokenizer: Tokenizer):
    cut = ids(tokenizer, "word " * 1000)
    assert (len(cut), cut[0], cut[-1]) == (WINDOW, 0, 2)


def test_no_texts_give_no_encodings(tokenizer: Tokenizer):
    assert tokenizer.encode_batch([]) == []


@given(st.text())
def test_normalising_twice_changes_nothing(text: str):
    assert normalise(normalise(text)) == normalise(text)
