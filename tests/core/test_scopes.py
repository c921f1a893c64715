"""Each method of the service in the spaces where its scopes are allowed, and in those where they are not."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.core.rig import ALL, Embeddings, Rig, cell, opened

from shoal.core.caller import Caller, Scope
from shoal.core.context import EDGE
from shoal.core.ids import edge_id
from shoal.core.indexing import ATTEMPTS_MAX
from shoal.schema.errors import InsufficientScope, NotAllowed, NotFound
from shoal.schema.models import FindRequest, GetRequest, StoreItem, StoreRequest

DEEDS = (Scope.READ, Scope.WRITE, Scope.ADMIN)
SPACES = ("full", "edited", "read", "written", "administered", "none")
MIXED = Caller(
    scopes=frozenset(DEEDS),
    spaces=SPACES[:-1],
    narrower=(
        (Scope.READ, ("full", "edited", "read")),
        (Scope.WRITE, ("full", "edited", "written")),
        (Scope.ADMIN, ("full", "administered")),
    ),
)
"""May do all in `full`, read and write in `edited`, only one thing in each of the others, and nothing in `none`."""


@pytest.fixture
async def kept(rig: Rig) -> dict[str, str]:
    """One memory in each space."""
    return {space: (await rig.store("a fact", space=space)).id for space in SPACES}


def holding(*scopes: Scope) -> Caller:
    return Caller(scopes=frozenset(scopes))


CALLS: dict[str, tuple[Callable[[Rig, str, Caller], Awaitable[Any]], tuple[Scope, ...]]] = {
    "find": (lambda rig, one, caller: rig.find("fact", caller), (Scope.READ,)),
    "get": (lambda rig, one, caller: rig.get(one, caller=caller), (Scope.READ,)),
    "list": (lambda rig, one, caller: rig.memory.get(GetRequest(), caller), (Scope.READ,)),
    "stats": (lambda rig, one, caller: rig.memory.stats(caller), (Scope.READ,)),
    "count": (lambda rig, one, caller: rig.memory.count_metadata("k", caller), (Scope.READ,)),
    "store": (lambda rig, one, caller: rig.store("another", caller), (Scope.WRITE,)),
    "update": (lambda rig, one, caller: rig.update(one, caller, tags="x"), (Scope.READ, Scope.WRITE)),
    "revive by update": (lambda rig, one, caller: rig.update(one, caller, revive=True), (Scope.READ, Scope.WRITE)),
    "delete": (lambda rig, one, caller: rig.delete(one, caller=caller), (Scope.READ, Scope.WRITE)),
    "look what would go": (
        lambda rig, one, caller: rig.delete(caller=caller, type="note", confirm=False),
        (Scope.READ, Scope.WRITE),
    ),
    "revive": (lambda rig, one, caller: rig.memory.revive([one], caller), (Scope.READ, Scope.WRITE)),
    "purge": (lambda rig, one, caller: rig.delete(one, caller=caller, purge=True), DEEDS),
    "requeue": (lambda rig, one, caller: rig.memory.requeue(caller), (Scope.READ, Scope.ADMIN)),
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_call_needs_all_of_its_scopes_and_names_them(rig: Rig, name: str):
    call, needs = CALLS[name]
    one = await rig.store("a fact", space="main")
    for left_out in needs:
        held = [scope for scope in (*DEEDS, Scope.SYNC) if scope is not left_out]
        with pytest.raises(InsufficientScope) as raised:
            await call(rig, one.id, holding(*held))
        assert raised.value.details == {"scopes": [str(scope) for scope in Scope]}
    with pytest.raises(InsufficientScope) as raised:
        await call(rig, one.id, holding())
    assert raised.value.details == {"scopes": [str(scope) for scope in Scope if scope in needs]}
    assert (await rig.one(one.id)).state == "live"
    await call(rig, one.id, holding(*needs))


async def test_only_readable_spaces_are_found_read_and_counted(rig: Rig, kept: dict[str, str]):
    readable = {"full", "edited", "read"}
    assert {one.space for one in await rig.find("fact", MIXED, space="*")} == readable
    assert {one.space for one in await rig.find("", MIXED, space="*")} == readable
    assert {one.space for one in await rig.get(*kept.values(), caller=MIXED)} == readable
    listed = await rig.memory.get(GetRequest(space="*"), MIXED)
    assert {one.space for one in listed.memories} == readable
    stats = await rig.memory.stats(MIXED)
    assert (set(stats.spaces), stats.total, stats.database_bytes) == (readable, 3, None)
    assert await rig.memory.count_metadata("k", MIXED) == {"note": 1}
    for space in ("written", "administered", "none"):
        with pytest.raises(NotAllowed):
            await rig.find("fact", MIXED, space=space)
        with pytest.raises(NotAllowed):
            await rig.get(kept[space], caller=MIXED, space=space)
        with pytest.raises(NotAllowed):
            await rig.memory.get(GetRequest(space=["read", space]), MIXED)


async def test_a_space_that_may_only_be_read_is_not_written(rig: Rig, kept: dict[str, str]):
    with pytest.raises(NotAllowed, match="The space 'read' is not yours to write"):
        await rig.store("another", MIXED, space="read")
    with pytest.raises(NotAllowed, match="The space 'read' is not yours to write"):
        await rig.update(kept["read"], MIXED, space="read", tags="x")
    with pytest.raises(NotAllowed, match="The space 'read' is not yours to write"):
        await rig.delete(caller=MIXED, space="read", type="note")
    with pytest.raises(NotFound):
        await rig.update(kept["read"], MIXED, tags="x")
    assert (await rig.delete(kept["read"], caller=MIXED)).status == "not_found"
    assert (await rig.one(kept["read"])).tags == []


async def test_a_space_that_may_only_be_written_takes_stores_and_nothing_else(rig: Rig, kept: dict[str, str]):
    one = kept["written"]
    assert (await rig.store("another", MIXED, space="written")).status == "created"
    with pytest.raises(NotFound):
        await rig.update(one, MIXED, archived=True)
    assert (await rig.delete(one, caller=MIXED)).status == "not_found"
    would_go = await rig.delete(caller=MIXED, space="*", type="note", confirm=False)
    assert set(would_go.ids) == {kept["full"], kept["edited"]}
    await rig.delete(one)
    assert (await rig.memory.revive([one], MIXED)).not_found == [one]
    with pytest.raises(NotFound):
        await rig.update(one, MIXED, revive=True)
    assert (await rig.one(one)).state == "trashed"


async def test_a_purge_reaches_only_where_reading_writing_and_administering_are_allowed(rig: Rig, kept: dict[str, str]):
    answer = await rig.delete(*kept.values(), caller=MIXED, purge=True)
    assert (answer.status, answer.ids) == ("purged", [kept["full"]])
    with pytest.raises(NotAllowed, match="The space 'edited' is not yours to administer"):
        await rig.delete(kept["edited"], caller=MIXED, purge=True, space="edited")
    assert (await rig.delete(kept["edited"], caller=MIXED)).status == "deleted"


async def test_a_requeue_is_for_who_reads_and_administers_every_space(rig: Rig):
    for caller in (
        MIXED,
        Caller(spaces=("main",)),
        Caller(narrower=((Scope.ADMIN, ("main",)),)),
        Caller(narrower=((Scope.READ, ("main",)),)),
    ):
        with pytest.raises(NotAllowed):
            await rig.memory.requeue(caller)
    assert (await rig.memory.requeue(Caller(narrower=((Scope.WRITE, ()),)))).requeued == 0


@pytest.mark.parametrize("revive", [False, True])
async def test_a_store_tells_what_was_there_only_of_a_readable_space(rig: Rig, revive: bool):
    turn = {"conversation_id": "talk", "position": 3}
    for space in ("edited", "written"):
        await rig.store("known", space=space, tags="hidden", type="bug")
        await rig.store("known turn", space=space, tags="hidden", type="bug", **turn)
        await rig.delete((await rig.store("forgotten", space=space)).id)
        await rig.purge((await rig.store("purged", space=space)).id)
    items = [StoreItem(content=text) for text in ("known", "forgotten", "purged", "new", "new")]
    items += [StoreItem(content="known turn", **turn), StoreItem(content="new turn", **turn)]
    told = await rig.store_all(items, MIXED, space="edited", revive=revive)
    gone = "revived" if revive else "was_forgotten"
    assert [one.status for one in told.results] == ["merged", gone, gone, "created", "merged", "merged", "created"]
    untold = await rig.store_all(items, MIXED, space="written", revive=revive)
    assert untold.success
    assert {(one.status, one.type, *one.tags, *one.notes) for one in untold.results} == {("created", "note")}


async def test_what_is_pending_is_counted_where_the_caller_may_read():
    rig = await opened(policy=EDGE)
    for number in range(3):
        await rig.store(f"theirs {number}", space="none")
    await rig.store("mine", space="read")
    rig.connection.execute("insert or replace into meta (k, v) values ('dead_letters', 5)")
    rig.connection.execute("insert into unembedded select rid, ?, 'model_error', 0 from record", (ATTEMPTS_MAX,))
    mine = [("pending", 1), ("not_embedded", 1)]
    everything = [("pending", 4), ("not_embedded", 4), ("undelivered", 5)]
    for caller, expected in ((MIXED, mine), (ALL, everything), (Caller(spaces=("empty",)), [])):
        for query in ("mine", ""):
            found = await rig.memory.find(FindRequest(query=query), caller)
            assert [(note.code, note.n) for note in found.notes] == expected
        stats = await rig.memory.stats(caller)
        assert [(note.code, note.n) for note in stats.degraded] == expected
        counts = dict(expected)
        assert (stats.pending_embeddings, stats.failed_embeddings, stats.dead_letters) == (
            counts.get("pending", 0),
            counts.get("not_embedded", 0),
            counts.get("undelivered", 0),
        )


async def test_after_a_change_of_version_only_the_callers_own_memories_make_a_note():
    rig = await opened(policy=EDGE)
    await rig.store("theirs", space="none")
    await rig.embed_all()
    between = rig.value("select max(rid) + 1 from record")
    await rig.store("mine", space="read")
    await rig.embed_all()
    for below, codes in ((between, []), (between + 1, ["pending", "partial"])):
        for key in ("reembed", "refts"):
            rig.connection.execute("insert or replace into meta (k, v) values (?, ?)", (key, below))
        found = await rig.memory.find(FindRequest(query="mine"), MIXED)
        assert [note.code for note in found.notes] == codes
        everything = await rig.memory.find(FindRequest(query="mine"), ALL)
        assert [note.code for note in everything.notes] == ["pending", "partial"]


async def test_a_writer_who_may_not_read_does_not_wait_and_hears_nothing_of_what_is_pending():
    model = Embeddings()
    rig = await opened(embedder=model, policy=EDGE)
    for number in range(3):
        await rig.store(f"theirs {number}", space="written")
    for text in ("theirs 1", "new"):
        answer = await rig.memory.store(StoreRequest(content=text, wait=True, space="written"), MIXED)
        assert [(note.code, note.n) for note in answer.notes] == [("pending", None)]
        assert "who may read the space" in answer.notes[0].message
    assert model.texts == []


async def test_a_store_that_waits_makes_the_vectors_of_its_own_memories_and_of_no_others():
    model = Embeddings()
    rig = await opened(embedder=model, policy=EDGE)
    mine = await rig.store("mine", space="read")
    await rig.store("theirs", space="none")
    await rig.store("also mine", space="read")
    answer = await rig.store("mine", space="read", wait=True)
    assert (answer.id, answer.status, model.texts) == (mine.id, "merged", ["mine"])
    assert [(note.code, note.n) for note in answer.notes] == [("pending", 2)]


async def test_one_id_in_two_spaces_is_two_memories(rig: Rig):
    mine = await rig.store("mine", space="read")
    other = await rig.store("other", space="read")
    init = {"v": 1, "class": "memory", "content": "theirs", "type": "bug", "occurred_at": 0, "created_at": 0}
    await rig.apply(cell(mine.id, "init", 1, 1, init, "none"))
    edge = {"v": 1, "class": "edge", "relation": "related", "src": mine.id, "dst": other.id, "created_at": 0}
    await rig.apply(cell(edge_id("none", mine.id, "related", other.id, symmetric=False), "init", 1, 1, edge, "none"))
    successor = await rig.store("a successor", space="none")
    await rig.apply(cell(mine.id, "superseded", 1, 1, successor.id, "read"))
    answer = await rig.memory.get(GetRequest(ids=[mine.id], with_edges=True, with_history=True), MIXED)
    (memory,) = answer.memories
    assert (memory.content, memory.edges, memory.history, memory.superseded_by) == ("mine", [], [mine.id], None)
    assert answer.notes == []
    both = await rig.memory.get(GetRequest(ids=[mine.id]), ALL)
    assert ({one.content for one in both.memories}, both.notes) == ({"mine", "theirs"}, [])
    writer = Caller(narrower=((Scope.WRITE, ("none",)),))
    await rig.delete(mine.id, caller=writer)
    assert {one.state: one.content for one in await rig.get(mine.id)} == {"live": "mine", "trashed": "theirs"}


async def test_neighbours_in_a_conversation_of_the_same_name_stay_apart(rig: Rig):
    for number in range(3):
        await rig.store(f"turn {number}", space="none", conversation_id="talk", position=number)
    mine = await rig.store("something else", space="read", conversation_id="talk", position=1)
    found = await rig.find("turn", MIXED, space="*", n_results=10)
    assert {one.id for one in found} <= {mine.id}
