"""Attacks on what lies in a space that a token can't read: by every tool, route and resource, and by what is not said.

`judge` holds every answer to telling nothing of it; here stands what each may say instead.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from tests.attacks.attack import HIDDEN, LEGACY, MARKER, SHELF, Attack, calls, each, says
from tests.outside.wires import MODERN

NOWHERE = "attacked-nowhere"
"""A space that there is not."""
NO_ID = "0123456789abcdef0123456789abcdef"
TOKENS = {
    "reader": {SHELF: ["read"]},
    "writer": {SHELF: ["read", "write"]},
    "admin": {SHELF: ["read", "write", "admin"]},
}
"""What may be done elsewhere opens nothing here."""


@pytest.fixture(params=TOKENS.values(), ids=list(TOKENS))
def http(attack: Attack, request: pytest.FixtureRequest) -> httpx.Client:
    return attack.client(attack.token(request.param))


@pytest.fixture
def admin(attack: Attack) -> httpx.Client:
    return attack.client(attack.token(TOKENS["admin"]))


BY_NAME: dict[str, Callable[[httpx.Client, Any], httpx.Response]] = {
    "rest-search": lambda http, space: http.post("/api/v1/search", json={"query": MARKER, "space": space}),
    "rest-search-by-query": lambda http, space: http.get("/api/v1/search", params={"query": "door", "space": space}),
    "rest-list": lambda http, space: http.get("/api/v1/memories", params={"space": space}),
    "rest-list-of-the-trash": lambda http, space: http.get("/api/v1/memories", params={"space": space, "trash": "1"}),
    "rest-store": lambda http, space: http.post("/api/v1/memories", json={"content": "x", "space": space}),
    "rest-store-of-several": lambda http, space: http.post(
        "/api/v1/memories", json={"items": [{"content": "x"}], "space": space}
    ),
    "rest-delete": lambda http, space: http.post(
        "/api/v1/memories/delete", json={"space": space, "tags": ["x"], "confirm": True}
    ),
    "rest-purge": lambda http, space: http.post(
        "/api/v1/memories/delete", json={"space": space, "tags": ["x"], "purge": True, "confirm": True}
    ),
    "memory_find": lambda http, space: calls(http, "memory_find", query="door", space=space),
    "memory_find-explained": lambda http, space: calls(http, "memory_find", query="door", space=space, explain=True),
    "memory_get": lambda http, space: calls(http, "memory_get", space=space),
    "memory_store": lambda http, space: calls(http, "memory_store", content="x", space=space),
    "memory_delete": lambda http, space: calls(http, "memory_delete", space=space, tags=["x"], confirm=True),
    "memory_find-modern": lambda http, space: calls(http, "memory_find", MODERN, query="door", space=space),
}


def told(answer: httpx.Response, *names: str) -> tuple[int, str]:
    """Return what an answer says, without the names that were asked for and the id of the request."""
    text = answer.text
    for name in (*names, answer.headers["x-request-id"]):
        text = text.replace(name, "NAME")
    return answer.status_code, text


@pytest.mark.parametrize("ask", BY_NAME.values(), ids=BY_NAME)
@pytest.mark.parametrize("many", [False, True], ids=["alone", "in-a-list"])
def test_a_space_that_one_may_not_enter_is_refused_as_one_that_is_not_there(
    admin: httpx.Client, ask: Callable[[httpx.Client, Any], httpx.Response], many: bool
):
    answers = [ask(admin, [SHELF, space] if many else space) for space in (HIDDEN, NOWHERE)]
    assert told(answers[0], HIDDEN) == told(answers[1], NOWHERE)
    assert answers[0].is_error or answers[0].json()["result"]["isError"] is True


@pytest.mark.parametrize("name", [HIDDEN.upper(), f" {HIDDEN}", f"{HIDDEN}\u200b", f"{SHELF},{HIDDEN}", "%", "_" * 14])
def test_no_way_of_writing_a_spaces_name_opens_it(attack: Attack, http: httpx.Client, name: str):
    for ask in (BY_NAME["rest-search"], BY_NAME["rest-list"], BY_NAME["memory_find"]):
        ask(http, name)
    assert http.get("/api/v1/memories", params=[("space", SHELF), ("space", HIDDEN)]).is_error


def test_every_space_means_every_space_that_one_may_enter(attack: Attack, http: httpx.Client):
    before = written(attack)
    for ask in BY_NAME.values():
        each(partial(ask, http), ("*", ["*"], ["*", SHELF]))
    assert written(attack) == before


BY_ID: dict[str, Callable[[httpx.Client, str], httpx.Response]] = {
    "rest-get": lambda http, one: http.get(f"/api/v1/memories/{one}"),
    "rest-get-whole": lambda http, one: http.get(
        f"/api/v1/memories/{one}", params={"with_edges": "true", "with_history": "true"}
    ),
    "rest-get-of-several": lambda http, one: http.get("/api/v1/memories", params={"ids": one, "trash": "true"}),
    "rest-patch": lambda http, one: http.patch(f"/api/v1/memories/{one}", json={"tags": ["x"]}),
    "rest-patch-of-the-text": lambda http, one: http.patch(f"/api/v1/memories/{one}", json={"content": "y"}),
    "rest-patch-into-my-space": lambda http, one: http.patch(f"/api/v1/memories/{one}", json={"space": SHELF}),
    "rest-delete": lambda http, one: http.delete(f"/api/v1/memories/{one}", params={"confirm": "true"}),
    "rest-delete-of-several": lambda http, one: http.post(
        "/api/v1/memories/delete", json={"ids": [one], "confirm": True}
    ),
    "rest-dry-run": lambda http, one: http.post("/api/v1/memories/delete", json={"ids": [one], "dry_run": True}),
    "rest-unconfirmed": lambda http, one: http.post("/api/v1/memories/delete", json={"ids": [one]}),
    "rest-purge": lambda http, one: http.post(
        "/api/v1/memories/delete", json={"ids": [one], "purge": True, "confirm": True}
    ),
    "rest-revive": lambda http, one: http.post(f"/api/v1/memories/{one}/revive", json={}),
    "memory_get": lambda http, one: calls(http, "memory_get", id=one),
    "memory_get-of-several": lambda http, one: calls(http, "memory_get", ids=[one], with_history=True),
    "memory_update": lambda http, one: calls(http, "memory_update", id=one, tags=["x"]),
    "memory_delete": lambda http, one: calls(http, "memory_delete", ids=[one], confirm=True),
    "memory_purge": lambda http, one: calls(http, "memory_delete", ids=[one], purge=True, confirm=True),
    "forget": lambda http, one: calls(http, "forget", LEGACY, "classic", memo_id=one, confirm=True),
    "resource": lambda http, one: says(http, "resources/read", uri=f"memory://{one}"),
    "resource-modern": lambda http, one: says(http, "resources/read", MODERN, uri=f"memory://{one}"),
}


@pytest.mark.parametrize("ask", BY_ID.values(), ids=BY_ID)
def test_a_memory_that_one_may_not_see_is_answered_as_one_that_is_not_there(
    attack: Attack, http: httpx.Client, ask: Callable[[httpx.Client, str], httpx.Response]
):
    before = written(attack)
    missing, *hidden = each(lambda one: told(ask(http, one), one), [NO_ID, *attack.hidden])
    assert hidden == [missing] * len(attack.hidden)
    assert written(attack) == before


def written(attack: Attack) -> list[Any]:
    """Return all that was ever written in the hidden space, in order."""
    sql = (
        "select hex(r.id), r.state, c.field, c.hlc, c.value from record r join cell c on c.rid = r.rid"
        " where r.space = ? order by r.id, c.field"
    )
    found = attack.database.rows(sql, HIDDEN)
    assert len(found) >= 4
    return found


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_what_is_recent_holds_nothing_of_another_space(http: httpx.Client, version: str):
    text = says(http, "resources/read", version, uri="memory://recent").json()["result"]["contents"][0]["text"]
    assert "heron" in text


def test_recall_of_the_classic_profile_stays_in_its_spaces(http: httpx.Client):
    for query in (MARKER, "opens door", ""):
        rows = calls(http, "recall", LEGACY, "classic", query=query, limit=50).json()["result"]["structuredContent"][
            "rows"
        ]
        assert all("heron" in row["content"] for row in rows)


def test_statistics_count_nothing_of_another_space(attack: Attack, http: httpx.Client):
    stats = http.get("/api/v1/stats").json()
    attack.owner().post("/api/v1/memories", json={"content": "One more behind the door", "space": HIDDEN})
    again = http.get("/api/v1/stats").json()
    assert HIDDEN not in str(again)
    assert again["total"] == stats["total"]
    assert [calls(http, "memory_stats").json()["result"]["structuredContent"]["total"]] == [again["total"]]


# What one may write, and not read


@pytest.fixture
def blind(attack: Attack) -> httpx.Client:
    """What may write into the hidden space, and read elsewhere."""
    return attack.client(attack.token({HIDDEN: ["write"], SHELF: ["read", "write"]}))


def stored(http: httpx.Client, content: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Store over REST and over MCP; return the status, and what is told but for what follows from the text."""
    body = {"content": content, "space": HIDDEN, **fields}
    answer = http.post("/api/v1/memories", json=body)
    tool = calls(http, "memory_store", **body)
    assert not tool.is_error, tool.text
    told = {name: value for name, value in answer.json().items() if name not in ("id", "content_hash", "type")}
    return answer.status_code, told


def test_whoever_may_only_write_is_told_the_same_of_what_is_there_was_deleted_or_is_new(
    attack: Attack, planted_texts: dict[str, str], blind: httpx.Client
):
    new = stored(blind, "Something that nobody has said before")
    for name, content in planted_texts.items():
        assert stored(blind, content) == new, name
        assert stored(blind, content, type="decision") == new, f"{name}, of another type"


@pytest.fixture
def planted_texts(attack: Attack) -> dict[str, str]:
    """Texts in the hidden space, without the marker as the attacker sends them."""
    http = attack.owner()
    texts = {"there": "The ferry leaves at nine", "deleted": "The ferry leaves at ten"}
    made = [
        http.post("/api/v1/memories", json={"content": content, "space": HIDDEN}).raise_for_status().json()["id"]
        for content in texts.values()
    ]
    http.post("/api/v1/memories/delete", json={"ids": made[-1:], "confirm": True}).raise_for_status()
    return texts


def test_whoever_may_only_write_finds_changes_and_deletes_nothing_there(attack: Attack, blind: httpx.Client):
    before = written(attack)
    for ask in BY_ID.values():
        missing, *hidden = each(lambda one, ask=ask: told(ask(blind, one), one), [NO_ID, *attack.hidden])
        assert hidden == [missing] * len(attack.hidden)
    for name in ("rest-search", "rest-list", "memory_find", "memory_get", "rest-delete"):
        answer = BY_NAME[name](blind, HIDDEN)
        assert answer.is_error or answer.json()["result"]["isError"] is True
    assert written(attack) == before


def test_whoever_only_administers_a_space_purges_nothing_there(attack: Attack):
    http = attack.client(attack.token({HIDDEN: ["admin"], SHELF: ["read", "write"]}))
    before = written(attack)
    for ask in BY_ID.values():
        assert told(ask(http, attack.hidden[0]), attack.hidden[0]) == told(ask(http, NO_ID), NO_ID)
    assert written(attack) == before


def test_a_reader_changes_nothing_where_it_reads(attack: Attack):
    http = attack.client(attack.token({SHELF: ["read"], "attacked-other": ["read", "write", "admin"]}))
    one = attack.shown[0]
    for name in ("rest-patch", "rest-delete", "rest-purge", "rest-delete-of-several", "memory_update", "memory_delete"):
        BY_ID[name](http, one)
    assert http.get(f"/api/v1/memories/{one}").json()["tags"] == []
    assert http.post("/api/v1/memories", json={"content": "x", "space": SHELF}).is_error


def test_whoever_writes_and_reads_but_does_not_administer_purges_nothing(attack: Attack):
    http = attack.client(attack.token({SHELF: ["read", "write"], "attacked-other": ["read", "write", "admin"]}))
    for name in ("rest-purge", "memory_purge"):
        assert "purged" not in BY_ID[name](http, attack.shown[1]).text
    assert http.get(f"/api/v1/memories/{attack.shown[1]}").status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/admin/requeue", "/sync/pull", "/sync/push", "/sync/"])
def test_what_touches_every_space_is_not_for_a_token_of_one(http: httpx.Client, path: str):
    assert http.post(path, json={}).status_code in (403, 404)
