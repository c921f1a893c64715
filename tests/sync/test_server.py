"""The edge's half: what it takes, what it hands out, and to whom."""

import json
from typing import Any

import pytest
from tests.core.rig import NOW, Rig
from tests.sync.pair import opened_edge

from shoal.core import journal
from shoal.core.caller import Caller, Scope
from shoal.core.cells import INIT
from shoal.core.ids import memory_id
from shoal.schema.errors import EdgeRestored, InsufficientScope, NotAllowed, ProtocolMismatch, TooMany
from shoal.schema.migrations import BREAKING_STEP, NEWEST
from shoal.schema.wire import AHEAD_MAX_MS, CELLS_MAX, PAGE_BYTES, PROTO, Head, PullRequest, PushRequest, RefusalCode
from shoal.sync import server

ALL = Caller()
MAIN = Caller(spaces=("main",))
READER = Caller(scopes=frozenset({Scope.SYNC, Scope.READ}))


@pytest.fixture
async def edge() -> Rig:
    """An edge."""
    return await opened_edge()


def hlc(ms: int = NOW, counter: int = 0, device: str = "dev") -> str:
    return f"{ms * 65536 + counter:019d}-{device}"


def init(content: str, space: str = "main", counter: int = 0) -> list[Any]:
    value = {
        "v": 1,
        "class": "memory",
        "space": space,
        "content": content,
        "type": "note",
        "occurred_at": NOW,
        "created_at": NOW,
    }
    return [memory_id(space, content), space, INIT, 1, hlc(counter=counter), value]


def tag(content: str, name: str, counter: int, space: str = "main") -> list[Any]:
    return [memory_id(space, content), space, f"tag:{name}", 1, hlc(counter=counter), 1]


def about(**more: Any) -> dict[str, Any]:
    return {"proto": PROTO, "schema_version": NEWEST, "device": "dev", **more}


async def push(edge: Rig, cells: list[Any], caller: Caller = ALL, **more: Any) -> Any:
    return await server.push(edge.memory.context, PushRequest(**about(**more), cells=cells), caller)


async def pull(
    edge: Rig, spaces: Any = "*", cursor: int = 0, batch: str | None = None, caller: Caller = ALL, **more: Any
) -> Any:
    request = PullRequest(**about(**more), spaces=spaces, cursor=cursor, batch=batch)
    return await server.pull(edge.memory.context, request, caller)


async def pull_all(edge: Rig, spaces: Any = "*", limit: int = CELLS_MAX, caller: Caller = ALL) -> list[list[Any]]:
    """Return the pages. A full one may be the last: then an empty one follows."""
    pages: list[list[Any]] = []
    cursor, batch, head = 0, None, None
    while True:
        request = PullRequest(**about(head=head), spaces=spaces, cursor=cursor, batch=batch, limit=limit)
        answer = await server.pull(edge.memory.context, request, caller)
        pages.append(answer.cells)
        cursor, batch, head = answer.cursor, answer.batch, answer.head
        if not answer.more:
            return pages


async def test_what_was_pushed_is_there_and_logged_as_the_devices(edge: Rig):
    caller = Caller(client="laptop", token="t1", device="dev")
    answer = await push(edge, [init("one"), tag("one", "a", 1)], caller)
    assert answer.refused == []
    assert (await edge.one(memory_id("main", "one"))).tags == ["a"]
    (entry,) = await journal.read(edge.database, limit=5)
    assert (entry.action, entry.client, entry.token, entry.device) == ("sync", "laptop", "t1", "dev")


async def test_a_push_is_one_batch_and_says_what_stands_in_it(edge: Rig):
    edge.database.batches.clear()
    edge.database.queries.clear()
    answer = await push(edge, [init("one")])
    assert (len(edge.database.batches), len(edge.database.queries)) == (1, 0)
    assert answer.head == Head(seq=edge.value("select max(seq) from sync_batch"), batch=f"{1:016x}")
    assert answer.clock == f"{edge.value('select v from meta where k = ?', 'clock'):019d}"
    assert answer.server_time == edge.clock.now


async def test_a_push_that_comes_twice_changes_nothing(edge: Rig):
    cells = [init("one"), tag("one", "a", 1)]
    await push(edge, cells)
    before = edge.rows("select hlc, seq from record union all select hlc, seq from cell")
    assert (await push(edge, cells)).refused == []
    assert edge.rows("select hlc, seq from record union all select hlc, seq from cell") == before


async def test_a_bad_cell_keeps_no_other_back(edge: Rig):
    cells = [
        "nonsense",
        init("one"),
        [*init("two")[:5], init("another")[5]],
        [*tag("one", "b", 2)[:4], hlc(NOW + AHEAD_MAX_MS + 60_000), 1],
        tag("one", "a", 1),
    ]
    answer = await push(edge, cells)
    assert [(one.index, one.code) for one in answer.refused] == [
        (0, RefusalCode.MALFORMED),
        (2, RefusalCode.WRONG_ID),
        (3, RefusalCode.CLOCK_AHEAD),
    ]
    assert (await edge.one(memory_id("main", "one"))).tags == ["a"]


async def test_of_nothing_but_bad_cells_nothing_is_written(edge: Rig):
    written = edge.written()
    assert len((await push(edge, [None, 7])).refused) == 2
    assert (await push(edge, [])).refused == []
    assert edge.written() == written


async def test_more_cells_than_a_push_may_have_are_refused_as_a_whole(edge: Rig):
    with pytest.raises(TooMany):
        await push(edge, [init("one")] * (CELLS_MAX + 1))
    assert len((await push(edge, [None] * CELLS_MAX)).refused) == CELLS_MAX


async def test_the_largest_push_takes_no_more_statements_than_an_invocation_may_run(edge: Rig):
    cells = [init(f"memory {number} " + "部署" * 160, counter=number) for number in range(CELLS_MAX)]
    edge.database.batches.clear()
    assert (await push(edge, cells)).refused == []
    assert len(edge.database.batches[0]) <= 20


@pytest.mark.parametrize(
    ("about_it", "mend"),
    [
        ({"proto": PROTO + 1}, "Deploy"),
        ({"proto": PROTO - 1}, "Update"),
        ({"schema_version": NEWEST + BREAKING_STEP}, "Deploy"),
    ],
)
async def test_another_protocol_or_breaking_schema_is_told_which_end_to_update(edge: Rig, about_it: Any, mend: str):
    with pytest.raises(ProtocolMismatch) as caught:
        await push(edge, [], **about_it)
    assert caught.value.mend.startswith(mend)
    with pytest.raises(ProtocolMismatch):
        await pull(edge, **about_it)


async def test_a_schema_of_the_same_breaking_step_will_do(edge: Rig):
    assert (await push(edge, [init("one")], schema_version=NEWEST + 1)).refused == []


@pytest.mark.parametrize("missing", [Scope.SYNC, Scope.READ])
async def test_who_may_not_sync_or_read_gets_nothing(edge: Rig, missing: Scope):
    caller = Caller(scopes=frozenset(Scope) - {missing})
    for asked in (server.status(edge.memory.context, caller), push(edge, [], caller), pull(edge, caller=caller)):
        with pytest.raises(InsufficientScope):
            await asked


async def test_who_may_not_write_may_pull_and_push_nothing(edge: Rig):
    await edge.store("one")
    assert len((await pull(edge, caller=READER)).cells) == 1
    with pytest.raises(InsufficientScope):
        await push(edge, [init("two")], READER)


async def test_each_cell_goes_only_where_the_token_may_write(edge: Rig):
    answer = await push(edge, [init("one", "team"), init("two", "main", 1)], MAIN)
    assert [(one.index, one.code) for one in answer.refused] == [(0, RefusalCode.NOT_ALLOWED)]
    assert edge.rows("select space from record") == [("main",)]


async def test_a_purge_needs_the_right_to_administer(edge: Rig):
    stored = await edge.store("one")
    purge = [stored.id, "main", INIT, 2, hlc(NOW + 1), None]
    writer = Caller(scopes=frozenset(Scope) - {Scope.ADMIN})
    assert [one.code for one in (await push(edge, [purge], writer)).refused] == [RefusalCode.NOT_ALLOWED]
    assert (await edge.one(stored.id)).content == "one"
    assert (await push(edge, [purge])).refused == []
    assert await edge.get(stored.id) == []


async def test_every_answer_says_what_the_token_allows(edge: Rig):
    caller = Caller(spaces=("main", "team"), narrower=((Scope.WRITE, ("team",)),))
    for answer in (
        await server.status(edge.memory.context, caller),
        await push(edge, [], caller),
        await pull(edge, ["main"], caller=caller),
    ):
        assert (answer.spaces, answer.writable) == (["main", "team"], ["team"])
    everything = await server.status(edge.memory.context, ALL)
    assert (everything.spaces, everything.writable, everything.model) == ("*", "*", None)
    assert (await server.status(edge.memory.context, READER)).writable == []


async def test_what_was_merged_is_handed_out_in_its_order_each_cell_once(edge: Rig):
    for number in range(6):
        await edge.store(f"memory {number}", tags=["a", "b"])
    whole = [cell for page in await pull_all(edge) for cell in page]
    assert len(whole) == 18
    for limit in (1, 2, 5, 17, 18, 19):
        pages = await pull_all(edge, limit=limit)
        assert [cell for page in pages for cell in page] == whole
        assert all(len(page) == limit for page in pages[:-1])
    assert whole[0][2] == INIT and whole[0][5]["content"] == "memory 0"


async def test_only_the_latest_of_each_cell_is_handed_out(edge: Rig):
    stored = await edge.store("one", metadata={"k": 1})
    await edge.update(stored.id, metadata={"k": 2})
    (page,) = await pull_all(edge)
    assert [cell[5] for cell in page if cell[2] == "md:k"] == ["2"]


async def test_a_pull_writes_nothing_and_ends_at_the_newest(edge: Rig):
    await edge.store("one")
    written = edge.written()
    answer = await pull(edge)
    assert (answer.cursor, answer.batch, answer.more) == (answer.head.seq, answer.head.batch, False)
    again = await pull(edge, "*", answer.cursor, answer.batch)
    assert (again.cells, again.cursor, again.batch, again.more) == ([], answer.cursor, answer.batch, False)
    assert edge.written() == written


async def test_a_page_holds_as_many_bytes_as_it_may_and_a_larger_cell_goes_alone(edge: Rig):
    for letter in "abc":
        await edge.store(letter * 200_000)
    assert [len(page) for page in await pull_all(edge)] == [2, 1]
    edge.connection.execute("update record set init = json_set(init, '$.zz', ?) where rid = 1", ("w" * PAGE_BYTES,))
    assert [len(page) for page in await pull_all(edge)] == [1, 2]


async def test_a_page_is_bounded_as_it_travels_where_each_character_takes_six(edge: Rig):
    await push(edge, [init("one")])
    for number in range(6):
        value = "\x01" * 40_000
        await push(edge, [[memory_id("main", "one"), "main", f"zz:{number}", 1, hlc(counter=number), value]])
    pages = await pull_all(edge)
    assert [len(page) for page in pages] == [3, 2, 2]
    assert all(len(json.dumps(page)) <= PAGE_BYTES for page in pages)


async def test_only_the_spaces_asked_for_are_handed_out_and_the_others_are_passed_over_in_bounded_pages(edge: Rig):
    for number in range(5):
        await edge.store(f"other {number}", space="team")
    await edge.store("mine")
    pages = await pull_all(edge, ["main"], limit=2)
    assert [len(page) for page in pages] == [0, 0, 1, 0]
    assert pages[2][0][5]["content"] == "mine"
    assert [len(page) for page in await pull_all(edge, limit=2, caller=MAIN, spaces=["main"])] == [0, 0, 1, 0]


async def test_a_large_cell_of_another_space_takes_no_room_in_a_page(edge: Rig):
    await edge.store("x" * 250_000, space="team")
    await edge.store("y" * 250_000, space="team")
    await edge.store("z" * 250_000, space="team")
    await edge.store("mine")
    assert [len(page) for page in await pull_all(edge, ["main"])] == [1]


async def test_gaps_in_the_numbers_are_passed_over(edge: Rig):
    await edge.store("one")
    edge.connection.execute("update meta set v = v + 1000 where k = 'seq'")
    await edge.store("two")
    assert [len(page) for page in await pull_all(edge, limit=1)] == [1, 1, 0]


async def test_a_space_out_of_reach_is_not_handed_out(edge: Rig):
    for spaces in (["team"], ["main", "team"], "*"):
        with pytest.raises(NotAllowed):
            await pull(edge, spaces, caller=MAIN)


async def test_a_cursor_in_the_middle_of_a_batch_is_of_that_batch(edge: Rig):
    await edge.store("one", tags=["a", "b", "c"])
    request = PullRequest(**about(), spaces="*", cursor=0, batch=None, limit=2)
    first = await server.pull(edge.memory.context, request, ALL)
    assert first.more and first.cursor < first.head.seq and first.batch == first.head.batch
    await edge.store("two")
    assert len((await pull(edge, "*", first.cursor, first.batch)).cells) == 3


async def restored(edge: Rig, contents: bytes) -> None:
    edge.connection.deserialize("main", contents)


async def test_a_cursor_that_the_history_does_not_have_tells_of_a_restored_database(edge: Rig):
    await edge.store("one")
    before = edge.connection.serialize("main")
    await edge.store("two")
    last = await pull(edge)
    await restored(edge, before)
    with pytest.raises(EdgeRestored):
        await pull(edge, "*", last.cursor, last.batch)
    await edge.store("three")
    await edge.store("four")
    with pytest.raises(EdgeRestored):
        await pull(edge, "*", last.cursor, last.batch)
    assert len((await pull(edge)).cells) == 3


@pytest.mark.parametrize(("cursor", "batch"), [(0, "0" * 16), (5, None), (5, "f" * 16), (10**6, "f" * 16)])
async def test_a_cursor_of_no_batch_is_not_of_this_database(edge: Rig, cursor: int, batch: str | None):
    with pytest.raises(EdgeRestored):
        await pull(edge, "*", cursor, batch)


async def test_a_push_after_the_cursor_that_was_undone_is_noticed_by_its_head(edge: Rig):
    last = await pull(edge)
    before = edge.connection.serialize("main")
    pushed = await push(edge, [init("one")], head=last.head)
    await restored(edge, before)
    with pytest.raises(EdgeRestored):
        await pull(edge, "*", last.cursor, last.batch, head=pushed.head)
    with pytest.raises(EdgeRestored):
        await push(edge, [init("two")], head=pushed.head)
    assert (await pull(edge, "*", last.cursor, last.batch, head=last.head)).more is False


async def test_the_history_is_bounded_and_a_device_that_was_away_for_longer_begins_anew(edge: Rig, monkeypatch: Any):
    monkeypatch.setattr(server, "HISTORY_KEPT", 3)
    first = await pull(edge)
    for number in range(5):
        await edge.store(f"memory {number}")
    last = await pull(edge)
    await server.trim_history(edge.memory.context)
    assert edge.value("select count(*) from sync_batch") == 4
    assert (await pull(edge, "*", last.cursor, last.batch, head=last.head)).cells == []
    with pytest.raises(EdgeRestored):
        await pull(edge, "*", first.cursor, first.batch)


async def test_a_clock_behind_its_last_stamp_tells_the_stamp_and_one_ahead_its_time(edge: Rig):
    await push(edge, [[*init("one")[:4], hlc(NOW + AHEAD_MAX_MS), init("one")[5]]])
    assert int((await server.status(edge.memory.context, ALL)).clock) > (NOW + AHEAD_MAX_MS) * 65536
    edge.clock.now += 2 * AHEAD_MAX_MS
    assert (await server.status(edge.memory.context, ALL)).clock == f"{edge.clock.now * 65536:019d}"
