"""REST over the real service."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from tests.api.conftest import made_memory
from tests.api.faces import TOKENS, client_of, raw, rest_of

from shoal.api import rest as rest_module
from shoal.core.service import Memory
from shoal.schema.errors import DatabaseLocked
from shoal.schema.limits import BODY_MAX_BYTES, CONTENT_MAX_BYTES

UNKNOWN_ID = "0" * 32


@pytest.fixture
async def rest(memory: Memory) -> AsyncIterator[httpx.AsyncClient]:
    """A client that may do everything."""
    async with client_of(rest_of(memory)) as client:
        yield client


async def store(rest: httpx.AsyncClient, content: str, **fields: Any) -> str:
    answer = await rest.post("/api/v1/memories", json={"content": content, **fields})
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()["id"]


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the error of an answer, which must have the one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["mend"]
    assert error["request_id"] == answer.headers["x-request-id"]
    return error


async def test_a_new_memory_is_created_and_the_same_text_merges(rest: httpx.AsyncClient) -> None:
    first = await rest.post("/api/v1/memories", json={"content": "The sky is blue", "tags": "sky"})
    assert (first.status_code, first.json()["status"]) == (201, "created")
    assert first.headers["location"] == f"/api/v1/memories/{first.json()['id']}"
    again = await rest.post("/api/v1/memories", json={"content": "The sky is blue", "tags": ["blue"]})
    assert (again.status_code, again.json()["status"]) == (200, "merged")
    assert again.json()["tags"] == ["blue", "sky"]
    read = await rest.get(first.headers["location"])
    assert (read.status_code, read.json()["content"]) == (200, "The sky is blue")


async def test_a_forgotten_text_is_told_and_revived_on_request(rest: httpx.AsyncClient) -> None:
    one = await store(rest, "forget me")
    assert (await rest.delete(f"/api/v1/memories/{one}?confirm=true")).json()["status"] == "deleted"
    error = error_of(await rest.post("/api/v1/memories", json={"content": "forget me"}), 409, "was_forgotten")
    assert error["id"] == one
    revived = await rest.post("/api/v1/memories", json={"content": "forget me", "revive": True})
    assert (revived.status_code, revived.json()["status"]) == (200, "revived")


async def test_several_memories_are_stored_in_one_call(rest: httpx.AsyncClient) -> None:
    items = [{"content": f"fact {n}"} for n in range(3)]
    answer = await rest.post("/api/v1/memories", json={"items": items})
    assert (answer.status_code, len(answer.json()["results"])) == (201, 3)
    assert (await rest.post("/api/v1/memories", json={"items": items})).status_code == 200
    error_of(await rest.post("/api/v1/memories", json={"content": "x", "items": items}), 422, "invalid_input")


async def test_memories_are_listed_with_filters_from_the_query(rest: httpx.AsyncClient) -> None:
    for n in range(3):
        await store(rest, f"fact {n}", tags=["even" if n % 2 == 0 else "odd"])
    listed = await rest.get("/api/v1/memories", params={"tags": "even", "page_size": "1"})
    assert (len(listed.json()["memories"]), listed.json()["more"]) == (1, True)
    both = await rest.get("/api/v1/memories?tags=even&tags=odd&order=oldest")
    assert [m["content"] for m in both.json()["memories"]] == ["fact 0", "fact 1", "fact 2"]


async def test_one_memory_is_read_changed_deleted_and_revived(rest: httpx.AsyncClient) -> None:
    one = await store(rest, "port 8443", tags="a")
    changed = await rest.patch(f"/api/v1/memories/{one}", json={"tags": {"add": ["b"]}})
    assert (changed.status_code, changed.json()["success"]) == (200, True)
    assert (await rest.get(f"/api/v1/memories/{one}")).json()["tags"] == ["a", "b"]
    error = error_of(await rest.delete(f"/api/v1/memories/{one}"), 409, "confirmation_required")
    assert error["ids"] == [one]
    assert (await rest.delete(f"/api/v1/memories/{one}?dry_run=true")).json()["status"] == "cancelled"
    assert (await rest.delete(f"/api/v1/memories/{one}?confirm=true")).json()["status"] == "deleted"
    assert (await rest.post(f"/api/v1/memories/{one}/revive")).json()["ids"] == [one]
    assert (await rest.delete(f"/api/v1/memories/{one}?confirm=true&purge=true")).json()["status"] == "purged"
    error_of(await rest.get(f"/api/v1/memories/{one}"), 404, "not_found")


async def test_memories_are_deleted_by_filter_after_a_look(rest: httpx.AsyncClient) -> None:
    ids = {await store(rest, f"draft {n}", tags="draft") for n in range(3)}
    look = await rest.post("/api/v1/memories/delete", json={"tags": "draft", "dry_run": True})
    assert (look.status_code, set(look.json()["ids"])) == (200, ids)
    unsure = await rest.post("/api/v1/memories/delete", json={"tags": "draft"})
    assert set(error_of(unsure, 409, "confirmation_required")["ids"]) == ids
    gone = await rest.post("/api/v1/memories/delete", json={"tags": "draft", "confirm": True})
    assert set(gone.json()["ids"]) == ids


async def test_a_search_is_a_post_or_a_get(rest: httpx.AsyncClient) -> None:
    one = await store(rest, "Staging listens on port 8443")
    posted = await rest.post("/api/v1/search", json={"query": "staging port", "n_results": 3})
    got = await rest.get("/api/v1/search", params={"q": "staging port", "n_results": "3"})
    assert [r["id"] for r in posted.json()["results"]] == [one] == [r["id"] for r in got.json()["results"]]


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "*", "content:x", "a - b", "(", "'; drop table record", "^", "\\", "%"]
)
async def test_search_syntax_in_a_query_is_only_words(rest: httpx.AsyncClient, query: str) -> None:
    await store(rest, "Staging listens on port 8443")
    assert (await rest.get("/api/v1/search", params={"q": query})).status_code == 200


async def test_statistics_count(rest: httpx.AsyncClient) -> None:
    await store(rest, "one")
    assert (await rest.get("/api/v1/stats")).json()["total"] == 1


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
async def test_an_unknown_memory_is_not_found(rest: httpx.AsyncClient, method: str) -> None:
    body = {"json": {"tags": "x"}} if method == "patch" else {}
    query = "?confirm=true" if method == "delete" else ""
    error_of(await rest.request(method, f"/api/v1/memories/{UNKNOWN_ID}{query}", **body), 404, "not_found")
    error_of(await rest.request(method, f"/api/v1/memories/xyz{query}", **body), 422, "invalid_id")


async def test_reviving_an_unknown_memory_is_not_found(rest: httpx.AsyncClient) -> None:
    error_of(await rest.post(f"/api/v1/memories/{UNKNOWN_ID}/revive"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"content": 5}, "content"),
        ({"content": "x", "contents": "y"}, "contents"),
        ({"content": "x", "position": "3"}, "position"),
        ({"content": "x", "tags": [1]}, "tags.0"),
        ({"items": [{"content": "x"}, {"text": "y"}]}, "items.1.content"),
        ([], ""),
        ("text", ""),
    ],
)
async def test_a_body_that_does_not_fit_names_the_field(rest: httpx.AsyncClient, body: Any, field: str | None) -> None:
    error = error_of(await rest.post("/api/v1/memories", json=body), 422, "invalid_input")
    assert error.get("field") == field
    assert (await rest.get("/api/v1/stats")).json()["total"] == 0


async def test_the_id_in_the_path_is_the_one_that_counts(rest: httpx.AsyncClient) -> None:
    one = await store(rest, "x")
    assert (await rest.patch(f"/api/v1/memories/{one}", json={"id": one, "tags": "a"})).status_code == 200
    other = await rest.patch(f"/api/v1/memories/{one}", json={"id": UNKNOWN_ID, "tags": "a"})
    assert error_of(other, 422, "invalid_input")["field"] == "id"


async def test_numbers_out_of_range_are_refused(rest: httpx.AsyncClient) -> None:
    error = error_of(await rest.post("/api/v1/search", json={"query": "x", "n_results": 51}), 422, "out_of_range")
    assert (error["field"], error["high"]) == ("n_results", 50)
    error_of(await rest.get("/api/v1/memories?page_size=1000"), 422, "out_of_range")


async def test_text_that_no_database_can_keep_is_refused(rest: httpx.AsyncClient) -> None:
    error_of(await rest.post("/api/v1/memories", json={"content": "a\0b"}), 422, "invalid_text")
    error_of(await rest.post("/api/v1/memories", json={"content": "  \n "}), 422, "empty_content")
    error_of(await rest.post("/api/v1/memories", json={"content": "x", "type": "nonsense"}), 422, "unknown_type")
    too_long = "x" * (CONTENT_MAX_BYTES + 1)
    error_of(await rest.post("/api/v1/memories", json={"content": too_long}), 422, "content_too_long")


@pytest.mark.parametrize("body", [b"{", b"", b'{"content": NaN}', b'"\xff"', b'{"content": "\\ud800"}', b"[" * 50_000])
async def test_what_is_no_json_is_malformed(rest: httpx.AsyncClient, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    error_of(await rest.post("/api/v1/memories", content=body, headers=headers), 400, "malformed_body")


async def test_the_longest_chinese_content_fits_even_escaped(rest: httpx.AsyncClient) -> None:
    body = json.dumps({"content": "忆" * (CONTENT_MAX_BYTES // 3)})
    assert len(body) <= BODY_MAX_BYTES
    headers = {"content-type": "application/json"}
    assert (await rest.post("/api/v1/memories", content=body, headers=headers)).status_code == 201


async def test_a_body_over_the_limit_or_of_another_kind_is_refused(rest: httpx.AsyncClient) -> None:
    body = b"x" * (BODY_MAX_BYTES + 1)
    error_of(await rest.post("/api/v1/memories", content=body), 413, "body_too_large")
    error_of(await rest.post("/api/v1/memories", data={"content": "x"}), 415, "unsupported_media_type")
    error_of(await rest.post("/api/v1/memories", content=b'{"content": "x"}'), 415, "unsupported_media_type")


@pytest.mark.parametrize("path", ["/", "/api/v1/nothing", "/api/v1/memories/", "/mcp", "/docs/", "/redoc"])
async def test_an_unknown_path_is_not_found(rest: httpx.AsyncClient, path: str) -> None:
    error_of(await rest.get(path), 404, "not_found")


async def test_a_wrong_method_is_told_the_right_ones(rest: httpx.AsyncClient) -> None:
    for method, path, allowed in [
        ("PUT", "/api/v1/memories", "GET, HEAD, POST"),
        ("POST", f"/api/v1/memories/{UNKNOWN_ID}", "DELETE, GET, HEAD, PATCH"),
        ("PUT", "/api/v1/memories/delete", "POST"),
        ("DELETE", "/healthz", "GET, HEAD"),
    ]:
        answer = await rest.request(method, path, json={})
        error_of(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


async def test_an_unknown_query_parameter_is_refused(rest: httpx.AsyncClient) -> None:
    error = error_of(await rest.get("/api/v1/search?q=x&limit=3"), 422, "invalid_input")
    assert error["field"] == "limit"
    error_of(await rest.get("/api/v1/memories?page=two"), 422, "invalid_input")


def lacking(answer: httpx.Response, *scopes: str) -> None:
    """Check that an answer names, in its body and its header, all scopes that are needed."""
    assert error_of(answer, 403, "insufficient_scope")["scopes"] == list(scopes)
    told = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
    assert answer.headers["www-authenticate"] == told


async def test_tokens_reach_only_what_they_allow(memory: Memory) -> None:
    app = rest_of(memory, TOKENS)
    async with client_of(app) as nobody:
        error_of(await nobody.get("/api/v1/stats"), 401, "unauthorized")
        error_of(await nobody.get("/api/v1/nothing"), 401, "unauthorized")
    async with client_of(app, authorization="Bearer writer") as writer:
        one = await store(writer, "secret plan", tags="x")
        answer = await writer.delete(f"/api/v1/memories/{one}?confirm=true&purge=true")
        lacking(answer, "memory:read", "memory:write", "memory:admin")
    async with client_of(app, authorization="Bearer reader") as reader:
        assert (await reader.get("/api/v1/search?q=plan")).json()["results"][0]["id"] == one
        for answer in (
            await reader.post("/api/v1/memories", json={"content": "y"}),
            await reader.patch(f"/api/v1/memories/{one}", json={"tags": "y"}),
            await reader.delete(f"/api/v1/memories/{one}?confirm=true"),
            await reader.post("/api/v1/memories/delete", json={"tags": "x", "confirm": True}),
            await reader.post(f"/api/v1/memories/{one}/revive"),
        ):
            lacking(answer, "memory:read", "memory:write")
    async with client_of(app, authorization="Bearer elsewhere") as elsewhere:
        error_of(await elsewhere.get(f"/api/v1/memories/{one}"), 404, "not_found")
        assert (await elsewhere.get("/api/v1/search?q=plan&space=*")).json()["results"] == []
        error_of(await elsewhere.get("/api/v1/search?q=plan&space=main"), 403, "not_allowed")
        assert (await elsewhere.get("/api/v1/stats")).json()["total"] == 0


async def test_health_needs_no_token_and_shows_no_contents(memory: Memory) -> None:
    async with client_of(rest_of(memory, TOKENS), authorization="Bearer writer") as client:
        await store(client, "secret plan")
    async with client_of(rest_of(memory, TOKENS)) as client:
        answer = await client.get("/healthz")
    assert answer.status_code == 200
    assert set(answer.json()) == {"status", "version", "model", "pending", "degraded"}
    assert "secret" not in answer.text


async def test_health_never_says_ok_when_degraded() -> None:
    async with client_of(rest_of(await made_memory(embedder=None))) as client:
        health = (await client.get("/healthz")).json()
    assert health["status"] == "degraded"
    assert health["model"]["state"] == "unavailable"
    assert [note["code"] for note in health["degraded"]] == ["lexical_only"]


async def test_a_refusing_storage_is_503(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def locked(*_: Any) -> Any:
        raise DatabaseLocked("The database is locked.", "Try again.")

    monkeypatch.setattr(Memory, "store", locked)
    monkeypatch.setattr(Memory, "check", locked)
    async with client_of(rest_of(memory)) as rest:
        error_of(await rest.post("/api/v1/memories", json={"content": "x"}), 503, "database_locked")
        error_of(await rest.get("/healthz"), 503, "database_locked")


async def test_a_fault_of_ours_is_500_in_the_same_shape(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(Memory, "stats", broken)
    async with client_of(rest_of(memory)) as rest:
        answer = await rest.get("/api/v1/stats")
    error_of(answer, 500, "internal_error")
    assert "secret" not in answer.text
    assert "secret" in caplog.text


async def test_what_was_given_up_is_tried_again_by_who_may(memory: Memory) -> None:
    async with client_of(rest_of(memory, TOKENS)) as rest:
        refused, elsewhere, answer = [
            await rest.post("/api/v1/admin/requeue", headers={"Authorization": f"Bearer {token}"})
            for token in ("writer", "elsewhere", "everything")
        ]
    lacking(refused, "memory:read", "memory:write", "memory:admin")
    error_of(elsewhere, 403, "not_allowed")
    assert "www-authenticate" not in elsewhere.headers
    assert (answer.status_code, answer.json()) == (200, {"requeued": 0})


async def test_the_log_names_the_route_and_not_the_id(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "shoal.access")
    async with client_of(rest_of(memory)) as rest:
        await rest.get(f"/api/v1/memories/{UNKNOWN_ID}")
        await rest.get("/secret/path")
    routes = [record.shoal["route"] for record in caplog.records if record.name == "shoal.access"]  # type: ignore[attr-defined]  # set by `extra`
    assert routes == ["/api/v1/memories/{memory_id}", "-"]


async def test_the_openapi_document_describes_every_route_and_its_errors(rest: httpx.AsyncClient) -> None:
    made = (await rest.get("/openapi.json")).json()
    described = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert described == {
        ("POST", "/api/v1/memories"),
        ("GET", "/api/v1/memories"),
        ("GET", "/api/v1/memories/{memory_id}"),
        ("PATCH", "/api/v1/memories/{memory_id}"),
        ("DELETE", "/api/v1/memories/{memory_id}"),
        ("POST", "/api/v1/memories/delete"),
        ("POST", "/api/v1/memories/{memory_id}/revive"),
        ("POST", "/api/v1/search"),
        ("GET", "/api/v1/search"),
        ("GET", "/api/v1/stats"),
        ("POST", "/api/v1/admin/requeue"),
        ("GET", "/healthz"),
    }
    schemas = made["components"]["schemas"]
    for name in references(made):
        assert name in schemas, name
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    store_route = made["paths"]["/api/v1/memories"]["post"]
    assert store_route["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")


async def test_what_the_document_shows_as_an_example_is_what_it_describes(rest: httpx.AsyncClient) -> None:
    made = (await rest.get("/openapi.json")).json()
    contents = [
        operation["requestBody"]["content"]["application/json"]
        for methods in made["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    assert len(contents) >= 4
    for content in contents:
        Draft202012Validator({**content["schema"], "components": made["components"]}).validate(content["example"])


async def test_the_document_says_which_scopes_each_operation_needs(rest: httpx.AsyncClient) -> None:
    made = (await rest.get("/openapi.json")).json()
    assert made["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    needs = {
        f"{method.upper()} {path}": [
            scope.removeprefix("memory:") for one in operation["security"] for scope in one["bearer"]
        ]
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
    }
    assert needs == {
        "POST /api/v1/memories": ["write"],
        "GET /api/v1/memories": ["read"],
        "GET /api/v1/memories/{memory_id}": ["read"],
        "PATCH /api/v1/memories/{memory_id}": ["read", "write"],
        "DELETE /api/v1/memories/{memory_id}": ["read", "write"],
        "POST /api/v1/memories/delete": ["read", "write"],
        "POST /api/v1/memories/{memory_id}/revive": ["read", "write"],
        "POST /api/v1/search": ["read"],
        "GET /api/v1/search": ["read"],
        "GET /api/v1/stats": ["read"],
        "POST /api/v1/admin/requeue": ["admin"],
        "GET /healthz": [],
    }
    assert made["paths"]["/healthz"]["get"]["security"] == []


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in references(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix("#/components/schemas/")} if isinstance(node.get("$ref"), str) else set()
    return own | {name for value in node.values() for name in references(value)}


async def test_the_examples_in_the_document_work(rest: httpx.AsyncClient) -> None:
    one = await store(rest, "x")
    paths = (await rest.get("/openapi.json")).json()["paths"]
    tried = 0
    for path, methods in paths.items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content:
                answer = await rest.request(method, path.replace("{memory_id}", one), json=content["example"])
                assert answer.is_success, (path, answer.text)
                tried += 1
    assert tried == 4


async def test_the_documents_are_made_once_however_often_anyone_asks(
    rest: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [(await rest.get(path)).text for path in ("/openapi.json", "/docs")]
    monkeypatch.delattr(rest_module, "document")
    assert [(await rest.get(path)).text for path in ("/openapi.json", "/docs")] == first


async def test_the_documentation_page_loads_nothing_and_runs_nothing(rest: httpx.AsyncClient) -> None:
    page = await rest.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "/api/v1/memories/{memory_id}/revive" in page.text
    assert "<script" not in page.text
    assert "http" not in page.text.replace("/openapi.json", "").replace("&quot;", "")


async def test_twenty_at_once_are_each_answered(rest: httpx.AsyncClient) -> None:
    ids = await asyncio.gather(*(store(rest, f"fact {n}") for n in range(20)))
    read = await asyncio.gather(*(rest.get(f"/api/v1/memories/{one}") for one in ids))
    assert [answer.json()["content"] for answer in read] == [f"fact {n}" for n in range(20)]


async def test_a_client_that_leaves_in_the_middle_of_its_body_stores_nothing(memory: Memory) -> None:
    headers = [("content-type", "application/json"), ("content-length", "30")]
    status, _, _ = await raw(rest_of(memory), "POST", "/api/v1/memories", headers, [b'{"content": "x"}'], leaves=True)
    assert status == 400
    async with client_of(rest_of(memory)) as rest:
        assert (await rest.get("/api/v1/stats")).json()["total"] == 0


def test_rest_starts_without_loading_mcp() -> None:
    code = (
        "import sys, shoal.api.rest\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in {'mcp', 'mcp_types', 'numpy', 'apsw'}]\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
