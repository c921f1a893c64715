import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import classify_inbound_request, decode_header_value

from shoal.local import wire


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def parsed(**message: object) -> wire.Message:
    found = wire.parse(line(**message))
    assert found is not None
    return found


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@given(st.text())
def test_a_header_value_comes_back_as_it_was(value: str) -> None:
    encoded = wire.encode_header(value)
    assert encoded.isascii()
    assert encoded.isprintable() or not encoded
    assert decode_header_value(encoded) == value


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "memory_find", "arguments": {}}),
        ("tools/call", {"name": "查找", "arguments": {}}),
        ("resources/read", {"uri": "memory://recent"}),
        ("prompts/get", {"name": "session_start"}),
        ("tools/list", {}),
        ("server/discover", {}),
    ],
)
def test_headers_of_a_modern_request_are_those_that_the_sdk_checks(method: str, params: dict[str, object]) -> None:
    body = {"id": 1, "method": method, "params": {**params, "_meta": MODERN}}
    message = parsed(**body)
    headers = wire.headers(message, "2025-11-25")
    assert headers["mcp-protocol-version"] == "2026-07-28"
    verdict = classify_inbound_request(json.loads(message.body), headers=headers)
    assert type(verdict).__name__ == "InboundModernRoute", verdict


@pytest.mark.parametrize("version", ["字", "é", "2026\r\nhost: elsewhere", "", " "])
def test_a_version_that_http_would_change_is_encoded(version: str) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": version}
    header = wire.headers(parsed(id=1, method="tools/list", params={"_meta": meta}), None)["mcp-protocol-version"]
    assert header.isascii()
    assert header.isprintable()
    assert decode_header_value(header) == version


@given(st.text(st.characters(exclude_categories=())))
def test_any_id_comes_back_in_errors_and_in_answers_to_it(request_id: str) -> None:
    assert json.loads(wire.error_line(request_id, wire.SERVER_ERROR, request_id))["id"] == request_id
    refused = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    answer = wire.answer_line(refused, request_id)
    assert answer is not None
    assert json.loads(answer)["id"] == request_id


def test_an_older_request_carries_the_version_that_was_agreed_and_initialize_none() -> None:
    assert wire.headers(parsed(id=1, method="tools/list"), "2025-06-18")["mcp-protocol-version"] == "2025-06-18"
    assert "mcp-protocol-version" not in wire.headers(parsed(id=1, method="tools/list"), None)
    assert "mcp-protocol-version" not in wire.headers(parsed(id=1, method="initialize"), "2025-06-18")
    assert "mcp-method" not in wire.headers(parsed(id=1, method="tools/list"), "2025-06-18")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"{not json", wire.PARSE_ERROR),
        (b"[" * 100_000, wire.PARSE_ERROR),
        (b"[]", wire.INVALID_REQUEST),
        (b"7", wire.INVALID_REQUEST),
        (b'{"id": 1}', wire.INVALID_REQUEST),
        (b'{"id": 1.5, "method": "ping"}', wire.INVALID_REQUEST),
        (b'{"id": true, "method": "ping"}', wire.INVALID_REQUEST),
    ],
)
def test_a_line_that_is_no_message_is_answered_with_its_fault(text: bytes, code: int) -> None:
    with pytest.raises(wire.BadLine) as caught:
        wire.parse(text)
    assert json.loads(caught.value.answer)["error"]["code"] == code


def test_an_answer_of_the_client_goes_nowhere() -> None:
    assert wire.parse(line(id=1, result={})) is None


def test_only_what_may_run_twice_is_repeated() -> None:
    def call(tool: str) -> bool:
        return parsed(id=1, method="tools/call", params={"name": tool}).replayable

    assert call("memory_store")
    assert call("memory_find")
    assert not call("memory_delete")
    assert not call("memory_update")
    assert not call("a_tool_of_a_later_version")
    assert parsed(id=1, method="resources/read", params={"uri": "memory://recent"}).replayable


def test_an_answer_is_one_line_with_the_id_of_its_request() -> None:
    whole = b'{"jsonrpc":"2.0","id":4,"result":{"a":1}}'
    assert wire.answer_line(whole, 4) is whole
    pretty = json.dumps(json.loads(whole), indent=2).encode()
    assert wire.answer_line(pretty, 4) == whole
    nameless = wire.answer_line(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}', "x")
    assert nameless is not None
    assert json.loads(nameless)["id"] == "x"
    assert wire.answer_line(b"<html>", 4) is None
    assert wire.answer_line(b'{"error":{"code":"not_allowed","message":"m","mend":"n"}}', 4) is None


def test_a_refusal_of_the_daemon_becomes_an_error_with_what_to_do() -> None:
    body = b'{"error":{"code":"not_allowed","message":"No.","mend":"Ask."}}'
    error = json.loads(wire.refusal_line(403, body, 1))["error"]
    assert error["message"] == "No. Ask."
    assert error["data"]["code"] == "not_allowed"
    assert "502: Bad Gateway" in json.loads(wire.refusal_line(502, b"Bad Gateway", 1))["error"]["message"]


def test_the_answer_of_a_stream_is_told_from_its_notifications() -> None:
    assert wire.is_answer(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert wire.is_answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}')
    assert not wire.is_answer(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}')
    assert not wire.is_answer(b"")


def test_the_agreed_version_is_read_from_the_answer_to_initialize() -> None:
    assert wire.agreed_version(b'{"result":{"protocolVersion":"2025-06-18"}}') == "2025-06-18"
    assert wire.agreed_version(b'{"error":{}}') is None
