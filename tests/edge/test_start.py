"""The real Worker, whole, on this machine."""

import httpx
from tests.edge.rig.rig import Rig


def test_what_is_stored_is_found_by_its_meaning_once_the_queue_has_run(rig: Rig, client: httpx.Client):
    stored = client.post("/api/v1/memories", json={"content": "The tide tables are in the blue folder."})
    assert stored.status_code == 201
    rig.drain()
    found = client.get("/api/v1/search", params={"query": "when is high water"}).json()["results"]
    assert [(each["id"], "meaning" in each["why"]) for each in found] == [(stored.json()["id"], True)]


def test_nobody_is_served_without_a_token(rig: Rig):
    assert httpx.get(f"{rig.url}/api/v1/stats").status_code == 401
