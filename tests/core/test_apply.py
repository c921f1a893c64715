import json

import apsw
import pytest
from tests.core.rig import ALL, DAY, ELSEWHERE, NOW, REMOTE, Clock, Rig, cell, opened

from shoal.core.apply import Replica, apply, statements
from shoal.core.cells import INIT, Cell, local
from shoal.core.ids import memory_id
from shoal.core.protocols import Statement
from shoal.core.statements import VALUE_MAX_BYTES, check
from shoal.schema.errors import BodyTooLarge
from shoal.schema.limits import CONTENT_MAX_BYTES, PASSAGES_MAX
from shoal.schema.models import StoreItem, TagChanges
from shoal.schema.sql import Mode, State

STATEMENTS_MAX = 50
"""D1's statements of one invocation."""


def init_of(content: str, space: str = "main", **more):
    return {
        "v": 1,
        "class": "memory",
        "space": space,
        "content": content,
        "type": "note",
        "occurred_at": NOW,
        "created_at": NOW,
        **more,
    }


def init(content: str, rank: int = 1, stamp: int = NOW, **more) -> Cell:
    return cell(memory_id("main", content), INIT, rank, stamp, init_of(content, **more))


def stamps(rig: Rig) -> list[str]:
    return [row[0] for row in rig.rows("select hlc from record where rank > 0 union all select hlc from cell")]


# Stamps and sequence numbers


async def test_a_frozen_clock_gives_every_cell_its_own_stamp_and_seq(rig: Rig):
    await rig.store("one", tags="a,b,c")
    await rig.store("two", tags="a,b,c")
    await rig.store("one", tags="d")
    found = stamps(rig)
    assert len(found) == len(set(found)) == 9
    seqs = [row[0] for row in rig.rows("select seq from record union all select seq from cell")]
    assert len(set(seqs)) == 9


async def test_the_cells_of_one_batch_are_numbered_and_stamped_one_by_one(rig: Rig):
    await rig.store_all([StoreItem(content=f"memory {n}", tags="a,b") for n in range(50)])
    await rig.apply(*[init(f"pulled {n}", stamp=NOW + n) for n in range(50)])
    seqs = [row[0] for row in rig.rows("select seq from record union all select seq from cell")]
    assert len(seqs) == len(set(seqs)) == 200
    assert max(seqs) <= rig.value("select v from meta where k = 'seq'")
    assert len(set(stamps(rig))) == 200


async def test_two_services_on_one_database_never_give_equal_stamps():
    connection = apsw.Connection(":memory:")
    clock = Clock()
    first, second = await opened(connection=connection, clock=clock), await opened(connection=connection, clock=clock)
    for turn in range(10):
        await first.store(f"of the first {turn}", tags="a")
        await second.store(f"of the second {turn}", tags="a")
    assert len(stamps(first)) == len(set(stamps(first))) == 40


async def test_a_later_edit_beats_what_came_from_a_clock_ahead_of_ours(rig: Rig):
    one = await rig.store("a fact", type="note")
    await rig.apply(cell(one.id, "type", 1, NOW + 90_000, "bug"))
    assert (await rig.one(one.id)).type == "bug"
    await rig.update(one.id, type="decision")
    assert (await rig.one(one.id)).type == "decision"


async def test_the_clock_passes_what_was_received_even_where_it_is_dropped(rig: Rig):
    one = await rig.store("a fact")
    await rig.purge(one.id)
    await rig.apply(cell(one.id, "tag:late", 1, NOW + DAY, 1))
    assert rig.value("select v / 65536 from meta where k = 'clock'") == NOW + DAY


async def test_a_clock_that_goes_back_does_not_lose_edits(rig: Rig):
    one = await rig.store("a fact")
    rig.clock.now -= DAY
    await rig.update(one.id, type="bug")
    assert (await rig.one(one.id)).type == "bug"


@pytest.mark.parametrize("ahead", [253_402_300_799_000, 2**53 - 1])
async def test_a_clock_that_was_thousands_of_years_ahead_does_not_lose_later_edits(rig: Rig, ahead: int):
    rig.clock.now = ahead
    one = await rig.store("one", tags="ahead")
    rig.clock.now = NOW
    for number in range(5):
        await rig.update(one.id, importance=number / 4, tags=str(number))
        memory = await rig.one(one.id)
        assert (memory.importance, memory.tags) == (number / 4, [str(number)])
    stamps = [hlc for (hlc,) in rig.rows("select hlc from cell union all select hlc from record")]
    assert len(set(stamps)) == len(stamps)
    assert all(stamp[:19].isdecimal() for stamp in stamps)


async def test_the_clock_is_never_seen_as_a_number_over_2_to_the_53(rig: Rig):
    await rig.store("a fact")
    assert rig.value("select v > 9007199254740991 from meta where k = 'clock'") == 1


# Writing only what changes


async def test_a_repeat_store_writes_nothing(rig: Rig):
    fields = {
        "type": "bug",
        "tags": ["proj:x", "标签"],
        "entities": ["Alice"],
        "metadata": {"a": [1], "b": None},
        "source": "chat",
        "importance": 1.5,
    }
    await rig.store("a fact", **fields)
    before = rig.written()
    assert (await rig.store("a fact", **fields)).status == "merged"
    assert rig.written() == before


@pytest.mark.parametrize(
    ("fields"),
    [{"tags": ["a"]}, {"type": "note"}, {"archived": False}, {"metadata": {"nothing": None}}, {"importance": 1.0}],
)
async def test_an_edit_that_changes_nothing_writes_nothing(rig: Rig, fields):
    one = await rig.store("a fact", tags="a", importance=1.0)
    before = rig.written()
    assert (await rig.update(one.id, **fields)).success
    assert rig.written() == before


async def test_rows_written_are_few():
    """D1 bills them. FTS5's own tables are counted too, and an entry of the log; a purge writes the indexes anew."""
    rig = await opened(embedder=None)
    written: dict[str, int] = {}

    async def count(what, act):
        before = rig.written()
        answer = await act
        written[what] = rig.written() - before
        return answer

    await rig.store("of another matter", tags="a,b")
    one = await count("new", rig.store("a fact", tags="a,b,c"))
    await count("repeat", rig.store("a fact", tags="a,b,c"))
    await count("tag", rig.update(one.id, tags=TagChanges(add="d")))
    await count("metadata", rig.update(one.id, metadata={"k": 1}))
    await count("archive", rig.update(one.id, archived=True))
    await count("trash", rig.delete(one.id))
    await count("revive", rig.memory.revive([one.id], ALL))
    assert written == {"new": 19, "repeat": 0, "tag": 13, "metadata": 4, "archive": 5, "trash": 5, "revive": 5}


async def test_local_writes_are_dirty_and_pulled_ones_are_not(rig: Rig):
    one = await rig.store("a fact", tags="a")
    assert rig.value("select count(*) from record where dirty = 1") == 1
    assert rig.rows("select dirty from cell") == [(1,)]
    await rig.apply(cell(one.id, "tag:a", 1, NOW + 5, 0), cell(one.id, "tag:b", 1, NOW + 5, 1))
    assert rig.rows("select field, dirty from cell order by field") == [("tag:a", 0), ("tag:b", 0)]
    assert rig.value("select dirty from record") == 1


async def test_a_pulled_cell_that_loses_leaves_the_dirty_mark(rig: Rig):
    one = await rig.store("a fact", tags="a")
    await rig.apply(cell(one.id, "tag:a", 1, NOW - 5, 0))
    assert rig.rows("select value, dirty from cell") == [(1, 1)]


async def test_each_life_is_marked_for_the_next_push_and_a_pulled_one_is_not(rig: Rig):
    one = await rig.store("a fact")
    for act, dirty in (
        (lambda: rig.purge(one.id), 1),
        (lambda: rig.store("a fact", revive=True), 1),
        (lambda: rig.apply(cell(one.id, INIT, 4, NOW + 1, None)), 0),
    ):
        rig.connection.execute("update record set dirty = ?", (1 - dirty,))
        await act()
        assert rig.rows("select dirty from record") == [(dirty,)]


async def test_a_purge_of_what_is_not_there_writes_nothing(rig: Rig):
    purged = await rig.store("a fact")
    await rig.purge(purged.id)
    hidden = memory_id("main", "only a tag so far")
    await rig.apply(cell(hidden, "tag:x", 1, NOW, 1))
    before = rig.written()
    for record in (purged.id, hidden, "ab" * 16):
        await rig.apply(local(record, "main", INIT, None, Mode.PURGE))
    assert rig.written() == before


async def test_the_edge_marks_nothing_dirty(rig: Rig):
    await apply(
        rig.database, [local("ab" * 16, "main", INIT, init_of("x"), Mode.STORE)], Replica("edge", False), NOW, ELSEWHERE
    )
    assert rig.value("select count(*) from record where dirty = 1") == 0


async def test_a_page_that_holds_a_cell_twice_keeps_the_greater(rig: Rig):
    one = await rig.store("a fact")
    await rig.apply(cell(one.id, "type", 1, NOW + 9, "bug"), cell(one.id, "type", 1, NOW + 3, "decision"))
    assert (await rig.one(one.id)).type == "bug"


async def test_a_batch_that_fails_leaves_nothing(rig: Rig):
    batch = await statements(
        [local("ab" * 16, "main", INIT, init_of("x"), Mode.STORE)], Replica("d", True), NOW, ELSEWHERE
    )
    before = rig.rows("select k, v from meta order by k")
    with pytest.raises(apsw.Error):
        await rig.database.batch([*batch, batch[0]._replace(sql="insert into nowhere values (1)", params=())])
    assert rig.value("select count(*) from record") == 0
    assert rig.rows("select k, v from meta order by k") == before


async def test_what_is_written_along_stands_or_falls_with_the_cells(rig: Rig):
    put = Statement("insert into meta (k, v) values ('sync_x', ?1)", ("here",))
    await apply(rig.database, [init("a fact")], REMOTE, NOW, ELSEWHERE, also=[put])
    assert rig.value("select v from meta where k = 'sync_x'") == "here"
    with pytest.raises(apsw.ConstraintError):
        await apply(rig.database, [init("another fact")], REMOTE, NOW, ELSEWHERE, also=[put])
    assert rig.value("select count(*) from record") == 1


async def test_each_batch_that_changes_anything_gets_a_name_at_the_number_where_it_ends(rig: Rig):
    names = iter(["first", "second", "third", "fourth"])
    edge = Replica("edge", dirty=False, name_batch=lambda: next(names))
    one = init("a fact")
    for cells in ([one], [cell(one.id, "tag:x", 1, NOW, 1), cell(one.id, "tag:y", 1, NOW, 1)]):
        await apply(rig.database, cells, edge, NOW, ELSEWHERE)
    assert rig.rows("select seq, name from sync_batch where seq > 0") == [(1, "first"), (3, "second")]
    # A local one that changes nothing moves no number, and the name of the batch before it stays.
    await apply(rig.database, [local(one.id, "main", "tag:x", 1, Mode.STORE)], edge, NOW, ELSEWHERE)
    assert rig.rows("select seq, name from sync_batch where seq > 0") == [(1, "first"), (3, "second")]
    await rig.store("a laptop names none")
    assert rig.value("select max(seq) from sync_batch") == 3


async def test_a_batch_that_fails_is_not_named(rig: Rig):
    edge = Replica("edge", dirty=False, name_batch=lambda: "a name")
    before = rig.rows("select seq, name from sync_batch")
    with pytest.raises(apsw.Error):
        await apply(
            rig.database, [init("a fact")], edge, NOW, ELSEWHERE, also=[Statement("insert into nowhere values (1)")]
        )
    assert rig.rows("select seq, name from sync_batch") == before


# Lives


async def test_cells_that_come_before_their_init_stay_hidden_until_it_comes(rig: Rig):
    first = init("a fact")
    await rig.apply(cell(first.id, "tag:early", 1, NOW, 1), cell(first.id, "md:k", 1, NOW, '"v"'))
    assert await rig.get(first.id) == []
    assert await rig.find() == []
    await rig.apply(first)
    memory = await rig.one(first.id)
    assert (memory.tags, memory.metadata) == (["early"], {"k": "v"})
    assert await rig.by_words("early") == [first.id]


async def test_storing_a_text_whose_cells_came_first_creates_it_in_that_life(rig: Rig):
    one = memory_id("main", "a fact")
    await rig.apply(cell(one, "tag:early", 3, NOW, 1))
    answer = await rig.store("a fact", tags="mine")
    assert (answer.status, answer.tags) == ("created", ["early", "mine"])
    assert rig.rows("select rank, life, state from record") == [(3, 3, State.LIVE)]
    assert (await rig.one(one)).tags == ["early", "mine"]


async def test_a_cell_of_an_earlier_life_that_comes_late_is_dropped(rig: Rig):
    one = await rig.store("a fact", tags="old")
    await rig.purge(one.id)
    await rig.store("a fact", revive=True)
    await rig.apply(cell(one.id, "tag:late", 1, NOW + DAY, 1), cell(one.id, "tag:标签", 1, NOW + DAY, 1))
    assert (await rig.one(one.id)).tags == []
    assert rig.rows("select count(*) from cell") == rig.rows("select count(*) from label") == [(0,)]


async def test_a_cell_of_a_later_life_hides_the_memory_until_its_init_comes(rig: Rig):
    first = init("a fact")
    await rig.apply(first, cell(first.id, "tag:old", 1, NOW, 1))
    await rig.apply(cell(first.id, "tag:new", 3, NOW, 1))
    assert await rig.find("fact") == []
    assert await rig.get(first.id) == []
    await rig.apply(init("a fact", rank=3))
    memory = await rig.one(first.id)
    assert memory.tags == ["new"]
    assert await rig.by_words("fact") == [first.id]
    assert await rig.by_words("old") == []


async def test_a_purge_that_comes_before_what_it_purges_keeps_it_out(rig: Rig):
    first = init("a fact")
    await rig.apply(cell(first.id, INIT, 2, NOW + 9, None))
    await rig.apply(first, cell(first.id, "tag:a", 1, NOW, 1))
    assert rig.rows("select init, rank, state from record") == [(None, 2, State.HIDDEN)]
    assert rig.value("select count(*) from cell") == rig.value("select count(*) from content_fts") == 0
    assert (await rig.store("a fact")).status == "was_forgotten"


async def test_a_page_may_hold_a_memory_and_its_purge_in_any_order(rig: Rig):
    gone, kept = init("gone"), init("kept")
    await rig.apply(cell(gone.id, INIT, 2, NOW, None), gone, kept, cell(kept.id, INIT, 2, NOW, None), init("kept", 3))
    assert await rig.get(gone.id) == []
    assert await rig.by_words("gone") == []
    assert await rig.by_words("kept") == [kept.id]


async def test_of_two_made_texts_with_one_id_words_follow_the_winner(rig: Rig):
    one = "cd" * 16
    losing = cell(one, INIT, 1, NOW, init_of("a losing text", key=["made", "x", []]))
    winning = cell(one, INIT, 1, NOW + 1, init_of("the winning words", key=["made", "x", []]))
    await rig.apply(winning, losing)
    assert await rig.by_words("winning") == [one]
    assert await rig.by_words("losing") == []


async def test_the_same_id_claimed_under_another_space_does_not_swallow_the_memory(rig: Rig):
    first = init("a fact")
    await rig.apply(cell(first.id, "tag:forged", 1, NOW, 1, space="evil"))
    await rig.apply(cell(first.id, INIT, 2, NOW, None, space="evil"))
    answer = await rig.store("a fact", tags="mine")
    assert (answer.status, answer.tags) == ("created", ["mine"])
    memory = await rig.one(first.id)
    assert (memory.space, memory.content, memory.tags) == ("main", "a fact", ["mine"])


async def test_recall_counts_do_not_make_a_memory_updated(rig: Rig):
    one = await rig.store("a fact")
    before = (await rig.one(one.id)).updated_at
    await rig.apply(cell(one.id, "n:dev", 1, NOW + DAY, 3), cell(one.id, "last:dev", 1, NOW + DAY, NOW + DAY))
    assert (await rig.one(one.id)).updated_at == before
    await rig.apply(cell(one.id, "tag:x", 1, NOW + DAY, 1))
    assert (await rig.one(one.id)).updated_at > before


# Bounds


async def test_a_page_of_500_cells_is_one_batch_within_d1s_bounds(rig: Rig):
    cells = []
    for n in range(125):
        first = init(f"记忆 number {n} 关于部署")
        cells += [first, cell(first.id, "tag:标签", 1, NOW, 1), cell(first.id, f"tag:t{n}", 1, NOW, 1)]
        cells.append(cell(first.id, "entity:李雷", 1, NOW, 1))
    before = len(rig.database.batches)
    await rig.apply(*cells)
    (batch,) = rig.database.batches[before:]
    assert len(batch) <= STATEMENTS_MAX
    for statement in batch:
        check(statement.sql, statement.params)
    assert len(await rig.by_words("部署", n_results=50)) == 50
    assert len(await rig.by_words("李雷", n_results=50)) == 50


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("部署失败了因为证书过期" * 8000, id="chinese"),
        pytest.param("x\x01" * CONTENT_MAX_BYTES, id="control characters, six bytes each in JSON"),
        pytest.param('"\\' * CONTENT_MAX_BYTES, id="quotes and backslashes"),
        pytest.param("getUserName " * CONTENT_MAX_BYTES, id="names in camel case"),
        pytest.param("a b " * CONTENT_MAX_BYTES, id="short words"),
        pytest.param("😀" * CONTENT_MAX_BYTES, id="emoji"),
    ],
)
async def test_the_longest_content_of_any_script_fits_d1s_bounds(rig: Rig, content):
    cut = content.encode()[:CONTENT_MAX_BYTES].decode(errors="ignore").strip()
    assert len(cut.encode()) > CONTENT_MAX_BYTES - 16
    answer = await rig.store(cut)
    assert (await rig.one(answer.id)).content == cut
    batch = rig.database.batches[-1]
    assert len(batch) <= STATEMENTS_MAX
    for statement in batch:
        check(statement.sql, statement.params)
        for value in statement.params:
            assert not isinstance(value, str) or len(value.encode()) <= VALUE_MAX_BYTES
    assert rig.value("select count(*) from content_fts") < PASSAGES_MAX


async def test_cells_too_large_for_one_statement_are_refused_before_anything_is_written(rig: Rig):
    large = [cell("ab" * 16, f"md:k{n}", 1, NOW, '"' + "x" * 100_000 + '"') for n in range(20)]
    with pytest.raises(BodyTooLarge):
        await rig.apply(*large)
    assert rig.value("select count(*) from record") == 0
    await rig.apply(*large[1:])
    assert rig.value("select count(*) from cell") == 19


async def test_a_call_of_500_memories_goes_in_bounded_pages(rig: Rig):
    items = [StoreItem(content=f"{n} " + "部署失败" * 400, tags=["a", "b"], entities=["Bob"]) for n in range(500)]
    before = len(rig.database.batches)
    answer = await rig.store_all(items)
    assert {result.status for result in answer.results} == {"created"}
    for batch in rig.database.batches[before:]:
        assert len(batch) <= STATEMENTS_MAX
        assert json.loads(batch[0].params[0]) and len(json.loads(batch[0].params[0])) <= 500
        for statement in batch:
            check(statement.sql, statement.params)
    assert rig.value("select count(*) from record where state = 1") == 500
