"""D1 as core's Database: values, errors in our words, further tries, and what an invocation may do."""

import logging

import pytest
from tests.edge.doubles.d1 import D1Fault
from tests.worker.world import ALL, NOW, World

from shoal.core.context import EDGE
from shoal.core.protocols import Statement
from shoal.schema.errors import (
    DatabaseFull,
    NotPrepared,
    StorageBusy,
    StorageError,
    StorageOverQuota,
    TooManyStatements,
)
from shoal.schema.limits import BODY_MAX_BYTES
from shoal.schema.models import StoreItem, StoreRequest
from shoal.worker import d1, d1_errors
from shoal.worker.budget import Budget
from shoal.worker.d1 import D1Database

PUT = "insert into meta (k, v) values (?1, ?2)"
PASSING = [D1Fault.NETWORK_LOST, D1Fault.RESET_BY_UPDATE, D1Fault.RESET_BY_ERROR]
"""After these nobody knows what became of a write."""
NOT_RUN = [D1Fault.UNREACHABLE, D1Fault.RESET_AT_START, D1Fault.OVERLOADED, D1Fault.OVERLOADED_FOR_LONG]
TOO_HEAVY = [D1Fault.RESET_BY_TIMEOUT, D1Fault.OUT_OF_MEMORY, D1Fault.OUT_OF_CPU]
DAILY = [D1Fault.DAILY_READS, D1Fault.DAILY_WRITES]
TRIES = len(d1.WAITS_MS) + 1


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d1, "WAITS_MS", (1,) * (TRIES - 1))


@pytest.fixture
def budget() -> Budget:
    return Budget()


@pytest.fixture
def database(world: World, budget: Budget) -> D1Database:
    return world.database(budget)


def put(key: str, value: object = 1) -> Statement:
    return Statement(PUT, (key, value))  # type: ignore[arg-type]  # some values are wrong on purpose


# Values and counts


async def test_blobs_come_back_as_bytes(database: D1Database):
    await database.batch([put("blob", b"\x00\xff")])
    assert await database.query("select v, 'a' as t, null as n from meta where k = 'blob'") == [
        {"v": b"\x00\xff", "t": "a", "n": None}
    ]


async def test_statements_calls_and_rows_are_counted(database: D1Database, budget: Budget):
    await database.batch([put("a"), put("b"), Statement("select count(*) from meta")])
    await database.query("select v from meta where k = 'a'")
    assert (budget.statements, budget.calls["d1"]) == (4, 2)
    assert budget.rows_written == 2
    assert budget.rows_read > 0
    assert (budget.statements_left, budget.calls_left) == (46, 48)


async def test_the_size_comes_with_any_answer_and_costs_one_query_without(database: D1Database, budget: Budget):
    size = await database.size_bytes()
    assert size > 10_000
    assert budget.statements == 1
    assert await database.size_bytes() == size
    assert budget.statements == 1


async def test_an_empty_batch_asks_nothing(database: D1Database, budget: Budget):
    assert await database.batch([]) == []
    assert budget.calls["d1"] == 0


# Further tries


@pytest.mark.parametrize("fault", PASSING + NOT_RUN)
async def test_a_read_is_tried_again(world: World, database: D1Database, budget: Budget, fault: D1Fault):
    world.fail_d1(fault, times=TRIES - 1)
    assert await database.query("select 1 as one") == [{"one": 1}]
    assert budget.statements == TRIES


@pytest.mark.parametrize("fault", PASSING + NOT_RUN)
async def test_a_read_is_given_up_after_some_tries(world: World, database: D1Database, fault: D1Fault):
    world.fail_d1(fault, times=TRIES)
    with pytest.raises(StorageBusy):
        await database.query("select 1")
    assert world.d1.faults.orders == ()


@pytest.mark.parametrize("fault", NOT_RUN)
async def test_a_batch_that_was_never_begun_is_sent_again(world: World, database: D1Database, fault: D1Fault):
    world.fail_d1(fault, times=2)
    await database.batch([put("a")])
    assert world.value("select v from meta where k = 'a'") == 1


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("fault", PASSING)
async def test_a_batch_whose_outcome_is_unknown_is_not_sent_again(
    world: World, database: D1Database, fault: D1Fault, applied: bool
):
    world.fail_d1(fault, applied=applied)
    with pytest.raises(StorageBusy, match="not known"):
        await database.batch([put("a")])
    assert len(world.rows("select 1 from meta where k = 'a'")) == int(applied)


@pytest.mark.parametrize("fault", TOO_HEAVY)
async def test_what_is_too_heavy_is_asked_once(world: World, database: D1Database, budget: Budget, fault: D1Fault):
    world.fail_d1(fault)
    with pytest.raises(StorageBusy):
        await database.query("select 1")
    assert budget.statements == 1


async def test_tries_stay_within_the_budget(world: World):
    database = world.database(Budget(statements_max=2))
    world.fail_d1(D1Fault.NETWORK_LOST, times=None)
    with pytest.raises(StorageBusy):
        await database.query("select 1")


@pytest.mark.parametrize("fault", PASSING)
async def test_a_store_whose_answer_was_lost_is_stored_once_when_it_is_sent_again(world: World, fault: D1Fault):
    world.fail_d1(fault, "batch", applied=True)
    with pytest.raises(StorageBusy):
        await world.store("Staging listens on port 8443", tags=["staging"])
    memory_id = await world.store("Staging listens on port 8443", tags=["staging"])
    assert world.value("select count(*) from record") == 1
    assert world.rows("select field from cell") == [("tag:staging",)]
    assert [one.id for one in (await world.find("staging port")).results] == [memory_id]


# Errors


@pytest.mark.parametrize("fault", DAILY)
async def test_a_used_up_quota_says_until_when(world: World, database: D1Database, fault: D1Fault):
    world.fail_d1(fault)
    with pytest.raises(StorageOverQuota) as refused:
        await database.batch([put("a")])
    assert refused.value.details["until"] == "2026-09-22T00:00:00Z"


async def test_a_database_without_tables_says_how_to_make_them():
    empty = World()
    with pytest.raises(NotPrepared, match="d1 migrations apply"):
        await empty.database().query("select v from meta")
    empty.close()


@pytest.mark.parametrize("sql", ["select absent from meta", "insert into meta (k, missing) values ('a', 1)"])
async def test_tables_of_an_older_version_are_told_from_faults(database: D1Database, sql: str):
    with pytest.raises(NotPrepared):
        await database.batch([Statement(sql)])


@pytest.mark.parametrize(
    "text",
    [
        "Error: D1_ERROR: database or disk is full: SQLITE_FULL",
        "Error: D1_ERROR: Exceeded maximum DB size",
    ],
)
def test_a_full_database_is_told(text: str):
    assert isinstance(d1_errors.translate(text, NOW, writes=True), DatabaseFull)


async def test_what_d1_says_beside_is_told_without_what_it_quotes(world: World, database: D1Database):
    await database.batch([put("a")])
    with pytest.raises(StorageError, match=r"UNIQUE constraint failed: meta\.k"):
        await database.batch([put("a")])
    with pytest.raises(StorageError, match=r"syntax error near \.\.\.: SQLITE_ERROR") as refused:
        await database.query("select 1 from content_fts where content_fts match ?1", ("secret) words",))
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    told = d1_errors.translate('Error: D1_ERROR: fts5: syntax error near "se"cr"et": SQLITE_ERROR', NOW, writes=False)
    assert str(told).startswith("The database refused: Error: D1_ERROR: fts5: syntax error near ...: SQLITE_ERROR.")


async def test_a_value_that_the_runtime_cant_pass_on_is_a_fault_of_ours(database: D1Database):
    with pytest.raises(TypeError):
        await database.batch([put("a", ["a", "list"])])


async def test_an_error_is_not_logged_with_its_text(
    world: World, database: D1Database, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StorageError):
        await database.query("select 1 from content_fts where content_fts match ?1", ("words) secret",))
    assert "secret" not in caplog.text


# The budget


async def test_a_batch_that_would_go_over_the_budget_is_refused_before_it_is_sent(world: World):
    budget = Budget(statements_max=3)
    database = world.database(budget)
    await database.query("select 1")
    with pytest.raises(TooManyStatements):
        await database.batch([put("a"), put("b"), put("c")])
    assert world.rows("select 1 from meta where k = 'a'") == []
    await database.batch([put("a"), put("b")])
    assert budget.statements_left == 0
    with pytest.raises(TooManyStatements):
        await database.query("select 1")


async def test_the_heaviest_store_that_is_taken_fits_into_one_request(world: World):
    labels = {"tags": [f"标签{k}" for k in range(64)], "entities": [f"实体{k}" for k in range(30)]}
    contents = (f"{n} {chr(0x4E00 + n) * 300}" for n in range(500))
    items = [StoreItem(content=one, conversation_id="c", position=n, **labels) for n, one in enumerate(contents)]
    request = StoreRequest(items=items, revive=True)
    assert BODY_MAX_BYTES * 0.8 < len(request.model_dump_json(exclude_none=True).encode()) <= BODY_MAX_BYTES
    async with world.woken() as edge:
        await edge.memory.store(request, ALL)
        assert edge.budget.calls["d1"] == EDGE.pages_max
        assert edge.budget.statements_left > 2


async def test_calls_count_too(world: World):
    database = world.database(Budget(calls_max=1))
    await database.query("select 1")
    with pytest.raises(TooManyStatements):
        await database.query("select 1")


def test_cloudflares_own_refusal_is_told_alike():
    text = "Error: D1_ERROR: Too many API requests by single Worker invocation."
    assert isinstance(d1_errors.translate(text, NOW, writes=True), TooManyStatements)


def test_every_fault_of_the_double_has_a_meaning():
    meant = {*PASSING, *NOT_RUN, *TOO_HEAVY, *DAILY}
    assert meant == set(D1Fault)
    for kind in D1Fault:
        assert type(d1_errors.translate(f"Error: D1_ERROR: {kind}", NOW, writes=True)) in (
            StorageBusy,
            StorageOverQuota,
        )
