"""What each request asks of the services: few calls, whatever is asked for and however much there is."""

import itertools
from collections.abc import Iterator
from functools import partial

import apsw
import pytest
from tests.edge.agreement import agree
from tests.edge.edge import COFFEE, ESPRESSO, HOURLY, OFTEN, Edge
from tests.edge.planting import plant
from tests.edge.rig.records import Invocation

STATEMENTS_MAX = 50
MANY = 10_000
WORDS = "harbour lantern copper thistle meadow granite willow ember falcon orchard velvet cinder".split()


def texts(count: int) -> Iterator[str]:
    """Return different short texts of common words, as many memories have them."""
    for number, words in enumerate(itertools.islice(itertools.cycle(itertools.permutations(WORDS, 4)), count)):
        yield f"The {words[0]} of the {words[1]} was {words[2]} and {words[3]}: note {number}."


def rich(count: int) -> list[dict[str, object]]:
    """Return items that have all that a memory can have."""
    return [
        {
            "content": f"{text} {text}",
            "type": "decision",
            "tags": [f"project:p{n % 7}", f"t{n}", "common"],
            "entities": [f"Person {n % 50}", "Everybody"],
            "metadata": {"number": n, "deep": {"list": [1, 2, 3]}},
            "source": f"source {n}",
            "occurred_at": f"2026-0{n % 9 + 1}-15",
            "conversation_id": f"c{n % 20}",
            "position": n // 20,
            "importance": 1.5,
        }
        for n, text in enumerate(texts(count))
    ]


def within_the_plan(run: Invocation) -> bool:
    """Whether an invocation would live on the smallest plan; the rig would have refused it otherwise."""
    return run.d1.statements <= STATEMENTS_MAX and run.subrequests <= STATEMENTS_MAX


@pytest.fixture(scope="module")
def planted(opened: Edge) -> apsw.Connection:
    """A database with 10,000 memories, whose vectors nobody wants."""
    opened.empty()
    plant(opened, texts(MANY))
    return opened.database.copy()


@pytest.fixture
def large(planted: apsw.Connection, edge: Edge) -> Edge:
    """A memory with 10,000 memories."""
    edge.database.put_back(planted)
    return edge


def test_a_store_and_a_search_among_ten_thousand_memories(large: Edge):
    item = {"tags": ["ops", "project:harbour"], "entities": ["Ana"], "metadata": {"k": 1}, "type": "decision"}
    for number, fields in enumerate([{}, item, {"conversation_id": "c", "position": 1}, item]):
        run = large.cost(partial(large.store, f"The lantern of the harbour is number {number}.", **fields))
        assert (run.d1.round_trips, run.queue_sends, run.queue_messages) == (1, 1, 1)
        assert (run.ai, dict(run.vectorize)) == (0, {})
        assert run.d1.rows_read <= 200
        assert run.d1.rows_written <= 60
    again = large.cost(lambda: large.store("The lantern of the harbour is number 0.", tags="again"))
    assert (again.d1.round_trips, again.queue_sends) == (1, 1)
    assert again.d1.rows_read <= 200
    large.rig.drain()

    for fields in FINDS:
        run = large.cost(partial(large.search, "harbour lantern copper thistle", **fields))
        assert cheap(run), fields


LOG_ROWS, LOG_ROWS_A_CELL = 9, 2
"""What the log of writes adds to a store."""
HISTORY_ROWS = 1
"""What naming its batch adds, for devices that sync."""


def test_what_a_store_reads_grows_with_what_it_brings_and_no_faster(edge: Edge):
    for count in (0, 8, 64):
        names = [f"n{number}" for number in range(count)]
        fields = {"tags": names, "entities": names, "metadata": dict.fromkeys(names, 1)}
        run = edge.cost(partial(edge.store, f"text {count}", **fields))
        most = 60 + LOG_ROWS + HISTORY_ROWS + (20 + LOG_ROWS_A_CELL) * 3 * count
        assert run.d1.rows_read <= most, count


FINDS: list[dict[str, object]] = [
    {},
    {"n_results": 50},
    {"space": "*"},
    {"space": ["main", "one", "two"]},
    {"tags": ["common", "t1"], "tags_mode": "all"},
    {"tags": "project:*", "type": "decision", "entity": "Everybody"},
    {"since": "2026-01-01", "until": "2026-06-01"},
    {"time": "last year", "time_field": "created"},
    {"kind": "semantic", "include_archived": True, "include_edges": True, "explain": True, "n_results": 50},
    {"conversation_id": "c1"},
]


def cheap(run: Invocation) -> bool:
    """Whether a search asked no more than it may."""
    return run.ai <= 1 and run.vectorize.get("query", 0) <= 1 and run.d1.statements <= 3 and run.queue_sends == 0


def test_a_search_costs_one_model_call_one_vector_query_and_three_statements_whatever_is_asked(edge: Edge):
    edge.store_all(rich(60))
    for name in ("one", "two"):
        edge.store(COFFEE, space=name)
    edge.rig.drain()
    queries = ("harbour", ESPRESSO, "yesterday at the harbour", "the of was and", "咖啡 harbour", "")
    for number, fields in enumerate(FINDS):
        for query in (queries[number % len(queries)], "harbour lantern copper thistle"):
            run = edge.cost(partial(edge.search, query, **fields))
            assert cheap(run), (query, fields, run)


def test_stale_hits_cost_a_search_nothing_more(edge: Edge):
    ids = edge.store_all([{"content": f"{COFFEE} {n}"} for n in range(30)])
    edge.settle()
    edge.standin.control(lag_s="forever")
    edge.delete(*ids[:15])
    for one in ids[20:]:
        edge.update(one, type="decision")
    edge.rig.drain()
    run = edge.cost(lambda: edge.search(ESPRESSO, n_results=50))
    # Removing what it met that nobody has goes on after the answer.
    assert (run.ai, run.vectorize["query"]) == (1, 1)
    assert within_the_plan(run)


def test_five_hundred_rich_memories_are_stored_read_changed_and_purged_within_the_plan(edge: Edge):
    since = edge.rig.mark()
    edge.rig.fail("queue", "Queue disabled (10252)", times=1000)
    ids = edge.store_all(rich(500))
    assert len(set(ids)) == 500
    edge.ask("POST", "/memories", json={"items": rich(500)})
    for start in range(0, 500, 100):
        edge.update(ids[start], content=f"A better text than {start}.")
    for fields in (
        {},
        {"with_edges": "true", "with_history": "true"},
        {"include_archived": "true", "order": "updated"},
    ):
        assert len(edge.ask("GET", "/memories", params={"page_size": "100", **fields})["memories"]) == 100
    assert len(edge.ask("GET", "/memories", params={"ids": ids[:90], "with_edges": "true"})["memories"]) == 90
    assert len(edge.delete(*ids)["ids"]) == 500
    edge.ask("GET", "/memories", params={"trash": "true", "page_size": "100"})
    assert len(edge.delete(*ids, purge=True)["ids"]) == 500
    edge.stats()
    runs = edge.rig.invocations(since)
    assert all(map(within_the_plan, runs))
    assert max(run.d1.round_trips for run in runs) <= 5


def planted_tokens(edge: Edge, count: int) -> None:
    """Put so many tokens into the database, each of a grant of its own."""
    edge.rows(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
        " insert into oauth_grant (id, kind, name, reach, created_at, activated_at, used_at)"
        " select printf('%032x', i), 'device', 'device ' || i, '{\"spaces\": {}, \"sync\": false}', 0, 0, 0 from n",
        count,
    )
    edge.rows(
        "insert into oauth_token (sha256, kind, grant_id, scopes, created_at)"
        " select id || id, 'access', id, '', 0 from oauth_grant where name glob 'device *'"
    )


def test_a_tokens_check_is_one_query_of_few_rows_among_thousands_of_memories_and_of_tokens(large: Edge):
    planted_tokens(large, 1_000)
    with large.client(large.token()) as http:
        http.get("/api/v1/memories", params={"page_size": 1}).raise_for_status()
        large.rig.itemize(True)
        find = large.cost(lambda: http.post("/api/v1/search", json={"query": "harbour lantern"}).raise_for_status())
        store = large.cost(lambda: http.post("/api/v1/memories", json={"content": COFFEE}).raise_for_status())
        large.rig.itemize(False)
        again = large.cost(lambda: http.post("/api/v1/memories", json={"content": COFFEE}).raise_for_status())
    for run in (find, store):
        (check,) = [each for each in run.d1.each if "oauth_token" in each.sql]
        assert check.rows_read <= 4
        assert check.rows_written == 0
    assert (find.d1.statements, find.ai, find.vectorize["query"]) == (4, 1, 1)
    assert store.d1.round_trips == again.d1.round_trips == 2


def test_that_a_token_was_used_is_noted_once_a_day_after_the_answer(edge: Edge):
    with edge.client(edge.token()) as http:
        runs = [edge.cost(lambda: http.get("/api/v1/stats").raise_for_status()) for _ in range(2)]
    assert [run.d1.rows_written for run in runs] == [1, 0]


@pytest.mark.parametrize("mode", ["memory_find", "memory_store", "memory_get", "memory_stats"])
def test_mcp_costs_what_rest_costs(edge: Edge, mode: str):
    edge.store_all(rich(30))
    edge.rig.drain()
    arguments = {"memory_find": {"query": "harbour"}, "memory_store": {"content": COFFEE}}.get(mode, {})
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": mode, "arguments": arguments}}
    run = edge.cost(
        lambda: edge.http.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
    )
    assert cheap(run) or mode == "memory_store"
    assert run.d1.round_trips <= 3
    listed = edge.cost(lambda: edge.http.post("/mcp", json={**body, "method": "tools/list"}))
    assert (listed.d1.statements, listed.ai, listed.subrequests) == (0, 0, 0)


def test_the_documents_ask_nothing_of_any_service(edge: Edge):
    for path in ("/openapi.json", "/docs"):
        run = edge.cost(partial(edge.http.get, path))
        assert (run.d1.statements, run.subrequests) == (0, 0)
    health = edge.cost(lambda: edge.http.get("/healthz"))
    assert (health.d1.statements, health.subrequests) == (1, 1)


def test_work_that_takes_many_invocations_is_done_in_steps_that_each_fit(edge: Edge):
    edge.rig.fail("queue", "Queue disabled (10252)", times=1000)
    edge.store_all([{"content": text} for text in texts(500)])
    edge.rig.heal()
    since = edge.rig.mark()
    with edge.hashed():
        edge.catch_up()
    assert edge.stats()["pending_embeddings"] == 0
    edge.rig.cron(HOURLY)
    edge.rig.cron(OFTEN)
    runs = [run for run in edge.rig.invocations(since) if run.kind != "fetch"]
    assert all(map(within_the_plan, runs))


@pytest.mark.long
def test_thousands_that_no_queue_has_heard_of_are_indexed_by_one_cron_and_what_it_starts(edge: Edge):
    plant(edge, texts(3_000), wanted=True)
    since = edge.rig.mark()
    with edge.hashed():
        for _ in range(8):
            edge.catch_up()
    assert edge.stats()["pending_embeddings"] == 0
    agree(edge)
    assert all(map(within_the_plan, edge.rig.invocations(since)))
