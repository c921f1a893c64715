"""`shoal mcp`: one line a message, whatever comes down the pipe."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.outside.rig import Place, end_all, place_in, stop
from tests.outside.wires import MODERN, StdioWire, call, hello, message

from shoal.local.home import read_record

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


@pytest.fixture
def wire(place: Place) -> Iterator[StdioWire]:
    """A pipe on which nothing has been said."""
    opened = StdioWire(place, MODERN)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", PARSE_ERROR),
        (b"\xff\xfe", PARSE_ERROR),
        (b"42", INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1}', INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', INVALID_REQUEST),
    ],
    ids=["broken", "not-utf-8", "number", "no-method", "batch"],
)
def test_a_line_that_is_no_message_is_refused_and_the_next_one_served(wire: StdioWire, line: bytes, code: int) -> None:
    wire.send(line)
    assert wire.receive()["error"]["code"] == code
    assert call(wire, "memory_stats")["total"] >= 0


def test_requests_under_way_together_are_each_answered(wire: StdioWire, space: str) -> None:
    for number in range(20):
        arguments = {"content": f"第 {number} 个 of many", "space": space}
        wire.send(
            json.dumps(message(MODERN, "tools/call", {"name": "memory_store", "arguments": arguments}, number)).encode()
        )
    answers = [wire.receive() for _ in range(20)]
    assert sorted(answer["id"] for answer in answers) == list(range(20))
    assert {answer["result"]["structuredContent"]["status"] for answer in answers} == {"created"}


def test_both_eras_may_share_a_pipe(place: Place, wire: StdioWire) -> None:
    # Claude Code asks in the newest version first and falls back to a handshake.
    assert MODERN in hello(wire)["supportedVersions"]
    wire.version = "2025-11-25"
    assert hello(wire)["protocolVersion"] == "2025-11-25"
    assert wire.ask("ping")["result"] == {}


def test_what_was_asked_before_stdin_closed_is_still_answered(place: Place) -> None:
    wire = StdioWire(place, MODERN)
    asked = message(MODERN, "tools/call", {"name": "memory_stats", "arguments": {}}, 7)
    output, complaints = wire.process.communicate(json.dumps(asked).encode(), timeout=20)
    assert json.loads(output)["id"] == 7
    assert (complaints, wire.process.returncode) == (b"", 0)


def test_a_profile_is_chosen_by_an_option(place: Place) -> None:
    wire = StdioWire(place, MODERN, "--profile", "classic")
    assert {"remember", "recall", "forget"} <= {tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]}
    wire.close()


def test_prompts_speak_the_language_of_the_machine(place: Place) -> None:
    wire = StdioWire(place, MODERN, LANG="zh_CN.UTF-8")
    asked = {"name": "memory_retrieval", "arguments": {"question": "哪个端口?"}}
    assert "请先调用 memory_find" in wire.ask("prompts/get", asked)["result"]["messages"][0]["content"]["text"]
    wire.close()


def test_a_client_that_finds_no_daemon_gets_one_that_outlives_it(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    try:
        first = StdioWire(place, "2025-06-18")
        hello(first)
        stored = call(first, "memory_store", content="冷启动 after a cold start")
        first.close()
        record = read_record(place.home)
        assert record is not None
        assert record.started_by == "shim"
        second = StdioWire(place, MODERN)
        assert call(second, "memory_find", query="冷启动")["results"][0]["id"] == stored["id"]
        second.close()
        assert read_record(place.home) == record
        stop(place.home)
    finally:
        end_all(place.home)
