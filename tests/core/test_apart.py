"""Searching where the vectors lie apart from the memories: within the edge's budget, and right whatever is behind."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import apsw
import pytest
from tests.core.apart import ApartIndex
from tests.core.rig import ALL, Embeddings, Rig, cell, opened

from shoal.core.caller import Caller
from shoal.core.context import EDGE, LAPTOP
from shoal.core.fakes import FakeDatabase
from shoal.core.protocols import Role, Vector, VectorRow
from shoal.core.service import Memory
from shoal.core.weights import VECTOR_HITS
from shoal.schema.errors import ModelOverQuota, VectorIndexError
from shoal.schema.limits import PASSAGES_MAX
from shoal.schema.models import FindAnswer, FindRequest, GetRequest, StoreItem

STATEMENTS_MAX = 3
"""Of a search; the fourth that it may cost is the check of the token."""
MODEL = "hashed-words@1"
TEAM = Caller(spaces=("team",))
BOTH = Caller(spaces=("main", "team"))


class Counting(Embeddings):
    """Counts its calls for queries."""

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.calls = 0

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        self.calls += role is Role.QUERY
        return await super().embed(texts, role)


class Edge:
    """A memory at the edge, its index, and what it had removed from there."""

    def __init__(self, rig: Rig, index: ApartIndex, embedder: Counting) -> None:
        self.rig = rig
        self.index = index
        self.embedder = embedder
        self.discarded: list[str] = []
        rig.memory = Memory(replace(rig.memory._context, discard=self.discarded.extend), "")

    async def ask(self, query: str = "", caller: Caller = ALL, **fields: Any) -> FindAnswer:
        return await self.rig.memory.find(FindRequest(query=query, **fields), caller)

    async def vectors_of(self, memory_id: str) -> list[str]:
        """Return the ids of a memory's vectors in the index."""
        rid = self.rid(memory_id)
        return sorted(one for one in self.index.ids() if int(one.split(".")[0]) // PASSAGES_MAX == rid)

    def rid(self, memory_id: str) -> int:
        return self.rig.value("select rid from record where id = unhex(?)", memory_id)


async def at_the_edge() -> Edge:
    connection = apsw.Connection(":memory:")
    index, embedder = ApartIndex(FakeDatabase(connection), MODEL), Counting()
    return Edge(await opened(connection=connection, embedder=embedder, index=index, policy=EDGE), index, embedder)


@pytest.fixture
async def edge() -> Edge:
    return await at_the_edge()


async def fill(rig: Rig) -> list[str]:
    """Store memories of several spaces, with tags, edges and conversations; return their ids."""
    ids = [one.id for one in (await rig.store_all(items())).results]
    ids.append((await rig.store("deploy seven of the team", space="team", tags="red")).id)
    ids.append((await rig.update(ids[0], content="deploy one, at last")).superseded_by)
    await rig.update(ids[5], archived=True)
    await rig.delete(ids[6])
    await rig.embed_all()
    return ids


def items() -> list[StoreItem]:
    return [
        StoreItem(content="deploy one", type="bug", tags="proj:x,red", entities=["Ann"], occurred_at="2026-01-10"),
        StoreItem(content="deploy two on a friday", type="error", tags="proj:y,red", occurred_at="2026-02-10"),
        StoreItem(content="the runbook of three", type="runbook", tags="标签", entities=["Ann Lee"]),
        StoreItem(content="who moves to lisbon in may", conversation_id="c1", position=0),
        StoreItem(content="marco does, as he said", conversation_id="c1", position=1, tags="red"),
        StoreItem(content="deploy six", type="bug", tags="red"),
        StoreItem(content="deploy eight", type="bug"),
        *(StoreItem(content=f"a note about the garden, number {n}", tags=f"t{n % 3}") for n in range(20)),
    ]


QUERIES = ("", "deploy", "deploy in January 2026", "yesterday", "标签", "lisbon\nand who moves there?", "qqqq")
FILTERS: list[dict[str, Any]] = [
    {},
    {"space": "*"},
    {"space": "team"},
    {"space": ["team", "main"], "include_archived": True},
    {"type": ["bug", "semantic"]},
    {"kind": "episodic"},
    {"tags": "red"},
    {"tags": "red,proj:*", "tags_mode": "all", "space": "*"},
    {"entity": "Ann"},
    {"conversation_id": "c1", "space": "*"},
    {"since": "2026-01-01", "until": "2026-02-01"},
    {"since": "2026-01-01", "time_field": "created"},
]


# The budget


@pytest.mark.parametrize("query", QUERIES)
async def test_any_search_costs_three_statements_one_call_of_the_model_and_one_of_the_index(edge: Edge, query: str):
    await fill(edge.rig)
    for caller in (ALL, BOTH):
        for fields in FILTERS:
            for n_results in (1, 50):
                edge.rig.database.queries.clear()
                edge.embedder.calls = edge.index.searches = 0
                await edge.ask(query, caller, n_results=n_results, include_edges=True, explain=True, **fields)
                assert len(edge.rig.database.queries) <= STATEMENTS_MAX, fields
                assert (edge.embedder.calls, edge.index.searches) == ((1, 1) if query else (0, 0)), fields


async def test_reading_counting_and_health_cost_one_statement_each(edge: Edge):
    ids = await fill(edge.rig)
    memory, queries = edge.rig.memory, edge.rig.database.queries
    for what, act in {
        "get": lambda: memory.get(GetRequest(ids=ids, with_edges=True, with_history=True), ALL),
        "list": lambda: memory.get(GetRequest(space="*", with_edges=True, with_history=True, page_size=100), ALL),
        "list of some spaces": lambda: memory.get(GetRequest(space="*", order="updated", page=2), BOTH),
        "stats": lambda: memory.stats(ALL),
        "stats of a space": lambda: memory.stats(TEAM),
        "counts": lambda: memory.count_metadata("k", ALL),
        "check": memory.check,
        "health": memory.health,
        "pending": memory.pending,
    }.items():
        queries.clear()
        await act()
        assert len(queries) == 1, what


async def test_a_dialogue_is_looked_for_as_a_whole_alone(edge: Edge):
    one = await edge.rig.store("blue whales sing")
    await edge.rig.embed_all()
    answer = await edge.ask("what do you know of the sea?\nblue whales sing", explain=True)
    assert answer.results[0].id == one.id
    assert answer.results[0].explain["similarity"] < 0.9
    assert edge.index.searches == 1


# The same answers as on a laptop


@pytest.mark.parametrize("query", [query for query in QUERIES if "\n" not in query])
async def test_while_nothing_is_behind_the_answers_are_those_of_a_laptop(query: str):
    edge, laptop = await at_the_edge(), await opened(policy=LAPTOP)
    await fill(edge.rig)
    await fill(laptop)
    for fields in FILTERS:
        for caller in (ALL, BOTH, TEAM):
            if caller is TEAM and "main" in fields.get("space", ()):
                continue
            request = FindRequest(query=query, n_results=50, include_edges=True, explain=True, **fields)
            there, here = await edge.rig.memory.find(request, caller), await laptop.memory.find(request, caller)
            assert there.results == here.results, fields
            assert there.notes == here.notes, fields
    assert edge.discarded == []


# Vectors that don't count


async def with_a_stale_vector(edge: Edge) -> str:
    """Return the id of a turn of which the index still shows the vector that it had without the turn before."""
    turn = await edge.rig.store("falcons nest on towers", conversation_id="c", position=2)
    await edge.rig.embed_all()
    edge.index.behind = True
    await edge.rig.store("zzz yyy xxx", conversation_id="c", position=1)
    await edge.rig.embed_all()
    return turn.id


async def test_a_vector_of_another_version_is_no_evidence_and_is_discarded(edge: Edge):
    turn = await with_a_stale_vector(edge)
    (stale,) = edge.index._seen
    found = {one.id: one for one in (await edge.ask("falcons nest", explain=True)).results}
    assert "meaning" not in found[turn].why
    assert "similarity" not in found[turn].explain
    assert edge.discarded == [stale]
    edge.index.behind = False
    edge.discarded.clear()
    found = {one.id: one for one in (await edge.ask("falcons nest", explain=True)).results}
    assert "meaning" in found[turn].why
    assert edge.discarded == []


async def test_what_only_a_vector_that_does_not_count_has_found_is_not_found(edge: Edge):
    other = await edge.rig.store("fairs of towns")
    await with_a_stale_vector(edge)
    await edge.rig.store("who said so", conversation_id="c", position=3)
    answer = await edge.ask("falconry tow", n_results=50)  # no memory has a word of it
    assert [found.id for found in answer.results] == [other.id]


async def test_vectors_that_do_not_count_change_no_score(edge: Edge):
    other = await edge.rig.store("towers are high")
    await edge.rig.store("and old", conversation_id="d", position=1)
    turn = await with_a_stale_vector(edge)
    await edge.rig.store("who said so", conversation_id="c", position=3)
    with_it = await edge.ask("falcons on high towers", n_results=50, explain=True)
    edge.index._seen.pop(edge.discarded[0])
    without = await edge.ask("falcons on high towers", n_results=50, explain=True)
    assert {turn, other.id} <= {one.id for one in with_it.results}
    assert with_it.results == without.results


async def test_a_memory_that_does_not_exist_is_neither_found_nor_kept_in_the_index(edge: Edge):
    await edge.rig.store("falcons nest on towers")
    await edge.rig.embed_all()
    (known,) = edge.index.ids()
    row = edge.index._vectors[known]
    edge.index._vectors |= {
        f"{key}.0123456789abcdef": replace(row, key=key) for key in (999 * PASSAGES_MAX, 999 * PASSAGES_MAX + 7)
    }
    answer = await edge.ask("falcons")
    assert len(answer.results) == 1
    assert edge.discarded == ["1022976.0123456789abcdef", "1022983.0123456789abcdef"]
    edge.index.discard(edge.discarded)
    assert edge.index.ids() == {known}


async def test_of_several_versions_in_the_index_the_one_that_counts_is_taken(edge: Edge):
    one = await edge.rig.store("falcons nest on towers")
    await edge.rig.embed_all()
    (known,) = edge.index.ids()
    nearest = replace(edge.index._vectors[known], vector=(await edge.embedder.embed(["falcons"], Role.QUERY))[0])
    edge.index._vectors[f"{nearest.key + 3}.another"] = replace(nearest, key=nearest.key + 3)
    (found,) = (await edge.ask("falcons", explain=True)).results
    assert found.id == one.id
    assert found.explain["similarity"] < 0.99
    assert edge.discarded == [f"{nearest.key + 3}.another"]


async def test_a_vector_that_is_just_being_put_there_is_left_alone(edge: Edge):
    """The consumer may be between its upsert and its note."""
    one = await edge.rig.store("falcons nest on towers")
    rows = [row_of(edge, one.id, (await edge.embedder.embed(["falcons nest on towers"], Role.PASSAGE))[0])]
    await edge.index.upload(rows)
    for _ in range(2):
        (found,) = (await edge.ask("falcons")).results
        assert found.why == ["words"]
        assert edge.discarded == []
        # A vector that is made anew after a change of model isn't wanted one by one.
        edge.rig.connection.execute("update record set want = 0")
        edge.rig.connection.execute("insert or replace into meta values ('reembed', 99)")
    await edge.index.note(rows)
    edge.rig.connection.execute("update meta set v = 0 where k = 'reembed'")
    (found,) = (await edge.ask("falcons")).results
    assert found.why == ["words", "meaning"]
    assert edge.discarded == []


def row_of(edge: Edge, memory_id: str, vector: Vector) -> VectorRow:
    key = edge.rid(memory_id) * PASSAGES_MAX
    return VectorRow(key, vector, b"0123456789abcdef", "main", "note", "semantic", edge.rig.clock.now, archived=False)


async def test_vectors_of_another_model_do_not_count(edge: Edge):
    await edge.rig.store("falcons nest on towers")
    await edge.rig.embed_all()
    edge.rig.connection.execute("update vector_state set model = 'another@1'")
    (found,) = (await edge.ask("falcons")).results
    assert found.why == ["words"]
    assert len(edge.discarded) == 1


async def test_a_purged_memory_is_not_found_and_its_vectors_are_discarded_if_they_come_back(edge: Edge):
    one = await edge.rig.store("falcons nest on towers")
    await edge.rig.embed_all()
    edge.index.behind = True
    await edge.rig.purge(one.id)
    assert (await edge.ask("falcons")).results == []
    assert edge.discarded == []  # the indexer is about to remove them
    await edge.rig.embed_all()
    assert edge.index.ids() == set()
    assert (await edge.ask("falcons")).results == []
    assert len(edge.discarded) == 1


async def test_a_memory_in_the_trash_is_not_found_however_far_the_index_is_behind(edge: Edge):
    one = await edge.rig.store("falcons nest on towers")
    await edge.rig.embed_all()
    edge.index.behind = True
    await edge.rig.delete(one.id)
    for _ in range(2):
        assert (await edge.ask("falcons")).results == []
        await edge.rig.embed_all()
    assert len(edge.discarded) == 1


async def test_without_anybody_to_remove_them_ghosts_are_left_out_all_the_same(edge: Edge):
    await with_a_stale_vector(edge)
    memory = Memory(replace(edge.rig.memory._context, discard=None), "")
    (found, *_) = (await memory.find(FindRequest(query="falcons"), ALL)).results
    assert found.why == ["words"]


async def test_what_was_told_to_the_index_before_a_change_does_not_let_a_memory_through(edge: Edge):
    one = await edge.rig.store("falcons nest on towers", type="bug", occurred_at="2026-01-10")
    await edge.rig.embed_all()
    edge.index.behind = True
    await edge.rig.update(one.id, type="note", occurred_at="2026-03-10")
    for embedded in (False, True):
        if embedded:
            await edge.rig.embed_all()
        for fields in ({"type": "bug"}, {"until": "2026-02-01"}):
            assert (await edge.ask("falcons", **fields)).results == []
            assert (await edge.ask("falconry", **fields)).results == []
    assert edge.discarded == []


# Filters that the index doesn't apply


async def crowd(edge: Edge, near: int) -> str:
    """Store so many memories near 'falcons nest' without a tag, and one farther with it; return that one's id."""
    await edge.rig.store_all([StoreItem(content=f"falcons nest {n:03}") for n in range(near)])
    one = await edge.rig.store("falcons nest on the old towers of the town", tags="x")
    await edge.rig.embed_all()
    return one.id


def notes(answer: FindAnswer) -> list[str]:
    return [note.code for note in answer.notes]


async def test_a_full_list_of_which_some_do_not_pass_is_told_as_partial(edge: Edge):
    one = await crowd(edge, VECTOR_HITS + 20)
    answer = await edge.ask("falcons nest", tags="x")
    assert [found.id for found in answer.results] == [one]  # by its words
    assert notes(answer) == ["partial"]
    assert "can't filter" in answer.notes[0].message
    assert notes(await edge.ask("falcons nest")) == []
    assert notes(await edge.ask("falcons nest", type="note")) == []


async def test_a_list_that_is_not_full_has_everything(edge: Edge):
    one = await crowd(edge, VECTOR_HITS - 10)
    answer = await edge.ask("falcons nest", tags="x")
    assert ([found.id for found in answer.results], notes(answer)) == ([one], [])
    assert "meaning" in answer.results[0].why


async def test_a_full_list_that_all_passes_is_told_as_whole(edge: Edge):
    await edge.rig.store_all([StoreItem(content=f"falcons nest {n:03}", tags="x") for n in range(VECTOR_HITS + 20)])
    await edge.rig.embed_all()
    assert notes(await edge.ask("falcons nest", tags="x")) == []


async def test_those_that_do_not_pass_keep_nobody_from_being_looked_at(edge: Edge):
    """More than the shortlist holds are nearer."""
    query = "many wild falcons nest every spring beside some river"
    await edge.rig.store_all([StoreItem(content=f"{query} {n}") for n in range(VECTOR_HITS - 10)])
    one = await edge.rig.store("zzz yyy xxx river www vvv uuu", tags="y")
    await edge.rig.embed_all()
    answer = await edge.ask(query, tags="y")
    assert [found.id for found in answer.results] == [one.id]


async def test_neighbours_of_what_does_not_pass_are_not_found_by_it(edge: Edge):
    await edge.rig.store_all([StoreItem(content=f"falconry {n:03}") for n in range(VECTOR_HITS)])
    await edge.rig.store("falconry", conversation_id="c", position=1)
    await edge.rig.store("zzz", conversation_id="c", position=3, tags="y")
    await edge.rig.embed_all()
    one = await edge.rig.store("falconry too", tags="y")
    await edge.rig.embed_all()
    answer = await edge.ask("falconry", tags="y")
    assert [found.id for found in answer.results] == [one.id]


# Failures


async def test_an_index_that_refuses_leaves_words_and_says_so(edge: Edge, monkeypatch: pytest.MonkeyPatch):
    async def refuse(*_: Any) -> Any:
        raise VectorIndexError("The vector index is overloaded.", "Try again.")

    one = await edge.rig.store("falcons nest")
    await edge.rig.embed_all()
    monkeypatch.setattr(edge.index, "search", refuse)
    answer = await edge.ask("falcons")
    assert ([found.id for found in answer.results], notes(answer)) == ([one.id], ["lexical_only"])
    assert "overloaded" in answer.notes[0].message


async def test_a_model_over_its_quota_leaves_words_and_says_until_when(edge: Edge, monkeypatch: pytest.MonkeyPatch):
    async def refuse(*_: Any) -> Any:
        raise ModelOverQuota("The quota is used up.", "It is given anew at 2026-09-22.", until="2026-09-22")

    one = await edge.rig.store("falcons nest")
    await edge.rig.embed_all()
    monkeypatch.setattr(edge.embedder, "embed", refuse)
    answer = await edge.ask("falcons")
    assert ([found.id for found in answer.results], notes(answer)) == ([one.id], ["over_quota"])
    assert "Only words were searched" in answer.notes[0].message
    assert "2026-09-22" in answer.notes[0].message


# Relations


async def test_an_edge_of_another_space_is_not_shown_though_the_ids_are_the_same(edge: Edge):
    """The space is part of an id's hash, but nothing keeps a replica from sending what it likes."""
    mine, other = await edge.rig.store("falcons nest"), await edge.rig.store("on towers")
    for space, one in (("team", mine.id), ("team", other.id)):
        init = {"class": "memory", "content": "theirs", "type": "note", "occurred_at": 0, "created_at": 0}
        await edge.rig.apply(cell(one, "init", 1, 1, init, space=space))
    edge_init = {"class": "edge", "src": mine.id, "dst": other.id, "relation": "related", "created_at": 0}
    await edge.rig.apply(cell("ab" * 16, "init", 1, 1, edge_init, space="team"))
    (memory,) = await edge.rig.get(mine.id, with_edges=True, space="main")
    assert memory.edges == []
    (memory,) = await edge.rig.get(mine.id, with_edges=True, space="team")
    assert [one.id for one in memory.edges] == ["ab" * 16]


async def test_histories_of_many_memories_come_with_them(edge: Edge):
    chains: list[list[str]] = []
    for n in range(3):
        chain = [(await edge.rig.store(f"chain {n} version 0")).id]
        for version in range(1, 4):
            chain.append((await edge.rig.update(chain[-1], content=f"chain {n} version {version}")).superseded_by)
        chains.append(chain)
    every = [one for chain in chains for one in chain]
    memories = await edge.rig.get(*every, with_history=True, with_edges=True)
    assert [memory.history for memory in memories] == [chain for chain in chains for _ in chain]
    assert [len(memory.edges) for memory in memories] == [1, 2, 2, 1] * 3
