"""Vectors in an index apart from the database, and memories that the model refuses."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.core.rig import ALL, DAY, NOW, Embeddings, Rig, opened

from shoal.core.caller import Caller, Scope
from shoal.core.context import EDGE
from shoal.core.indexing import ATTEMPTS_MAX, PROBE, REMOVAL_CHARS
from shoal.core.pausing import pause, paused
from shoal.core.protocols import Role, Row, SqlValue, Vector
from shoal.schema.errors import ModelBusy, ModelError, NotAllowed
from shoal.schema.limits import CONTENT_MAX_BYTES, PASSAGES_MAX
from shoal.schema.models import StoreItem


class Choosy(Embeddings):
    """Refuses every call that holds a text with the word `poison`; while `down` every call at all."""

    def __init__(self) -> None:
        super().__init__("choosy@1")
        self.down = False
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        self.calls.append(list(texts))
        if self.down or any("poison" in text for text in texts):
            raise ModelError("The model refused a text.", "Try again.")
        return await super().embed(texts, role)


@pytest.fixture
async def edge() -> Rig:
    return await opened(embedder=Choosy(), policy=EDGE, device="edge")


def memories(rig: Rig) -> set[int]:
    """Return the rids that have vectors."""
    return {key // PASSAGES_MAX for key in rig.index._rows}


def rid(rig: Rig, memory_id: str) -> int:
    return rig.value("select rid from record where id = unhex(?)", memory_id)


# What an index apart must be told


@pytest.mark.parametrize(
    "change",
    [{"type": "bug"}, {"occurred_at": "2026-01-02"}, {"archived": True}],
    ids=lambda change: next(iter(change)),
)
async def test_a_change_that_the_index_filters_by_makes_the_vectors_wanted(edge: Rig, change: dict[str, object]):
    one = await edge.store("a fact", type="note")
    await edge.embed_all()
    await edge.update(one.id, **change)
    assert await edge.memory.pending() == 1
    await edge.embed_all()
    (row,) = edge.index._rows.values()
    assert (row.type, row.archived) == (change.get("type", "note"), change.get("archived", False))
    assert row.occurred_ms == edge.value("select occurred_at from record")
    assert (row.space, row.kind) == ("main", edge.memory._context.ontology.info(row.type).kind)


@pytest.mark.parametrize("change", [{"tags": "x"}, {"importance": 2.0}, {"metadata": {"k": 1}}, {"type": "note"}])
async def test_other_changes_want_nothing(edge: Rig, change: dict[str, object]):
    one = await edge.store("a fact", type="note")
    await edge.embed_all()
    await edge.update(one.id, **change)
    assert await edge.memory.pending() == 0


async def test_a_new_memory_is_wanted_once(edge: Rig):
    await edge.store("a fact", type="bug", occurred_at="2026-01-02", tags="x")
    assert edge.value("select want from record") == 1


async def test_what_goes_to_the_trash_leaves_the_index_and_comes_back_with_it(edge: Rig):
    one = await edge.store("a fact")
    await edge.embed_all()
    await edge.delete(one.id)
    await edge.embed_all()
    assert memories(edge) == set()
    await edge.memory.revive([one.id], ALL)
    await edge.embed_all()
    assert memories(edge) == {rid(edge, one.id)}


async def test_a_purge_leaves_the_vectors_to_the_background(edge: Rig):
    one = await edge.store("a fact")
    await edge.embed_all()
    await edge.purge(one.id)
    assert await edge.memory.pending() == 1
    await edge.embed_all()
    assert memories(edge) == set()


# Work by name


async def test_named_memories_and_the_turns_after_them_are_made_and_no_others(edge: Rig):
    await edge.store("somebody else's")
    turns = await edge.store_all([StoreItem(content=f"turn {n}", conversation_id="c", position=n) for n in range(4)])
    ids = [one.id for one in turns.results]
    assert await edge.memory.indexer.named(ids[1:2], 10) == 2
    assert memories(edge) == {rid(edge, ids[1]), rid(edge, ids[2])}
    assert await edge.memory.indexer.named(ids[1:2], 10) == 0


async def test_names_that_nobody_has_are_no_work(edge: Rig):
    assert await edge.memory.indexer.named(["ab" * 16], 10) == 0


async def test_writes_are_announced_by_their_ids():
    told: list[list[str]] = []
    rig = await opened(policy=EDGE)
    object.__setattr__(rig.memory._context, "announce", lambda ids: told.append(list(ids)))
    one = await rig.store("a fact")
    both = await rig.store_all([StoreItem(content="b"), StoreItem(content="c")])
    changed = await rig.update(one.id, content="a better fact")
    await rig.delete(one.id, dry_run=True)
    await rig.delete(one.id)
    await rig.memory.revive([one.id], ALL)
    await rig.delete(one.id)
    rig.clock.now += 31 * DAY
    assert await rig.memory.empty_trash() == 1
    assert told == [
        [one.id],
        [item.id for item in both.results],
        [one.id, changed.superseded_by],
        [one.id],
        [one.id],
        [one.id],
        [one.id],
    ]


async def test_memories_that_wait_are_named_once_they_have_waited(edge: Rig):
    one = await edge.store("a fact")
    edge.clock.now += 1_000
    await edge.store("a newer fact")
    assert await edge.memory.indexer.waiting(NOW + 1_000) == [one.id]


# What the model refuses


async def test_a_memory_that_the_model_refuses_does_not_hold_up_the_others(edge: Rig):
    await edge.store_all([StoreItem(content=f"fact {n}") for n in range(9)])
    await edge.store("poison")
    assert await edge.memory.embed_pending(32) == 10
    assert len(memories(edge)) == 9
    assert await edge.memory.pending() == 1


async def test_it_is_given_up_after_a_number_of_attempts_and_tried_again_when_asked(edge: Rig):
    bad = await edge.store("poison")
    await edge.store("fact")
    for _ in range(ATTEMPTS_MAX):
        assert await edge.memory.embed_pending(32) > 0
    assert await edge.memory.embed_pending(32) == 0
    assert await edge.memory.pending() == 0
    assert edge.rows("select rid, attempts, code from unembedded") == [(rid(edge, bad.id), ATTEMPTS_MAX, "model_error")]
    assert (await edge.memory.requeue(ALL)).requeued == 1
    assert await edge.memory.pending() == 1
    assert edge.rows("select * from unembedded") == []


async def test_what_the_model_takes_after_all_is_forgotten_to_have_been_refused(edge: Rig):
    await edge.store("poison")
    await edge.store("fact")
    await edge.memory.embed_pending(32)
    assert edge.value("select count(*) from unembedded") == 1
    edge.rows("update record set init = json_set(init, '$.content', 'cured') where want > 0")
    await edge.memory.embed_pending(32)
    assert edge.value("select count(*) from unembedded") == 0
    assert len(memories(edge)) == 2


async def test_a_model_that_takes_nothing_is_an_outage_that_no_memory_is_blamed_for(edge: Rig):
    await edge.store_all([StoreItem(content=f"fact {n}") for n in range(3)])
    edge.embedder.down = True
    for _ in range(ATTEMPTS_MAX + 1):
        with pytest.raises(ModelError):
            await edge.memory.embed_pending(32)
    assert edge.embedder.calls[-1] == [PROBE]
    assert edge.rows("select * from unembedded") == []
    assert await edge.memory.pending() == 3


async def test_what_left_the_index_is_done_though_the_model_is_down(edge: Rig):
    one = await edge.store("a fact")
    await edge.embed_all()
    await edge.store("another")
    await edge.purge(one.id)
    edge.embedder.down = True
    with pytest.raises(ModelError):
        await edge.memory.embed_pending(32)
    assert memories(edge) == set()
    assert await edge.memory.pending() == 1


async def test_an_edit_while_a_memory_is_given_up_is_a_new_reason_to_try(edge: Rig):
    bad = await edge.store("poison")
    await edge.store("fact")
    for _ in range(ATTEMPTS_MAX - 1):
        await edge.memory.embed_pending(32)

    async def edited(texts: Sequence[str], role: Role) -> list[Vector]:
        edge.rows("update record set want = abs(want) + 1 where id = unhex(?)", bad.id)
        return await Choosy.embed(edge.embedder, texts, role)

    edge.embedder.embed = edited
    await edge.memory.embed_pending(32)
    assert edge.value("select want from record where id = unhex(?)", bad.id) > 0


async def test_a_slow_step_does_not_take_a_later_reason_for_its_own(edge: Rig):
    """Another step finishes the memory, then something changes: to a plain counter that would look like no change."""
    one = await edge.store("a fact")
    other = await opened(connection=edge.connection, embedder=Choosy(), policy=EDGE)

    async def slow(texts: Sequence[str], role: Role) -> list[Vector]:
        await other.embed_all()
        await other.update(one.id, type="bug")
        return await Choosy.embed(edge.embedder, texts, role)

    edge.embedder.embed = slow
    await edge.memory.embed_pending(32)
    assert await edge.memory.pending() == 1


async def test_a_requeue_ends_a_pause(edge: Rig):
    await pause(edge.database, "Workers AI", NOW + DAY)
    assert await paused(edge.database, NOW) is not None
    await edge.memory.requeue(ALL)
    assert await paused(edge.database, NOW) is None


async def test_an_outage_costs_two_calls_however_many_memories_wait(edge: Rig):
    await edge.store_all([StoreItem(content=f"fact {n}") for n in range(9)])
    edge.embedder.down = True
    with pytest.raises(ModelError):
        await edge.memory.embed_pending(32)
    assert len(edge.embedder.calls) == 2


async def test_a_memory_that_another_model_refuses_is_tried_again_too(edge: Rig):
    await edge.store_all([StoreItem(content="a fact"), StoreItem(content="cured")])
    await edge.embed_all()
    edge.rows("update record set init = json_set(init, '$.content', 'poison') where init->>'content' = 'cured'")
    other = Choosy()
    other._fingerprint = "choosy@2"
    again = await opened(connection=edge.connection, embedder=other, policy=EDGE)
    assert await again.memory.embed_pending(32) == 2
    assert await again.memory.pending() == 1
    for _ in range(ATTEMPTS_MAX - 1):
        await again.memory.embed_pending(32)
    assert await again.memory.pending() == 0
    assert again.value("select attempts from unembedded") == ATTEMPTS_MAX


async def test_one_memory_alone_is_blamed_only_if_the_model_takes_another_text(edge: Rig):
    await edge.store("poison")
    await edge.memory.embed_pending(32)
    assert edge.embedder.calls[-1] == [PROBE]
    assert edge.value("select attempts from unembedded") == 1


async def test_a_busy_model_is_not_asked_again_at_once():
    class Busy(Choosy):
        async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
            self.calls.append(list(texts))
            raise ModelBusy("The model is busy.", "Try again.")

    rig = await opened(embedder=Busy(), policy=EDGE)
    await rig.store_all([StoreItem(content=f"fact {n}") for n in range(3)])
    with pytest.raises(ModelBusy):
        await rig.memory.embed_pending(32)
    assert len(rig.embedder.calls) == 1


async def test_requeueing_needs_the_admin_scope(edge: Rig):
    with pytest.raises(NotAllowed):
        await edge.memory.requeue(Caller(scopes=frozenset({Scope.READ, Scope.WRITE})))


# What stops in the middle


class Stopping(Choosy):
    """Takes so many calls and no more."""

    def __init__(self, calls_max: int) -> None:
        super().__init__()
        self.calls_max = calls_max

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        if len(self.calls) == self.calls_max:
            raise ModelBusy("No more for now.", "Try again later.")
        return await super().embed(texts, role)


async def test_what_the_model_took_and_refused_before_it_stopped_is_kept():
    edge = await opened(embedder=Stopping(8), policy=EDGE, device="edge")
    await edge.store_all([StoreItem(content=f"{'poison' if n % 4 == 0 else 'fact'} {n}") for n in range(16)])
    with pytest.raises(ModelBusy):
        await edge.memory.embed_pending(32)
    kept, refused = len(memories(edge)), edge.value("select count(*) from unembedded")
    assert kept > 0
    assert refused > 0
    assert await edge.memory.pending() == 16 - kept


async def test_many_refused_memories_are_given_up_though_each_step_stops_in_the_middle():
    edge = await opened(embedder=Stopping(0), policy=EDGE, device="edge")
    await edge.store_all([StoreItem(content=f"{'poison' if n % 2 else 'fact'} {n}") for n in range(16)])
    for _ in range(16 * ATTEMPTS_MAX):
        edge.embedder.calls_max = len(edge.embedder.calls) + 8
        try:
            if not await edge.memory.embed_pending(32):
                break
        except ModelBusy:
            continue
    assert len(memories(edge)) == 8
    assert await edge.memory.pending() == 0


async def test_a_change_of_model_that_stops_in_the_middle_skips_nothing_and_wants_nothing_twice():
    old = await opened(embedder="old@1", policy=EDGE)
    await old.store_all([StoreItem(content=f"{'poison' if n == 5 else 'fact'} {n}") for n in range(8)])
    gone = await old.store("in the trash")
    await old.delete(gone.id)
    await old.embed_all()
    new = await opened(connection=old.connection, embedder=Stopping(4), policy=EDGE)
    with pytest.raises(ModelBusy):
        await new.memory.indexer.anew(32)
    assert new.value("select count(*) from record where want > 0") == 0
    new.embedder.calls_max = 1_000
    await new.embed_all()
    assert len(memories(new)) == 7


# What a step reads


def read_bytes(rows: Sequence[Row]) -> int:
    return sum(len(value.encode()) for row in rows for value in row.values() if isinstance(value, str))


@pytest.mark.parametrize("letter", ["x", "世"])
async def test_a_step_reads_no_more_content_than_about_what_it_takes(letter: str, monkeypatch: pytest.MonkeyPatch):
    edge = await opened(policy=EDGE)
    longest = CONTENT_MAX_BYTES // len(letter.encode())
    for n in range(6):
        await edge.store(f"{n} ".ljust(longest - 20, letter), conversation_id="c", position=n)
    read: list[int] = []
    query = edge.database.inner.query

    async def counted(sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        rows = await query(sql, params)
        read.append(read_bytes(rows))
        return rows

    monkeypatch.setattr(edge.database.inner, "query", counted)
    await edge.embed_all()
    assert len(memories(edge)) == 6
    assert max(read) < 4 * CONTENT_MAX_BYTES


async def test_what_must_go_is_found_among_any_number_of_long_memories_without_a_model():
    edge = await opened(policy=EDGE)
    gone = await edge.store("a fact")
    await edge.embed_all()
    await edge.purge(gone.id)
    for n in range(6):
        await edge.store(f"{n} ".ljust(EDGE.index_step_chars, "x"))
    modelless = await opened(connection=edge.connection, index=edge.index, embedder=None, policy=EDGE)
    assert await modelless.memory.indexer.wanted(2) == 1
    assert memories(edge) == set()


async def test_memories_that_go_fill_a_step_by_their_vectors(edge: Rig):
    ids = [one.id for one in (await edge.store_all([StoreItem(content=f"fact {n}") for n in range(5)])).results]
    await edge.embed_all()
    half = EDGE.index_step_chars // REMOVAL_CHARS // 2
    edge.rows("insert into vector_state select rid, 'm', 'a', ?, 0, null from record", half)
    await edge.purge(*ids)
    steps: list[int] = []
    while step := await edge.memory.indexer.wanted(100):
        steps.append(step)
    assert steps == [2, 2, 1]


# Two steps at once


async def test_a_slow_step_that_puts_an_older_state_over_a_newer_one_has_it_made_again(edge: Rig):
    one = await edge.store("a fact", type="note")
    slow = await opened(connection=edge.connection, index=edge.index, embedder="choosy@1", policy=EDGE)
    slow.embedder.open.clear()
    step = asyncio.ensure_future(slow.memory.indexer.wanted(10))
    await slow.embedder.asked.wait()
    await edge.update(one.id, type="bug")
    await edge.embed_all()
    slow.embedder.open.set()
    await step
    assert [row.type for row in edge.index._rows.values()] == ["note"]
    assert await edge.memory.pending() == 1
    await edge.embed_all()
    assert [row.type for row in edge.index._rows.values()] == ["bug"]
