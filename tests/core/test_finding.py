import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.rig import ALL, DAY, NOW, Embeddings, Rig, cell, opened

from shoal.core import finding
from shoal.core.caller import Caller, Scope
from shoal.core.finding import Channel
from shoal.core.protocols import Role
from shoal.core.times.calendar import END_MS
from shoal.schema.errors import (
    DatabaseFull,
    InvalidInput,
    InvalidTag,
    InvalidText,
    InvalidTime,
    NotAllowed,
    OutOfRange,
    UnknownType,
)
from shoal.schema.models import FindRequest, StoreItem

STRICT = Caller(clamps=False)


async def ask(rig: Rig, query: str = "", caller: Caller = ALL, **fields):
    return await rig.memory.find(FindRequest(query=query, **fields), caller)


def codes(answer) -> list[str]:
    return [note.code for note in answer.notes]


# By words


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("The deployment failed on Friday", "deployment"),
        ("The deployments failed on Friday", "deployment failing"),
        ("用户喜欢深色模式", "深色"),
        ("用户喜欢深色模式", "他喜欢什么模式"),
        ("用户喜欢深色模式", "深"),
        ("升级到 Python 3.12 之后部署失败", "python 部署"),
        ("Use getUserName in the API", "getUserName"),
        ("Use getUserName in the API", "user name"),
        ("See core/shoal/text.py", "core/shoal/text.py"),
        ("Written in C++ today", "c++"),
        ("Ｆｕｌｌ width", "full"),
        ("naïve café", "naive cafe"),
        ("IPv4 is 10.0.0.1", "10.0.0.1"),
    ],
)
async def test_a_memory_is_found_by_its_words_in_any_script(rig: Rig, content, query):
    await rig.store("Something else altogether, of no matter")
    one = await rig.store(content)
    assert await rig.by_words(query) == [one.id]


async def test_tags_types_and_entities_are_words_too(rig: Rig):
    await rig.store("Something else")
    one = await rig.store("a fact", tags=["proj:orion", "偏好设置"], entities=["Alice Wong"], type="best_practice")
    for query in ("orion", "偏好", "alice", "best practice"):
        assert await rig.by_words(query) == [one.id], query


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        "deploy OR",
        "AND",
        "NOT deploy",
        "NEAR(a b)",
        "content: x",
        "a*",
        "(((",
        "-",
        "^a",
        "a + b",
        "{a b} : c",
        "%_?;--",
        "\\",
        "[1]",
        "…",
        "🙂",
        "the of and",
    ],
)
async def test_a_query_is_text_never_syntax(rig: Rig, query):
    one = await rig.store("deploy a b content x near c not and or 1")
    answer = await ask(rig, query)
    assert {found.id for found in answer.results} <= {one.id}


@given(query=st.text(max_size=40))
async def test_any_text_is_a_query_or_refused_as_text(query):
    rig = await opened(embedder=None)
    await rig.store("deploy 部署 a")
    try:
        await ask(rig, query)
    except InvalidText:
        assert "\x00" in query or any("\ud800" <= char <= "\udfff" for char in query)


async def test_a_result_is_a_short_row(rig: Rig):
    one = await rig.store("word " * 200 + "needle " + "word " * 200, type="bug", tags="x")
    (found,) = (await ask(rig, "needle")).results
    assert (found.id, found.type, found.kind, found.tags, found.state, found.space) == (
        one.id,
        "bug",
        "episodic",
        ["x"],
        "live",
        "main",
    )
    assert "needle" in found.snippet
    assert len(found.snippet) <= 200
    assert found.explain is None
    assert found.edges is None


async def test_the_snippet_of_a_long_document_comes_from_the_passage_that_says_most(rig: Rig):
    sections = [f"Chapter {n}. " + f"Filler about gardens and rivers number {n}. " * 60 for n in range(12)]
    sections[3] += "The zebra lives here. "
    sections[8] += "The zebra eats the quagga's melon at noon. "
    await rig.store("\n\n".join(sections))
    await rig.embed_all()
    assert rig.value("select count(*) from content_fts") > 12
    (found,) = (await ask(rig, "zebra melon")).results
    assert "melon" in found.snippet
    (found,) = (await ask(rig, "quagga")).results
    assert "quagga" in found.snippet


# The newest


async def test_an_empty_query_returns_the_newest(rig: Rig):
    for n in range(7):
        await rig.store(f"memory {n}", occurred_at=f"2026-01-0{7 - n}")
    for query in ("", "  \n", "\u200b", "\ufeff "):
        answer = await ask(rig, query)
        assert [found.snippet for found in answer.results] == [f"memory {n}" for n in range(5)]
        assert answer.results[0].why == ["newest"]


async def test_the_newest_of_several_spaces_are_merged(rig: Rig):
    for n in range(4):
        await rig.store(f"memory {n}", space=("a", "b")[n % 2], occurred_at=f"2026-01-0{n + 1}")
    answer = await ask(rig, "", space=["a", "b"])
    assert [found.snippet for found in answer.results] == [f"memory {n}" for n in (3, 2, 1, 0)]
    assert [found.space for found in (await ask(rig, "", space="*")).results] == ["b", "a", "b", "a"]


# Filters


@pytest.fixture
async def filled() -> Rig:
    rig = await opened()
    await rig.store_all(
        [
            StoreItem(
                content="deploy one", type="bug", tags="proj:x,proj:z,red", entities=["Ann"], occurred_at="2026-01-10"
            ),
            StoreItem(content="deploy two", type="error", tags="proj:y,red,blue", occurred_at="2026-02-10"),
            StoreItem(content="deploy three", type="runbook", tags="projx", entities=["Ann Lee"]),
            StoreItem(content="deploy four", type="note", tags="标签", conversation_id="c1", position=0),
            StoreItem(content="deploy five", type="learning", tags="topic:x", conversation_id="c2", position=0),
        ]
    )
    six = await rig.store("deploy six", type="bug", tags="red")
    await rig.update(six.id, archived=True)
    await rig.store("deploy seven", space="team", tags="red")
    await rig.embed_all()
    return rig


FILTERS = [
    ({}, "one two three four five"),
    ({"type": "bug"}, "one"),
    ({"type": "error"}, "one two"),
    ({"type": ["bug", "procedural"]}, "one three"),
    ({"kind": "episodic"}, "one two"),
    ({"kind": "semantic"}, "four five"),
    ({"type": ["bug", "note"], "kind": "semantic"}, "four"),
    ({"type": "bug", "kind": "semantic"}, ""),
    ({"tags": "red"}, "one two"),
    ({"tags": "red,blue", "tags_mode": "any"}, "one two"),
    ({"tags": "red,blue", "tags_mode": "all"}, "two"),
    ({"tags": "proj:*"}, "one two"),
    ({"tags": "proj:*,blue", "tags_mode": "all"}, "two"),
    ({"tags": "proj:*,proj:x", "tags_mode": "all"}, "one"),
    ({"tags": ["标签"]}, "four"),
    ({"tags": "nobody"}, ""),
    ({"entity": "Ann"}, "one"),
    ({"entity": "Ann Lee"}, "three"),
    ({"conversation_id": "c1"}, "four"),
    ({"since": "2026-02-01"}, "two three four five"),
    ({"until": "2026-02"}, "one two"),
    ({"until": "2026-01-09"}, ""),
    ({"since": "2026-01-10", "until": "2026-01-10"}, "one"),
    ({"time": "2026-01"}, "one"),
    ({"time": "2026", "since": "2026-02-01", "until": "2026-03-01"}, "two"),
    ({"since": "2026-02-01", "time_field": "created"}, "one two three four five"),
    ({"until": "2026-02-01", "time_field": "created"}, ""),
    ({"include_archived": True}, "one two three four five six"),
    ({"include_archived": True, "tags": "red", "type": "bug"}, "one six"),
    ({"space": "team"}, "seven"),
    ({"space": "*"}, "one two three four five seven"),
    ({"space": ["team", "main"], "tags": "red"}, "one two seven"),
    ({"space": "nowhere"}, ""),
]


@pytest.mark.parametrize(("fields", "expected"), FILTERS)
@pytest.mark.parametrize("query", ["", "deploy", "deplo"])  # no memory has the last one as a word
async def test_filters_select_alike_for_newest_words_and_meaning(filled: Rig, fields, expected, query):
    found = await filled.find(query, n_results=10, **fields)
    names = {one.snippet.split()[-1] for one in found}
    assert names == set(expected.split())


async def test_a_type_that_another_replica_added_is_found_as_the_observation_it_counts_as(rig: Rig):
    foreign = "ab" * 16
    init = {"class": "memory", "content": "foreign fact", "type": "theirs", "occurred_at": NOW, "created_at": NOW}
    await rig.apply(cell(foreign, "init", 1, NOW, init))
    await rig.store("another fact", type="bug")
    await rig.store("a third fact", type="decision")
    assert [(one.type, one.kind) for one in await rig.find("foreign", n_results=1)] == [("theirs", "episodic")]
    for query in ("", "fact"):
        assert {one.type for one in await rig.find(query, kind="episodic")} == {"theirs", "bug"}
        assert {one.type for one in await rig.find(query, type="observation")} == {"theirs"}
        assert {one.type for one in await rig.find(query, type=["observation", "decision"])} == {"theirs", "decision"}
        assert await rig.find(query, type="observation", kind="semantic") == []
    with pytest.raises(UnknownType):
        await rig.find("fact", type="theirs")


async def test_a_match_that_passes_the_filter_is_found_behind_ten_thousand_that_do_not():
    rig = await opened(embedder=None)
    for start in range(0, 10_000, 500):
        await rig.store_all([StoreItem(content=f"deploy deploy deploy {n}") for n in range(start, start + 500)])
    one = await rig.store("after a long talk about other things somebody mentioned that the deploy is late", tags="x")
    assert await rig.by_words("deploy", tags="x") == [one.id]
    assert await rig.by_words("deploy", type="note", since="2026-01-01", tags="x") == [one.id]
    other = await rig.store("a deploy of another space", space="team")
    assert await rig.by_words("deploy", space="team") == [other.id]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"type": "poem"}, UnknownType),
        ({"tags": []}, InvalidTag),
        ({"tags": " , "}, InvalidTag),
        ({"tags": "proj:"}, InvalidTag),
        ({"since": "some day"}, InvalidTime),
        ({"since": "2026-03-01", "until": "2026-02-01"}, InvalidTime),
        ({"time": "2026-01", "since": "2026-03-01"}, InvalidTime),
        ({"time_zone": "Mars/Olympus"}, InvalidTime),
        ({"entity": " "}, InvalidInput),
        ({"conversation_id": ""}, InvalidInput),
        ({"space": ""}, InvalidInput),
        ({"space": []}, InvalidInput),
        ({"min_score": 1.5}, OutOfRange),
        ({"min_score": -0.1}, OutOfRange),
        ({"min_score": float("nan")}, OutOfRange),
    ],
)
async def test_a_filter_that_cannot_be_is_refused(rig: Rig, fields, error):
    with pytest.raises(error):
        await ask(rig, "deploy", **fields)


async def test_only_the_callers_spaces_are_searched(filled: Rig):
    team = Caller(spaces=("team",))
    for query in ("", "deploy"):
        for fields in ({}, {"space": "*"}, {"space": "team"}):
            assert [one.snippet for one in await filled.find(query, team, **fields)] == ["deploy seven"]
        with pytest.raises(NotAllowed):
            await filled.find(query, team, space="main")
        with pytest.raises(NotAllowed):
            await filled.find(query, team, space=["team", "main"])
        with pytest.raises(NotAllowed):
            await filled.find(query, Caller(scopes=frozenset({Scope.WRITE})))
        assert await filled.find(query, Caller(spaces=()), space="*") == []


# Limits


async def test_a_number_out_of_range_is_clamped_with_a_note_or_refused(rig: Rig):
    await rig.store_all([StoreItem(content=f"deploy {n}") for n in range(60)])
    for asked, got in ((0, 1), (-3, 1), (51, 50), (1000, 50)):
        answer = await ask(rig, "deploy", n_results=asked)
        assert (len(answer.results), "clamped" in codes(answer)) == (got, True)
        with pytest.raises(OutOfRange):
            await ask(rig, "deploy", caller=STRICT, n_results=asked)
    answer = await ask(rig, "deploy", caller=STRICT, n_results=50)
    assert (len(answer.results), codes(answer)) == (50, [])


async def test_a_very_long_query_is_cut_with_a_note(rig: Rig):
    one = await rig.store("needle in a haystack")
    answer = await ask(rig, "needle " + "hay " * 2000)
    assert codes(answer) == ["truncated"]
    assert one.id in [found.id for found in answer.results]


async def test_min_score_leaves_out_what_scores_less(rig: Rig):
    for n in range(5):
        await rig.store(f"deploy number {n} " + "with padding " * n)
    scores = [found.score for found in (await ask(rig, "deploy number 0")).results]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    kept = (await ask(rig, "deploy number 0", min_score=scores[1])).results
    assert [found.score for found in kept] == [score for score in scores if score >= scores[1]]
    assert (await ask(rig, "deploy number 0", min_score=1.0)).results in ([], kept[:1])


# Why, explain, state


async def test_a_superseded_memory_comes_after_its_successor_and_says_why(rig: Rig):
    old = await rig.store("The deploy is on Friday at noon")
    new = (await rig.update(old.id, content="The deploy is on Monday at noon")).superseded_by
    found = await rig.find("deploy noon", include_edges=True)
    assert [one.id for one in found] == [new, old.id]
    assert f"superseded by {new}" in found[1].why
    assert found[0].score > found[1].score
    assert [[edge.relation for edge in one.edges] for one in found] == [["supersedes"], ["supersedes"]]


async def test_an_archived_result_says_so(filled: Rig):
    (found,) = [one for one in await filled.find("six", include_archived=True) if one.snippet == "deploy six"]
    assert found.state == "archived"
    assert "archived" in found.why


async def test_explain_returns_every_component(rig: Rig):
    await rig.store("deploy on Friday")
    (found,) = await rig.find("deploy", explain=True)
    assert {"words", "lexical", "similarity", "vector", "own", "relevance", "recency", "superseded"} <= set(
        found.explain
    )


async def test_each_channel_can_be_switched_off(rig: Rig):
    await rig.store("deploy on Friday")
    await rig.embed_all()
    request = FindRequest(query="deploy")
    (lexical,) = (await rig.memory.find(request, ALL, frozenset({Channel.LEXICAL}))).results
    (vector,) = (await rig.memory.find(request, ALL, frozenset({Channel.VECTOR}))).results
    assert (lexical.why, vector.why) == (["words"], ["meaning"])


async def test_a_time_in_the_query_prefers_that_time_and_is_told(rig: Rig):
    late = await rig.store("We had lunch", occurred_at="2026-09-19")
    early = await rig.store("We had a lunch", occurred_at="2026-09-20")
    answer = await ask(rig, "lunch yesterday")
    assert [found.id for found in answer.results] == [early.id, late.id]
    assert codes(answer) == ["time"]
    assert "time: yesterday" in answer.results[0].why
    found = (await ask(rig, "昨天")).results
    assert found[0].id == early.id
    assert [one.id for one in (await ask(rig, "yesterday")).results][:1] == [early.id]


@pytest.mark.parametrize(
    "query",
    [
        "yesterday",
        "What happened yesterday?",
        "what did we do yesterday",
        "show me what I stored yesterday",
        "what's planned for yesterday",
        "昨天",
        "昨天发生了什么？",
        "昨天做了什么",
        "我昨天都忙了些什么事情",
        "昨天有什么安排",
        "总结一下昨天的工作",
    ],
)
async def test_a_question_that_names_a_time_and_no_subject_is_answered_by_that_time(rig: Rig, query):
    """Its other words stand in memories of any time, and in their meaning."""
    await rig.store("Deploys happen on Fridays, as we planned: what we do and show at work", occurred_at="2026-09-21")
    await rig.store("发生了什么都做记录，安排工作的事情", occurred_at="2026-09-19")
    ours = [(await rig.store(text, occurred_at="2026-09-20")).id for text in ("Lunch with Marco", "和供应商开会")]
    await rig.embed_all()
    results = (await ask(rig, query, min_score=0.8)).results
    assert {found.id for found in results} == set(ours)


@pytest.mark.parametrize("query", ["what did we decide yesterday", "昨天决定了什么", "Marco yesterday"])
async def test_a_question_with_a_subject_only_prefers_its_time(rig: Rig, query):
    one = await rig.store("We decided with Marco for NATS. 我们决定用它。", occurred_at="2026-09-10")
    await rig.store("Rain all day", occurred_at="2026-09-20")
    assert (await ask(rig, query)).results[0].id == one.id


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("lunch since 2020", "2020-01-01T00:00:00Z and later"),
        ("lunch after 2026-09-19", "2026-09-20T00:00:00Z and later"),
        ("lunch before 2030", "what was before 2030-01-01T00:00:00Z"),
        ("lunch on 9999-12-31", "9999-12-31T00:00:00Z and later"),
        ("2020年以来的 lunch", "2020-01-01T00:00:00Z and later"),
    ],
)
async def test_a_time_without_an_end_or_a_beginning_is_told_as_such(rig: Rig, query, told):
    one = await rig.store("We had lunch", occurred_at="2026-09-20")
    answer = await ask(rig, query)
    assert [found.id for found in answer.results] == [one.id]
    assert told in next(note.message for note in answer.notes if note.code == "time")


@pytest.mark.parametrize("ms", [END_MS, 10**15, -(10**15), 2**53 - 1])
async def test_a_time_that_nobody_can_write_does_not_keep_the_rest_from_being_read(rig: Rig, ms):
    odd = await rig.store("from a replica whose clock was broken")
    sound = await rig.store("from a sound replica")
    await rig.apply(cell(odd.id, "occurred_at", 1, NOW + 1, ms))
    assert {found.id for found in await rig.find("replica")} == {odd.id, sound.id}
    assert {found.id for found in await rig.find()} == {odd.id, sound.id}
    assert len(await rig.get(odd.id, sound.id)) == 2


async def test_the_newest_of_a_time_are_those_of_all_spaces_that_are_asked(rig: Rig):
    for space, day in (("a", 18), ("b", 19), ("c", 20), ("a", 20)):
        await rig.store(f"lunch in {space} on {day}", space=space, occurred_at=f"2026-09-{day}")
    for space, expected in (
        ("*", {"lunch in c on 20", "lunch in a on 20"}),
        (["a", "b"], {"lunch in a on 20"}),
        ("b", set()),
    ):
        found = await rig.find("yesterday", space=space, min_score=0.8)
        assert {one.snippet for one in found} == expected


async def test_yesterday_is_the_callers_own(rig: Rig):
    one = await rig.store("We had lunch", occurred_at="2026-09-20T18:00:00Z")
    rig.clock.now = NOW + 5 * 3_600_000  # 19:13 on the 21st in UTC, the 22nd in Tokyo
    in_utc, in_tokyo = [
        (await ask(rig, "lunch yesterday", caller=Caller(time_zone=zone), explain=True)).results[0]
        for zone in ("UTC", "Asia/Tokyo")
    ]
    assert in_utc.id == in_tokyo.id == one.id
    assert (in_utc.explain["in_time"], in_tokyo.explain["in_time"]) == (1.0, 1.0)
    rig.clock.now = NOW + DAY
    assert (await ask(rig, "lunch yesterday", explain=True)).results[0].explain["in_time"] == 0.0


# By meaning


class Meanings(Embeddings):
    """Knows that some words mean the same."""

    def _vector(self, text):
        return super()._vector(text.replace("automobile", "car").replace("汽车", "car"))


async def test_a_memory_is_found_by_meaning_at_once_after_it_was_written():
    rig = await opened(embedder=Meanings())
    one = await rig.store("the car")
    (found,) = await rig.find("the automobile", n_results=1)
    assert (found.id, "meaning" in found.why) == (one.id, True)
    assert [found.id for found in await rig.find("汽车")] == [one.id]


async def test_a_model_that_fails_leaves_words_and_says_so(rig: Rig):
    one = await rig.store("deploy on Friday")
    rig.embedder.broken = True
    answer = await ask(rig, "deploy")
    assert [found.id for found in answer.results] == [one.id]
    assert codes(answer) == ["lexical_only"]
    rig.embedder.broken = False
    answer = await ask(rig, "deploy")
    assert codes(answer) == []
    assert "meaning" in answer.results[0].why


async def test_without_a_model_words_are_searched_and_it_is_said():
    rig = await opened(embedder=None, no_model_reason="none was configured.")
    one = await rig.store("deploy on Friday")
    answer = await ask(rig, "deploy")
    assert [found.id for found in answer.results] == [one.id]
    assert codes(answer) == ["lexical_only"]
    assert "none was configured." in answer.notes[0].message


async def test_a_slow_model_does_not_hold_a_search_up_and_the_backlog_is_told(rig: Rig):
    for n in range(3):
        await rig.store(f"deploy {n}")
    rig.embedder.open.clear()
    answer = await ask(rig, "deploy")
    assert len(answer.results) == 3
    assert [(note.code, note.n) for note in answer.notes] == [("pending", 3)]
    rig.embedder.open.set()
    answer = await ask(rig, "deploy")
    assert codes(answer) == []


async def test_searches_at_one_time_share_the_embedding_of_a_backlog():
    """One step each would put the model's work of all before everybody's query."""

    class Counting(Embeddings):
        now = most = 0

        async def embed(self, texts, role):
            self.now += role is Role.PASSAGE
            self.most = max(self.most, self.now)
            try:
                return await super().embed(texts, role)
            finally:
                self.now -= role is Role.PASSAGE

    rig = await opened(embedder=Counting())
    await rig.store_all([StoreItem(content=f"memory {n}") for n in range(100)])
    rig.embedder.open.clear()
    answers = await asyncio.gather(*(ask(rig, "memory") for _ in range(20)))
    assert all(codes(answer) == ["pending"] for answer in answers)
    assert rig.embedder.most == 1
    rig.embedder.open.set()
    await rig.embed_all()
    assert sorted(rig.embedder.texts) == sorted(f"memory {n}" for n in range(100))


async def test_who_writes_while_another_search_embeds_is_found_by_meaning_too(rig: Rig):
    await rig.store("first")
    rig.embedder.open.clear()
    other = asyncio.ensure_future(rig.find("first"))
    await rig.embedder.asked.wait()
    one = await rig.store("second")
    own = asyncio.ensure_future(rig.find("second"))
    await asyncio.sleep(0.005)
    rig.embedder.open.set()
    (found,) = [found for found in await own if found.id == one.id]
    assert "meaning" in found.why
    await other


async def test_a_fault_while_a_backlog_is_embedded_is_not_hidden(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    await rig.store("a fact")

    async def faulty(_limit: int, _ids: object) -> None:
        raise KeyError("a fault of the program")

    monkeypatch.setattr(rig.memory.indexer, "settle", faulty)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    with pytest.raises(KeyError):
        await rig.find("fact")


async def test_a_disk_that_takes_no_vectors_does_not_keep_words_from_being_found(rig: Rig):
    await rig.store("a fact")
    rig.database.fail_batches_with = DatabaseFull("It is full.", "Free some space.")
    answer = await ask(rig, "fact")
    assert (len(answer.results), codes(answer)) == (1, ["pending"])


async def test_a_query_that_the_model_does_not_answer_in_time_is_searched_by_words(rig: Rig, monkeypatch):
    await rig.store("a fact")
    await rig.embed_all()
    monkeypatch.setattr(finding, "MODEL_WAIT_S", 0.01)

    async def never(texts, role):
        await asyncio.sleep(60)

    monkeypatch.setattr(rig.embedder, "embed", never)
    answer = await ask(rig, "fact")
    assert (len(answer.results), codes(answer)) == (1, ["lexical_only"])


async def test_a_backlog_is_found_by_its_words_and_told(rig: Rig):
    await rig.store_all([StoreItem(content=f"deploy number {n}") for n in range(30)])
    answer = await ask(rig, "deploy", n_results=50)
    assert len(answer.results) == 30
    assert [(note.code, note.n) for note in answer.notes] == [("pending", 22)]


# Conversations


async def test_a_turn_is_found_by_what_it_answers(rig: Rig):
    await rig.store_all(
        [
            StoreItem(content="When will you move to Lisbon?", conversation_id="c1", position=1),
            StoreItem(content="In May, I think.", conversation_id="c1", position=2),
            StoreItem(content="In May, I think.", conversation_id="c2", position=2),
        ]
    )
    await rig.embed_all()
    found = await rig.find("when does the move to Lisbon happen")
    assert [one.snippet for one in found][1] == "In May, I think."
    answer = await rig.one(found[1].id)
    assert answer.conversation_id == "c1"


async def test_a_neighbour_outside_the_filter_stays_out(rig: Rig):
    await rig.store("Where is the zebra?", conversation_id="c1", position=1, tags="a")
    await rig.store("In the zoo.", conversation_id="c1", position=2)
    found = await rig.find("zebra", tags="a")
    assert [one.snippet for one in found] == ["Where is the zebra?"]
    trashed = await rig.store("Beside the lions.", conversation_id="c1", position=0)
    await rig.delete(trashed.id)
    assert "Beside the lions." not in [one.snippet for one in await rig.find("zebra", n_results=10)]


async def test_what_nothing_answers_has_no_results(filled: Rig):
    assert await filled.find("qqq") == []
