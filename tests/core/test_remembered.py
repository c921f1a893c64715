"""A question that comes again: the same answer until anything is written."""

import asyncio

import pytest
from tests.core.rig import ALL, Rig, opened

from shoal.core.caller import Caller
from shoal.core.remembered import KEPT_MS, Remembered
from shoal.schema.errors import InvalidInput
from shoal.schema.models import FindAnswer, FindRequest, Note, NoteCode

ANSWER = FindAnswer(results=[], total_considered=3)


def test_the_same_question_gets_the_same_answer_until_a_write_or_a_minute_later():
    remembered = Remembered(2)
    remembered.put("q", 7, 1000, ANSWER)
    assert remembered.get("q", 7, 1000) is ANSWER
    assert remembered.get("q", 7, 1000 + KEPT_MS - 1) is ANSWER
    assert remembered.get("q", 8, 1000) is None
    assert remembered.get("q", 7, 1000 + KEPT_MS) is None
    assert remembered.get("q", 7, 999) is None  # the clock went back
    assert remembered.get("another", 7, 1000) is None


def test_the_least_recently_used_answer_goes_first():
    remembered = Remembered(2)
    for question in "ab":
        remembered.put(question, 1, 0, ANSWER)
    remembered.get("a", 1, 0)
    remembered.put("c", 1, 0, ANSWER)
    assert [remembered.get(question, 1, 0) is not None for question in "abc"] == [True, False, True]


@pytest.mark.parametrize(
    "code",
    [NoteCode.LEXICAL_ONLY, NoteCode.PENDING, NoteCode.NOT_EMBEDDED, NoteCode.OVER_QUOTA, NoteCode.PARTIAL],
)
def test_an_incomplete_answer_is_not_kept(code: NoteCode):
    remembered = Remembered(2)
    remembered.put("q", 1, 0, ANSWER.model_copy(update={"notes": [Note(code=code, message="so far")]}))
    assert remembered.get("q", 1, 0) is None


def test_an_answer_that_the_state_of_things_leaves_incomplete_is_not_kept():
    remembered = Remembered(2)
    remembered.put("q", 1, 0, ANSWER, [Note(code=NoteCode.PENDING, message="so far")])
    assert remembered.get("q", 1, 0) is None
    remembered.put("q", 1, 0, ANSWER, [Note(code=NoteCode.OTHER_MODEL, message="a small one")])
    assert remembered.get("q", 1, 0) is ANSWER


def test_nothing_is_kept_where_nothing_may_be():
    remembered = Remembered(0)
    remembered.put("q", 1, 0, ANSWER)
    assert remembered.get("q", 1, 0) is None


async def asked(rig: Rig, caller: Caller = ALL) -> FindAnswer:
    return await rig.memory.find(FindRequest(query="deploy"), caller)


@pytest.fixture
async def rig() -> Rig:
    rig = await opened()
    await rig.store("deploy one")
    await rig.embed_all()
    return rig


async def test_a_repeated_search_asks_the_indexes_once(rig: Rig):
    first = await asked(rig)
    queries = len(rig.database.queries)
    assert await asked(rig) is first
    assert len(rig.database.queries) == queries + 1


async def test_every_kind_of_write_is_seen_by_the_next_search(rig: Rig):
    one = (await asked(rig)).results[0].id

    async def after(write) -> list[tuple[str, str, list[str]]]:
        await asked(rig)
        await write
        await rig.embed_all()
        return [(found.id, found.state, found.tags) for found in (await asked(rig)).results]

    assert await after(rig.update(one, tags="x")) == [(one, "live", ["x"])]
    assert await after(rig.update(one, archived=True)) == []
    assert await after(rig.update(one, archived=False)) == [(one, "live", ["x"])]
    assert await after(rig.delete(one)) == []
    assert await after(rig.memory.revive([one], ALL)) == [(one, "live", ["x"])]
    assert len(await after(rig.store("deploy two"))) == 2
    assert len(await after(rig.delete(one, purge=True))) == 1


async def test_callers_do_not_share_answers(rig: Rig):
    await asked(rig)
    assert (await asked(rig, Caller(spaces=("team",)))).results == []


async def test_searches_at_once_and_writes_between_them_agree_in_the_end(rig: Rig):
    async def write(number: int) -> None:
        await rig.store(f"deploy {number}")

    await asyncio.gather(*(work for number in range(20) for work in (write(number), asked(rig), asked(rig))))
    await rig.embed_all()
    answer = await rig.memory.find(FindRequest(query="deploy", n_results=50), ALL)
    assert len(answer.results) == 21


@pytest.mark.parametrize("fields", [{"query": "\ud800"}, {"query": "deploy", "tags": "\ud800"}])
async def test_half_a_surrogate_pair_is_refused_as_any_other_bad_text(rig: Rig, fields: dict[str, str]):
    with pytest.raises(InvalidInput):
        await rig.memory.find(FindRequest(**fields), ALL)
