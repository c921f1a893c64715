"""HTTP as pages, proxies and broken clients speak it: origins, lengths, paths, ids, and what the log may say."""

import json
import re
import socket
from collections.abc import Iterable
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from tests.edge.edge import COFFEE, ORIGIN, OWNER_KEY, Edge

from shoal.schema.limits import BODY_MAX_BYTES

FOREIGN = "https://evil.example.com"
SOCKET_TIMEOUT_S = 20
JSON = {"content-type": "application/json"}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


# Web pages


def test_a_preflight_of_an_allowed_origin_is_answered_without_a_token(edge: Edge):
    with edge.client(None) as client:
        for path in ("/api/v1/memories", "/mcp", "/mcp/"):
            asks = {"origin": ORIGIN, "access-control-request-method": "POST"}
            answer = client.options(path, headers={**asks, "access-control-request-headers": "authorization"})
            assert answer.status_code == 204
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert "POST" in answer.headers["access-control-allow-methods"]
            assert "authorization" in answer.headers["access-control-allow-headers"]
            assert "origin" in answer.headers["vary"].lower()


def test_a_preflight_of_another_origin_is_refused(edge: Edge):
    with edge.client(None) as client:
        for origin in (FOREIGN, "null", f"{ORIGIN}.evil.example", ORIGIN.replace("https", "http"), f"{ORIGIN}:8443"):
            asks = {"origin": origin, "access-control-request-method": "POST"}
            answer = client.options("/api/v1/memories", headers=asks)
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "origin_not_allowed"
            assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_another_origin_does_nothing_though_it_has_the_token(edge: Edge):
    for method, path in [("POST", "/api/v1/memories"), ("GET", "/api/v1/memories"), ("POST", "/mcp")]:
        answer = edge.http.request(method, path, json={"content": "x"}, headers={"origin": FOREIGN})
        assert answer.status_code == 403
    assert edge.stats()["total"] == 0


def test_an_allowed_page_reads_answers_and_errors(edge: Edge):
    for path, status in [("/api/v1/stats", 200), ("/api/v1/nothing", 404), ("/healthz", 200)]:
        answer = edge.http.get(path, headers={"origin": ORIGIN})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, ORIGIN)
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]


def test_every_answer_has_the_security_headers(edge: Edge):
    for path in ("/api/v1/stats", "/nothing", "/healthz", "/docs"):
        headers = edge.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["memory.example.com", "shoal.someone.workers.dev", "localhost:1"])
def test_it_is_served_under_whatever_name_it_has(edge: Edge, host: str):
    answer = edge.http.get("/healthz", headers={"host": host, "origin": f"https://{host}"})
    assert answer.status_code == 200


# Paths and methods


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/api/v1", "/api/v1/", "/api/v1/memories/", "/docs/", "/healthz/", "/mcp/x", "/mcp//", "//mcp"],
)
def test_an_unknown_path_is_not_found(edge: Edge, path: str):
    url = edge.http.base_url.copy_with(raw_path=path.encode())
    for method in ("GET", "POST"):
        answer = edge.http.request(method, url, json=RPC)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_mcp_takes_posts_alone(edge: Edge, path: str, method: str):
    answer = edge.http.request(method, path, headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["allow"]) == (204 if method == "OPTIONS" else 405, "POST")


def test_both_ways_to_write_the_path_lead_to_mcp_without_a_redirect(edge: Edge):
    for path in ("/mcp", "/mcp/", "/mcp?profile=classic"):
        answer = edge.http.post(path, json=RPC, headers={"accept": "application/json, text/event-stream"})
        assert (answer.status_code, answer.json()["result"]) == (200, {})


def test_a_static_file_is_served_without_waking_python(edge: Edge):
    since = edge.rig.mark()
    with edge.client(None) as client:
        answer = client.get("/robots.txt")
    assert answer.status_code == 200
    assert "User-agent" in answer.text
    assert edge.rig.invocations(since) == []


# Bodies


def exchange(edge: Edge, headers: Iterable[str], pieces: Iterable[bytes] = ()) -> tuple[int, bytes]:
    """Send a request by hand and return the status and body of the answer, however much was sent by then."""
    where = urlsplit(edge.rig.url)
    with closing(socket.create_connection((where.hostname, where.port), SOCKET_TIMEOUT_S)) as connection:
        head = ["POST /api/v1/memories HTTP/1.1", f"Host: {where.netloc}", f"Authorization: Bearer {OWNER_KEY}"]
        connection.sendall("\r\n".join([*head, *headers, "", ""]).encode())
        for piece in pieces:
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break  # It has answered and hung up.
        received = b""
        while b"\r\n\r\n" not in received or b"}}" not in received:
            more = connection.recv(65_536)
            if not more:
                break
            received += more
    status, _, rest = received.partition(b"\r\n")
    return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


def chunks(count: int) -> Iterable[bytes]:
    """Yield pieces of a chunked body, 64 KiB each, without the one that ends it."""
    for _ in range(count):
        yield b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


def test_a_body_whose_length_is_too_much_is_refused_before_it_is_sent(edge: Edge):
    declared = f"Content-Length: {BODY_MAX_BYTES + 1}"
    status, body = exchange(edge, ["Content-Type: application/json", declared])
    assert status == 413
    assert b'"body_too_large"' in body


def test_a_body_that_grows_too_long_is_refused_before_its_end(edge: Edge):
    headers = ["Content-Type: application/json", "Transfer-Encoding: chunked"]
    status, body = exchange(edge, headers, chunks(17))
    assert status == 413
    assert b'"body_too_large"' in body


def test_a_body_in_pieces_is_one(edge: Edge):
    def pieces() -> Iterable[bytes]:
        yield from (b'{"con', b'tent": "', COFFEE.encode(), b'"}')

    answer = edge.http.post("/api/v1/memories", content=pieces(), headers=JSON)
    assert answer.status_code == 201
    assert edge.get(answer.json()["id"])["content"] == COFFEE


@pytest.mark.parametrize("length", ["-5", "x", "1e3", "99999999999999999999"])
def test_a_length_that_is_none_is_refused(edge: Edge, length: str):
    status, _ = exchange(edge, ["Content-Type: application/json", f"Content-Length: {length}"], [b"{}"])
    assert status in {400, 413, 501}
    assert edge.stats()["total"] == 0


def test_a_client_that_leaves_in_the_middle_of_its_body_stores_nothing(edge: Edge):
    where = urlsplit(edge.rig.url)
    since = edge.rig.mark()
    body = json.dumps({"content": COFFEE}).encode()
    head = [
        "POST /api/v1/memories HTTP/1.1",
        f"Host: {where.netloc}",
        f"Authorization: Bearer {OWNER_KEY}",
        "Content-Type: application/json",
        f"Content-Length: {len(body) + 10}",
    ]
    for _ in range(3):
        with closing(socket.create_connection((where.hostname, where.port), SOCKET_TIMEOUT_S)) as connection:
            connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
    # The adapter that reads the body meets the end of the connection, and nobody is left to answer.
    edge.may_fail = True
    edge.rig.wait_for(lambda seen: sum(each.error is not None for each in seen) == 3, "the end of all three", since)
    assert edge.stats()["total"] == 0


# Ids and logs


def test_a_request_keeps_a_harmless_id_of_its_own_and_else_gets_one(edge: Edge):
    assert edge.http.get("/healthz", headers={"x-request-id": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    assert (
        edge.http.get("/healthz", headers={"cf-ray": "8c1d2e3f4a5b6c7d-FRA"}).headers["x-request-id"].endswith("-FRA")
    )
    for given in ("a b", "x" * 65, "é", "<script>"):
        made = edge.http.get("/healthz", headers={"x-request-id": given.encode()}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{16}", made)
    ids = {edge.http.get("/healthz").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_the_log_is_json_a_line_and_holds_no_contents(edge: Edge):
    secret = "xylophone"
    before = len(edge.rig.log())
    one = edge.store(f"The {secret} is hidden.", tags=secret, metadata={"k": secret}, entities=[secret])
    edge.rig.drain()
    edge.search(f"where is the {secret}")
    edge.http.get("/api/v1/search", params={"q": secret})
    edge.http.post("/api/v1/memories", content=f'{{"content": "{secret}'.encode(), headers=JSON)
    edge.http.get(f"/{secret}", headers={"x-request-id": "r1"})
    call = {"name": "memory_find", "arguments": {"query": secret}}
    edge.http.post("/mcp", json={**RPC, "method": "tools/call", "params": call}, headers={"accept": "application/json"})
    edge.order("ai", "internal")
    edge.search(secret)
    edge.standin.control(poison=secret)
    edge.store(f"Another {secret}.")
    edge.rig.drain()
    edge.rig.fail("d1", f'near "{secret}": syntax error: SQLITE_ERROR', times=1)
    assert edge.http.get("/api/v1/stats").status_code == 503
    edge.get(one)
    edge.delete(one, purge=True)
    edge.catch_up()

    lines = [line for line in edge.rig.log()[before:] if line.source == "worker"]
    assert not [line for line in lines if secret in line.message]
    told = [json.loads(line.message) for line in lines]
    assert {"GET /api/v1/memories/{memory_id}", "POST /mcp", "GET -"} <= {
        f"{line['method']} {line['route']}" for line in told if line["logger"] == "shoal.access"
    }
    (not_found,) = [line for line in told if line.get("request_id") == "r1"]
    assert (not_found["status"], not_found["client"]) == (404, "owner")
    assert not any(OWNER_KEY in line.message for line in edge.rig.log())
