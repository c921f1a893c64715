from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.times import TimeRange, find, parse, to_ms
from shoal.core.times.calendar import MIN_MS
from shoal.core.times.reading import EXPRESSION_MAX_CHARS
from shoal.schema.errors import InvalidTime

ZONE = "Asia/Shanghai"
WORDS = (
    "last this next ago in on may March monday week year 3 days day 2026 12 31 9999 999 - / : T Z + between and to "
    "from since before a few half hours night 上 个 周 月 年 日 号 三 十 半 前 后 天 点 到 和 之间 今 昨 去年 最近 底"
).split()
PHRASES = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=8).map("".join),
)
MOMENTS = st.one_of(st.just(1_795_000_000_000), st.integers(-(10**18), 10**18))
SPANS = {
    "since Monday": "2026-11-23 / -",
    "after yesterday": "2026-11-25 / -",
    "before March": "- / 2026-03-01",
    "until yesterday": "- / 2026-11-25",
    "between March and May": "2026-03-01 / 2026-06-01",
    "from 2025 to 2026": "2025-01-01 / 2027-01-01",
    "between Monday and yesterday": "2026-11-23 / 2026-11-25",
    "from Monday to Friday": "2026-11-16 / 2026-11-21",
    "from December to February": "2025-12-01 / 2026-03-01",
    "2026-03-01 – 2026-03-05": "2026-03-01 / 2026-03-06",
    "last month till today": "2026-10-01 / 2026-11-26",
    "上周以来": "2026-11-16 / -",
    "自从去年": "2025-01-01 / -",
    "三月之前": "- / 2026-03-01",
    "2025年前": "- / 2025-01-01",
    "截至昨天": "- / 2026-11-25",
    "从周一到周三": "2026-11-23 / 2026-11-26",
    "3月1日至3月5日": "2026-03-01 / 2026-03-06",
    "一月和三月之间": "2026-01-01 / 2026-04-01",
}
MENTIONS = {
    "what did we decide yesterday about the deploy": ("yesterday", "what did we decide about the deploy"),
    "What did Caroline do in May?": ("in May", "What did Caroline do ?"),
    "What did Bob say last Friday afternoon?": ("last Friday afternoon", "What did Bob say ?"),
    "on may 5 we met": ("on may 5", "we met"),
    "We met May 5": ("May 5", "We met"),
    "the May 2025 plan": ("May 2025", "the plan"),
    "last week's meeting": ("last week's", "meeting"),
    "since Monday what changed": ("since Monday", "what changed"),
    "what happened between March and May here": ("between March and May", "what happened here"),
    "see 2026-03-05 please": ("2026-03-05", "see please"),
    "in 2025 we moved": ("in 2025", "we moved"),
    "a few days ago I said": ("a few days ago", "I said"),
    "what broke in the last hour": ("in the last hour", "what broke"),
    "the day before yesterday": ("the day before yesterday", ""),
    "上周我们讨论了什么": ("上周", "我们讨论了什么"),
    "在上周三下午的会议上": ("在上周三下午", "的会议上"),
    "上海上周的会议": ("上周", "上海 的会议"),
    "去年我们在哪里": ("去年", "我们在哪里"),
    "最近我们聊了什么": ("最近", "我们聊了什么"),
    "3天前讨论的部署": ("3天前", "讨论的部署"),
    "小王2025年3月5号说了什么": ("2025年3月5号", "小王 说了什么"),
    "今天晚饭吃什么": ("今天", "晚饭吃什么"),
    "早上周三来了": ("周三", "早上 来了"),
}
OTHER_SENSES = """
what may happen|they march on|this may be wrong|You may 5 people|wait a second|second opinion|last minute changes
python 3.11 release|spring framework notes|the last spring boot upgrade|What is the fall back?|in oct format
CVE-2026-03|v2026.3.5|notes-2026-03-05.md|docs/2026-03-05|yesterday.py|today-ish|in 2000 files|the mon service
next mon|sun microsystems|Q3 plan|the winter palace|1795000000000|ratio 3/5|right now|every monday|the monday board
每周三的例会|一周一次|目前天气|网上周边|日本周刊|版本周期|说明天数|文明年代|最近的咖啡店|三点建议|每天|附近三天|三天后再说
"""


@pytest.mark.parametrize("expression", SPANS)
def test_prepositions_make_spans_and_open_ends(read: Callable[[str], str], expression: str):
    assert read(expression) == SPANS[expression]


@pytest.mark.parametrize("query", MENTIONS)
def test_a_time_is_found_inside_of_a_query(query: str, now_ms: int):
    found = find(query, now_ms, ZONE)
    assert found is not None
    assert (found.text, found.rest) == MENTIONS[query]
    assert query[found.start : found.end] == found.text
    assert found.range == parse(found.text, now_ms, ZONE)


@pytest.mark.parametrize("query", OTHER_SENSES.strip().replace("\n", "|").split("|"))
def test_words_of_another_sense_are_no_time(query: str, now_ms: int):
    assert find(query, now_ms, ZONE) is None


def test_offsets_are_those_of_the_original_text(now_ms: int, shown: Callable[[TimeRange], str]):
    query = "🎉🎉 ２０２５年３月５日 — what’s done?"
    found = find(query, now_ms, ZONE)
    assert found is not None
    assert found.text == "２０２５年３月５日"
    assert shown(found.range) == "2025-03-05 / 2025-03-06"


@pytest.mark.parametrize(
    "expression",
    ["", "soon", "30 February", "February 30", "2月30日", "half a second ago", "x" * 5000, "99999 days ago"],
)
def test_an_unknown_expression_is_refused_with_examples(expression: str, now_ms: int):
    with pytest.raises(InvalidTime) as caught:
        parse(expression, now_ms, ZONE)
    assert "yesterday" in caught.value.mend
    assert "上周三" in caught.value.mend
    assert len(caught.value.message) < 2 * EXPRESSION_MAX_CHARS


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "America", "UTC\x00", "\ud800", "x" * 5000])
def test_an_unknown_zone_is_refused(zone: str, now_ms: int):
    for function in (parse, find, to_ms):
        with pytest.raises(InvalidTime) as caught:
            function("today", now_ms, zone)
        assert "Asia/Shanghai" in caught.value.mend


def test_the_instant_of_a_range_is_its_beginning(now_ms: int):
    assert to_ms("yesterday", now_ms, ZONE) == parse("yesterday", now_ms, ZONE).since_ms


@pytest.mark.parametrize(
    "value", ["before March", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "after 9999"]
)
def test_what_has_no_beginning_within_the_years_is_no_instant(value: str, now_ms: int):
    with pytest.raises(InvalidTime):
        to_ms(value, now_ms, ZONE)


@given(PHRASES, MOMENTS, st.sampled_from([ZONE, "Pacific/Apia", "America/New_York"]))
def test_any_text_is_a_range_or_an_invalid_time(text: str, moment: int, zone: str):
    for function in (parse, to_ms):
        try:
            function(text, moment, zone)
        except InvalidTime:
            continue


@given(PHRASES)
def test_what_is_found_is_a_range_in_order(text: str):
    found = find(text, 1_795_000_000_000, ZONE)
    if found is not None:
        assert MIN_MS <= found.range.since_ms <= found.range.until_ms
        assert found.text == text[found.start : found.end]
