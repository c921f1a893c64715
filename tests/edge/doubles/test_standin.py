"""The two engines behind HTTP."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.edge.doubles.standin import METADATA_INDEXES, Standin

ROOT = Path(__file__).parents[3]
M3 = "@cf/baai/bge-m3"


@pytest.fixture(scope="module")
def running() -> Iterator[Standin]:
    with Standin(dimensions=2) as standin:
        yield standin


@pytest.fixture
def standin(running: Standin) -> Standin:
    """A stand-in without faults and lag; vectors of other tests may be there."""
    running.control(clear_faults=True, poison="", lag_s=0, noise=0, missing=0, reset_times=True)
    return running


def ask(standin: Standin, path: str, *args: Any) -> Any:
    answer = httpx.post(f"{standin.url}/{path}", json={"args": args})
    return answer.json()["result"] if answer.status_code == 200 else answer.json()["error"]


def test_vectors_are_kept_and_found(standin: Standin):
    rows = [{"id": "kept", "values": [1, 0], "metadata": {"space": "s1"}}]
    assert set(ask(standin, "vectorize/upsert", rows)) == {"mutationId"}
    options = {"topK": 1, "filter": {"space": "s1"}, "returnMetadata": "indexed"}
    found = ask(standin, "vectorize/query", [1, 0], options)
    assert found == {"count": 1, "matches": [{"id": "kept", "score": 1.0, "metadata": {"space": "s1"}}]}
    assert ask(standin, "vectorize/describe")["dimensions"] == 2


def test_texts_are_embedded(standin: Standin):
    answer = ask(standin, "ai/run", M3, {"text": ["a", "b"]}, {})
    assert (answer["shape"], answer["pooling"], len(answer["data"])) == ([2, 1024], "cls", 2)


def test_a_refusal_comes_with_name_and_message(standin: Standin):
    answer = httpx.post(f"{standin.url}/vectorize/getByIds", json={"args": [["x"] * 21]})
    assert answer.status_code == 500
    text = "VECTOR_GET_ERROR (code = 40007): too many ids in payload; max id count is 20, got 21"
    assert answer.json() == {"error": {"name": "Error", "message": text}}
    assert ask(standin, "vectorize/list") == {"name": "TypeError", "message": "list is not a function"}
    assert ask(standin, "ai/run")["message"] == "5007: No such model None or task"


@pytest.mark.parametrize("body", ["", "[]", '{"arg": []}', '{"args": 7}', '{"args": [], "more": 1}'])
def test_a_body_that_is_no_call_is_refused(standin: Standin, body: str):
    answer = httpx.post(f"{standin.url}/ai/run", content=body)
    assert (answer.status_code, answer.json()["error"]["name"]) == (400, "CallError")


def test_the_state_shows_settings_orders_and_time_spent(standin: Standin):
    standin.control(lag_s="forever", poison="☠", faults=[{"service": "ai", "kind": "daily", "times": None, "after": 1}])
    ask(standin, "vectorize/upsert", [{"id": "late", "values": [1, 0]}])
    ask(standin, "vectorize/upsert", [{"id": "late", "values": [1, 0]}])
    state = standin.state()
    assert state["vectorize"]["lag_s"] == "forever"
    assert state["vectorize"]["waiting"] == 2
    assert list(state["vectorize"]["metadata_indexes"]) == [index.split("=")[0] for index in METADATA_INDEXES]
    order = {"kind": "daily", "on": None, "times": None, "after": 1, "applied": False}
    assert state["ai"] == {"poison": "☠", "faults": [order]}
    assert state["calls"] == {"vectorize.upsert": 2}
    assert state["spent_ms"]["vectorize.upsert"] > 0
    assert standin.control(settle=True)["vectorize"]["waiting"] == 0
    assert standin.control(reset_times=True)["calls"] == {}


def test_calls_fail_on_demand(standin: Standin):
    orders = [
        {"service": "vectorize", "kind": "rate_limited", "on": "query", "times": 2},
        {"service": "ai", "kind": "internal"},
    ]
    standin.control(faults=orders)
    for _ in range(2):
        assert "40041" in ask(standin, "vectorize/query", [1, 0])["message"]
    assert "matches" in ask(standin, "vectorize/query", [1, 0])
    assert ask(standin, "ai/run", M3, {"text": "x"})["name"] == "InferenceUpstreamError"
    standin.control(poison="bad")
    assert "3043" in ask(standin, "ai/run", M3, {"text": "a bad text"})["message"]


def test_a_call_hangs_until_it_is_told_to_fail_while_others_are_answered(standin: Standin):
    standin.control(faults=[{"service": "ai", "kind": "timeout"}])
    answers: list[Any] = []
    hanging = threading.Thread(target=lambda: answers.append(ask(standin, "ai/run", M3, {"text": "x"})))
    hanging.start()
    while standin.state()["ai"]["faults"]:
        pass  # until the order is taken
    assert "shape" in ask(standin, "ai/run", M3, {"text": "y"})
    assert answers == []
    standin.control(release=True)
    hanging.join(5)
    assert "3046: Request timeout" in answers[0]["message"]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"lag": 1}, "Extra inputs"),
        ({"lag_s": -1}, "greater than or equal to 0"),
        ({"noise": 2}, "less than or equal to 1"),
        ({"faults": [{"service": "ai", "kind": "nothing"}]}, "kind"),
        ({"faults": [{"service": "ai", "kind": "empty"}]}, "not a valid AiFault"),
        ({"faults": [{"service": "d1", "kind": "timeout"}]}, "service"),
        ({"metadata_indexes": {"space": "string"}}, "there is a metadata index on space"),
        ({"metadata_indexes": {"x": "date"}}, "metadata_indexes"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(standin: Standin, wanted: dict[str, Any], text: str):
    with pytest.raises(ValueError, match=text):
        standin.control(**wanted)


def test_what_hangs_does_not_keep_it_from_ending():
    with Standin() as standin:
        standin.control(faults=[{"service": "vectorize", "kind": "timeout"}])
        answers: list[Any] = []
        hanging = threading.Thread(target=lambda: answers.append(ask(standin, "vectorize/describe")))
        hanging.start()
        while standin.state()["vectorize"]["faults"]:
            pass  # until the order is taken
    hanging.join(5)
    assert "504" in answers[0]["message"]


def test_a_file_keeps_the_vectors_over_a_restart(tmp_path: Path):
    with Standin(dimensions=2, persist=tmp_path / "vectors.db", lag_s=60) as standin:
        ask(standin, "vectorize/upsert", [{"id": "kept", "values": [1, 0]}])
    with Standin(dimensions=2, persist=tmp_path / "vectors.db") as standin:
        assert ask(standin, "vectorize/describe")["vectorCount"] == 1


def start(*options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.edge.doubles.standin", "--hashed", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command_tells_its_port_serves_and_ends_on_a_signal(tmp_path: Path):
    with start("--persist", str(tmp_path / "vectors.db"), "--dimensions", "2", "--lag-s", "1") as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told["url"] == f"http://127.0.0.1:{told['port']}"
            state = httpx.get(f"{told['url']}/control").json()
            assert (state["vectorize"]["dimensions"], state["vectorize"]["lag_s"]) == (2, 1)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=15)
        finally:
            process.kill()
    assert errors == ""


def test_the_command_says_when_a_file_holds_other_vectors(tmp_path: Path):
    with Standin(dimensions=2, persist=tmp_path / "vectors.db"):
        pass
    with start("--persist", str(tmp_path / "vectors.db"), "--dimensions", "3") as process:
        _, errors = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "holds vectors of 2 dimensions, not 3. Use another file" in errors
    assert "Traceback" not in errors


def test_the_command_says_when_a_port_is_taken():
    with Standin() as standin, start("--port", standin.url.rpartition(":")[2]) as process:
        _, errors = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "is taken: choose another, or 0 for a free one" in errors
    assert "Traceback" not in errors
