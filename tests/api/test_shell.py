"""What stands around every face."""

import asyncio
import gzip
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from tests.api.faces import BASE, EVERYONE, LOOPBACK, TOKENS, numbered, raw

from shoal.api.context import context_of, one_memory
from shoal.api.gate import HostRule
from shoal.api.messages import Language
from shoal.api.shell import NESTING_MAX, NOBODY, Shell, error_headers, error_response
from shoal.core.service import Memory
from shoal.schema.errors import InsufficientScope, InvalidTime, NotFound, RateLimited, ShoalError
from shoal.schema.limits import BODY_MAX_BYTES

JSON = ("content-type", "application/json")


class Echo:
    """A face that keeps what reached it."""

    def __init__(self, fails: Exception | None = None, after_start: bool = False) -> None:
        self.scope: dict[str, Any] = {}
        self.body = b""
        self._fails = fails
        self._after_start = after_start

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.body = (await receive())["body"]
        if self._fails is not None and not self._after_start:
            raise self._fails
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if self._fails is not None:
            raise self._fails
        await send({"type": "http.response.body", "body": b"echo"})


def shell(memory: Memory, echo: Echo, gate: Any = EVERYONE, hosts: HostRule = LOOPBACK) -> Shell:
    ticks = iter(range(100))
    return Shell(echo, one_memory(memory), gate, hosts, frozenset({"/public"}), numbered(), lambda: float(next(ticks)))


async def test_the_context_reaches_the_face(memory: Memory) -> None:
    echo = Echo()
    headers = [("accept-language", "zh-CN"), ("shoal-time-zone", "Asia/Tokyo"), ("authorization", "Bearer reader")]
    await raw(shell(memory, echo, TOKENS), "GET", "/x", headers)
    context = context_of(echo.scope)
    assert context.memory is memory
    assert (context.caller.client, context.caller.time_zone) == ("reader", "Asia/Tokyo")
    assert (context.language, context.request_id) == (Language.CHINESE, "r1")


async def test_a_request_id_is_kept_when_it_is_harmless(memory: Memory) -> None:
    for given, kept in [("abc-1.2_3", "abc-1.2_3"), ("a b", "r1"), ("x" * 65, "r1"), ("a\nb", "r1"), ("", "r1")]:
        _, headers, _ = await raw(shell(memory, Echo()), "GET", "/x", [("x-request-id", given)])
        assert headers["x-request-id"] == kept


async def test_every_answer_has_the_security_headers(memory: Memory) -> None:
    for path_gate in (EVERYONE, TOKENS):
        _, headers, _ = await raw(shell(memory, Echo(), path_gate), "GET", "/x")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


async def test_without_a_token_the_answer_is_401_with_a_challenge(memory: Memory) -> None:
    echo = Echo()
    status, headers, body = await raw(shell(memory, echo, TOKENS), "GET", "/x")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert json.loads(body)["error"]["code"] == "unauthorized"
    assert echo.scope == {}


async def test_public_paths_are_served_as_nobody(memory: Memory) -> None:
    echo = Echo()
    status, _, _ = await raw(shell(memory, echo, TOKENS), "GET", "/public")
    assert status == 200
    assert context_of(echo.scope).caller == NOBODY


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ([("host", "evil.example")], 421, "host_not_allowed"),
        ([("host", "127.0.0.1:8377.evil.example")], 421, "host_not_allowed"),
        ([("origin", "https://evil.example")], 403, "origin_not_allowed"),
        ([("shoal-time-zone", "Mars")], 422, "invalid_time"),
        ([("content-length", "-5")], 400, "malformed_body"),
        ([("content-length", "x")], 400, "malformed_body"),
    ],
)
async def test_a_refused_request_never_reaches_the_face(
    memory: Memory, headers: list[tuple[str, str]], status: int, code: str
) -> None:
    echo = Echo()
    got, _, body = await raw(shell(memory, echo), "POST", "/x", [JSON, *headers], [b"{}"])
    error = json.loads(body)["error"]
    assert (got, error["code"], error["request_id"]) == (status, code, "r1")
    assert error["message"] and error["mend"]
    assert echo.scope == {}


async def test_a_body_over_the_limit_is_refused_by_its_declared_and_by_its_real_length(memory: Memory) -> None:
    big = b"x" * (BODY_MAX_BYTES + 1)
    for headers, chunks in [
        ([("content-length", str(len(big)))], [b""]),
        ([], [big]),
        ([], [big[: BODY_MAX_BYTES // 2]] * 3),
        ([("content-length", "5")], [big]),
    ]:
        status, _, body = await raw(shell(memory, Echo()), "POST", "/x", [JSON, *headers], chunks)
        assert (status, json.loads(body)["error"]["limit"]) == (413, BODY_MAX_BYTES)


async def test_a_body_in_pieces_reaches_the_face_whole(memory: Memory) -> None:
    echo = Echo()
    await raw(shell(memory, echo), "POST", "/x", [JSON], [b'{"a"', b": 1", b"}"])
    assert echo.body == b'{"a": 1}'
    limit = b"x" * BODY_MAX_BYTES
    status, _, _ = await raw(shell(memory, echo), "POST", "/x", [JSON], [limit])
    assert (status, len(echo.body)) == (200, BODY_MAX_BYTES)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_that_is_not_declared_as_json_is_refused(memory: Memory, kind: str) -> None:
    status, _, body = await raw(shell(memory, Echo()), "POST", "/x", [("content-type", kind)], [b"{}"])
    assert (status, json.loads(body)["error"]["code"]) == (415, "unsupported_media_type")


async def test_json_with_a_charset_is_json(memory: Memory) -> None:
    kind = ("content-type", "Application/JSON; charset=utf-8")
    assert (await raw(shell(memory, Echo()), "POST", "/x", [kind], [b"{}"]))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1),
        b'{"a":' * 100_000,
        b"[NaN," + b"[" * 100_000,
        ("[" * 100_000).encode("utf-16"),
        b"\xef\xbb\xbf" + b"[" * 100_000,
    ],
    ids=["a-level-too-many", "objects", "not-a-number", "utf-16", "byte-order-mark"],
)
async def test_json_that_is_nested_too_deeply_never_reaches_a_face(memory: Memory, body: bytes) -> None:
    echo = Echo()
    status, _, told = await raw(shell(memory, echo), "POST", "/x", [JSON], [body])
    assert (status, json.loads(told)["error"]["code"], echo.body) == (400, "malformed_body", b"")
    deepest = b"[" * NESTING_MAX + b"]" * NESTING_MAX
    assert (await raw(shell(memory, echo), "POST", "/x", [JSON], [deepest]))[0] == 200


async def test_a_fault_is_told_without_its_details_and_logged(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = await raw(shell(memory, Echo(ValueError("secret"))), "GET", "/x")
    assert (status, json.loads(body)["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in body
    assert "request r1 failed" in caplog.text


async def test_a_fault_in_the_middle_of_an_answer_ends_it(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = await raw(shell(memory, Echo(ValueError("late"), after_start=True)), "GET", "/x")
    assert (status, body) == (200, b"")
    assert "late" in caplog.text


async def test_the_access_log_has_no_contents(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "shoal.access"):
        headers = [JSON, ("authorization", "Bearer writer")]
        await raw(shell(memory, Echo(), TOKENS), "POST", "/x", headers, [b'{"content": "secret"}'], "q=secret")
    assert len(caplog.records) == 1
    assert caplog.records[0].shoal == {  # type: ignore[attr-defined]  # set by `extra`
        "method": "POST",
        "route": "-",
        "status": 200,
        "duration_ms": 1000.0,
        "client": "writer",
        "request_id": "r1",
    }
    assert "secret" not in caplog.text


async def test_listed_origins_may_read_and_others_not(memory: Memory) -> None:
    for origin, allowed in [("https://app.example.com", True), (BASE, False)]:
        _, headers, _ = await raw(shell(memory, Echo()), "GET", "/x", [("origin", origin)])
        assert (headers.get("access-control-allow-origin") == origin) is allowed
        assert headers["vary"] == "Origin"


async def test_a_preflight_needs_no_token_and_tells_only_listed_origins(memory: Memory) -> None:
    asks = ("access-control-request-method", "POST")
    for origin, allowed in [("https://app.example.com", True), (BASE, False)]:
        echo = Echo()
        got, headers, _ = await raw(shell(memory, echo, TOKENS), "OPTIONS", "/x", [("origin", origin), asks])
        assert got == 204
        assert ("access-control-allow-methods" in headers) is allowed
        assert ("access-control-allow-origin" in headers) is allowed
        assert echo.scope == {}
    assert (await raw(shell(memory, Echo()), "OPTIONS", "/x", [("origin", "https://evil.example"), asks]))[0] == 403


async def test_requests_share_nothing(memory: Memory) -> None:
    ids = await asyncio.gather(*(_served_id(memory, n) for n in range(20)))
    assert ids == [f"id-{n}" for n in range(20)]


async def _served_id(memory: Memory, n: int) -> str:
    echo = Echo()
    _, headers, _ = await raw(shell(memory, echo), "GET", "/x", [("x-request-id", f"id-{n}")])
    assert context_of(echo.scope).request_id == headers["x-request-id"]
    return headers["x-request-id"]


@pytest.mark.parametrize("text", ["胡说", "naïve 🐟", "\ud83d", "\udce9\udcff", "\x00\x7f", '"\\'])
def test_an_error_can_be_read_in_any_language_and_carries_whatever_was_refused(text: str) -> None:
    body = bytes(error_response(InvalidTime(text, "上周三"), "1").body)
    assert "上周三" in body.decode()
    assert json.loads(body)["error"]["message"] == text
    if text.isprintable() and text.isalnum():
        assert text in body.decode()


class Limit:
    """Lets `left` requests pass, and remembers who was counted."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.counted: list[str | None] = []

    async def count(self, scope: Any, caller: Any) -> None:
        self.counted.append(None if caller is None else caller.client)
        if len(self.counted) > self.left:
            raise RateLimited("Too many requests.", "Wait.", retry_after_s=60)


async def test_requests_are_counted_by_caller_and_those_of_nobody_too(memory: Memory) -> None:
    limit = Limit(3)
    app = replace(shell(memory, Echo(), TOKENS), limiter=limit)
    token = ("authorization", "Bearer reader")
    statuses = [
        (await raw(app, "GET", path, headers))[0] for path, headers in [("/x", [token]), ("/x", []), ("/public", [])]
    ]
    assert statuses == [200, 401, 200]
    assert limit.counted == ["reader", None, None]


async def test_too_many_requests_are_told_when_to_come_back(memory: Memory) -> None:
    app = replace(shell(memory, Echo(), TOKENS), limiter=Limit(0))
    for headers in ([("authorization", "Bearer reader")], [("authorization", "Bearer guessed")]):
        status, answered, body = await raw(app, "GET", "/x", headers)
        assert (status, answered["retry-after"]) == (429, "60")
        assert json.loads(body)["error"]["code"] == "rate_limited"


TOO_NARROW = InsufficientScope("No.", "Ask.", scopes=["memory:read", "memory:write"])
STEP_UP = 'Bearer error="insufficient_scope", scope="memory:read memory:write"'
READER = ("authorization", "Bearer reader")


async def test_a_scope_that_is_missing_is_challenged_whether_the_face_raises_or_answers(memory: Memory) -> None:
    async def answers(scope: Any, receive: Any, send: Any) -> None:
        await error_response(TOO_NARROW, "r1", error_headers(TOO_NARROW, scope))(scope, receive, send)

    for face in (Echo(TOO_NARROW), answers):
        app = Shell(face, one_memory(memory), TOKENS, LOOPBACK, new_id=numbered())
        status, headers, body = await raw(app, "GET", "/x", [READER])
        assert (status, headers["www-authenticate"]) == (403, STEP_UP)
        assert json.loads(body)["error"]["scopes"] == ["memory:read", "memory:write"]


async def test_a_token_that_is_not_known_is_told_so_in_the_challenge(memory: Memory) -> None:
    guessed = [("authorization", "Bearer guessed")]
    _, headers, _ = await raw(shell(memory, Echo(), TOKENS), "GET", "/x", guessed)
    assert headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_a_face_may_take_forms_too(memory: Memory) -> None:
    forms = frozenset({"application/json", "application/x-www-form-urlencoded"})
    app = replace(shell(memory, Echo()), accepts=forms)
    for kind, status in [
        ("application/x-www-form-urlencoded; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("multipart/form-data", 415),
        ("", 415),
    ]:
        got, _, body = await raw(app, "POST", "/x", [("content-type", kind)], [b"a=b"])
        assert got == status
    assert "`Content-Type: application/x-www-form-urlencoded`" in json.loads(body)["error"]["mend"]
    assert (await raw(app, "POST", "/x", [], [b"a=b"]))[0] == 415


GZIP = ("content-encoding", "gzip")
PACKED = gzip.compress(b'{"a": 1}')


def inflating(memory: Memory, echo: Echo) -> Shell:
    return replace(shell(memory, echo), inflated_max=10_000)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", " gzip ", "identity, gzip", "gzip,"])
async def test_a_face_that_takes_packed_bodies_gets_them_unpacked(memory: Memory, coding: str) -> None:
    echo = Echo()
    sent = [JSON, ("content-encoding", coding)]
    assert (await raw(inflating(memory, echo), "POST", "/x", sent, [PACKED[:9], PACKED[9:]]))[0] == 200
    assert echo.body == b'{"a": 1}'


async def test_bodies_that_are_not_packed_are_taken_as_they_are(memory: Memory) -> None:
    for sent in ([JSON], [JSON, ("content-encoding", "identity")], [JSON, ("content-encoding", "")]):
        for make in (inflating, shell):
            echo = Echo()
            assert (await raw(make(memory, echo), "POST", "/x", sent, [b"{}"]))[0] == 200
            assert echo.body == b"{}"


@pytest.mark.parametrize(
    ("make", "coding", "taken"),
    [
        (shell, "gzip", "identity"),
        (inflating, "br", "gzip, identity"),
        (inflating, "deflate", "gzip, identity"),
        (inflating, "gzip, gzip", "gzip, identity"),
        (inflating, "gzip;q=1", "gzip, identity"),
        (inflating, "é", "gzip, identity"),
    ],
)
async def test_other_codings_are_refused_with_those_that_are_taken(
    memory: Memory, make: Any, coding: str, taken: str
) -> None:
    echo = Echo()
    status, headers, body = await raw(make(memory, echo), "POST", "/x", [JSON, ("content-encoding", coding)], [PACKED])
    assert (status, headers["accept-encoding"]) == (415, taken)
    error = json.loads(body)["error"]
    assert (error["code"], error["codings"]) == ("unsupported_media_type", taken.split(", "))
    assert echo.scope == {}


async def test_a_coding_named_twice_is_packed_twice(memory: Memory) -> None:
    assert (await raw(inflating(memory, Echo()), "POST", "/x", [JSON, GZIP, GZIP], [PACKED]))[0] == 415


async def test_what_is_unpacked_is_bounded_and_looked_at_like_any_other_body(memory: Memory) -> None:
    deep = b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1)
    for sent, body, status, code in (
        ([JSON, GZIP], gzip.compress(bytes(10_001)), 413, "body_too_large"),
        ([JSON, GZIP], PACKED[:-1], 400, "malformed_body"),
        ([JSON, GZIP], b"{}", 400, "malformed_body"),
        ([JSON, GZIP], gzip.compress(deep), 400, "malformed_body"),
        ([GZIP], PACKED, 415, "unsupported_media_type"),
        ([JSON, GZIP], b"x" * (BODY_MAX_BYTES + 1), 413, "body_too_large"),
    ):
        echo = Echo()
        answer = await raw(inflating(memory, echo), "POST", "/x", sent, [body])
        assert (answer[0], json.loads(answer[2])["error"]["code"]) == (status, code)
        assert echo.scope == {}


async def test_nobody_is_unpacked_for_without_a_token(memory: Memory) -> None:
    app = replace(shell(memory, Echo(), TOKENS), inflated_max=10_000)
    assert (await raw(app, "POST", "/x", [JSON, GZIP], [b"no gzip"]))[0] == 401


async def test_a_face_may_show_the_shells_errors_in_its_own_way(memory: Memory) -> None:
    def page(error: ShoalError, request_id: str, scope: Any) -> Response:
        return HTMLResponse(f"{error.code} {request_id} {scope['path']}", error.status)

    app = replace(shell(memory, Echo(), TOKENS), present=page)
    status, headers, body = await raw(app, "GET", "/x")
    assert (status, body) == (401, b"unauthorized r1 /x")
    assert headers["www-authenticate"] == "Bearer"
    assert (await raw(app, "GET", "/x", [("host", "evil.example")]))[2] == b"host_not_allowed r2 /x"
    fault = replace(shell(memory, Echo(ValueError("secret"))), present=page)
    assert (await raw(fault, "GET", "/x"))[2] == b"internal_error r1 /x"


async def test_a_face_may_be_public_altogether(memory: Memory) -> None:
    class Everything:
        def __contains__(self, _path: object) -> bool:
            return True

    app = replace(shell(memory, Echo(), TOKENS), public=Everything())
    for path in ("/", "/any", "//any"):
        assert (await raw(app, "GET", path))[0] == 200


async def test_head_answers_what_get_answers_without_the_body(memory: Memory) -> None:
    for face in (
        PlainTextResponse("text", headers={"ETag": "1"}),
        Echo(),
        Echo(NotFound("No.", "Look.")),
        Echo(TOO_NARROW),
    ):
        app = Shell(face, one_memory(memory), EVERYONE, LOOPBACK, new_id=lambda: "r1")
        status, headers, body = await raw(app, "GET", "/x")
        assert body
        assert await raw(app, "HEAD", "/x") == (status, headers, b"")


async def test_head_needs_the_same_token(memory: Memory) -> None:
    assert (await raw(shell(memory, Echo(), TOKENS), "HEAD", "/x"))[0::2] == (401, b"")


async def test_head_is_logged_as_what_it_was(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "shoal.access"):
        await raw(shell(memory, Echo()), "HEAD", "/x")
    assert caplog.records[0].shoal["method"] == "HEAD"  # type: ignore[attr-defined]  # set by `extra`


async def test_proxies_are_told_to_pass_events_on_at_once(memory: Memory) -> None:
    async def events() -> Any:
        yield "data: 1\n\n"

    for kind, told in [("text/event-stream", "no"), ("text/plain", None)]:
        face = StreamingResponse(events(), media_type=kind)
        app = Shell(face, one_memory(memory), EVERYONE, LOOPBACK)
        _, headers, _ = await raw(app, "POST", "/x")
        assert headers.get("x-accel-buffering") == told


async def test_browser_clients_of_mcp_and_oauth_may_send_and_read_what_they_need(memory: Memory) -> None:
    origin = ("origin", "https://app.example.com")
    asks = ("access-control-request-method", "POST")
    _, headers, _ = await raw(shell(memory, Echo(), TOKENS), "OPTIONS", "/x", [origin, asks])
    sent = set(headers["access-control-allow-headers"].split(", "))
    assert {"authorization", "content-type", "mcp-protocol-version", "mcp-session-id", "last-event-id"} <= sent
    _, headers, _ = await raw(shell(memory, Echo(), TOKENS), "GET", "/x", [origin])
    read = set(headers["access-control-expose-headers"].split(", "))
    assert read == {"X-Request-Id", "Location", "WWW-Authenticate", "Retry-After", "Mcp-Session-Id"}
    assert "access-control-allow-credentials" not in headers


OPEN = "/.well-known/oauth-protected-resource"
FOREIGN = ("origin", "https://evil.example")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.com", None])
async def test_what_is_open_to_read_is_read_by_pages_of_any_origin(
    memory: Memory, method: str, origin: str | None
) -> None:
    app = replace(shell(memory, Echo()), open_reads=frozenset({OPEN}))
    status, headers, _ = await raw(app, method, OPEN, [("origin", origin)] if origin else [])
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    assert "access-control-allow-credentials" not in headers
    assert "vary" not in headers


async def test_a_preflight_of_what_is_open_allows_reading_only(memory: Memory) -> None:
    app = replace(shell(memory, Echo()), open_reads=frozenset({OPEN}))
    asks = "access-control-request-method"
    status, headers, _ = await raw(app, "OPTIONS", OPEN, [FOREIGN, (asks, "GET")])
    assert (status, headers["access-control-allow-origin"]) == (204, "*")
    assert headers["access-control-allow-methods"] == "GET"
    assert "mcp-protocol-version" in headers["access-control-allow-headers"]
    assert (await raw(app, "OPTIONS", OPEN, [FOREIGN, (asks, "POST")]))[0] == 403
    assert (await raw(app, "POST", OPEN, [FOREIGN, JSON], [b"{}"]))[0] == 403
    for near in ("/x", OPEN + "/", "/" + OPEN, OPEN.upper()):
        assert (await raw(app, "GET", near, [FOREIGN]))[0] == 403


async def test_the_log_has_neither_the_query_nor_the_token_whatever_happens(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    sent = [("authorization", "Bearer planted"), ("cookie", "__Host-shoal=planted")]
    with caplog.at_level(logging.DEBUG):
        for app in (shell(memory, Echo(), TOKENS), shell(memory, Echo()), shell(memory, Echo(ValueError("ours")))):
            for method in ("GET", "HEAD", "OPTIONS", "POST"):
                await raw(app, method, "/planted", sent, query="code=planted&state=planted")
    assert len([record for record in caplog.records if record.name == "shoal.access"]) == 12
    ours = [json.dumps(vars(record), default=str) for record in caplog.records if record.name.startswith("shoal")]
    assert "planted" not in "".join(ours)
