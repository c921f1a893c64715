"""Two workers on one memory, in every order of their calls; and one that ends anywhere.

Whatever happens, afterwards what lies in the index is known to the database (`vector_state` or `vector_gone`), and
where something is missing the memory's vectors are wanted.
"""

from collections.abc import Callable, Sequence

import pytest
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.vectorize import VectorizeFault
from tests.worker.schedules import Gate, GatedBinding, GatedDatabase, Worker, every_schedule, run
from tests.worker.test_vectorize import DIM, index_of, row, unit
from tests.worker.world import World

from shoal.core.protocols import VectorRow
from shoal.schema.errors import StorageBusy, VectorIndexError
from shoal.worker.budget import Budget
from shoal.worker.vector_ids import Version, versions
from shoal.worker.vectorize import VectorizeIndex, read_versions

MODEL = "model/1"
RID = 1


def rows(text: bytes, passages: int = 1) -> list[VectorRow]:
    return [row(RID, unit(1, n), passage=n, text=text) for n in range(passages)]


A, B = rows(b"aaaa", 2), rows(b"bbbb")
[A_VERSION], [B_VERSION] = versions(A, MODEL), versions(B, MODEL)


def gated(world: World, gate: Gate) -> VectorizeIndex:
    return VectorizeIndex(
        GatedBinding(world.env.VECTORIZE, gate),
        GatedDatabase(world.database(), gate),
        MODEL,
        DIM,
        world.clock,
        Budget(statements_max=1_000, calls_max=1_000),
    )


def putting(world: World, what: Sequence[VectorRow]) -> Worker:
    return lambda gate: gated(world, gate).upsert(what)


def deleting(world: World) -> Worker:
    return lambda gate: gated(world, gate).delete([RID])


def discarding(world: World, version: Version) -> Worker:
    return lambda gate: gated(world, gate).discard(version.ids)


def sweeping(world: World) -> Worker:
    """As reconcile.py does."""

    async def work(gate: Gate) -> None:
        index = gated(world, gate)
        noted = await GatedDatabase(world.database(), gate).query("select rid, mark, passages from vector_gone")
        await index.sweep(read_versions(noted))

    return work


class Scene:
    """One memory, and what is known of its vectors at the beginning."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def begin(self, *, present: Sequence[VectorRow] = (), gone: Version | None = None, state: int = 1) -> None:
        world = self.world
        for table in ("vector_state", "vector_gone"):
            world.rows(f"delete from {table}")
        if world.indexed():
            await world.env.VECTORIZE.deleteByIds(world.indexed())
        world.rows("update record set state = 1")
        await index_of(world, fingerprint=MODEL).upsert(present)
        if gone is not None:
            await world.env.VECTORIZE.upsert([{"id": one, "values": unit(1)} for one in gone.ids])
            world.rows("insert into vector_gone values (?, ?, ?)", *gone)
        world.rows("update record set want = 0, state = ?", state)

    def known(self) -> set[str]:
        return {one for version in (*self.present(), *self.gone()) for one in version.ids}

    def present(self) -> list[Version]:
        return [Version(*found) for found in self.world.rows("select rid, mark, passages from vector_state")]

    def gone(self) -> list[Version]:
        return [Version(*found) for found in self.world.rows("select rid, mark, passages from vector_gone")]

    def assert_sound(self) -> None:
        world = self.world
        indexed = set(world.indexed())
        assert indexed <= self.known()
        wanted = world.value("select want from record") > 0
        living = world.value("select state from record") in (1, 2)
        there = any(set(version.ids) <= indexed for version in self.present())
        assert wanted or there == living

    async def in_every_order(self, begin: Callable[[], object], **workers: Worker) -> int:
        async def once(choose: Callable[[list[str]], str]) -> None:
            await begin()  # type: ignore[misc]  # a coroutine function
            await run(workers, choose)
            self.assert_sound()

        return await every_schedule(once)


@pytest.fixture
async def scene(world: World) -> Scene:
    await world.store("a memory")
    assert world.value("select rid from record") == RID
    return Scene(world)


async def test_two_that_make_the_same_version_don_t_harm_each_other(scene: Scene):
    world = scene.world
    count = await scene.in_every_order(scene.begin, one=putting(world, A), two=putting(world, A))
    assert count == 20
    assert world.indexed() == A_VERSION.ids


async def test_a_version_that_comes_back_is_not_taken_for_the_one_that_went(scene: Scene):
    world = scene.world

    async def begin() -> None:
        await scene.begin(present=A)

    assert await scene.in_every_order(begin, back=putting(world, A), on=putting(world, B)) >= 20


async def test_one_that_sweeps_meets_one_that_puts_the_same(scene: Scene):
    world = scene.world

    async def begin() -> None:
        await scene.begin(present=B, gone=A_VERSION)

    assert await scene.in_every_order(begin, putting=putting(world, A), sweeping=sweeping(world)) >= 20


async def test_one_that_sweeps_meets_a_version_that_is_on_its_way(scene: Scene):
    world = scene.world
    assert await scene.in_every_order(scene.begin, putting=putting(world, A), sweeping=sweeping(world)) == 11


async def test_one_that_deletes_meets_one_that_puts_a_memory_that_came_back(scene: Scene):
    world = scene.world

    async def begin() -> None:
        await scene.begin(present=A)

    assert await scene.in_every_order(begin, deleting=deleting(world), putting=putting(world, A)) >= 20


async def test_one_that_deletes_meets_one_that_does_not_know_yet_that_the_memory_went(scene: Scene):
    world = scene.world

    async def begin() -> None:
        await scene.begin(present=A, state=3)

    assert await scene.in_every_order(begin, deleting=deleting(world), putting=putting(world, B)) >= 20


async def test_a_stray_that_a_search_met_meets_one_that_makes_it_the_present_version(scene: Scene):
    world = scene.world

    async def begin() -> None:
        await scene.begin(gone=A_VERSION)

    assert await scene.in_every_order(begin, discarding=discarding(world, A_VERSION), putting=putting(world, A)) >= 20


# One that ends anywhere


FAILURES = [
    ("d1", D1Fault.RESET_BY_ERROR, False),
    ("d1", D1Fault.RESET_BY_ERROR, True),
    ("vectorize", VectorizeFault.REFUSED, False),
    ("vectorize", VectorizeFault.REFUSED, True),
]
"""Each call of a service fails, before it has done anything or after it has done it all."""


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize(("service", "kind", "applied"), FAILURES, ids=str)
@pytest.mark.parametrize("work", ["first", "replace", "delete", "purge"])
async def test_whatever_fails_one_more_delivery_and_one_reconciliation_mend_it(
    world: World, work: str, service: str, kind: str, applied: bool, after: int
):
    kept, changed = await world.store_all(["a memory that stays", "a memory that changes"])
    if work != "first":
        await world.deliver()
    if work == "replace":
        # Its text to embed has the turn before in front: another version.
        await world.store("What comes before", conversation_id="c", position=1)
        await world.store("What comes after", conversation_id="c", position=2)
        await world.deliver()
        await world.delete(world.value("select lower(hex(id)) from record where position = 1"))
    elif work in ("delete", "purge"):
        await world.delete(changed, purge=work == "purge")
    if service == "d1":
        world.fail_d1(kind, "batch", after=after, applied=applied)
    else:
        world.fail_vectorize(kind, after=after, applied=applied)
    await world.deliver()
    world.d1.faults.clear()
    world.vectorize.faults.clear()
    await world.settle()
    world.assert_in_step()
    assert world.rid(kept)


async def test_a_worker_that_dies_for_good_leaves_what_a_sweep_finds(world: World):
    """No retry comes, and the memory is purged, so nothing tells any more what its vectors were called."""
    memory_id = await world.store("a secret that must not stay anywhere")
    world.fail_d1(D1Fault.RESET_BY_ERROR, "batch", after=1)
    async with world.woken() as edge:
        with pytest.raises(StorageBusy):
            await edge.memory.indexer.named([memory_id], 10)
    assert len(world.indexed()) == 1
    await world.delete(memory_id, purge=True)
    await world.settle()
    assert world.indexed() == []
    world.assert_in_step()


async def test_an_index_that_refuses_keeps_the_memory_wanted(world: World):
    memory_id = await world.store("a memory")
    world.fail_vectorize(VectorizeFault.RATE_LIMITED)
    async with world.woken() as edge:
        with pytest.raises(VectorIndexError):
            await edge.memory.indexer.named([memory_id], 10)
    assert world.value("select want from record") == 1
