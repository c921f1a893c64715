from hypothesis import given
from hypothesis import strategies as st

from shoal.local.embedding.batching import BATCH_BYTES, BATCH_TEXTS, batches

texts = st.lists(st.text(max_size=3000), max_size=20)


@given(texts)
def test_every_text_is_in_exactly_one_batch(texts: list[str]):
    assert sorted(number for batch in batches(texts) for number in batch) == list(range(len(texts)))


@given(texts)
def test_no_batch_is_over_either_limit_unless_it_is_one_text(texts: list[str]):
    for batch in batches(texts):
        longest = max(len(texts[number].encode()) for number in batch)
        assert len(batch) <= BATCH_TEXTS
        assert len(batch) == 1 or len(batch) * longest <= BATCH_BYTES


def test_texts_of_like_length_run_together():
    texts = ["x" * 300, "a", "y" * 301, "b", "z" * 302, "c", "w" * 303, "d"]
    assert list(batches(texts)) == [[1, 3, 5, 7], [0, 2, 4, 6]]


def test_no_texts_make_no_batch():
    assert list(batches([])) == []
