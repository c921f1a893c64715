"""What core relies on in a Database, whichever it is."""

import json

import pytest

from shoal.core.protocols import Database, SqlValue, Statement

TABLE = Statement("create table item (id integer primary key, value)")
PUT = "insert into item (id, value) values (?1, ?2)"


@pytest.fixture
async def items(database: Database) -> Database:
    """The database with a table `item(id, value)`."""
    await database.batch([TABLE])
    return database


async def values(database: Database) -> list[SqlValue]:
    return [row["value"] for row in await database.query("select value from item order by id")]


async def test_a_batch_returns_each_statements_rows_in_order(items: Database):
    results = await items.batch(
        [
            Statement(PUT, (1, "one")),
            Statement("select value from item where id = ?1", (1,)),
            Statement("insert into item (id, value) values (2, 'two'), (3, 'three') returning id, value"),
            Statement("select value from item where id = 99"),
        ]
    )
    assert results == [[], [{"value": "one"}], [{"id": 2, "value": "two"}, {"id": 3, "value": "three"}], []]


async def test_an_empty_batch_does_nothing(items: Database):
    assert await items.batch([]) == []


async def test_a_batch_whose_last_statement_fails_leaves_nothing(items: Database):
    with pytest.raises(Exception, match=r"(?i)unique"):
        await items.batch([Statement(PUT, (1, "one")), Statement(PUT, (2, "two")), Statement(PUT, (1, "again"))])
    assert await values(items) == []


async def test_a_batch_with_wrong_sql_leaves_nothing(items: Database):
    with pytest.raises(Exception, match="nowhere"):
        await items.batch([Statement(PUT, (1, "one")), Statement("insert into nowhere values (1)")])
    assert await values(items) == []


async def test_after_a_failed_batch_the_next_one_works(items: Database):
    with pytest.raises(Exception, match="nowhere"):
        await items.batch([Statement("delete from nowhere")])
    await items.batch([Statement(PUT, (1, "one"))])
    assert await values(items) == ["one"]


async def test_a_query_sees_the_batch_that_was_acknowledged_before_it(items: Database):
    for number in range(20):
        await items.batch([Statement(PUT, (number, number))])
        assert len(await values(items)) == number + 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        -1,
        2**53 - 1,
        -(2**53 - 1),
        0.1,
        -1e300,
        "",
        'it\'s; -- "quoted" ?1',
        "Übergröße, 汉字と仮名, 🦈👨\u200d👩\u200d👧, e\u0301",
        "line\nline\ttab",
        b"",
        b"\x00\xff\x00",
        bytes(range(256)),
    ],
    ids=repr,
)
async def test_a_value_comes_back_as_it_was(items: Database, value: SqlValue):
    await items.batch([Statement(PUT, (1, value))])
    [row] = await items.query("select value, value is ?1 as same from item", (value,))
    assert row["value"] == value
    assert type(row["value"]) is type(value)
    assert row["same"] == 1


@pytest.mark.parametrize(
    "value",
    [True, 2**53, -(2**53), 2**64, float("nan"), [1], (1,), {"a": 1}, bytearray(b"x"), memoryview(b"x"), {1}, object()],
    ids=lambda value: f"{type(value).__name__}-{value}"[:40],
)
async def test_what_d1_would_change_or_refuse_is_refused(items: Database, value: SqlValue):
    with pytest.raises((TypeError, ValueError)):
        await items.batch([Statement(PUT, (1, value))])
    with pytest.raises((TypeError, ValueError)):
        await items.query("select ?1 as value", (value,))
    assert await values(items) == []


async def test_a_hundred_parameters_are_taken_and_one_more_refused(items: Database):
    # A list, since D1's functions take 32 arguments.
    marks = ", ".join(f"?{number}" for number in range(1, 101))
    for number in (0, 99, 100):
        [row] = await items.query(f"select {number} in ({marks}) as value", tuple(range(100)))
        assert row["value"] == (number < 100)
    with pytest.raises(ValueError, match="101 parameters"):
        await items.query(f"select 0 in ({marks}, ?101) as value", tuple(range(101)))


async def test_too_few_or_too_many_parameters_are_refused(items: Database):
    for params in ((1,), (1, 2, 3)):
        with pytest.raises(Exception, match=r"(?i)binding|parameter"):
            await items.query("select ?1 + ?2 as value", params)


async def test_parameters_may_be_used_twice_and_out_of_order(items: Database):
    [row] = await items.query("select ?2 || ?1 || ?2 as value", ("a", "b"))
    assert row["value"] == "bab"


async def test_a_list_travels_as_json(items: Database):
    rows = [[1, "汉字"], [2, "a\"b'c"], [3, None]]
    await items.batch(
        [
            Statement(
                "insert into item (id, value) select value->>0, value->>1 from json_each(?1)",
                (json.dumps(rows, ensure_ascii=False),),
            )
        ]
    )
    assert await values(items) == ["汉字", "a\"b'c", None]


@pytest.mark.parametrize(
    "sql",
    [
        "begin",
        "COMMIT",
        " rollback ",
        "savepoint s",
        "release s",
        "attach 'x' as y",
        "pragma journal_mode = delete",
        "vacuum",
        "-- comment\nbegin",
        "/* comment */ commit",
        "insert into item (id) values (1); insert into item (id) values (2)",
    ],
)
async def test_transactions_settings_and_two_statements_in_one_are_refused(items: Database, sql: str):
    with pytest.raises(ValueError, match=r"driver|statement"):
        await items.batch([Statement(PUT, (1, "one")), Statement(sql)])
    assert await values(items) == []


async def test_semicolons_in_text_comments_and_at_the_end_are_no_second_statement(items: Database):
    await items.batch([Statement("insert into item (id, value) values (1, 'a;''b;') -- c;\n;")])
    assert await values(items) == ["a;'b;"]


async def test_a_statement_over_100_kilobytes_is_refused(items: Database):
    with pytest.raises(ValueError, match="100000 bytes"):
        await items.query(f"select '{'x' * 100_000}' as value")


async def test_a_value_over_2_megabytes_is_refused(items: Database):
    # Less by what else is in its row: D1's limit is for both.
    await items.batch([Statement(PUT, (1, "x" * 1_999_900))])
    for value in ("x" * 2_000_001, "汉" * 700_000, b"x" * 2_000_001):
        with pytest.raises(ValueError, match="at most 2000000"):
            await items.batch([Statement(PUT, (2, value))])
    assert len(await values(items)) == 1


@pytest.mark.parametrize("sql", ["delete from item", "insert into item (id) values (2) returning id"])
async def test_a_query_does_not_write(items: Database, sql: str):
    await items.batch([Statement(PUT, (1, "one"))])
    with pytest.raises(ValueError, match="only reads"):
        await items.query(sql)
    assert await values(items) == ["one"]


async def test_the_schemas_sql_is_understood(database: Database):
    await database.batch(
        [
            Statement(
                "create virtual table words using fts5("
                "text, content='', contentless_delete=1, tokenize='porter unicode61')"
            ),
            Statement("insert into words (rowid, text) values (7, 'running sharks')"),
        ]
    )
    rows = await database.query(
        "select rowid, hex(unhex('0aff')) as hex, '[1]'->>0 as one from words where words match ?1", ("run",)
    )
    assert rows == [{"rowid": 7, "hex": "0AFF", "one": 1}]


async def test_the_size_grows_with_what_is_written(items: Database):
    before = await items.size_bytes()
    assert before > 0
    await items.batch([Statement("insert into item (value) values (?1)", (b"x" * 1_000_000,))])
    assert await items.size_bytes() > before + 900_000
