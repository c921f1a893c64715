"""The edge's benchmark counts and averages what the rig tells it; the Worker itself is tests/edge's."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.corpus import notes
from bench.edge import TARGETS, Measured, Sample, costs, looked_up, show
from bench.edge_operations import BATCH, BATCHES, Clientele, body_of
from bench.edge_worker import CONFIGURATION, lay_out
from bench.harness import Client
from tests.edge.rig.records import Invocation

NOTHING = {"statements": 0, "round_trips": 0, "rows_read": 0, "rows_written": 0, "unmeasured": 0, "spent_ms": 0}


def invocation(*, standin_ms: int = 0, ai: int = 0, queue: int = 0, **d1: int) -> Invocation:
    """A request that asked D1 for that, and a search of Vectorize for each call of Workers AI."""
    given: dict[str, Any] = {
        **dict.fromkeys(Invocation.model_fields, 0),
        **{"kind": "fetch", "name": "/x", "method": "GET", "error": None, "retries": (), "breaches": ()},
        **{"r2": {}, "kv": {}, "vectorize": {"query": ai}, "ai": ai, "queue_sends": queue},
        **{"standin_ms": standin_ms, "d1": {**NOTHING, "each": (), **d1}},
    }
    return Invocation.model_validate(given)


def test_an_operation_costs_what_its_dearest_request_costs_and_on_average_what_its_rows_do():
    cheap = invocation(round_trips=1, statements=8, rows_read=60, rows_written=10, queue=1)
    dear = invocation(round_trips=3, statements=3, rows_read=100, rows_written=19, ai=1)
    assert costs([cheap, dear]) == {
        **{"d1": 3, "statements": 8, "rows_read": 100, "rows_written": 19, "ai": 1, "vectorize": 1, "queue": 1},
        **{"mean_rows_read": 80, "mean_rows_written": 14.5},
    }


def test_times_are_of_the_samples_and_waiting_is_told_beside_them():
    samples = [Sample(seconds, invocation(standin_ms=7, spent_ms=2)) for seconds in (0.01, 0.02, 0.04)]
    figures = Measured(samples, cpu_s=0.0123).figures()
    assert (figures["p50_ms"], figures["standin_ms"], figures["d1_ms"], figures["cpu_ms"]) == (20, 7, 2, 12.3)
    assert figures["n"] == 3


class Remembering(Client):
    """Answers every request with success, and remembers it."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.requests.append((method, path, body))
        return {"result": {}}


@pytest.fixture
def client() -> Remembering:
    return Remembering()


@pytest.fixture
def clientele(client: Remembering) -> Clientele:
    planted = {f"{number:032x}": note for number, note in enumerate(notes(500))}
    return Clientele(client, planted, notes(2_000, seed=1))


def test_every_operation_makes_as_many_requests_as_it_should(client: Remembering, clientele: Clientele):
    made: dict[str, int] = {}
    for operation in clientele.operations(30, 5):
        before = len(client.requests)
        for call in operation.calls:
            call()
        made[operation.name] = len(client.requests) - before
    assert len(made) == Clientele.KINDS
    often = {"health", "store", "find", "mcp_call"}
    assert made.pop("store_100") == BATCHES
    assert made == {name: 30 if name in often else 5 for name in made}


def test_no_two_requests_of_an_operation_are_the_same_where_clients_vary(client: Remembering, clientele: Clientele):
    for operation in clientele.operations(10, 5):
        client.requests.clear()
        for call in operation.calls:
            call()
        bodies = {json.dumps(request) for request in client.requests}
        same = operation.name in {"health", "stats", "mcp_tools_list"}
        assert len(bodies) == (1 if same else len(operation.calls)), operation.name


def test_a_batch_stores_as_many_memories_as_it_says(client: Remembering, clientele: Clientele):
    clientele.store_all(BATCH)()
    ((_, _, body),) = client.requests
    assert len(body["items"]) == BATCH
    assert body["items"][0] == body_of(next(notes(1, seed=1)))


def test_mixed_requests_are_as_many_as_asked_for_and_of_eight_kinds(client: Remembering, clientele: Clientele):
    for call in clientele.mixed(100):
        call()
    assert len(client.requests) == 100
    assert len({(method, path.partition("?")[0][:20]) for method, path, _ in client.requests}) >= 6


def test_a_refusal_over_mcp_stops_the_benchmark(clientele: Clientele, client: Remembering):
    client.call = lambda *_: {"result": {"isError": True}}
    with pytest.raises(RuntimeError, match="tools/call"):
        clientele.mcp_find()()


def test_the_worker_runs_as_configured_but_without_its_rate_limit(tmp_path: Path):
    size_bytes = lay_out(tmp_path)
    configured = (tmp_path / CONFIGURATION).read_text()
    assert "limit = 600" not in configured
    assert "limit = 100000000" in configured
    staged = tmp_path / "build" / "worker"
    assert size_bytes == sum(path.stat().st_size for path in staged.rglob("*") if path.is_file())
    assert (tmp_path / "schema" / "shoal").is_dir()


def test_an_empty_worker_has_nothing_of_ours(tmp_path: Path):
    lay_out(tmp_path, empty=True)
    assert [path.name for path in (tmp_path / "build" / "worker").iterdir()] == ["entry.py"]


def test_each_figure_with_a_target_is_shown_as_met_or_missed(capsys: pytest.CaptureFixture[str]):
    operations = {"find": {"p50_ms": 1.5, "d1": 3}}
    figures: dict[str, Any] = {"machine": "a machine", "others_cores": 0.1, "operations": operations}
    for number, (place, most) in enumerate(TARGETS):
        *folders, name = place.split(".")
        target = figures
        for folder in folders:
            target = target.setdefault(folder, {})
        target[name] = most + (number == 0)
    assert [looked_up(figures, place) for place, _ in TARGETS[1:]] == [most for _, most in TARGETS[1:]]
    show(figures)
    printed = capsys.readouterr().out
    assert printed.count("MISSED") == 1
    assert printed.count(" met ") == len(TARGETS) - 1
