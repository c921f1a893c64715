"""The most that one request may bring: each fits into one invocation, and into the values that D1 takes."""

import json
from typing import Any

import pytest
from tests.edge.agreement import reconciled
from tests.edge.doubles.queue import QueueFault
from tests.edge.edge import HOURLY, Edge

from shoal.schema.limits import BATCH_MAX, BODY_MAX_BYTES, CONTENT_MAX_BYTES, METADATA_KEYS_MAX, TAGS_MAX

Items = list[dict[str, Any]]
CHINESE = "忆鱼群在夜里游得更深"
LARGEST: dict[str, Items] = {
    "one-chinese": [{"content": "忆" * (CONTENT_MAX_BYTES // 3)}],
    "four-chinese": [{"content": f"{n} {CHINESE * 8_730}"[: CONTENT_MAX_BYTES // 3 - 100]} for n in range(4)],
    "many-english": [{"content": f"{n} {'word and ' * 225}"} for n in range(BATCH_MAX)],
    "many-chinese": [{"content": f"{n} {CHINESE * 67}"} for n in range(BATCH_MAX)],
    "many-labels": [
        {
            "content": str(n),
            "tags": [f"t{n}.{k}" for k in range(TAGS_MAX)],
        }
        for n in range(BATCH_MAX)
    ],
    "many-chinese-labels": [
        {"content": f"{n}", "tags": [f"标签{n}与{k}" for k in range(TAGS_MAX)]} for n in range(BATCH_MAX)
    ],
}
OFTEN_TRIED = {"one-chinese", "many-chinese", "many-labels"}


def post(edge: Edge, items: Items) -> dict[str, Any]:
    """Store items in a body as long as it may be, written as it may be."""
    body = json.dumps({"items": items}, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(body) <= BODY_MAX_BYTES
    answer = edge.http.post("/api/v1/memories", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN_TRIED else pytest.mark.long) for name in LARGEST]
)
def test_the_largest_bodies_are_stored_repeated_and_purged_by_one_request_each(edge: Edge, name: str):
    edge.rig.fail("queue", QueueFault.DISABLED, times=1000)
    items = LARGEST[name]
    stored = post(edge, items)["results"]
    assert {one["status"] for one in stored} == {"created"}
    assert edge.value("select count(*) from record") == len(items)
    assert edge.get(stored[-1]["id"])["content"] == items[-1]["content"].strip()
    assert {one["status"] for one in post(edge, items)["results"]} == {"merged"}
    assert len(edge.delete(*(one["id"] for one in stored), purge=True)["ids"]) == len(items)


def test_more_labels_than_one_request_can_write_are_refused_before_anything_is_written(edge: Edge):
    labels = [f"n{k}" for k in range(TAGS_MAX)]
    item = {"tags": labels, "entities": labels, "metadata": dict.fromkeys(labels[:METADATA_KEYS_MAX], 1)}
    answer = edge.http.post("/api/v1/memories", json={"items": [{"content": str(n), **item} for n in range(BATCH_MAX)]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_many")
    assert edge.value("select count(*) from record") == 0


@pytest.mark.long
@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_bodies_reach_the_index_and_leave_it(edge: Edge, name: str):
    with edge.hashed():
        stored = post(edge, LARGEST[name])["results"]
        reconciled(edge)
        edge.delete(*(one["id"] for one in stored), purge=True)
        reconciled(edge)
        edge.rig.cron(HOURLY)
    assert edge.vector_ids() == []


def test_the_longest_chinese_content_fits_though_each_character_is_escaped(edge: Edge):
    content = "忆" * (CONTENT_MAX_BYTES // 3)
    body = json.dumps({"content": content})
    assert len(body) <= BODY_MAX_BYTES
    with edge.hashed():
        answer = edge.http.post("/api/v1/memories", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 201
        edge.rig.drain()
        assert edge.meant("忆", n_results=1) == [answer.json()["id"]]


def test_a_passage_deep_inside_a_long_memory_is_found_and_shown(edge: Edge):
    filler = "Nothing happened on that day, and nobody wrote it down. "
    one = edge.store(f"{filler * 300}The lighthouse keeper hid the brass key under the third stair. {filler * 300}")
    edge.store("The train leaves at nine.")
    with edge.hashed():
        edge.rig.drain()
    (row,) = edge.find("brass key", n_results=1)
    assert row["id"] == one
    assert "brass key under the third stair" in row["snippet"]
