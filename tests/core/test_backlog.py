"""What every search, health report and count says of what does not work."""

import json

import pytest
from tests.core.rig import ALL, DAY, NOW, Embeddings, Rig, opened

from shoal.core.backlog import backlog
from shoal.core.context import EDGE, LAPTOP, Policy
from shoal.core.indexing import ATTEMPTS_MAX
from shoal.core.pausing import pause
from shoal.core.protocols import Calibration
from shoal.schema.models import FindRequest


def put(rig: Rig, key: str, value: object) -> None:
    rig.connection.execute("insert or replace into meta (k, v) values (?, ?)", (key, value))


def refuse(rig: Rig, *attempts: int) -> None:
    for rid, times in enumerate(attempts, 1):
        rig.connection.execute("insert into unembedded values (?, ?, 'model_error', 0)", (rid, times))


async def told(rig: Rig) -> list[list[str]]:
    """Return the codes that a search, a health report and the counts say."""
    answer = await rig.memory.find(FindRequest(query="fact"), ALL)
    newest = await rig.memory.find(FindRequest(), ALL)
    stats = await rig.memory.stats(ALL)
    notes = (answer.notes, newest.notes, await rig.memory.health(), stats.degraded)
    return [[note.code for note in some] for some in notes]


@pytest.fixture(params=[LAPTOP, EDGE], ids=["laptop", "edge"])
async def rig(request: pytest.FixtureRequest) -> Rig:
    """One memory with its vector, at either end."""
    rig = await opened(policy=request.param)
    await rig.store("a fact")
    await rig.embed_all()
    return rig


async def test_nothing_is_said_while_all_is_well(rig: Rig):
    assert await told(rig) == [[]] * 4


async def test_what_the_model_refused_is_told_once_it_is_given_up(rig: Rig):
    refuse(rig, *[ATTEMPTS_MAX - 1] * 3)
    assert await told(rig) == [[]] * 4
    rig.connection.execute("update unembedded set attempts = attempts + 1 where rid < 3")
    assert await told(rig) == [["not_embedded"]] * 4
    stats = await rig.memory.stats(ALL)
    assert (stats.failed_embeddings, stats.degraded[0].n) == (2, 2)
    assert "requeue" in stats.degraded[0].message


async def test_messages_that_could_not_be_delivered_are_told(rig: Rig):
    put(rig, "dead_letters", 3)
    assert await told(rig) == [["undelivered"]] * 4
    assert (await rig.memory.stats(ALL)).dead_letters == 3
    put(rig, "dead_letters", 0)
    assert await told(rig) == [[]] * 4


async def test_a_used_up_quota_is_told_until_it_is_given_anew(rig: Rig):
    await pause(rig.database, "Workers AI", NOW + DAY)
    assert await told(rig) == [["over_quota"]] * 4
    stats = await rig.memory.stats(ALL)
    assert stats.paused is not None
    assert (stats.paused.service, stats.paused.until) == ("Workers AI", "2026-09-22T14:13:20Z")
    assert "Workers AI" in stats.degraded[0].message
    assert stats.paused.until in stats.degraded[0].message
    rig.clock.now += DAY
    assert await told(rig) == [[]] * 4
    assert (await rig.memory.stats(ALL)).paused is None


async def test_several_troubles_are_all_told(rig: Rig):
    refuse(rig, ATTEMPTS_MAX)
    put(rig, "dead_letters", 1)
    put(rig, "refts", 99)
    await pause(rig.database, "D1", NOW + DAY)
    for codes in await told(rig):
        assert codes == ["not_embedded", "undelivered", "over_quota", "partial"]


async def test_counts_end_somewhere(rig: Rig):
    most = rig.memory._context.policy.backlog_counted
    refuse(rig, *[ATTEMPTS_MAX] * (most + 1))
    assert (await rig.memory.stats(ALL)).failed_embeddings == most


async def test_figures_measured_where_the_model_runs_count_for_that_model_alone(rig: Rig):
    context = rig.memory._context
    assert (await backlog(context)).calibration == Calibration(unrelated=0.25, related=0.7)
    measured = {"fingerprint": rig.embedder.fingerprint, "figures": {"unrelated": 0.4, "related": 0.6}}
    put(rig, "calibration", json.dumps(measured))
    assert (await backlog(context)).calibration == Calibration(unrelated=0.4, related=0.6)
    put(rig, "calibration", json.dumps({**measured, "fingerprint": "another@1"}))
    assert (await backlog(context)).calibration == Calibration(unrelated=0.25, related=0.7)


@pytest.mark.parametrize("policy", [LAPTOP, EDGE], ids=["laptop", "edge"])
async def test_searches_score_by_the_measured_figures(policy: Policy):
    class Unmeasured(Embeddings):
        calibration = None

    rig = await opened(embedder=Unmeasured(), policy=policy)
    await rig.store("deploy on friday evening")
    await rig.embed_all()
    (before,) = await rig.find("friday", explain=True)
    measured = {"fingerprint": rig.embedder.fingerprint, "figures": {"unrelated": 0.1, "related": 0.5}}
    put(rig, "calibration", json.dumps(measured))
    rig.clock.now += DAY  # past what is remembered
    (after,) = await rig.find("friday", explain=True)
    assert before.explain["vector"] == 1.0
    assert after.explain["vector"] == pytest.approx(after.explain["similarity"] / 0.5, abs=1e-3)


async def test_one_statement_says_all_that_health_needs_and_on_a_laptop_one_more_how_replication_stands(rig: Rig):
    await rig.store("another")
    before = len(rig.database.queries)
    degraded, pending = await rig.memory.check()
    assert len(rig.database.queries) == before + 1 + rig.memory.context.replica.dirty
    assert ([note.code for note in degraded], pending) == (["pending"], 1)
