"""Ranking: what the product promises of its order and its scores, with hand-made evidence."""

import time
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.protocols import Calibration
from shoal.core.ranking import (
    MS_PER_DAY,
    NO_EVIDENCE,
    Candidate,
    Evidence,
    Query,
    TermHit,
    rank,
    shortlist,
    term_evidence,
)
from shoal.core.weights import Weights

NOW = 1_000 * MS_PER_DAY
CALIBRATION = Calibration(unrelated=0.14, related=0.28)


def a_query(terms_n=2, **changes):
    return Query(**{"terms_n": terms_n, "now_ms": NOW, "calibration": CALIBRATION} | changes)


def a_memory(rid, terms=None, similarity=None, labels=None, **changes):
    evidence = Evidence(terms or {}, labels or {}, similarity)
    return Candidate(**{"rid": rid, "evidence": evidence, "occurred_ms": NOW - 10 * MS_PER_DAY} | changes)


def a_turn(rid, position, terms=None, similarity=None, conversation="talk", **changes):
    return a_memory(rid, terms, similarity, conversation=conversation, position=position, **changes)


def order(candidates, query=None):
    return [result.rid for result in rank(candidates, query or a_query())]


def scores(candidates, query=None):
    return {result.rid: result.score for result in rank(candidates, query or a_query())}


def test_nothing_found_ranks_nothing():
    assert rank([], a_query()) == []
    assert shortlist({}, a_query()) == []


# Words


def test_a_memory_that_says_two_terms_comes_before_one_that_says_the_rarer_of_them():
    assert order([a_memory(1, {0: 4.0}), a_memory(2, {0: 3.9, 1: 2.0})]) == [2, 1]


def test_a_rare_term_counts_more_than_a_common_one():
    assert order([a_memory(1, {0: 1.0}), a_memory(2, {1: 5.0})]) == [2, 1]


def test_a_word_in_the_labels_finds_but_the_same_word_in_the_content_comes_first():
    assert order([a_memory(1), a_memory(2, labels={0: 7.0}), a_memory(3, {0: 3.0})]) == [3, 2, 1]


def test_labels_alone_find():
    assert scores([a_memory(1, labels={0: 2.0})], a_query(1))[1] == pytest.approx(0.6)


def test_the_best_passage_of_a_memory_speaks_for_it_term_by_term():
    hits = [TermHit(0, 7, 2.0), TermHit(0, 7, 3.0), TermHit(1, 7, 1.0), TermHit(1, 8, 4.0)]
    assert term_evidence(hits, limit=10) == {7: {0: 3.0, 1: 1.0}, 8: {1: 4.0}}


def test_a_list_that_was_cut_tells_only_what_a_hit_has_above_the_last():
    evidence = term_evidence([TermHit(0, rid, 10.0 - rid) for rid in range(3)], limit=3)
    assert {rid: terms[0] for rid, terms in evidence.items()} == pytest.approx({0: 2.8, 1: 1.8, 2: 0.8})


def test_a_cut_list_of_equals_is_still_evidence():
    evidence = term_evidence([TermHit(0, rid, 1.0) for rid in range(3)], limit=3)
    assert all(terms[0] > 0 for terms in evidence.values())


# Vectors


def test_without_vectors_words_rank_and_without_words_vectors_do():
    assert order([a_memory(1, {0: 1.0}), a_memory(2, {0: 2.0})]) == [2, 1]
    assert order([a_memory(1, similarity=0.2), a_memory(2, similarity=0.5)], a_query(0)) == [2, 1]


def test_words_and_meaning_together_come_before_either():
    memories = [a_memory(1, {0: 2.0, 1: 2.0}, 0.1), a_memory(2, {0: 1.8, 1: 1.8}, 0.4), a_memory(3, similarity=0.5)]
    assert order(memories)[0] == 2


def test_a_memory_without_a_vector_is_taken_for_an_unrelated_one():
    results = rank([a_memory(1, {0: 1.0}), a_memory(2, similarity=0.5), a_memory(3, similarity=0.05)], a_query())
    vectors = {result.rid: result.explanation.vector for result in results}
    assert vectors[1] == vectors[3] < vectors[2]
    results = rank([a_memory(1, {0: 1.0}), a_memory(2, similarity=0.5)], a_query())
    assert {r.rid: r.explanation.vector for r in results}[1] == pytest.approx(0.14 / 0.28)


def test_a_model_that_nobody_measured_ranks_by_its_own_list():
    query = a_query(0, calibration=None)
    memories = [a_memory(1, similarity=0.81), a_memory(2, similarity=0.85), a_memory(3)]
    assert order(memories, query) == [2, 1, 3]
    assert scores(memories, query)[2] == pytest.approx(0.5)
    assert scores([a_memory(1, similarity=0.8)], query)[1] == 0.5


def test_the_memory_that_is_the_query_comes_first_also_when_another_seems_nearer():
    itself = a_turn(1, 1, {0: 2.0, 1: 2.0}, 0.8, verbatim=True)
    quoting = a_turn(2, 2, {0: 2.5, 1: 2.5}, 0.99)
    assert order([quoting, itself]) == [1, 2]
    assert scores([quoting, itself])[1] == 1.0


def test_a_query_of_its_own_text_finds_even_a_superseded_memory_first():
    itself = a_memory(1, {0: 2.0, 1: 2.0}, 0.99, verbatim=True, superseded=True)
    assert order([a_memory(2, {0: 2.0, 1: 2.0}, 0.95), itself]) == [1, 2]


# The conversation


def test_a_turn_borrows_the_words_of_its_neighbours_by_distance():
    turns = [a_turn(position, position, {0: 1.0} if position == 5 else None) for position in range(1, 9)]
    results = rank(turns, a_query(1))
    lexical = {result.rid: result.explanation.lexical for result in results}
    assert [lexical[p] for p in range(2, 9)] == pytest.approx([0.0, 0.25, 0.5, 1.0, 0.5, 0.25, 0.0])
    assert results[0].rid == 5


def test_an_answer_between_the_question_and_its_thanks_comes_before_a_lone_turn_with_one_word():
    turns = [a_turn(1, 1, {0: 2.0}), a_turn(2, 2), a_turn(3, 3, {1: 2.0}), a_turn(9, 40, {0: 1.0})]
    results = {result.rid: result.explanation for result in rank(turns, a_query())}
    assert results[2].words == 0.0
    assert results[2].lexical > results[9].lexical


def test_a_neighbour_that_no_channel_found_can_be_a_result():
    assert order([a_turn(1, 1, {0: 1.0}), a_turn(2, 2), a_memory(3, {1: 0.2})], a_query(2))[:2] == [1, 2]


def test_hearing_one_word_again_and_again_lifts_nothing():
    told_once = [a_turn(1, 1, {0: 1.0}, conversation="a"), a_turn(2, 2, conversation="a")]
    told_thrice = [a_turn(p + 10, p, {0: 1.0} if p != 2 else None, conversation="b") for p in (1, 2, 3)]
    lexical = {result.rid: result.explanation.lexical for result in rank(told_once + told_thrice, a_query(1))}
    assert lexical[2] == lexical[12]


def test_turns_of_other_conversations_lend_nothing():
    results = rank([a_turn(1, 1, {0: 1.0}, conversation="a"), a_turn(2, 2, conversation="b")], a_query(1))
    assert results[1].explanation.relevance == 0.0


def test_of_equal_turns_the_one_in_the_conversation_about_the_matter_comes_first():
    about = [a_turn(1, 1, {0: 3.0, 1: 3.0}, conversation="about"), a_turn(2, 30, {0: 1.0}, conversation="about")]
    assert order([*about, a_turn(3, 30, {0: 1.0}, conversation="other")]) == [1, 2, 3]


def test_memories_of_a_conversation_without_positions_still_share_its_best():
    turns = [a_memory(1, {0: 1.0}, conversation="a"), a_memory(2, conversation="a"), a_memory(3)]
    assert order(turns, a_query(1)) == [1, 2, 3]


def test_two_memories_at_one_position_both_lend():
    turns = [a_turn(1, 1, {0: 1.0}), a_turn(2, 1, {1: 1.0}), a_turn(3, 2)]
    assert {r.rid: r.explanation.lexical for r in rank(turns, a_query())}[3] == 0.5


evidence_of_one = st.builds(
    Evidence,
    terms=st.dictionaries(st.integers(0, 3), st.floats(0.01, 20), max_size=4),
    labels=st.dictionaries(st.integers(0, 3), st.floats(0.01, 20), max_size=2),
    similarity=st.none() | st.floats(-1, 1),
)
loose = st.lists(
    st.builds(Candidate, rid=st.just(0), evidence=evidence_of_one, occurred_ms=st.integers(0, 2 * NOW)), max_size=12
).map(lambda memories: [replace(memory, rid=rid) for rid, memory in enumerate(memories)])
talks = st.lists(
    st.builds(
        Candidate,
        rid=st.just(0),
        evidence=evidence_of_one,
        occurred_ms=st.integers(0, 2 * NOW),
        conversation=st.sampled_from([None, "a", "b"]),
        position=st.none() | st.integers(0, 6),
        strength=st.floats(0, 1),
        superseded=st.booleans(),
    ),
    max_size=12,
).map(lambda memories: [replace(memory, rid=rid) for rid, memory in enumerate(memories)])
queries = st.builds(
    Query,
    terms_n=st.integers(4, 8),
    now_ms=st.just(NOW),
    calibration=st.sampled_from([None, CALIBRATION]),
    since_ms=st.none() | st.integers(0, NOW),
    until_ms=st.none() | st.integers(0, NOW),
)


@given(loose, queries)
def test_for_memories_without_conversation_smoothing_changes_nothing(memories, query):
    weights = Weights()
    without = replace(weights, step=0.0, conversation=0.0)
    assert rank(memories, query, weights) == rank(memories, query, without)


@given(talks, queries, st.randoms())
def test_the_order_of_the_candidates_does_not_matter(memories, query, random):
    shuffled = random.sample(memories, len(memories))
    assert order(shuffled, query) == order(memories, query)


@given(talks, queries)
def test_scores_lie_in_zero_to_one_and_fall_with_the_order(memories, query):
    ranked = [result.score for result in rank(memories, query)]
    assert ranked == sorted(ranked, reverse=True)
    assert all(0 <= score <= 1 for score in ranked)
    assert len(ranked) == len(memories)


@given(talks, queries)
def test_every_component_can_be_shown(memories, query):
    for result in rank(memories, query):
        shown = asdict(result.explanation)
        assert 0 <= shown["words"] <= shown["lexical"] <= 1 + 1e-9
        assert shown["vector"] >= 0
        assert 0 <= shown["answered"] <= 1


# Priors


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"strength": 0.9}, {"strength": 0.3}),
        ({"occurred_ms": NOW}, {"occurred_ms": NOW - 400 * MS_PER_DAY}),
        ({}, {"superseded": True}),
    ],
)
def test_of_equally_relevant_memories_the_prior_decides(better, worse):
    assert order([a_memory(1, {0: 1.0}, **worse), a_memory(2, {0: 1.0}, **better)]) == [2, 1]


def test_all_priors_together_do_not_overturn_relevance():
    relevant = a_memory(1, {0: 2.0, 1: 2.0}, 0.4, occurred_ms=0)
    strong_and_new = a_memory(2, {0: 2.0}, 0.3, strength=1.0, occurred_ms=NOW)
    assert order([strong_and_new, relevant]) == [1, 2]


def test_a_superseded_memory_is_after_its_successor_but_before_what_is_hardly_relevant():
    old = a_memory(1, {0: 2.0, 1: 2.0}, 0.45, superseded=True)
    assert order([old, a_memory(2, {0: 1.9, 1: 1.8}, 0.42), a_memory(3, {0: 1.0}, 0.2)]) == [2, 1, 3]


def test_of_full_equals_the_newest_then_the_smallest_number_comes_first():
    old, same, new = (a_memory(rid, {0: 1.0}, occurred_ms=NOW + rid // 2) for rid in (1, 2, 3))
    assert order([old, same, new], a_query(1)) == [2, 3, 1]


def test_a_memory_in_the_time_that_the_query_names_comes_first_when_the_rest_is_equal():
    yesterday = {"since_ms": NOW - MS_PER_DAY, "until_ms": NOW}
    inside = a_memory(1, {0: 1.0}, occurred_ms=NOW - MS_PER_DAY)
    results = rank([inside, a_memory(2, {0: 1.0}, occurred_ms=NOW)], a_query(1, **yesterday))
    assert [(r.rid, r.explanation.in_time) for r in results] == [(1, True), (2, False)]


def test_a_query_of_nothing_but_a_time_finds_what_happened_then():
    memories = [a_memory(1, occurred_ms=NOW - 5 * MS_PER_DAY), a_memory(2, occurred_ms=NOW - MS_PER_DAY)]
    results = rank(memories, a_query(0, since_ms=NOW - 2 * MS_PER_DAY))
    assert results[0].rid == 2
    assert results[0].score == pytest.approx(0.3)
    assert results[1].score < results[0].score


def test_a_query_without_a_subject_takes_its_time_before_any_likeness_and_is_answered_by_it():
    inside = a_memory(1, similarity=-0.1, occurred_ms=NOW - 50 * MS_PER_DAY)
    alike = a_memory(2, similarity=0.4, occurred_ms=NOW)
    then = {"since_ms": NOW - 51 * MS_PER_DAY, "until_ms": NOW - 49 * MS_PER_DAY, "only_time": True}
    assert order([alike, inside], a_query(0, **then)) == [1, 2]
    assert scores([alike, inside], a_query(0, **then))[1] == pytest.approx(1)
    verbatim = replace(alike, verbatim=True)
    assert order([inside, verbatim], a_query(0, **then)) == [2, 1]


def test_a_future_memory_is_no_fresher_than_one_of_now():
    results = rank([a_memory(1, occurred_ms=NOW), a_memory(2, occurred_ms=NOW + 9 * MS_PER_DAY)], a_query())
    assert {result.explanation.recency for result in results} == {1.05}


# Scores


def test_a_query_that_nothing_answers_gets_low_scores_though_something_is_best():
    found = [a_memory(1, {0: 0.5}, 0.2), a_memory(2, {0: 0.4}, 0.18)]
    assert scores(found, a_query(6))[1] < 0.25


def test_a_query_that_is_answered_gets_high_scores():
    assert scores([a_memory(1, {0: 5.0, 1: 4.0}, 0.5), a_memory(2, {0: 1.0}, 0.1)])[1] > 0.8


def test_an_answer_in_another_language_scores_by_meaning_alone():
    assert scores([a_memory(1, similarity=0.45), a_memory(2, {0: 0.2}, 0.1)], a_query(8))[1] > 0.6


def test_terms_that_nobody_says_lower_the_score_and_not_the_order():
    memories = [a_memory(1, {0: 2.0}), a_memory(2, {1: 1.0})]
    few, many = scores(memories, a_query(2)), scores(memories, a_query(8))
    assert list(few) == list(many)
    assert many[1] < few[1] / 2


def test_no_evidence_at_all_scores_zero():
    assert scores([Candidate(1, NO_EVIDENCE, NOW)]) == {1: 0.0}


# The shortlist


def test_the_shortlist_keeps_the_most_relevant_in_order():
    found = {1: Evidence({0: 1.0}), 2: Evidence({0: 2.0, 1: 1.0}), 3: Evidence(similarity=0.1)}
    assert shortlist(found, a_query(), keep=2) == [2, 1]


@given(st.dictionaries(st.integers(1, 50), evidence_of_one, max_size=20), queries)
def test_the_shortlist_of_loose_memories_begins_as_their_ranking_does(found, query):
    kept = shortlist(found, query, keep=5)
    timeless = replace(query, since_ms=None, until_ms=None)
    alike = [Candidate(rid, evidence, NOW) for rid, evidence in found.items()]
    assert kept == order(alike, timeless)[:5]


def test_three_hundred_candidates_of_a_ten_word_query_rank_in_milliseconds():
    turns = [
        a_turn(rid, rid % 30, {t: 1.0 + t for t in range(10) if (rid + t) % 3 == 0}, 0.3, conversation=f"c{rid // 30}")
        for rid in range(300)
    ]
    best_s = min(_seconds(turns) for _ in range(5))
    assert best_s < 0.02  # 3 ms on a quiet machine


def _seconds(turns):
    start = time.perf_counter()
    rank(turns, a_query(10))
    return time.perf_counter() - start


@pytest.mark.parametrize("name", [field.name for field in fields(Weights)])
def test_every_weight_moves_some_score(name):
    turns = [
        a_turn(1, 1, {0: 2.0}, 0.2, labels={1: 3.0}, strength=0.9),
        a_turn(2, 2, {1: 1.0}, 0.25, occurred_ms=NOW),
        a_memory(3, {0: 1.0}, 0.22, superseded=True),
        a_memory(4, {1: 1.5}, 0.1),
    ]
    doubled = replace(Weights(), **{name: 1.3 * getattr(Weights(), name)})

    def moves(memories, query):
        return rank(memories, query, doubled) != rank(memories, query)

    assert moves(turns, a_query(6, since_ms=NOW - MS_PER_DAY)) or any(
        (
            moves(turns, a_query(6, calibration=None)),
            moves([a_memory(1, similarity=0.3)], a_query(0)),
            moves(turns, a_query(0, since_ms=NOW - MS_PER_DAY, only_time=True)),
            moves([a_memory(1, {0: 1.0}, verbatim=True), a_memory(2, {0: 1.0})], a_query()),
        )
    )
