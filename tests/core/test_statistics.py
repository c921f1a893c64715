import pytest
from tests.core.rig import ALL, Embeddings, Rig, opened

from shoal.core.caller import Caller, Scope
from shoal.core.protocols import ModelState, Phase
from shoal.schema.errors import NotAllowed
from shoal.schema.models import FindRequest, GetRequest


async def filled(rig: Rig) -> None:
    await rig.store("one", type="bug")
    await rig.store("two", type="bug", space="team")
    archived, trashed, purged = [await rig.store(text) for text in ("three", "four", "five")]
    await rig.update(archived.id, archived=True)
    await rig.delete(trashed.id)
    await rig.purge(purged.id)


async def test_what_a_caller_may_read_is_counted(rig: Rig):
    await filled(rig)
    stats = await rig.memory.stats(ALL)
    assert (stats.total, stats.live, stats.archived, stats.trashed) == (3, 2, 1, 1)
    assert stats.by_type == {"bug": 2, "note": 1}
    assert stats.by_kind == {"episodic": 2, "semantic": 1}
    assert stats.spaces == {"main": 2, "team": 1}
    assert stats.database_bytes == rig.value("pragma page_count") * rig.value("pragma page_size")


async def test_a_stranger_counts_only_their_own_space(rig: Rig):
    await filled(rig)
    stats = await rig.memory.stats(Caller(spaces=("team",)))
    assert (stats.total, stats.trashed, stats.spaces) == (1, 0, {"team": 1})
    assert stats.database_bytes is None
    nothing = await rig.memory.stats(Caller(spaces=("empty",)))
    assert (nothing.total, nothing.by_type, nothing.spaces) == (0, {}, {})
    with pytest.raises(NotAllowed):
        await rig.memory.stats(Caller(scopes=frozenset({Scope.WRITE})))


async def test_a_model_that_stands_in_for_another_is_told_in_every_answer():
    class Substitute(Embeddings):
        @property
        def state(self) -> ModelState:
            return ModelState(Phase.READY, "small stands in for large.")

    rig = await opened(embedder=Substitute())
    one = await rig.store("a fact")
    await rig.embed_all()
    read = await rig.memory.get(GetRequest(id=one.id), ALL)
    found = await rig.memory.find(FindRequest(query="fact"), ALL)
    for notes in (
        one.notes,
        read.notes,
        found.notes,
        await rig.memory.health(),
        (await rig.memory.stats(ALL)).degraded,
    ):
        assert [(note.code, note.message) for note in notes] == [("other_model", "small stands in for large.")]


async def test_a_backlog_and_a_missing_model_are_degraded_states(rig: Rig):
    assert (await rig.memory.stats(ALL)).degraded == []
    await rig.store("one")
    stats = await rig.memory.stats(ALL)
    assert (stats.pending_embeddings, [note.code for note in stats.degraded]) == (1, ["pending"])
    await rig.embed_all()
    assert await rig.memory.health() == []
    rig.embedder.broken = True
    assert [note.code for note in await rig.memory.health()] == ["lexical_only"]
    without = await opened(embedder=None, no_model_reason="none was configured.")
    stats = await without.memory.stats(ALL)
    assert (stats.model.state, stats.model.reason) == ("unavailable", "none was configured.")
    assert [note.code for note in stats.degraded] == ["lexical_only"]
