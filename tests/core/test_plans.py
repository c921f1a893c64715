"""No statement of the service reads a whole table that grows: found in the bytecode of each that a full run issues."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import apsw
import pytest
from tests.core.apart import ApartIndex
from tests.core.rig import ALL, DAY, NOW, Embeddings, Recorder, Rig, cell, opened

from shoal.core import journal
from shoal.core.caller import Caller
from shoal.core.context import EDGE, LAPTOP, Policy
from shoal.core.fakes import FakeDatabase, FakeVectorIndex
from shoal.core.protocols import Statement
from shoal.core.service import Memory
from shoal.schema import sql
from shoal.schema.models import GetRequest, StoreItem, TagChanges

FTS: Final = ("content_fts", "label_fts")
GROWING: Final = ("record", "cell", "label", "write_log", "sync_batch", "sync_refused", *FTS)
MARKS: Final = {
    "record_want": "only memories that wait for a vector: the background empties it",
    "record_trash": "only the trash: emptied after 30 days",
    "record_dirty": "only what waits to be sent, counted up to a bound",
    "cell_dirty": "the same",
    "sync_refused": "only what the edge refused: people look after it",
}
"""What is only of what waits for something, and may be read whole: partial indexes, and a table."""
ENDS: Final = {"max(rid)": "the last row", "min(n)": "the first entry of the log"}
"""Least and greatest values that stand at an end of what is read: nothing is left out on the way there."""

NOT_ISSUED: Final = {
    "SIZE": "drivers issue it themselves",
    "NEXT_TURN": "a part of others",
    "WANT_ANEW": "the edge's reconcile issues it",
    "WANT_LIVING": "the edge's vector index issues it",
    "WANT_SWEPT": "the edge's vector index issues it",
    "WANT_DROPPED": "the edge's vector index issues it",
}
"""Shared texts that the service doesn't issue as they are."""


async def scenario(policy: Policy = LAPTOP) -> Rig:
    """Run everything that the service can do, and return its record."""
    connection = apsw.Connection(":memory:")
    # The fake index reads every memory, as no real one does: its queries go past the record.
    model, database = Embeddings(), FakeDatabase(connection)
    index = ApartIndex(database, model.fingerprint) if policy.index_apart else FakeVectorIndex(database)
    rig = await opened(connection=connection, embedder=model, index=index, policy=policy)
    if not policy.dirty:
        context = rig.memory.context
        rig.memory = Memory(replace(context, replica=replace(context.replica, name_batch=lambda: "0" * 16)), "none")
    rich = {
        "tags": ["proj:x", "标签"],
        "entities": ["李雷", "Ann"],
        "metadata": {"k": [1]},
        "source": "chat",
        "importance": 1.5,
        "type": "bug",
    }
    one = await rig.store("deploy failed", **rich, wait=True)
    await rig.store("deploy failed", **rich)
    await rig.store_all([StoreItem(content=f"turn {n}", conversation_id="c", position=n) for n in range(20)])
    other = await rig.store("deploy failed", space="team")
    new = (await rig.update(one.id, content="deploy works", tags=TagChanges(add="z"))).superseded_by
    await rig.update(new, type="note", archived=True, metadata={"k": None}, occurred_at="2026-01-01", importance=1.0)
    await rig.update(new, archived=False)
    await rig.embed_all()
    for caller in (ALL, Caller(spaces=("main", "team"))):
        for fields in filters():
            for query in ("", "deploy 部署", "deploy in January 2026", "turn 7\nand then?"):
                await rig.find(query, caller, include_edges=True, explain=True, **fields)
            for order in ("newest", "oldest", "updated"):
                await rig.memory.get(GetRequest(order=order, page=2, page_size=3, **fields), caller)
    await rig.get(one.id, new, with_edges=True, with_history=True)
    await rig.get(one.id, caller=Caller(spaces=("main", "team")))
    for fields in filters():
        if fields.keys() - {"space", "tags_mode", "time_field", "include_archived"}:
            fields.pop("include_archived", None)
            await rig.delete(dry_run=True, **fields)
    await rig.delete(one.id)
    await rig.store("deploy failed")
    await rig.memory.revive([one.id], ALL)
    await rig.delete(one.id)
    await rig.store("deploy failed", revive=True)
    await rig.delete(new)
    rig.clock.now += 31 * DAY
    await rig.memory.empty_trash()
    await rig.purge(other.id)
    await rig.store("deploy failed", revive=True, space="team")
    pulled = "ab" * 16
    await rig.apply(
        cell(pulled, "tag:x", 1, NOW, 1),
        cell(pulled, "init", 1, NOW, {"class": "memory", "content": "x", "type": "note", "occurred_at": NOW}),
        cell(pulled, "init", 2, NOW, None),
    )
    for caller in (ALL, Caller(spaces=("main", "team"))):
        await rig.memory.stats(caller)
    await rig.memory.count_metadata("k", ALL)
    await rig.memory.pending()
    for named in ({}, {"token": "t"}, {"client": "c"}, {"token": "t", "client": "c"}):
        await journal.read(rig.database, limit=10, **named)
    await journal.expire(rig.database, NOW, 10)
    await rig.memory.indexer.named([one.id, pulled], 10)
    await rig.memory.requeue(ALL)
    rig.connection.execute("update meta set v = 0 where k = 'fts'")
    again = await opened(connection=rig.connection, embedder=Embeddings("another@1"), index=index)
    while await again.memory.reword():
        pass
    await again.embed_all()
    await again.memory.health()
    await again.memory.health()
    rig.database.batches += again.database.batches
    rig.database.queries += again.database.queries
    return rig


def filters() -> list[dict[str, Any]]:
    return [
        {},
        {"space": "*"},
        {"space": "*", "type": "bug"},
        {"space": "*", "conversation_id": "c"},
        {"space": "*", "since": "2020-01-01"},
        {"space": ["main", "team"], "include_archived": True},
        {"type": "bug"},
        {"type": ["bug", "note"], "kind": "semantic"},
        {"tags": "z"},
        {"tags": "z,proj:*"},
        {"tags": "z,proj:*", "tags_mode": "all"},
        {"entity": "Ann"},
        {"conversation_id": "c"},
        {"since": "2020-01-01", "until": "2030-01-01"},
        {"time": "2026", "time_field": "created"},
        {"since": "2020-01-01", "tags": "z", "type": "error", "space": "*", "entity": "Ann"},
    ]


@pytest.fixture(scope="module")
def recorded() -> Rig:
    rig = asyncio.run(scenario())
    edge = asyncio.run(scenario(EDGE)).database
    rig.database.batches += edge.batches
    rig.database.queries += edge.queries
    return rig


def issued(recorder: Recorder) -> dict[str, Statement]:
    """Return each text once, with parameters that it was given."""
    all_of_them = [*recorder.queries, *(statement for batch in recorder.batches for statement in batch)]
    return {statement.sql: statement for statement in all_of_them}


def test_the_scenario_issues_every_shared_statement(recorded: Rig):
    shared = {
        name: text
        for name, value in vars(sql).items()
        if name.isupper() and name not in NOT_ISSUED and not name.startswith("_") and isinstance(value, str | tuple)
        for text in ((value,) if isinstance(value, str) else value)
    }
    assert len(shared) >= 15
    seen = issued(recorded.database)
    assert [name for name, text in shared.items() if text not in seen] == []


def test_no_statement_reads_a_whole_table_that_grows(recorded: Rig):
    found = {
        statement.sql: scans
        for statement in issued(recorded.database).values()
        if not statement.sql.lstrip().startswith("create")
        and not any(end in statement.sql for end in ENDS)
        and (scans := [scan for scan in whole_reads(recorded.connection, statement) if scan not in MARKS])
    }
    assert found == {}


def test_the_test_sees_whole_reads(recorded: Rig):
    for text, scan in {
        "select count(*) from record where type = 'x'": "record",
        "select 1 from record order by rid desc": "record",
        "select rid from record r where want > 0": "record_want",
        "select 1 from cell where value = 7": "cell",
        "select max(seq) from record where init is null": "record_seq",
        "delete from label where prepared = 'x'": "label",
        "select f.rowid from content_fts f": "content_fts",
        "select 1 from json_each('[1]') j join label_fts f on 1": "label_fts",
        "select distinct space from record where class = 'memory'": "record_updated",
        "select 1 from meta m join cell c on c.value = m.v and c.rid > 0 order by c.seq": "cell",
    }.items():
        assert scan in " ".join(whole_reads(recorded.connection, Statement(text))), text


def whole_reads(connection: apsw.Connection, statement: Statement) -> list[str]:
    """Return the tables and indexes whose every row the statement may read, by its bytecode and its plan.

    A cursor that goes to one end and then steps reads all there is; one that seeks first reads a range.
    """
    names = {
        root: (table, name)
        for name, table, root in connection.execute("select name, tbl_name, rootpage from sqlite_schema")
        if root
    }
    opened_on: dict[int, tuple[str, str]] = {}
    begins: set[int] = set()
    steps: set[int] = set()
    for row in connection.execute(f"explain {statement.sql}", statement.params):
        opcode, p1, p2 = row[1], row[2], row[3]
        if opcode in ("OpenRead", "OpenWrite") and p2 in names:
            opened_on[p1] = names[p2]
        elif opcode in ("Rewind", "Last"):
            begins.add(p1)
        elif opcode in ("Next", "Prev"):
            steps.add(p1)
    plan = [row[3] for row in connection.execute(f"explain query plan {statement.sql}", statement.params)]
    found = [
        name
        for cursor, (table, name) in opened_on.items()
        if cursor in begins & steps
        and table in GROWING
        and any(is_scan(line, table, name, statement.sql) for line in plan)
    ]
    for line in plan:
        whole = re.fullmatch(r"SCAN (\w+) VIRTUAL TABLE INDEX \d+:", line)
        if whole:
            found += [
                table for table in FTS if whole[1] == table or re.search(rf"\b{table} {whole[1]}\b", statement.sql)
            ]
    return found


def is_scan(line: str, table: str, name: str, text: str) -> bool:
    """Whether a line of a plan is about all of a table or index. `SEARCH` without bounds looks for min or max."""
    using = "" if name == table else rf" USING (COVERING )?INDEX {name}"
    whole = re.fullmatch(rf"(SCAN|SEARCH) (\w+){using}", line)
    # A plan calls a table by its alias.
    return whole is not None and (whole[2] == table or re.search(rf"\b{table} {whole[2]}\b", text) is not None)


async def steps_of(memories: int) -> dict[str, int]:
    """Return the virtual machine's steps of each operation in a database of so many memories.

    FTS5's own statements are left out: they grow with its segments, by the logarithm.
    """
    rig = await opened(embedder=None)
    for start in range(0, memories, 300):
        await rig.store_all(
            [
                StoreItem(content=f"memory {n}", tags=[f"proj:p{n % 20}", "common"], entities=[f"e{n % 30}"])
                for n in range(start, start + 300)
            ]
        )
    base = await rig.store("the base text", tags="a,b,标签", conversation_id="c", position=1)
    await rig.store("the next turn", conversation_id="c", position=2)
    await rig.store_all([StoreItem(content=f"theirs {n}") for n in range(30)], space="team")
    spent: Counter[str] = Counter()
    doing: list[str] = []

    def count(event: dict[str, Any]) -> None:
        if event["sql"] in issued(rig.database):
            spent[doing[-1]] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    rig.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    pulled = cell("ab" * 16, "init", 1, NOW, {"class": "memory", "content": "x", "type": "note", "occurred_at": NOW})
    for what, act in (
        ("store", rig.store("a new text", tags="x,y,z", entities=["Ann"])),
        ("repeat", rig.store("a new text", tags="x,y,z", entities=["Ann"])),
        ("tag", rig.update(base.id, tags=TagChanges(add="w", remove="a"))),
        ("supersede", rig.update(base.id, content="the base text, better")),
        ("get", rig.get(base.id, with_edges=True, with_history=True)),
        ("list", rig.memory.get(GetRequest(order="updated", page_size=5), ALL)),
        ("list all spaces", rig.memory.get(GetRequest(space="*", page_size=5), ALL)),
        ("delete", rig.delete(base.id)),
        ("forgotten", rig.store("the base text", conversation_id="c", position=1)),
        ("revive", rig.memory.revive([base.id], ALL)),
        ("purge", rig.purge(base.id)),
        ("pull", rig.apply(pulled, cell("ab" * 16, "tag:标签", 1, NOW, 1), cell("cd" * 16, "tag:x", 1, NOW, 1))),
        ("empty trash", rig.memory.empty_trash()),
    ):
        doing.append(what)
        await act
    rig.connection.trace_v2(0, None)
    return spent


@contextmanager
def counting(rig: Rig) -> Iterator[Counter[str]]:
    """Count the virtual machine's steps of each statement."""
    spent: Counter[str] = Counter()

    def count(event: dict[str, Any]) -> None:
        spent[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    rig.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    yield spent
    rig.connection.trace_v2(0, None)


async def steps_of_indexing(memories: int) -> tuple[int, int]:
    """Return the steps of looking whether the model is another one, and of noting so many memories as done."""
    rig = await opened(embedder=Embeddings())
    await rig.store_all([StoreItem(content=f"memory {n}") for n in range(memories)])
    with counting(rig) as beginning:
        await rig.memory.indexer.begin()
    with counting(rig) as working:
        assert await rig.memory.indexer.wanted(memories) == memories
    return beginning.total(), sum(steps for text, steps in working.items() if "set want = -want" in text)


async def test_indexing_costs_a_memory_the_same_in_ten_times_as_many():
    (begin_few, done_few), (begin_many, done_many) = await steps_of_indexing(30), await steps_of_indexing(300)
    assert begin_many == begin_few
    assert done_many <= 12 * done_few


async def test_writing_and_listing_cost_the_same_in_ten_times_as_many_memories():
    few, many = await steps_of(300), await steps_of(3000)
    assert few.keys() == many.keys()
    assert {doing: (few[doing], many[doing]) for doing in few if many[doing] > 1.2 * few[doing]} == {}
