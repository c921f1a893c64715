"""What production enforces and a local workerd doesn't is a breach here, named and recorded with its invocation."""

import time

import httpx
import pytest
from tests.edge.doubles.d1 import D1Fault
from tests.edge.doubles.invocation import ProductionRuleBroken
from tests.edge.doubles.queue import QueueFault
from tests.edge.rig.harness import Do, doing
from tests.edge.rig.rig import Rig, RigError

PARAMETERS_101 = f"SELECT {', '.join(f'?{n}' for n in range(1, 102))}"
PARAMETERS_100 = f"SELECT {', '.join(f'?{n}' for n in range(1, 101))}"


@pytest.mark.parametrize(
    ("rule", "action", "arguments", "refusal"),
    [
        ("d1-statements", "query", {"sql": "SELECT 1", "times": 51}, "Too many API requests by single Worker"),
        ("d1-statements", "batch", {"statements": ["SELECT 1"] * 51}, "Too many API requests by single Worker"),
        ("d1-parameters", "query", {"sql": PARAMETERS_101, "values": [1] * 101}, "too many SQL variables"),
        ("d1-sql-size", "query", {"sql": f"SELECT 1 /* {'x' * 100_000} */"}, "statement too long"),
        ("d1-value-size", "query", {"sql": "SELECT 1 WHERE ?1", "values": ["é" * 1_000_001]}, "string or blob too big"),
        ("d1-value-size", "blob", {"size": 2_000_001}, "string or blob too big"),
        ("like-pattern", "query", {"sql": "SELECT 'x' LIKE ?1", "values": ["x" * 51]}, "pattern too complex"),
        ("queue-message-size", "send", {"text": "x" * 127_900}, "Queue send failed: Payload Too Large"),
        ("queue-batch-count", "send_batch", {"count": 101}, "Queue sendBatch failed: Payload Too Large"),
        ("queue-batch-size", "send_batch", {"count": 3, "size": 86_000}, "Queue sendBatch failed: Payload Too Large"),
        ("pbkdf2-iterations", "pbkdf2", {"iterations": 100_001}, "iteration counts above 100000 are not supported"),
    ],
)
def test_a_breach_is_refused_with_the_text_of_production_and_recorded(
    rig: Rig, do: Do, rule: str, action: str, arguments: dict[str, object], refusal: str
):
    with rig.breaking(rule):
        assert refusal in do(action, **arguments)["error"]["message"]


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("query", {"sql": "SELECT 1", "times": 50}),
        ("batch", {"statements": ["SELECT 1"] * 50}),
        ("query", {"sql": PARAMETERS_100, "values": [1] * 100}),
        ("query", {"sql": "SELECT 1 WHERE ?1", "values": ["x" * 2_000_000]}),
        ("query", {"sql": "SELECT 'x' LIKE ?1", "values": ["x" * 50]}),
        ("send_batch", {"count": 100}),
        ("pbkdf2", {"iterations": 100_000}),
        ("together", {"count": 6}),
    ],
)
def test_what_production_allows_is_no_breach(do: Do, action: str, arguments: dict[str, object]):
    answer = do(action, **arguments)
    assert not (isinstance(answer, dict) and "error" in answer)


def test_the_fifty_first_subrequest_is_a_breach(rig: Rig, do: Do, echo: str):
    since = rig.mark()
    with rig.breaking("subrequests"):
        # httpx's or the SDK's fetch alike: what JavaScript's fetch refuses is an OSError in Python.
        assert httpx.post(f"{rig.url}/get", json={"url": echo, "times": 51}).status_code == 500
    (got,) = [each for each in rig.invocations(since) if each.name == "/get"]
    assert (got.fetches, got.subrequests) == (51, 51)
    assert do("get", url=echo, times=50) == '"here"'


def test_a_seventh_call_at_the_same_time_is_a_breach_though_it_is_answered(rig: Rig, do: Do):
    since = rig.mark()
    with rig.breaking("connections"):
        assert do("together", count=7) is None
    assert [each.most_connections for each in rig.invocations(since) if each.name == "/together"] == [7]


def test_a_test_during_which_a_rule_is_broken_fails_and_names_it(running: Rig):
    with (
        pytest.raises(ProductionRuleBroken, match=r"d1-statements: 51 statements .* \(fetch /query\)"),
        running.watched(),
    ):
        httpx.post(f"{running.url}/query", json={"sql": "SELECT 1", "times": 51})


def test_an_expected_breach_must_come(rig: Rig, do: Do):
    with (
        pytest.raises(AssertionError, match="expected a breach of subrequests, found none"),
        rig.breaking("subrequests"),
    ):
        do("hello")


def test_a_limit_can_be_set_for_a_test(rig: Rig, do: Do):
    rig.set_limits(d1_statements=60)
    assert do("query", sql="SELECT 1 AS one", times=40) == [{"one": 1}]
    with pytest.raises(RigError, match="no such limit: d1_statments"):
        rig.set_limits(d1_statments=60)


def test_the_clock_stands_still_while_code_runs_and_moves_with_io(do: Do):
    told = do("clock")
    wall, monotonic, performance, js_now, js_date = range(5)
    before, busy, stepped, slept = told["before"], told["busy"], told["stepped"], told["slept"]
    for clock in (monotonic, performance, js_now, js_date):
        assert before[clock] == busy[clock] == stepped[clock]
    # As in production, each reading of time.time() within an instant is a millisecond later than the last.
    assert stepped[wall] - before[wall] < 0.01
    assert slept[performance] - before[performance] >= 0.05
    assert slept[js_now] - before[js_now] >= 50


def test_a_test_can_move_the_clock_and_it_goes_back_with_the_test(running: Rig):
    day_s = 86_400
    with running.watched():
        running.set_clock(day_s)
        with doing(running) as do:
            ahead_s = [do("clock")["before"][number] - time.time() * unit for number, unit in ((0, 1), (3, 1000))]
        assert ahead_s == pytest.approx([day_s, day_s * 1000], rel=0.001)
    with running.watched(), doing(running) as do:
        assert do("clock")["before"][0] == pytest.approx(time.time(), abs=10)


def test_d1_fails_when_told_with_the_text_of_production_and_then_no_more(rig: Rig, do: Do):
    rig.fail("d1", D1Fault.NETWORK_LOST, times=2, after=1)
    answers = [do("query", sql="SELECT 1 AS one") for _ in range(4)]
    lost = {"error": {"name": "Error", "message": "D1_ERROR: Network connection lost."}}
    assert answers == [[{"one": 1}], lost, lost, [{"one": 1}]]


def test_a_write_can_take_effect_and_its_answer_be_lost(rig: Rig, do: Do):
    rig.fail("d1", D1Fault.NETWORK_LOST, applied=True, on="insert into seen")
    lost = do("batch", statements=["INSERT INTO seen (place, what) VALUES ('lost', 'x')"])
    assert lost["error"]["message"] == "D1_ERROR: Network connection lost."
    assert do("seen", place="lost") == ["x"]


def test_a_queue_fails_when_told_and_takes_nothing(rig: Rig, do: Do):
    rig.drain()
    since = rig.mark()
    rig.fail("queue", QueueFault.DAILY)
    assert do("send", lost=True)["error"]["message"] == "Queue send failed: Free tier limit exceeded (10253)"
    rig.drain()
    assert [each.kind for each in rig.invocations(since)] == ["fetch"]


def test_faults_end_with_the_test_that_ordered_them(running: Rig):
    with running.watched():
        running.fail("d1", D1Fault.OVERLOADED, times=100)
    with running.watched():
        assert httpx.post(f"{running.url}/query", json={"sql": "SELECT 1 AS one"}).json() == [{"one": 1}]


def test_only_d1_and_queues_can_be_let_fail(rig: Rig):
    with pytest.raises(RigError, match="'r2'"):
        rig.fail("r2", "no")


def test_a_handler_that_hangs_is_cancelled_and_named(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.edge.rig.rig.IDLE_S", 0.1)
    assert "your Worker's code had hung" in httpx.post(f"{rig.url}/hang").text
    with pytest.raises(RigError, match="fetch /hang"):
        rig.invocations()
    rig.reset()
    assert rig.invocations()
