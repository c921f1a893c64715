"""What the D1 double does beyond the answers that were recorded: values, limits, counts, faults."""

import asyncio
from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.edge.doubles.d1 import D1Database, D1Fault
from tests.edge.doubles.faults import Fault
from tests.edge.doubles.invocation import ProductionRuleBroken, invocation
from tests.edge.doubles.sdk import JsError


@pytest.fixture
def database():
    database = D1Database()
    database.connection.execute("create table t(id integer primary key, a, b text)")
    yield database
    database.close()


async def refusal(call: Any) -> str:
    with pytest.raises(JsError) as refused:
        await call
    return refused.value.message


async def back(database: D1Database, value: object) -> Any:
    return await database.prepare("select ?1 v").bind(value).first("v")


async def count(database: D1Database) -> int:
    return await database.prepare("select count(*) n from t").first("n")


@pytest.mark.parametrize(
    ("value", "comes_back"),
    [
        (True, 1),
        (False, 0),
        (7, 7),
        (7.0, 7),
        (1.5, 1.5),
        (-0.0, 0),
        (float("nan"), None),
        (float("inf"), None),
        (None, None),
        ("鱼", "鱼"),
        (b"\x01\xff", [1, 255]),
        (memoryview(b"\x01"), [1]),
        ([1, 255], [1, 255]),
        (array("f", [0.5, 2.25, 300]), [0, 2, 44]),
        (2**53 - 2, 2**53 - 2),
        (2.0**53 - 1, 2**53 - 1),
    ],
)
async def test_values_go_through_javascript_and_json(database: D1Database, value: object, comes_back: object):
    found = await back(database, value)
    assert (found, type(found)) == (comes_back, type(comes_back))


@pytest.mark.parametrize("value", [(1,), bytearray(b"x"), object(), {1}])
def test_what_the_sdk_does_not_send_is_a_type_error_when_it_is_bound(database: D1Database, value: object):
    with pytest.raises(TypeError):
        database.prepare("select ?1").bind(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**53 - 1, "Type 'bigint' not supported for value '9007199254740991'"),
        ({"a": 1}, "Type 'object' not supported for value '[object Object]'"),
        ([256], "Type 'object' not supported for value '256'"),
        (datetime(2026, 1, 1, tzinfo=UTC), "Type 'object' not supported"),
        ("\ud835", "half a surrogate pair"),
    ],
)
def test_what_d1_does_not_take_is_refused_when_it_is_bound(database: D1Database, value: object, text: str):
    with pytest.raises(JsError, match="D1_TYPE_ERROR") as refused:
        database.prepare("select ?1").bind(value)
    assert text in refused.value.message


async def test_a_number_is_bound_as_real_also_a_whole_one(database: D1Database):
    statement = database.prepare("select 'x' || ?1 text, ?1 / 2 half, ?1 * 65536 long").bind(1_790_000_000_001)
    assert await statement.first() == {
        "text": "x1790000000001.0",
        "half": 895_000_000_000.5,
        "long": float(1_790_000_000_001 * 65536),
    }


async def test_a_result_says_what_the_statement_did(database: D1Database):
    result = await database.prepare("insert into t(a) values (1), (2) returning id").all()
    assert result.success is True
    assert result.results == [{"id": 1}, {"id": 2}]
    meta = result.meta
    assert (meta.changes, meta.last_row_id, meta.changed_db, meta.rows_written) == (2, 2, True, 2)
    assert meta.size_after == 8192
    assert meta.duration == meta.timings.sql_duration_ms >= 0
    assert {"served_by", "served_by_primary", "total_attempts", "rows_read"} < set(meta)


async def test_rows_are_estimated_scans_returned_and_written_ones(database: D1Database):
    for statement in ("create index ta on t(a)", "create virtual table f using fts5(x, content='')"):
        await database.prepare(statement).run()
    planted = await database.prepare("insert into t(a, b) select value, value from json_each('[1,2,3,4,5]')").run()
    assert planted.meta.rows_written == 10, "a row of the table and one of the index each"
    written = await database.prepare("insert into f(rowid, x) values (1, 'a b'), (2, 'c')").run()
    assert written.meta.rows_written == 2
    assert (await database.prepare("update t set b = 'x'").run()).meta.rows_written == 5
    assert (await database.prepare("select * from t where b = 'y'").all()).meta.rows_read >= 4
    assert (await database.prepare("select * from t where a = 3").all()).meta.rows_read == 1
    assert (await database.prepare("delete from t where a = 3").all()).meta.rows_written == 1


async def test_first_raw_and_run(database: D1Database):
    await database.prepare("insert into t(a, b) values (1, 'x')").run()
    assert await database.prepare("select * from t").first("b") == "x"
    assert await database.prepare("select * from t where 0").first() is None
    assert await database.prepare("select * from t where 0").first("b") is None
    assert await database.prepare("select a, b from t").raw() == [[1, "x"]]
    assert await database.prepare("select a, b from t").raw({"columnNames": True}) == [["a", "b"], [1, "x"]]
    assert (await database.prepare("select a from t").run()).results == [{"a": 1}]


async def test_a_bound_statement_leaves_the_other_as_it_was(database: D1Database):
    statement = database.prepare("select ?1 v")
    one, two = statement.bind(1), statement.bind(2)
    assert [await one.first("v"), await two.first("v"), await one.first("v")] == [1, 2, 1]


async def test_a_batch_is_all_or_nothing(database: D1Database):
    insert = database.prepare("insert into t(id) values (?1)")
    results = await database.batch([insert.bind(1), insert.bind(2)])
    assert [result.meta.last_row_id for result in results] == [1, 2]
    text = await refusal(database.batch([insert.bind(3), insert.bind(1)]))
    assert text.startswith("D1_ERROR: UNIQUE constraint failed: t.id: SQLITE_CONSTRAINT")
    assert await count(database) == 2


async def test_a_foreign_key_that_is_deferred_must_hold_at_the_end_of_the_batch(database: D1Database):
    await database.prepare("create table c(t references t(id) deferrable initially deferred)").run()
    child, parent = database.prepare("insert into c values (1)"), database.prepare("insert into t(id) values (1)")
    assert await refusal(database.batch([child])) == "D1_ERROR: internal error"
    await database.batch([child, parent])
    assert await database.prepare("select count(*) n from c").first("n") == 1


async def test_a_statement_may_roll_back_itself(database: D1Database):
    insert = database.prepare("insert or rollback into t(id) values (1)")
    assert "UNIQUE constraint failed" in await refusal(database.batch([insert, insert]))
    assert await count(database) == 0


def test_a_batch_takes_a_list(database: D1Database):
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        database.batch((database.prepare("select 1"),))  # type: ignore[arg-type]


async def test_exec_runs_line_by_line_and_undoes_all_when_one_fails(database: D1Database):
    assert (await database.exec("insert into t(a) values (1);\n\ninsert into t(a) values (2)")).count == 2
    text = await refusal(database.exec("insert into t(a) values (3)\nselec"))
    assert text.startswith('D1_EXEC_ERROR: Error in line 1: insert into t(a) values (3): near "selec": syntax error')
    assert await count(database) == 2


async def test_a_session_knows_how_far_it_has_seen(database: D1Database):
    session = database.withSession("first-primary")
    assert session.getBookmark() is None
    await session.batch([session.prepare("insert into t(a) values (1)")])
    first = session.getBookmark()
    await session.prepare("select 1").all()
    assert first is not None
    assert (session.getBookmark() or "") > first
    assert database.withSession(first).getBookmark() == session.getBookmark()


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("select 1 --" + "x" * 99_989, None),
        ("select 1 --" + "x" * 99_990, "statement too long: SQLITE_TOOBIG"),
        (f"select max({','.join('1' * 32)})", None),
        (f"select max({','.join('1' * 33)})", "too many arguments on function max"),
        ("select 1; select 2", "A SQL prepared statement can only be executed once at a time."),
        ("select zeroblob(2000001)", "string or blob too big: SQLITE_TOOBIG"),
        (f"select {','.join('?' * 101)}", "too many SQL variables"),
        ("select * from dbstat", ": SQLITE_"),
    ],
)
async def test_statements_are_limited(database: D1Database, sql: str, text: str | None):
    if text is None:
        await database.prepare(sql).all()
    else:
        assert text in await refusal(database.prepare(sql).all())


async def test_a_value_and_a_row_have_at_most_two_megabytes(database: D1Database):
    insert = database.prepare("insert into t(a, b) values (?1, ?2)")
    assert await back(database, "x" * 2_000_000) is not None
    too_big = "D1_ERROR: string or blob too big: SQLITE_TOOBIG"
    assert await refusal(insert.bind("x" * 2_000_001, "").run()) == too_big
    assert await refusal(insert.bind(bytes(2_000_001), "").run()) == too_big
    assert await refusal(insert.bind("x" * 1_100_000, "y" * 1_100_000).run()) == too_big


async def test_the_statements_of_a_batch_count_into_the_invocation(database: D1Database):
    with invocation() as run:
        await database.batch([database.prepare("select 1")] * 49)
        await database.prepare("select 1").first()
    assert (run.d1_statements, run.subrequests) == (50, 2)
    with pytest.raises(ProductionRuleBroken, match="51 statements"), invocation():
        await database.batch([database.prepare("insert into t(a) values (1)")] * 51)
    assert await count(database) == 0


@pytest.mark.parametrize("kind", D1Fault)
async def test_a_call_fails_on_demand_and_leaves_nothing(database: D1Database, kind: D1Fault):
    insert = database.prepare("insert into t(a) values (1)")
    database.faults.add(Fault(kind))
    assert await refusal(insert.run()) == f"D1_ERROR: {kind.value}"
    assert await count(database) == 0
    await insert.run()
    assert await count(database) == 1


async def test_a_batch_can_be_applied_and_its_answer_lost(database: D1Database):
    database.faults.add(Fault(D1Fault.NETWORK_LOST, on="batch", applied=True))
    text = await refusal(database.batch([database.prepare("insert into t(a) values (1)")]))
    assert text == "D1_ERROR: Network connection lost."
    assert await count(database) == 1


async def test_writes_can_be_refused_while_reads_go_on(database: D1Database):
    database.faults.add(Fault(D1Fault.DAILY_WRITES, on="write", times=None))
    for _ in range(2):
        assert "daily row write limit" in await refusal(database.prepare("insert into t(a) values (1)").run())
        assert await count(database) == 0
    database.faults.clear()
    await database.prepare("insert into t(a) values (1)").run()


async def test_calls_at_once_interleave_but_not_inside_a_batch(database: D1Database):
    bump = database.prepare("update t set a = a + 1")
    await database.prepare("insert into t(a) values (0)").run()
    await asyncio.gather(*(database.batch([bump, bump]) for _ in range(10)))
    assert await database.prepare("select a from t").first("a") == 20


async def test_a_file_keeps_what_was_written(tmp_path: Path):
    for expected in (1, 2):
        database = D1Database(str(tmp_path / "d1.db"))
        await database.exec("create table if not exists t(a)\ninsert into t values (1)")
        assert await count(database) == expected
        database.close()
