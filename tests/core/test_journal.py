"""The log of writes: in the same batch as what was written, and nothing of what it says."""

import json

import pytest
from tests.core.rig import ALL, DAY, NOW, Rig, opened

from shoal.core import journal
from shoal.core.caller import Caller
from shoal.core.context import EDGE
from shoal.core.journal import LogEntry
from shoal.schema.errors import OutOfRange, StorageError
from shoal.schema.limits import BATCH_MAX, LOG_DAYS_DEFAULT, PAGE_MAX
from shoal.schema.models import StoreItem

CLAUDE = Caller(client="Claude", token="g1", device="phone")
CURSOR = Caller(client="Cursor", token="g2")


async def log(rig: Rig, **wanted) -> list[LogEntry]:
    return await journal.read(rig.database, **{"limit": PAGE_MAX, **wanted})


async def deeds(rig: Rig) -> list[tuple[str, list[str]]]:
    """Return what was done to which memories, the oldest first."""
    return [(entry.action, sorted(entry.ids)) for entry in reversed(await log(rig))]


async def test_an_entry_names_the_client_its_token_and_device_and_the_memories(rig: Rig):
    one = await rig.store("a fact", CLAUDE, space="team")
    assert await log(rig) == [LogEntry(1, NOW, "store", "team", "Claude", "g1", "phone", (one.id,))]
    assert rig.rows("select typeof(n), typeof(at), typeof(ids) from write_log") == [("integer", "integer", "text")]


async def test_every_deed_is_logged_by_its_name(rig: Rig):
    one = (await rig.store("a fact")).id
    new = (await rig.update(one, content="a better fact")).superseded_by
    await rig.update(new, archived=True)
    await rig.delete(one)
    await rig.memory.revive([one], ALL)
    await rig.delete(one)
    await rig.update(one, revive=True)
    await rig.delete(one)
    await rig.store("a fact", revive=True)
    await rig.purge(one)
    assert await deeds(rig) == [
        ("store", [one]),
        ("update", sorted([one, new])),
        ("update", [new]),
        ("delete", [one]),
        ("revive", [one]),
        ("delete", [one]),
        ("update", [one]),
        ("delete", [one]),
        ("store", [one]),
        ("purge", [one]),
    ]


async def test_what_changes_nothing_is_not_logged(rig: Rig):
    one = await rig.store("a fact", tags="a")
    before = await log(rig)
    await rig.store("a fact", tags="a")
    await rig.update(one.id, archived=False)
    await rig.delete(one.id, confirm=False)
    await rig.delete("ab" * 16)
    await rig.memory.revive([one.id], ALL)
    assert await log(rig) == before


async def test_only_the_memories_that_changed_are_named(rig: Rig):
    known, forgotten = await rig.store("known"), await rig.store("forgotten")
    await rig.delete(forgotten.id)
    answer = await rig.store_all([StoreItem(content=text) for text in ("known", "forgotten", "new")])
    assert [one.id for one in answer.results][:2] == [known.id, forgotten.id]
    assert (await deeds(rig))[-1] == ("store", [answer.results[2].id])


async def test_a_delete_in_two_spaces_is_an_entry_for_each(rig: Rig):
    ids = {space: (await rig.store("a fact", space=space)).id for space in ("main", "team")}
    await rig.delete(*ids.values(), caller=CURSOR)
    entries = (await log(rig))[:2]
    assert {entry.space: entry.ids for entry in entries} == {space: (one,) for space, one in ids.items()}
    assert {(entry.action, entry.client, entry.token, entry.device) for entry in entries} == {
        ("delete", "Cursor", "g2", "")
    }


async def test_the_trash_is_emptied_by_shoal_itself(rig: Rig):
    one = await rig.store("a fact", CLAUDE)
    await rig.delete(one.id, caller=CLAUDE)
    rig.clock.now += 31 * DAY
    await rig.memory.empty_trash()
    (entry, *_) = await log(rig)
    assert (entry.action, entry.client, entry.token, entry.device, entry.ids) == ("purge", "shoal", "", "", (one.id,))


async def test_an_entry_comes_in_the_batch_of_its_cells_or_not_at_all(rig: Rig):
    batches = len(rig.database.batches)
    await rig.store("a fact")
    assert len(rig.database.batches) == batches + 1
    rig.database.fail_batches_with = StorageError("The disk is gone.", "Find it.")
    with pytest.raises(StorageError):
        await rig.store("another")
    rig.database.fail_batches_with = None
    assert len(await log(rig)) == 1


async def test_nothing_of_what_a_memory_says_is_logged(rig: Rig):
    secret = "hunter2"
    one = await rig.store(
        f"the password is {secret}",
        CLAUDE,
        tags=secret,
        entities=[secret],
        metadata={secret: secret},
        source=secret,
        conversation_id=secret,
    )
    await rig.update(one.id, CLAUDE, content=f"it was {secret}")
    await rig.delete(one.id, caller=CLAUDE, reason=secret)
    assert secret not in json.dumps(rig.rows("select * from write_log"))


async def test_the_largest_store_of_the_edge_stays_one_entry_a_batch():
    rig = await opened(embedder=None, policy=EDGE)
    before = len(rig.database.batches)
    await rig.store_all([StoreItem(content=f"fact {n}") for n in range(BATCH_MAX)], CLAUDE)
    assert len(rig.database.batches) == before + 1
    (entry,) = await log(rig)
    assert len(entry.ids) == len(set(entry.ids)) == BATCH_MAX


async def test_the_log_is_read_from_the_newest_by_token_by_client_and_page_by_page(rig: Rig):
    for number in range(6):
        await rig.store(f"fact {number}", CLAUDE if number % 2 else CURSOR)
    assert [entry.n for entry in await log(rig)] == [6, 5, 4, 3, 2, 1]
    assert [entry.n for entry in await log(rig, token="g1")] == [6, 4, 2]
    assert [entry.n for entry in await log(rig, client="Cursor")] == [5, 3, 1]
    assert [entry.n for entry in await log(rig, token="g1", before=6, limit=1)] == [4]
    assert await log(rig, client="Cursor", token="g1") == await log(rig, client="cursor") == []
    for limit in (0, -1, PAGE_MAX + 1):
        with pytest.raises(OutOfRange):
            await log(rig, limit=limit)


async def test_old_entries_go_in_bounded_steps_and_the_rest_stays(rig: Rig):
    for number in range(5):
        await rig.store(f"fact {number}")
        rig.clock.now += DAY
    before = NOW + 3 * DAY
    assert [await journal.expire(rig.database, before, 2) for _ in range(3)] == [2, 1, 0]
    assert [entry.at for entry in await log(rig)] == [NOW + 4 * DAY, NOW + 3 * DAY]
    await rig.store("another")
    assert (await log(rig))[0].n == 6


async def test_the_memory_forgets_its_log_after_its_time(rig: Rig):
    await rig.store("a fact")
    rig.clock.now += LOG_DAYS_DEFAULT * DAY
    assert await rig.memory.expire_log() == 0
    rig.clock.now += 1
    assert await rig.memory.expire_log() == 1
    assert await log(rig) == []


async def test_an_empty_log_expires_to_nothing(rig: Rig):
    assert await journal.expire(rig.database, NOW) == 0
    assert await log(rig) == []
