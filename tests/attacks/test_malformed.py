"""Attacks with what is too large, malformed, of another method, or on a path that only looks like one."""

import json
from typing import Any

import pytest
from tests.attacks.attack import LEGACY, SHELF, Attack, calls, each
from tests.edge.edge import OWNER_KEY
from tests.outside.wires import MODERN

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
ENDPOINTS = ["/token", "/register", "/revoke", "/introspect", "/login", "/consent", "/logout", "/account/token"]
MEGABYTE = 1_000_000
BODIES: dict[str, tuple[dict[str, str], bytes]] = {
    "nothing": (FORM, b""),
    "a-megabyte": (FORM, b"a=" + b"x" * MEGABYTE),
    "two-megabytes": (FORM, b"a=" + b"x" * 2 * MEGABYTE),
    "a-megabyte-of-json": (JSON, b'{"client_name":"' + b"x" * MEGABYTE + b'"}'),
    "a-megabyte-of-names": (FORM, b"&".join(b"%d=1" % number for number in range(120_000))),
    "deep-json": (JSON, b"[" * 100_000),
    "deep-json-that-ends": (JSON, b"[" * 50_000 + b"]" * 50_000),
    "deep-objects": (JSON, b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "a-long-number": (JSON, b'{"redirect_uris":' + b"9" * 10_000 + b"}"),
    "a-number-that-is-none": (JSON, b'{"redirect_uris":NaN}'),
    "a-half-of-a-surrogate": (JSON, b'{"client_name":"\\ud800","redirect_uris":["https://a.example/\\udfff"]}'),
    "a-null-character": (
        FORM,
        b"grant_type=authorization_code%00&code=%00&client_id=%00&token=%00&handle=%00&secret=%00",
    ),
    "bad-utf-8": (FORM, b"grant_type=%ff&client_id=%c0%af&token=%fe&handle=%ff&secret=%ff"),
    "raw-bytes": (FORM, b"client_id=\xff\xfe&token=\x00"),
    "bad-escapes": (FORM, b"client_id=%zz&token=%&code=%1"),
    "a-parameter-twice": (FORM, b"client_id=a&client_id=b&grant_type=x&grant_type=y&token=a&token=b&secret=a&secret=b"),
    "many-parameters": (FORM, b"&".join(b"a%d=1" % number for number in range(5_000))),
    "only-separators": (FORM, b"&;=" * 10_000),
    "a-list-of-names": (FORM, b"client_id[]=a&client_id[x]=b"),
    "json-as-a-form": (FORM, b'{"client_id":"x"}'),
    "a-form-as-json": (JSON, b"client_id=x"),
    "multipart": (
        {"content-type": "multipart/form-data; boundary=x"},
        b'--x\r\nContent-Disposition: form-data; name="client_id"\r\n\r\na\r\n--x--\r\n',
    ),
    "xml": ({"content-type": "application/xml"}, b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    "no-type": ({"content-type": ""}, b"client_id=x"),
    "a-strange-charset": ({"content-type": f"{FORM['content-type']}; charset=utf-7"}, b"client_id=+ADw-"),
    "gzip-that-is-none": ({**FORM, "content-encoding": "gzip"}, b"client_id=x"),
    "json-null": (JSON, b"null"),
    "json-text": (JSON, b'"x"'),
    "json-of-wrong-kinds": (JSON, b'{"redirect_uris":{"0":"https://a.example/"},"client_name":[1],"grant_types":"x"}'),
    "a-prototype": (JSON, b'{"__proto__":{"redirect_uris":["https://a.example/"]},"constructor":{}}'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_malformed_body_gets_anything_from_any_endpoint(attack: Attack, body: tuple[dict[str, str], bytes]):
    headers, content = body
    clients = attack.count("oauth_client")
    with attack.letting_nobody_in():
        # Each on a connection of its own: one whose body was not read to its end is closed.
        https = [attack.client(**headers) for _ in ENDPOINTS]
        answers = each(lambda one: one[0].post(one[1], content=content), zip(https, ENDPOINTS, strict=True))
        for path, answer in zip(ENDPOINTS, answers, strict=True):
            # Who is not signed in has nothing to sign out of.
            fine = 400 <= answer.status_code < 500 or (path, answer.status_code) == ("/logout", 303)
            assert fine, f"{path}: {answer.status_code} {answer.text}"
            assert "set-cookie" not in answer.headers
            assert len(answer.content) < 10_000
    assert attack.count("oauth_client") == clients


AUTHORIZE = {
    "a-state-too-long": "state=" + "x" * 5_000,
    "a-query-too-long": "x=" + "y" * 40_000,
    "many-parameters": "&".join(f"a{number}=1" for number in range(500)),
    "bad-utf-8": "client_id=%ff%fe",
    "a-null-character": "client_id=%00",
    "every-name-twice": "client_id=a&client_id=b",
    "nothing": "",
    "only-separators": "&&&===&&&",
    "a-list": "client_id[]=a",
    "a-request-object": "client_id=a&request=eyJhbGciOiJub25lIn0.e30.&request_uri=https://evil.example/r",
}


@pytest.mark.parametrize("query", AUTHORIZE.values(), ids=AUTHORIZE)
def test_no_malformed_request_to_authorize_is_put_to_the_owner(attack: Attack, query: str):
    with attack.letting_nobody_in():
        answer = attack.raw("GET", f"/authorize?{query}")
    assert answer.status_code in (400, 414)
    assert "location" not in answer.headers


def test_a_state_that_is_too_long_is_not_sent_on(attack: Attack):
    flow = attack.flow()
    flow.register()
    flow.sign_in()
    answer = flow.ask(state="x" * 4_097)
    assert "error=invalid_request" in answer.headers["location"]
    assert "xxxx" not in answer.headers["location"]


ALLOWED = {
    "/authorize": {"GET", "HEAD"},
    "/account": {"GET", "HEAD"},
    "/login": {"POST"},
    "/logout": {"POST"},
    "/consent": {"POST"},
    "/token": {"POST"},
    "/register": {"POST"},
    "/revoke": {"POST"},
    "/introspect": {"POST"},
    "/mcp": {"POST"},
    "/.well-known/oauth-authorization-server": {"GET", "HEAD"},
    "/.well-known/oauth-protected-resource/mcp": {"GET", "HEAD"},
    "/api/v1/search": {"GET", "HEAD", "POST"},
    "/api/v1/stats": {"GET", "HEAD"},
    "/api/v1/memories": {"GET", "HEAD", "POST"},
}
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "QUERY"]


@pytest.mark.parametrize("path", ALLOWED)
def test_other_methods_do_nothing_anywhere(attack: Attack, path: str):
    http = attack.client(attack.token({SHELF: ["read"]}))
    for method in METHODS:
        if method in ALLOWED[path]:
            continue
        answer = http.request(method, path)
        assert answer.status_code in (204, 400, 401, 403, 404, 405, 501), f"{method} {answer.text}"
        assert answer.status_code != 204 or method == "OPTIONS"
        if answer.status_code == 405:
            assert set(answer.headers["allow"].split(", ")) <= ALLOWED[path] | {"OPTIONS"}


@pytest.mark.parametrize("header", ["x-http-method-override", "x-http-method", "x-method-override"])
def test_a_header_makes_no_other_method(attack: Attack, header: str):
    http = attack.client(attack.token({SHELF: ["read", "write"]}), **{header: "DELETE"})
    assert http.get(f"/api/v1/memories/{attack.shown[0]}").status_code == 200
    assert http.get(f"/api/v1/memories/{attack.shown[0]}").json()["state"] == "live"


TRICKS = [
    "//mcp",
    "/mcp%2f",
    "/MCP",
    "/Mcp",
    "/mcp;",
    "/mcp/..;/",
    "/mcp//",
    "/mcp/x",
    "/mcp%00",
    "/mcp%20",
    "/%6dcp",
    "/./mcp",
    "/mcp/.",
    "/\\mcp",
    "/api/v1/%2e%2e/mcp",
    "/api/v1/..%2fmcp",
    "/api/v1//memories",
    "/api//v1/memories",
    "/API/v1/memories",
    "/api/v1/memories/",
    "/api/v1/memories;x",
    "/api/v1/memories%2f..%2fadmin/tokens",
    "/api/v1/admin%2ftokens",
    "/api/v1/Admin/tokens",
    "/api/v1/../v1/memories",
    "/api/v1/%2e/memories",
    "/healthz/../api/v1/memories",
    "/healthz%2f..%2fapi/v1/memories",
    "/healthz/..%2fapi/v1/memories",
    "/docs/..;/api/v1/memories",
    "/openapi.json/../api/v1/stats",
    "/openapi.json;/api/v1/stats",
    "/.well-known/../api/v1/memories",
    "/.well-known/..%2fapi/v1/memories",
    "/.well-known/%2e%2e/mcp",
    "/.well-known//api/v1/memories",
    "/account/../api/v1/memories",
    "/account/..%2fapi/v1/memories",
    "/register/..%2fapi%2fv1%2fmemories",
    "/register/../api/v1/memories",
    "/token/../mcp",
    "/?/api/v1/memories",
    "/api/v1/memories?/healthz",
    "/api/v1/memories%3f",
    "/api/v1/memories%23",
    "/cdn-cgi/mcp",
    "/sync",
    "/sync/pull",
]


@pytest.mark.parametrize("path", TRICKS)
def test_no_spelling_of_a_path_leads_past_the_gate(attack: Attack, path: str):
    for method in ("GET", "POST"):
        answer = attack.raw(method, path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert 400 <= answer.status_code < 500, f"{answer.status_code} {answer.text}"
        assert "memories" not in answer.text.replace(path, "") or "error" in answer.json()


def test_no_spelling_of_a_path_makes_a_token_wider(attack: Attack):
    token = attack.token({SHELF: ["read"]})
    # `judge` holds what comes to the token's own space.
    body: dict[str, Any] = {"content": "smuggled", "name": "more", "spaces": {"*": ["read"]}}
    for path in TRICKS:
        answer = attack.raw("POST", path, token, json=body)
        assert answer.status_code != 201 and "shoal_" not in answer.text, f"{path}: {answer.text}"


OAUTH_TRICKS = [
    "/token/",
    "//token",
    "/TOKEN",
    "/token%2f",
    "/token;x",
    "/token%00",
    "/oauth/token",
    "/register/",
    "/register//",
    "/register/%2e%2e",
    "/register/..%2f..%2fmcp",
    "/consent/",
    "/login/",
    "/account/",
    "/account/x",
    "/account//revoke",
    "/account/revoke/",
    "/.well-known/",
    "/.well-known/token",
    "/.well-known//oauth-authorization-server",
    "/.well-known/oauth-authorization-server/../../token",
    "/.well-known/OAUTH-AUTHORIZATION-SERVER",
    "/mcp/.well-known/../token",
    "/.well-known/openid-configuration/../x",
    "/authorize/",
    "/authorize/x",
    "/authorize%3fclient_id=x",
]


@pytest.mark.parametrize("path", OAUTH_TRICKS)
def test_no_spelling_of_oauths_paths_does_anything(attack: Attack, path: str):
    with attack.letting_nobody_in():
        form = {"grant_type": "client_credentials", "client_id": "x", "secret": OWNER_KEY, "decision": "allow"}
        answer = attack.raw("POST", path, data=form)
    assert 400 <= answer.status_code < 500
    assert "set-cookie" not in answer.headers and "access_token" not in answer.text


def test_the_dot_segments_that_the_url_itself_takes_away_lead_where_they_say(attack: Attack):
    # So every browser and proxy reads them; what is there decides as ever.
    answer = attack.raw("POST", "/.well-known/../token", data={"grant_type": "x"})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert attack.raw("GET", "/account/../api/v1/memories").status_code == 401


@pytest.mark.parametrize("path", ["/api/v1/memories", "/api/v1/search", "/api/v1/memories/delete", "/mcp"])
@pytest.mark.parametrize(
    "body", ["a-megabyte-of-json", "deep-json-that-ends", "deep-objects", "bad-utf-8", "json-null"]
)
def test_no_malformed_body_breaks_the_memory(attack: Attack, path: str, body: str):
    http = attack.client(attack.token({SHELF: ["read", "write"]}), **JSON)
    content = BODIES[body][1]
    assert 400 <= http.post(path, content=content).status_code < 500


DEEP = "[" * 50_000


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_json_in_a_text_that_is_too_deep_stays_a_text(attack: Attack, version: str):
    http = attack.client(attack.token({SHELF: ["read", "write"]}))
    calls(http, "memory_find", version, query="pier", tags=DEEP)
    calls(http, "memory_get", version, ids=DEEP + "]" * 50_000)
    calls(http, "memory_store", version, content="x", space=SHELF, metadata='{"a":' * 50_000)
    http.get("/api/v1/search", params={"q": "pier", "tags": "[" * 5_000})
    assert http.get("/api/v1/stats").status_code == 200


def test_deep_json_behind_what_only_python_reads_does_not_get_through(attack: Attack):
    http = attack.client(attack.token({SHELF: ["read"]}), **JSON, accept="application/json")
    said = {"mcp-protocol-version": MODERN, "mcp-method": "ping"}
    for content in (
        f"[NaN,{DEEP}".encode(),
        DEEP.encode("utf-16"),
        DEEP.encode("utf-32"),
        b"\xef\xbb\xbf" + DEEP.encode(),
    ):
        assert http.post("/mcp", content=content, headers=said).status_code == 400
        assert http.post("/register", content=content).status_code == 400


def test_keys_that_are_there_twice_do_not_reach_another_space(attack: Attack):
    http = attack.client(attack.token({SHELF: ["read"]}), **JSON)
    one, other = json.dumps(SHELF), json.dumps("attacked-vault")
    for first, last in ((one, other), (other, one)):
        http.post("/api/v1/search", content=f'{{"query":"door","space":{first},"space":{last}}}')
