"""Attacks on MCP's gate: tools that are not listed, and calls smuggled past the check in the body or its headers."""

import json
from typing import Any

import httpx
import pytest
from tests.attacks.attack import HIDDEN, LEGACY, SHELF, Attack, calls, says
from tests.outside.wires import JSON, MODERN, headers, message

ERAS = [LEGACY, MODERN]
LISTED: dict[str, tuple[list[str], set[str], set[str]]] = {
    "reader": (["read"], {"memory_find", "memory_get", "memory_stats"}, {"recall", "memory_stats"}),
    "writer": (["write"], {"memory_store"}, {"remember"}),
    "administrator": (["admin"], set(), set()),
}
"""What each may do in SHELF, and which tools it sees in the profiles `default` and `classic`."""
ALL = {"default": {"memory_store", "memory_find", "memory_get", "memory_update", "memory_delete", "memory_stats"}}
ALL["classic"] = {"remember", "recall", "forget", "memory_stats"}
BODIES: dict[str, dict[str, Any]] = {
    "memory_store": {"content": "smuggled"},
    "memory_update": {"id": "0" * 32, "tags": ["smuggled"]},
    "memory_delete": {"ids": ["0" * 32], "confirm": True},
    "memory_find": {"query": "x"},
    "memory_get": {},
    "memory_stats": {},
    "remember": {"content": "smuggled"},
    "recall": {"query": "x"},
    "forget": {"memo_id": "0" * 32, "confirm": True},
}


def names(answer: httpx.Response) -> set[str]:
    """Return the tools that a list shows."""
    return {tool["name"] for tool in answer.json()["result"]["tools"]}


def did_nothing(attack: Attack, answer: httpx.Response) -> None:
    """Require that a call was refused, and stored nothing."""
    refused = answer.is_error or "error" in answer.json() or answer.json()["result"]["isError"] is True
    assert refused, answer.text
    stored_nothing(attack)


def stored_nothing(attack: Attack) -> None:
    """Require that what was to be smuggled in is nowhere, not even in the trash or as a tag."""
    assert attack.count("record", "init like '%smuggled%'") == 0
    assert attack.count("cell", "value like '%smuggled%' or field like '%smuggled%'") == 0


@pytest.mark.parametrize("where", ["content", "tags"])
def test_what_was_smuggled_in_would_be_found(attack: Attack, where: str):
    before = attack.database.copy()
    said = {
        "content": "Something",
        "space": SHELF,
        **{where: ["smuggled"] if where == "tags" else "It was smuggled in"},
    }
    attack.owner().post("/api/v1/memories", json=said).raise_for_status()
    with pytest.raises(AssertionError):
        stored_nothing(attack)
    attack.rig.drain()
    attack.database.put_back(before)
    stored_nothing(attack)


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("profile", ALL)
@pytest.mark.parametrize("who", LISTED)
def test_a_token_sees_the_tools_it_may_call_and_calls_no_others(attack: Attack, who: str, profile: str, version: str):
    deeds, usual, classic = LISTED[who]
    http = attack.client(attack.token({SHELF: deeds}))
    listed = names(says(http, "tools/list", version, f"?profile={profile}"))
    assert listed == (usual if profile == "default" else classic)
    for tool in ALL[profile] - listed:
        answer = calls(http, tool, version, profile, **BODIES[tool])
        assert answer.status_code == 403
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        did_nothing(attack, answer)


@pytest.mark.parametrize("version", ERAS)
def test_annotations_are_the_same_for_everyone_and_say_what_destroys(attack: Attack, version: str):
    for deeds in (["read", "write"], ["read", "write", "admin"]):
        http = attack.client(attack.token({SHELF: deeds}))
        for tool in says(http, "tools/list", version).json()["result"]["tools"]:
            reads = tool["name"] in {"memory_find", "memory_get", "memory_stats"}
            assert tool["annotations"]["readOnlyHint"] is reads
            assert tool["annotations"]["destructiveHint"] is (tool["name"] == "memory_delete")
            purges = "purge" in tool["inputSchema"]["properties"]
            assert purges is ("admin" in deeds and tool["name"] == "memory_delete")


STEP_UP = {
    "memory_store": "memory:read memory:write",
    "memory_update": "memory:read memory:write",
    "memory_delete": "memory:read memory:write",
}


@pytest.mark.parametrize("tool", STEP_UP)
def test_the_step_up_names_all_scopes_so_that_none_is_lost_by_following_it(attack: Attack, tool: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    told = calls(http, tool, **BODIES[tool]).headers["www-authenticate"]
    assert f'scope="{STEP_UP[tool]}"' in told
    assert f'resource_metadata="{attack.url}/.well-known/oauth-protected-resource/mcp"' in told


@pytest.mark.parametrize("purge", [True, "true", 1, "1", "yes", [True], {"a": 1}], ids=str)
def test_purging_needs_admin_however_it_is_written(attack: Attack, purge: Any):
    http = attack.client(attack.token({SHELF: ["read", "write"]}))
    answer = calls(http, "memory_delete", ids=attack.shown[:1], confirm=True, purge=purge)
    did_nothing(attack, answer)
    body = {"ids": attack.shown[:1], "confirm": True, "purge": purge}
    assert http.post("/api/v1/memories/delete", json=body).is_error
    assert http.get(f"/api/v1/memories/{attack.shown[0]}").status_code == 200


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
def test_without_the_scope_to_read_neither_resources_nor_prompts_are_had(attack: Attack, method: str, version: str):
    http = attack.client(attack.token({SHELF: ["write"], HIDDEN: ["write"]}))
    params = {"uri": "memory://recent"} if method == "resources/read" else {"name": "session_start"}
    assert says(http, method, version, **params).status_code == 403
    assert says(http, "resources/list", version).json()["result"]["resources"] == []
    assert says(http, "prompts/list", version).json()["result"]["prompts"] == []


STORE = json.dumps({"name": "memory_store", "arguments": {"content": "smuggled", "space": SHELF}})
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
CALL = f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{STORE}}}'
FIND = '{"name":"memory_find","arguments":{"query":"x"}}'
SMUGGLED: dict[str, str | bytes] = {
    "plain": CALL,
    "behind-another-message": f"{PING}\n{CALL}",
    "in-a-batch": f"[{PING},{CALL}]",
    "in-a-batch-in-a-batch": f"[[{CALL}]]",
    "with-the-method-twice": CALL.replace('"method":', '"method":"ping","method":'),
    "with-two-sets-of-params": CALL.replace('"params":', f'"params":{FIND},"params":'),
    "with-two-names": CALL.replace('"name":', '"name":"memory_find","name":'),
    "with-an-escaped-method": CALL.replace("tools/call", "tools\\u002fcall"),
    "with-an-escaped-slash": CALL.replace("tools/call", "tools\\/call"),
    "with-an-escaped-key": CALL.replace('"method"', '"\\u006dethod"'),
    "with-an-escaped-name": CALL.replace("memory_store", "memory\\u005fstore"),
    "with-spaces-around-the-name": CALL.replace("memory_store", " memory_store "),
    "with-capitals": CALL.replace("memory_store", "MEMORY_STORE"),
    "with-a-null-character": CALL.replace("memory_store", "memory_store\\u0000"),
    "with-a-byte-order-mark": b"\xef\xbb\xbf" + CALL.encode(),
    "in-utf-16": CALL.encode("utf-16"),
    "in-utf-32": CALL.encode("utf-32-le"),
    "with-a-comment": CALL.replace("{", "{/**/", 1),
    "with-a-trailing-comma": CALL[:-1] + ",}",
    "with-bad-utf-8": CALL.encode().replace(b"smuggled", b"smuggled\xff"),
    "with-no-id": CALL.replace('"id":2,', ""),
    "with-an-id-that-is-none": CALL.replace('"id":2', '"id":null'),
    "with-an-infinite-id": CALL.replace('"id":2', '"id":Infinity'),
    "with-params-in-a-list": CALL.replace(STORE, f"[{STORE}]"),
    "with-params-in-a-text": CALL.replace(STORE, json.dumps(STORE)),
    "with-arguments-in-a-text": CALL.replace(
        STORE, json.dumps({**json.loads(STORE), "arguments": '{"content":"smuggled"}'})
    ),
    "as-a-task": CALL.replace('"arguments"', '"task":{"ttl":1},"arguments"'),
    "as-an-answer": CALL.replace('"method":"tools/call"', '"result":{},"method":"tools/call"'),
}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("body", SMUGGLED.values(), ids=SMUGGLED)
def test_no_call_gets_past_the_check(attack: Attack, body: str | bytes, version: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    said = headers(version, "tools/call", json.loads(STORE))
    answer = http.post("/mcp", content=body, headers=said)
    if answer.status_code == 202:  # a notification, which has no answer
        assert answer.content == b""
        answer = says(http, "tools/call", name="nothing")
    did_nothing(attack, answer)


LAST_WINS: dict[str, str] = {
    "two-methods": CALL.replace('"params"', '"method":"ping","params"'),
    "two-sets-of-params": CALL[:-1] + f',"params":{FIND}}}',
    "two-names": CALL.replace('"arguments"', '"name":"memory_find","arguments"'),
}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("body", LAST_WINS.values(), ids=LAST_WINS)
def test_of_a_key_that_is_there_twice_the_check_and_the_call_read_the_same_one(attack: Attack, body: str, version: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    http.post("/mcp", content=body, headers=headers(version, "tools/call", json.loads(STORE)))
    stored_nothing(attack)


CONTRADICTING = {
    "another-method": {"mcp-method": "ping"},
    "another-name": {"mcp-name": "memory_find"},
    "another-method-and-name": {"mcp-method": "tools/list", "mcp-name": "memory_find"},
    "an-older-version": {"mcp-protocol-version": "2024-11-05"},
    "a-version-that-is-none": {"mcp-protocol-version": "9999-99-99"},
    "a-session": {"mcp-session-id": "1"},
    "another-profile": {"shoal-profile": "classic"},
    "a-profile-that-is-none": {"shoal-profile": "nobody"},
    "another-type": {"content-type": "text/plain"},
    "a-form": {"content-type": "application/x-www-form-urlencoded"},
    "no-type": {"content-type": ""},
    "an-accept-of-nothing": {"accept": "text/html"},
    "another-method-of-http": {"x-http-method-override": "GET", "x-method-override": "PUT"},
    "an-encoding": {"content-encoding": "gzip"},
}


@pytest.mark.parametrize("different", CONTRADICTING.values(), ids=CONTRADICTING)
def test_headers_that_contradict_the_body_open_nothing(attack: Attack, different: dict[str, str]):
    http = attack.client(attack.token({SHELF: ["read"]}))
    params = json.loads(STORE)
    said = {**headers(MODERN, "tools/call", params), **different}
    body = json.dumps(message(MODERN, "tools/call", params, 1))
    did_nothing(attack, http.post("/mcp", content=body, headers=said))


def test_headers_that_name_a_call_one_may_make_do_not_carry_another(attack: Attack):
    http = attack.client(attack.token({SHELF: ["read", "write"]}))
    said = headers(MODERN, "tools/call", {"name": "memory_find"})
    body = json.dumps(message(MODERN, "tools/call", json.loads(STORE), 1))
    # The standard has a server refuse it: a proxy has decided by the header.
    did_nothing(attack, http.post("/mcp", content=body, headers=said))


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    "tool", ["memory_purge", "recall", "__class__", "", "tools/call", "../memory_store", "x" * 5000]
)
def test_tools_that_are_not_there_are_called_in_vain(attack: Attack, tool: str, version: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    did_nothing(attack, calls(http, tool, version, content="smuggled"))


@pytest.mark.parametrize(
    "uri",
    [
        "memory://",
        "memory://../recent",
        "memory://*",
        "memory://%",
        "memory://recent/../snapshot",
        "MEMORY://recent?space=attacked-vault",
        "file:///etc/passwd",
        "https://evil.example/",
        "memory://agent-log",
        "memory://" + "0" * 4000,
    ],
)
def test_no_other_resource_is_read(attack: Attack, uri: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    answer = http.post("/mcp", json=message(LEGACY, "resources/read", {"uri": uri}, 1), headers=JSON)
    assert "error" in answer.json(), answer.text
