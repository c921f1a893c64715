import asyncio
import base64
import random
import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.characters import joins
from shoal.core.passages import (
    OVERLAP_TOKENS,
    PASSAGE_TOKENS,
    SNIPPET_CHARS,
    estimate_tokens,
    passage_words,
    snippet,
    split,
)
from shoal.core.text import prepare, terms
from shoal.schema.limits import CONTENT_MAX_BYTES, PASSAGES_MAX

ENGLISH = "The deployment moved to Fridays. Nobody liked it, e.g. the on-call team!\n"
CHINESE = "我们上周决定把计费服务的部署改到周五，因为值班团队提出了这个要求。"
PARAGRAPH = ENGLISH * 8 + "\n"
RANDOM = random.Random(7)
LARGE = {
    "English": (ENGLISH * 4000)[:CONTENT_MAX_BYTES],
    "Chinese": (CHINESE * 4000)[: CONTENT_MAX_BYTES // 3],
    "symbols": "".join(RANDOM.choices(string.punctuation, k=CONTENT_MAX_BYTES)),
    "short sentences of symbols": ("#" * 239 + "! ") * (CONTENT_MAX_BYTES // 241),
    "short paragraphs of symbols": ("#" * 210 + "\n\n") * (CONTENT_MAX_BYTES // 212),
    "base64": base64.b64encode(RANDOM.randbytes(CONTENT_MAX_BYTES * 3 // 4)).decode(),
    "one letter": "a" * CONTENT_MAX_BYTES,
    "white space": "a" + " " * (CONTENT_MAX_BYTES - 2) + "b",
    "emoji": "😀" * (CONTENT_MAX_BYTES // 4),
    "marks": ("abc" + "\u0301" * 397) * (CONTENT_MAX_BYTES // 797),
}


def test_short_content_is_one_passage():
    assert split("Just this.") == [(0, 10, "Just this.")]


@pytest.mark.parametrize("name", LARGE)
def test_the_longest_content_gives_bounded_passages_that_cover_it(name: str):
    content = LARGE[name]
    passages = split(content)
    assert len(passages) < PASSAGES_MAX
    assert all(estimate_tokens(passage.text) <= PASSAGE_TOKENS for passage in passages)
    assert passages[0].start == 0
    assert passages[-1].end == len(content)
    for before, after in pairwise(passages):
        assert before.start < after.start <= before.end < after.end


@given(st.text(st.sampled_from("ab1# \n.。，中文\u0301👍\U0001f3fd\u200d"), max_size=3000))
def test_passages_cover_any_content_in_order(content: str):
    passages = split(content)
    assert all(content[start:end] == text for start, end, text in passages)
    assert passages[-1].end == len(content)
    assert all(a.start < b.start <= a.end < b.end for a, b in pairwise(passages))
    assert split(content) == passages


def test_passages_overlap_by_about_fifty_tokens():
    passages = split(LARGE["English"])
    overlaps = [estimate_tokens(a.text[b.start - a.start :]) for a, b in pairwise(passages)]
    assert max(overlaps) <= OVERLAP_TOKENS
    assert min(overlaps) >= OVERLAP_TOKENS // 2


def test_a_passage_ends_with_a_paragraph_when_one_ends_in_its_second_half():
    assert all(passage.text.endswith("\n\n") for passage in split(PARAGRAPH * 20)[:-1])


def test_a_passage_ends_with_a_sentence_in_either_language():
    assert all(passage.text.rstrip()[-1] in ".!" for passage in split(ENGLISH.replace("\n", " ") * 100))
    passages = split(CHINESE * 100)
    assert all(passage.text.endswith("。") for passage in passages)
    assert all(passage.text.startswith("我们") for passage in passages)


def test_a_passage_ends_with_a_word_when_no_sentence_ends():
    words = "deployment " * 2000
    assert all(passage.text.endswith("deployment ") for passage in split(words))
    assert all(passage.text.startswith("deployment") for passage in split(words))


def test_a_fact_at_the_end_of_a_long_text_is_whole_in_the_last_passage():
    fact = "The vault's code is 4711."
    assert fact in split(ENGLISH * 200 + fact)[-1].text


def test_a_cut_keeps_a_sign_whole():
    family = "👩\u200d👩\u200d👧"
    content = family * 900
    assert not any(joins(content, passage.end) for passage in split(content))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("部署", 2), ("a quiet evening", 4), ("#!?", 3), ("550e8400-e29b-41d4-a716-446655440000", 22)],
)
def test_the_estimate_follows_the_kind_of_characters(text: str, tokens: int):
    assert abs(estimate_tokens(text) - tokens) <= 1


# snippet


def test_a_short_content_is_its_own_snippet_on_one_line():
    assert snippet("Two\n\nlines\there", ()) == "Two lines here"


def test_a_snippet_shows_where_the_terms_stand():
    content = ENGLISH * 30 + "At last the vault was opened by Caroline. " + ENGLISH * 30
    shown = snippet(content, terms("who opened the vault"))
    assert "vault was opened by Caroline" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= SNIPPET_CHARS


def test_a_snippet_shows_where_chinese_terms_stand():
    content = CHINESE * 30 + "金库最后由小王打开。" + CHINESE * 30
    assert "金库最后由小王打开" in snippet(content, terms("谁打开了金库"))


def test_a_snippet_prefers_distinct_terms_to_repeated_ones():
    content = "vault vault vault vault. " + ENGLISH * 20 + "the key of the vault. " + ENGLISH * 20
    assert "key of the vault" in snippet(content, ("key", "vault"))


def test_a_snippet_ignores_accents_and_case():
    assert "CAFÉ" in snippet(ENGLISH * 10 + "We met in the CAFÉ. " + ENGLISH * 10, terms("café"))


def test_a_snippet_is_the_start_when_no_term_stands_in_the_text():
    assert snippet(ENGLISH * 10, ("absent",)).startswith("The deployment moved")


@given(st.text(max_size=400), st.lists(st.text(min_size=1, max_size=6), max_size=3), st.integers(20, 200))
def test_a_snippet_is_one_line_within_its_width(content: str, query: list[str], width: int):
    shown = snippet(content, terms(" ".join(query)), width)
    assert len(shown) <= width
    assert len(shown.splitlines()) <= 1


@given(st.lists(st.sampled_from(["a", "e\u0301", "👍\U0001f3fd", "中", " "]), max_size=300), st.integers(40, 80))
def test_a_snippet_never_cuts_a_sign(signs: list[str], width: int):
    line = " ".join("".join(signs).split())
    shown = snippet(line, ("a", "中"), width).strip("…")
    places = [at for at in range(len(line) + 1) if line.startswith(shown, at)]
    assert any(not joins(line, at) and not joins(line, at + len(shown)) for at in places)


async def test_others_run_while_the_longest_content_is_prepared():
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    words = [pair async for pair in passage_words(LARGE["English"])]
    task.cancel()
    assert words == [(number, prepare(passage.text)) for number, passage in enumerate(split(LARGE["English"]))]
    assert turns >= len(words) - 1
