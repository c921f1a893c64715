"""The queue: dirty marks in pages, and what takes them off."""

import json
from typing import Any

from tests.core.rig import Rig, opened

from shoal.core.cells import INIT
from shoal.core.ids import memory_id
from shoal.schema.wire import PAGE_BYTES, RefusalCode
from shoal.sync import queue


async def all_pages(rig: Rig, limit: int = 500, spaces: Any = "*") -> list[list[queue.Queued]]:
    pages: list[list[queue.Queued]] = []
    after = queue.START
    while True:
        cells, following = await queue.page(rig.database, spaces, after, limit)
        if following is None:
            return pages
        pages.append(cells)
        after = following


async def waiting(rig: Rig) -> list[queue.Queued]:
    return [one for page in await all_pages(rig) for one in page]


def fields(cells: list[queue.Queued]) -> list[str]:
    return [one.cell[2] for one in cells]


async def take(rig: Rig, cells: list[queue.Queued]) -> None:
    await rig.database.batch(queue.taken(cells))


async def test_an_empty_queue_has_no_page(rig: Rig):
    assert await all_pages(rig) == []


async def test_a_write_waits_as_it_will_travel(rig: Rig):
    stored = await rig.store("one", tags=["b", "a"])
    init, first, second = await waiting(rig)
    assert init.cell[:4] == [stored.id, "main", INIT, 1]
    assert init.cell[5]["content"] == "one"
    assert (first.cell[2], second.cell[2]) == ("tag:a", "tag:b")
    assert first.cell[5] == 1
    assert init.cell[4] < first.cell[4] and init.cell[4].endswith("-0a0b0c0d")


async def test_a_purge_travels_as_an_init_without_a_value(rig: Rig):
    stored = await rig.store("one", tags=["a"])
    await rig.purge(stored.id)
    assert [one.cell[2:4] + one.cell[5:] for one in await waiting(rig)] == [[INIT, 2, None]]


async def test_pages_hold_as_many_cells_as_they_may_and_each_cell_once_its_init_first(rig: Rig):
    for number in range(4):
        await rig.store(f"memory {number}", tags=["a", "b"])
    whole = await waiting(rig)
    assert len(whole) == 12
    for limit in (1, 2, 5, 11, 12, 13):
        pages = await all_pages(rig, limit)
        assert all(len(page) == limit for page in pages[:-1])
        assert [one for page in pages for one in page] == whole
    assert fields(whole) == [INIT, "tag:a", "tag:b"] * 4


async def test_pages_hold_as_many_bytes_as_they_may_and_a_larger_cell_goes_alone():
    rig = await opened(embedder=None)
    await rig.store("x" * 200_000)
    await rig.store("y" * 200_000, tags=["a"])
    await rig.store("z" * 200_000)
    pages = await all_pages(rig)
    assert [fields(page) for page in pages] == [[INIT, INIT, "tag:a"], [INIT]]
    rig.connection.execute("update record set init = json_set(init, '$.zz', ?) where rid = 1", ("w" * PAGE_BYTES,))
    assert [fields(page) for page in await all_pages(rig)] == [[INIT], [INIT, "tag:a", INIT]]


async def test_pages_are_bounded_as_they_travel_where_each_character_takes_six(rig: Rig):
    stored = await rig.store("one")
    for number in range(6):
        rig.connection.execute(
            "insert into cell (rid, field, rank, hlc, value, seq, dirty) values (1, ?, 1, '', ?, 0, 1)",
            (f"zz:{number}", "\x01" * 40_000),
        )
    pages = await all_pages(rig)
    assert [len(page) for page in pages] == [3, 2, 2]
    assert all(len(json.dumps([one.cell for one in page])) <= PAGE_BYTES for page in pages)
    assert pages[0][0].cell[0] == stored.id


async def test_other_spaces_are_passed_over_and_the_rest_is_found_behind_them(rig: Rig):
    for number in range(5):
        await rig.store(f"memory {number}", space="attic")
    await rig.store("mine", space="main")
    pages = await all_pages(rig, 2, ["main"])
    assert [len(page) for page in pages] == [0, 0, 1]
    assert await all_pages(rig, 2, []) == [[], [], []]


async def test_what_was_taken_waits_no_more(rig: Rig):
    await rig.store("one", tags=["a"])
    await take(rig, await waiting(rig))
    assert await waiting(rig) == []
    assert rig.value("select sum(dirty) from record") == 0


async def test_a_write_while_a_push_is_under_way_goes_on_waiting(rig: Rig):
    stored = await rig.store("one", metadata={"k": 1}, tags=["a"])
    sent = await waiting(rig)
    await rig.update(stored.id, metadata={"k": 2})
    await take(rig, sent)
    (left,) = await waiting(rig)
    assert (left.cell[2], left.cell[5]) == ("md:k", "2")


async def test_a_purge_while_a_push_is_under_way_goes_on_waiting(rig: Rig):
    stored = await rig.store("one", tags=["a"])
    sent = await waiting(rig)
    await rig.purge(stored.id)
    await take(rig, sent)
    assert [one.cell[3] for one in await waiting(rig)] == [2]


async def test_what_is_refused_is_laid_aside_with_its_reason_and_the_rest_goes_on(rig: Rig):
    await rig.store("one", tags=["a", "b"])
    init, first, second = await waiting(rig)
    refused = queue.Refused(first, RefusalCode.MALFORMED, "It is bad.")
    await rig.database.batch([*queue.taken([init]), *queue.refused([refused], 77)])
    assert await waiting(rig) == [second]
    assert rig.rows("select field, rank, hlc, code, message, at from sync_refused") == [
        ("tag:a", 1, first.cell[4], "malformed", "It is bad.", 77)
    ]


async def test_what_changed_before_its_refusal_came_is_not_laid_aside(rig: Rig):
    stored = await rig.store("one", tags=["a"])
    _, tag = await waiting(rig)
    await rig.update(stored.id, tags=[])
    await rig.database.batch(queue.refused([queue.Refused(tag, RefusalCode.MALFORMED, "Bad.")], 1))
    assert [one.cell[5] for one in (await waiting(rig))[1:]] == [0]


async def test_a_reason_is_forgotten_once_the_cell_was_taken_or_replaced(rig: Rig):
    stored = await rig.store("one", tags=["a", "b"])
    cells = await waiting(rig)
    await rig.database.batch(queue.refused([queue.Refused(one, RefusalCode.REFUSED, "No.") for one in cells], 1))
    await rig.update(stored.id, tags=["b"])
    (again,) = await waiting(rig)
    await take(rig, [again])
    assert rig.rows("select field from sync_refused order by 1") == [("",), ("tag:b",)]
    rig.connection.execute("update cell set dirty = 0 where field = 'tag:b'")
    await rig.database.batch([queue.settled()])
    assert rig.rows("select field from sync_refused") == [("",)]


async def test_what_was_laid_aside_can_be_queued_again(rig: Rig):
    await rig.store("one", tags=["a"])
    before = await waiting(rig)
    await rig.database.batch(queue.refused([queue.Refused(one, RefusalCode.REFUSED, "No.") for one in before], 1))
    assert await waiting(rig) == []
    await queue.again(rig.database)
    assert await waiting(rig) == before
    assert rig.rows("select * from sync_refused") == []


async def test_everything_can_be_queued_others_writes_too(rig: Rig):
    await rig.store("one", tags=["a"], space="main")
    await rig.store("two", space="attic")
    await take(rig, await waiting(rig))
    await queue.all_of(rig.database, ["main"])
    assert fields(await waiting(rig)) == [INIT, "tag:a"]
    await queue.all_of(rig.database, "*")
    assert [one.cell[0] for one in await waiting(rig)][2:] == [memory_id("attic", "two")]


async def test_everything_is_queued_in_parts(rig: Rig, monkeypatch: Any):
    monkeypatch.setattr(queue, "MARKED_AT_ONCE", 3)
    for number in range(8):
        await rig.store(f"memory {number}")
    await take(rig, await waiting(rig))
    rig.database.batches.clear()
    await queue.all_of(rig.database, "*")
    assert len(rig.database.batches) == 3
    assert len(await waiting(rig)) == 8
