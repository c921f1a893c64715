"""What a caller may not read makes no difference to anything that they are told, whatever they do."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.core.apart import ApartIndex
from tests.core.rig import NOW, Embeddings, Rig, cell, opened

from shoal.core.caller import Caller, Scope
from shoal.core.cells import Cell
from shoal.core.context import EDGE, LAPTOP, Policy
from shoal.core.fakes import FakeDatabase, FakeVectorIndex
from shoal.core.ids import edge_id, memory_id, turn_key
from shoal.core.indexing import ATTEMPTS_MAX
from shoal.schema.errors import ShoalError
from shoal.schema.models import (
    DeleteRequest,
    FindRequest,
    GetRequest,
    StoreItem,
    StoreRequest,
    TagChanges,
    UpdateRequest,
)

READABLE = ("a", "c")
"""Spaces that the callers may be allowed to read."""
SECRET = "b"
"""The one that none of them may; some may write it, or more."""
SPACES = (*READABLE, SECRET)
TEXTS = ("deploy failed on staging", "the certificate expired", "部署失败了", "Thanks!")
TURN = "see you tomorrow"
STATES = ("live", "archived", "trashed", "purged")
IDS = tuple(
    memory_id(space, text, key)
    for space in SPACES
    for text, key in (*((text, None) for text in TEXTS[:2]), (TURN, turn_key("talk", 1)))
)
UNKNOWN = "ab" * 16

Act = Callable[[Rig, Caller], Awaitable[Any]]


@dataclass(frozen=True)
class Kept:
    """A memory as it lies in a space before the calls."""

    text: str
    state: str = "live"
    tags: tuple[str, ...] = ()
    type: str = "note"
    turn: bool = False

    def fields(self, space: str) -> dict[str, Any]:
        turn = {"conversation_id": "talk", "position": TEXTS.index(self.text) * 2} if self.turn else {}
        return {"content": self.text, "tags": list(self.tags), "type": self.type, "space": space, **turn}


@dataclass(frozen=True)
class Secret:
    """All that the two memories differ in."""

    memories: tuple[Kept, ...] = ()
    also_under_readable_ids: bool = False
    """Whether there are memories by the very ids of those in `a`, and an edge, as another replica may send them."""
    given_up: bool = False
    dead_letters: int = 0
    behind: bool = False
    """Whether their vectors and words are those of an older version."""


kept = st.builds(
    Kept,
    text=st.sampled_from(TEXTS),
    state=st.sampled_from(STATES),
    tags=st.sets(st.sampled_from(("proj:x", "urgent"))).map(lambda tags: tuple(sorted(tags))),
    type=st.sampled_from(("note", "bug", "decision")),
    turn=st.sampled_from((False, False, True)),
)
memories = st.lists(kept, min_size=1, max_size=5).map(tuple)
secrets = st.builds(
    Secret,
    memories=memories,
    also_under_readable_ids=st.booleans(),
    given_up=st.booleans(),
    dead_letters=st.integers(0, 3),
    behind=st.booleans(),
)


@st.composite
def callers(draw: st.DrawFn) -> Caller:
    """Draw a caller who may read some of the readable spaces, and do anything else anywhere."""
    reach = {
        Scope.READ: draw(st.sampled_from((("a",), ("c", "a"), ("c",), ()))),
        Scope.WRITE: draw(st.sampled_from(((SECRET,), ("a", SECRET), ("c", "a"), SPACES, ()))),
        Scope.ADMIN: draw(st.sampled_from((SPACES, ("a",), (SECRET, "c"), ()))),
    }
    everywhere = draw(st.sets(st.sampled_from((Scope.WRITE, Scope.ADMIN))))
    every_space = bool(everywhere) and draw(st.booleans())
    union = tuple(space for space in SPACES if any(space in spaces for spaces in reach.values()))
    named = {scope: tuple(spaces) for scope, spaces in reach.items() if not (every_space and scope in everywhere)}
    return Caller(
        scopes=frozenset(scope for scope, spaces in reach.items() if spaces or draw(st.booleans())),
        spaces=None if every_space else union,
        narrower=tuple((scope, spaces) for scope, spaces in named.items()),
        default_space=draw(st.sampled_from(SPACES)),
        clamps=draw(st.booleans()),
    )


space_named = st.sampled_from((None, None, "a", "b", "b", "c", "nowhere"))
spaces_named = st.one_of(space_named, st.sampled_from(("*", ["a", "c"], ["a", "b"])))
ids_named = st.lists(st.sampled_from((*IDS, UNKNOWN)), min_size=1, max_size=4, unique=True)
texts = st.sampled_from(TEXTS)
types = st.sampled_from((None, "bug", "note"))
filters = st.fixed_dictionaries(
    {"space": spaces_named},
    optional={
        "type": st.just("bug"),
        "tags": st.sampled_from(("urgent", "proj:*")),
        "conversation_id": st.just("talk"),
        "include_archived": st.booleans(),
    },
)


def _without_scores(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the words' rarity decides, and with it the order: that is counted over all memories."""
    rows = [{name: value for name, value in row.items() if name != "score"} for row in found["results"]]
    return {**found, "results": sorted(rows, key=lambda row: row["id"])}


async def _embed(rig: Rig, _caller: Caller) -> None:
    await rig.embed_all()


def _call(method: str, request: type[BaseModel]) -> Callable[[dict[str, Any]], Act]:
    return lambda fields: lambda rig, caller: getattr(rig.memory, method)(request(**fields), caller)


stores = st.fixed_dictionaries(
    {"content": texts, "space": space_named},
    optional={
        "type": types,
        "tags": st.just("mine"),
        "revive": st.booleans(),
        "wait": st.booleans(),
    },
)
turns = st.builds(
    lambda space, position: {"content": TURN, "conversation_id": "talk", "position": position, "space": space},
    space_named,
    st.integers(0, 3),
)
batches = st.builds(
    lambda contents, space: {"items": [StoreItem(content=one) for one in contents], "space": space},
    st.lists(texts, min_size=1, max_size=3),
    space_named,
)
updates = st.fixed_dictionaries(
    {"id": st.sampled_from((*IDS, UNKNOWN)), "space": space_named},
    optional={
        "content": texts,
        "tags": st.just(TagChanges(add=["more"])),
        "type": types,
        "archived": st.booleans(),
        "revive": st.booleans(),
    },
)
flags = st.fixed_dictionaries({}, optional={"confirm": st.booleans(), "purge": st.booleans(), "dry_run": st.booleans()})
deletes = st.builds(
    lambda which, how: {**which, **how},
    st.one_of(
        st.builds(lambda ids, space: {"ids": ids, "space": space}, ids_named, space_named),
        filters.map(lambda where: {name: value for name, value in where.items() if name != "include_archived"}),
    ),
    flags,
)
finds = st.builds(
    lambda query, where, more: {"query": query, **where, **more},
    st.one_of(texts, st.sampled_from(("", "staging", "talk", "urgent"))),
    filters,
    st.fixed_dictionaries({}, optional={"include_edges": st.booleans(), "n_results": st.sampled_from((3, 50))}),
)
gets = st.one_of(
    st.builds(
        lambda ids, space: {"ids": ids, "space": space, "with_edges": True, "with_history": True},
        ids_named,
        space_named,
    ),
    st.builds(
        lambda where, order, trash: {**where, "order": order, "page_size": 2, "trash": trash},
        filters,
        st.sampled_from(("newest", "updated")),
        st.booleans(),
    ),
)
acts: st.SearchStrategy[Act] = st.one_of(
    st.one_of(stores, turns, batches).map(_call("store", StoreRequest)),
    finds.map(_call("find", FindRequest)),
    gets.map(_call("get", GetRequest)),
    updates.map(_call("update", UpdateRequest)),
    deletes.map(_call("delete", DeleteRequest)),
    ids_named.map(lambda ids: lambda rig, caller: rig.memory.revive(ids, caller)),
    st.just(lambda rig, caller: rig.memory.stats(caller)),
    st.just(lambda rig, caller: rig.memory.count_metadata("k", caller)),
    st.just(lambda rig, caller: rig.memory.requeue(caller)),
    st.just(_embed),
)


async def keep(rig: Rig, space: str, one: Kept) -> None:
    """Put a memory where it is to lie."""
    stored = await rig.store(**{**one.fields(space), "revive": True})
    if one.state == "archived":
        await rig.update(stored.id, archived=True)
    elif one.state == "trashed":
        await rig.delete(stored.id)
    elif one.state == "purged":
        await rig.purge(stored.id)


def edge(ends: str, space: str) -> Cell:
    """Return an edge in a space from the first text's memory in another to the second's."""
    src, dst = (memory_id(ends, text) for text in TEXTS[:2])
    init = {"v": 1, "class": "edge", "relation": "related", "src": src, "dst": dst, "created_at": NOW}
    return cell(edge_id(space, src, "related", dst, symmetric=False), "init", 1, NOW, init, space)


async def hide(rig: Rig, secret: Secret) -> None:
    """Put all that differs into the memory."""
    for one in secret.memories:
        await keep(rig, SECRET, one)
    if secret.also_under_readable_ids:
        for text in TEXTS:
            init = {"v": 1, "class": "memory", "content": f"{text}, secretly", "type": "bug", "occurred_at": NOW}
            await rig.apply(cell(memory_id("a", text), "init", 1, NOW, {**init, "created_at": NOW}, SECRET))
        await rig.apply(edge("a", SECRET))
    rig.connection.execute("insert or replace into meta (k, v) values ('dead_letters', ?)", (secret.dead_letters,))
    if secret.given_up:
        rig.connection.execute(
            "insert into unembedded select rid, ?, 'model_error', 0 from record where class = 'memory'", (ATTEMPTS_MAX,)
        )
    if secret.behind:
        for key in ("reembed", "refts"):
            rig.connection.execute(
                "insert or replace into meta (k, v) select ?, coalesce(max(rid), 0) + 1 from record", (key,)
            )


async def world(policy: Policy, secret: Secret, readable: tuple[tuple[str, Kept], ...]) -> Rig:
    """Return a memory with what the caller may read and what they may not."""
    connection = apsw.Connection(":memory:")
    model, database = Embeddings(), FakeDatabase(connection)
    index = ApartIndex(database, model.fingerprint) if policy.index_apart else FakeVectorIndex(database)
    rig = await opened(connection=connection, database=database, embedder=model, index=index, policy=policy)
    await hide(rig, secret)
    if policy.embed_before_find:
        # Here a search embeds the newest of all memories first, so many and no more: their number would tell.
        await rig.embed_all()
    for space, one in (*(("a", Kept(text)) for text in TEXTS[:2]), *readable):
        await keep(rig, space, one)
    for text in TEXTS:
        # Another replica may say so, though no successor is there.
        await rig.apply(cell(memory_id("a", text), "superseded", 1, NOW, memory_id(SECRET, text), "a"))
    await rig.apply(edge(SECRET, "a"))
    return rig


async def told(rig: Rig, act: Act, caller: Caller) -> Any:
    """Return all that a call tells its caller."""
    try:
        answer = await act(rig, caller)
    except ShoalError as error:
        return error.as_dict()
    if not isinstance(answer, BaseModel):
        return answer
    dumped = answer.model_dump()
    return _without_scores(dumped) if "results" in dumped and "total_considered" in dumped else dumped


async def compare(policy: Policy, secret: Secret, readable: Any, caller: Caller, calls: list[Act]) -> None:
    without, with_secret = await world(policy, Secret(), readable), await world(policy, secret, readable)
    for act in calls:
        assert await told(with_secret, act, caller) == await told(without, act, caller)


readable_memories = st.lists(st.tuples(st.sampled_from(READABLE), kept), max_size=6).map(tuple)


def check(policy: Policy, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(secret=secrets, readable=readable_memories, caller=callers(), calls=st.lists(acts, min_size=1, max_size=8))
    def run(secret: Secret, readable: Any, caller: Caller, calls: list[Act]) -> None:
        asyncio.run(compare(policy, secret, readable, caller, calls))

    run()


ENDS = pytest.mark.parametrize("policy", [LAPTOP, EDGE], ids=["laptop", "edge"])


@ENDS
def test_no_calls_tell_of_memories_that_the_caller_may_not_read(policy: Policy):
    check(policy, 150)


@ENDS
@pytest.mark.long
def test_no_calls_at_all_tell_of_memories_that_the_caller_may_not_read(policy: Policy):
    check(policy, 3000)
