"""Unchanged Worker code runs as it does in production: events, bindings, and what the rig tells about them."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.edge.rig.harness import Do
from tests.edge.rig.rig import Rig, RigError


def only(rig: Rig, since: int, name: str):
    """The one invocation of that name since then."""
    (found,) = [invocation for invocation in rig.invocations(since) if invocation.name == name]
    return found


def test_python_answers_requests_and_sees_variables_and_secrets(do: Do):
    assert do("hello") == {"greeting": "hello", "secret": "s3cret"}


def test_every_type_of_value_makes_the_round_trip_through_d1_as_in_production(do: Do):
    # A bool comes back as 1 and a blob as its bytes in a list.
    expected = {"a": "né 你好", "b": 7, "c": 2**52, "d": 0.5, "e": 1, "f": None, "g": [0, 255]}
    assert do("values") == expected


@pytest.mark.parametrize(
    ("sql", "column", "found"),
    [
        ("SELECT 1 AS one, 2 AS two", None, {"one": 1, "two": 2}),
        ("SELECT 1 AS one, 2 AS two", "two", 2),
        ("SELECT 1 AS one WHERE 0", None, None),
        ("SELECT 1 AS one WHERE 0", "one", None),
        ("SELECT NULL AS one", "one", None),
        (
            "SELECT 1 AS one",
            "two",
            {"error": {"name": "Error", "message": "D1_COLUMN_NOTFOUND: Column not found (two)"}},
        ),
    ],
)
def test_first_answers_a_row_a_value_or_nothing(do: Do, sql: str, column: str | None, found: object):
    assert do("first", sql=sql, column=column) == found


def test_first_of_a_column_that_is_not_there_is_an_error(do: Do):
    found = do("first", sql="SELECT 1 AS one", column="two")
    assert found["error"]["message"] == "D1_COLUMN_NOTFOUND: Column not found (two)"


def test_a_batch_is_one_transaction_and_its_statements_rows_and_round_trip_are_counted(rig: Rig, do: Do):
    since = rig.mark()
    insert = "INSERT INTO seen (place, what) VALUES ('batch', 'x')"
    assert do("batch", statements=[insert, f"{insert} RETURNING what"]) == [[], [{"what": "x"}]]
    calls = only(rig, since, "/batch").d1
    assert (calls.statements, calls.round_trips, calls.rows_written, calls.unmeasured) == (2, 1, 2, 0)
    failed = do("batch", statements=[insert, "INSERT INTO nowhere VALUES (1)"])
    assert "no such table: nowhere" in failed["error"]["message"]
    assert do("seen", place="batch") == ["x", "x"]


def test_a_query_tells_what_it_read(rig: Rig, do: Do):
    do("batch", statements=["INSERT INTO seen (place, what) VALUES ('read', 'x')"] * 3)
    since = rig.mark()
    assert len(do("query", sql="SELECT * FROM seen WHERE place = ?1", values=["read"])) == 3
    assert only(rig, since, "/query").d1.rows_read >= 3


def test_what_each_statement_took_is_told_when_asked(rig: Rig, do: Do):
    insert = "INSERT INTO seen (place, what) VALUES ('each', 'x')"
    rig.itemize(True)
    since = rig.mark()
    do("batch", statements=[insert, "SELECT * FROM seen WHERE place = 'each'"])
    rig.itemize(False)
    do("query", sql="SELECT 1")
    wrote, read = only(rig, since, "/batch").d1.each
    assert (wrote.sql, wrote.rows_written, read.rows_written) == (insert, 1, 0)
    assert read.rows_read >= 1
    assert min(wrote.duration_ms, read.duration_ms) >= 0
    assert only(rig, since, "/query").d1.each == ()


def test_a_message_is_delivered_and_a_refused_one_is_retried_and_ends_among_the_dead_letters(rig: Rig, do: Do):
    since = rig.mark()
    do("send", number=1)
    do("send", poison=True, number=2)
    rig.drain()
    assert do("seen", place="sample").count('{"number": 1}') == 1
    assert do("seen", place="sample").count('{"poison": true, "number": 2}') == 3
    assert do("seen", place="sample-dead") == ['{"poison": true, "number": 2}']
    queues = [invocation for invocation in rig.invocations(since) if invocation.kind == "queue"]
    assert {queue.name for queue in queues} == {"sample", "sample-dead"}
    assert sum(queue.messages for queue in queues) == 5
    # The rig was told to let no message wait; what the Worker asked for is on record.
    assert [delay for queue in queues for delay in queue.retries] == [3600] * 3
    sent = [invocation for invocation in rig.invocations(since) if invocation.name == "/send"]
    assert [(each.queue_sends, each.queue_messages) for each in sent] == [(1, 1), (1, 1)]


def test_a_test_can_send_messages_that_no_worker_would_send(rig: Rig, do: Do):
    rig.send("QUEUE", {"from": "outside"})
    rig.drain()
    assert do("seen", place="sample")[-1] == '{"from": "outside"}'


def test_a_batch_of_messages_is_delivered_whole(rig: Rig, do: Do):
    since = rig.mark()
    do("send_batch", count=20)
    rig.drain()
    assert sum(each.messages for each in rig.invocations(since) if each.kind == "queue") == 20


def test_a_cron_event_brings_its_expression_and_its_time(rig: Rig, do: Do):
    rig.cron("*/5 * * * *", 1_234_567)
    assert do("seen", place="cron")[-1] == "*/5 * * * * 1234567"


def test_a_cron_handler_that_raises_is_told_to_whoever_fired_it(rig: Rig):
    since = rig.mark()
    with pytest.raises(RigError, match="'fail' failed"):
        rig.cron("fail")
    assert only(rig, since, "fail").error == "RuntimeError: told to fail"


def test_an_exception_is_a_500_with_its_last_line_in_the_record(rig: Rig):
    since = rig.mark()
    assert httpx.post(f"{rig.url}/raise").status_code == 500
    assert only(rig, since, "/raise").error == "RuntimeError: told to fail"


def test_attachments_are_kept_in_r2(rig: Rig, do: Do):
    since = rig.mark()
    do("put_blob", name="a.txt", text="né")
    assert do("get_blob", name="a.txt") == "né"
    assert only(rig, since, "/put_blob").r2 == {"put": 1}
    assert only(rig, since, "/get_blob").r2 == {"get": 1}


def test_a_rate_limit_is_kept(rig: Rig, do: Do):
    since = rig.mark()
    # wrangler.toml allows two a minute.
    assert [do("limit") for _ in range(3)].count(True) == 2
    asked = [each for each in rig.invocations(since) if each.name == "/limit"]
    assert [(each.ratelimit, each.ratelimit_ms >= 0, each.subrequests) for each in asked] == [(1, True, 0)] * 3


def test_what_is_left_to_wait_until_belongs_to_the_invocation(rig: Rig, do: Do):
    since = rig.mark()
    do("later")
    assert only(rig, since, "/later").d1.statements == 2
    assert do("seen", place="later") == ["ctx", "module"]


def test_vectorize_and_ai_are_asked_over_http_and_counted(rig: Rig, do: Do):
    since = rig.mark()
    vector = [0.25, -1.0]
    asked = do("vectorize", method="query", args=[vector, {"topK": 3, "filter": {"space": {"$in": ["main"]}}}])
    assert asked == {
        "path": "/vectorize/query",
        "args": [vector, {"topK": 3, "filter": {"space": {"$in": ["main"]}}}],
    }
    assert do("ai", model="@cf/baai/bge-m3", inputs={"text": ["né"]}) == {
        "path": "/ai/run",
        "args": ["@cf/baai/bge-m3", {"text": ["né"]}],
    }
    assert only(rig, since, "/vectorize").vectorize == {"query": 1}
    assert only(rig, since, "/ai").ai == 1


def test_an_error_of_vectorize_keeps_its_name_and_message(do: Do):
    told = do("vectorize", method="getByIds", args=["refuse"])
    assert told == {"error": {"name": "VectorizeError", "message": "told to refuse"}}


async def test_twenty_requests_at_once_are_answered_and_told_apart(rig: Rig):
    since = rig.mark()
    async with httpx.AsyncClient(base_url=rig.url, timeout=30) as client:
        answers = await asyncio.gather(*(client.post("/wait", json={"seconds": n % 4 / 100}) for n in range(20)))
    assert [answer.json() for answer in answers] == [1] * 20
    waits = [invocation for invocation in rig.invocations(since) if invocation.name == "/wait"]
    assert [each.d1.statements for each in waits] == [1] * 20


def test_a_test_can_wait_for_what_is_still_under_way(rig: Rig):
    since = rig.mark()
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(httpx.post, f"{rig.url}/wait", json={"seconds": 0.3})
        rig.wait_for(lambda seen: [each for each in seen if each.ended_ms is None], "a request that runs", since)
        rig.wait_for(lambda seen: [each for each in seen if each.ended_ms is not None], "its end", since)
        assert waiting.result().json() == 1


def test_random_numbers_differ_from_request_to_request(do: Do):
    first, second = do("random"), do("random")
    assert not set(first) & set(second)


def test_a_person_can_see_what_the_worker_prints(rig: Rig, do: Do):
    do("print", text="né in the log")
    deadline = time.monotonic() + 10
    # The line comes through two pipes; nothing says when it has passed them.
    while not any(line.source == "worker" and line.message == "né in the log" for line in rig.log()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_rig_tells_memory_processor_time_and_modules_at_start(rig: Rig):
    assert 16 << 20 < rig.wasm_bytes() < 128 << 20
    assert rig.cpu_seconds() > 0
    modules = rig.modules_at_start()
    assert {"entry", "workers", "asyncio"} <= set(modules)
    assert "fastapi" not in modules
