"""The measures agree with values worked out by hand and with their laws."""

from math import log2

import pytest
from bench.metrics import all_at, hit_at, mean, ndcg_at, recall_at
from hypothesis import given
from hypothesis import strategies as st

RANKED = ["a", "b", "c", "d"]


def test_recall_is_the_share_of_the_relevant_items_that_were_found():
    assert recall_at(RANKED, {"a", "d"}, 3) == 0.5
    assert recall_at(RANKED, {"a", "d"}, 4) == 1.0
    assert recall_at(RANKED, {"x"}, 4) == 0.0


def test_hit_wants_one_and_all_wants_every_item():
    assert (hit_at(RANKED, {"a", "d"}, 2), all_at(RANKED, {"a", "d"}, 2)) == (1.0, 0.0)
    assert all_at(RANKED, {"a", "d"}, 4) == 1.0
    assert hit_at(RANKED, {"x"}, 4) == 0.0


def test_ndcg_discounts_by_the_logarithm_of_the_rank():
    assert ndcg_at(RANKED, {"b", "d"}, 4) == pytest.approx((1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3)))


def test_ndcg_of_the_best_order_is_one_even_when_more_is_relevant_than_k():
    assert ndcg_at(RANKED, {"a", "b", "c"}, 2) == 1.0


def test_the_mean_of_nothing_is_zero():
    assert mean([]) == 0.0
    assert mean([1.0, 0.0]) == 0.5


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=20),
    st.sets(st.integers(0, 30), min_size=1, max_size=8),
    st.integers(1, 25),
)
def test_every_measure_lies_in_zero_to_one_and_all_implies_recall_implies_hit(ranked, relevant, k):
    recall, gain = recall_at(ranked, relevant, k), ndcg_at(ranked, relevant, k)
    assert 0 <= gain <= 1 + 1e-12
    assert all_at(ranked, relevant, k) <= recall <= hit_at(ranked, relevant, k)
    assert (gain > 0) == (recall > 0)
