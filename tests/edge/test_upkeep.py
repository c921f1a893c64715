"""What cron does of itself: it empties the trash, erases what was purged, and follows changes of model and of words."""

import json
import time
from pathlib import Path

import pytest
from tests.edge.agreement import reconciled
from tests.edge.doubles.standin import Standin
from tests.edge.edge import COFFEE, HOURLY, OFTEN, Edge, secrets, worker

from shoal.worker.models import DEFAULT

DAY_S = 86_400
TRASH_DAYS = 30
SECRET = "xylophonist"
OTHER_MODEL = "@cf/baai/bge-large-en-v1.5"


def left_of(edge: Edge, word: str) -> list[str]:
    """Return the tables, those of the word indexes too, in which a word still stands."""
    found: list[str] = []
    for (table,) in edge.rows("select name from pragma_table_list where schema = 'main' and type <> 'virtual'"):
        if table.startswith("sqlite_") or table == "_cf_METADATA":
            continue
        for row in edge.rows(f'select * from "{table}"'):
            cells = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
            found += [table for cell in cells if word.encode() in cell.lower()]
    return found


def test_the_trash_is_emptied_when_its_days_are_over_and_not_before(edge: Edge):
    gone, kept = edge.store(COFFEE), edge.store(f"{COFFEE} It is old.")
    edge.settle()
    edge.delete(gone)
    edge.rig.set_clock((TRASH_DAYS - 1) * DAY_S)
    edge.rig.cron(HOURLY)
    assert edge.stats()["trashed"] == 1
    edge.rig.set_clock((TRASH_DAYS + 1) * DAY_S)
    edge.rig.cron(HOURLY)
    edge.rig.drain()
    stats = edge.stats()
    assert (stats["trashed"], stats["total"]) == (0, 1)
    assert edge.http.get(f"/api/v1/memories/{gone}").status_code == 404
    assert edge.meant() == [kept]
    edge.rig.set_clock(0)
    reconciled(edge)


def test_what_was_purged_has_left_every_table_after_the_next_hour(edge: Edge):
    one = edge.store(
        f"The {SECRET} practises at night.",
        tags=[SECRET],
        entities=[SECRET],
        metadata={SECRET: SECRET},
        source=SECRET,
        conversation_id=SECRET,
        position=1,
    )
    kept = edge.store(COFFEE, tags="keep")
    edge.settle()
    new = edge.update(one, content=f"The {SECRET} sleeps at night.")["superseded_by"]
    edge.settle()
    assert left_of(edge, SECRET)
    edge.delete(one, new, purge=True)
    edge.settle()
    edge.rig.cron(HOURLY)
    assert left_of(edge, SECRET) == []
    assert edge.find(SECRET) == []
    assert [row["id"] for row in edge.find("coffee", tags="keep")] == [kept]
    reconciled(edge)


def test_a_model_is_measured_once_where_it_runs(edge: Edge):
    assert edge.first_cron.ai == 2
    told = json.loads(edge.value("select v from meta where k = 'calibration'"))
    assert told["fingerprint"] == DEFAULT.fingerprint
    assert 0 < told["figures"]["unrelated"] < told["figures"]["related"] < 1
    since = edge.rig.mark()
    edge.rig.cron(OFTEN)
    assert [run.ai for run in edge.rig.invocations(since)] == [0]


def test_words_of_another_version_are_written_anew_in_steps(edge: Edge):
    edge.rig.fail("queue", "Queue disabled (10252)", times=10)
    ids = edge.store_all([{"content": f"{COFFEE} Number {n}.", "tags": ["drink"]} for n in range(250)])
    edge.rows("update record set want = 0")
    edge.rows("insert into content_fts (content_fts) values ('delete-all')")
    edge.rows("update meta set v = 0 where k = 'fts'")
    assert edge.find("coffee") == []
    # No vectors meanwhile: they would take most of each invocation.
    edge.order("ai", "daily", times=None)
    for _ in range(4):
        edge.rig.cron(OFTEN)
    edge.heal()
    edge.rows("delete from meta where k = 'paused'")
    found = {row["id"] for row in edge.find("coffee machine", n_results=50)}
    assert len(found) == 50
    assert found <= set(ids)
    assert edge.value("select count(*) from content_fts") == 250


@pytest.mark.long
def test_another_model_makes_all_vectors_anew_while_words_find(tmp_path: Path, standin: Standin):
    with worker(tmp_path, standin, **secrets()) as rig:
        edge = Edge(rig, standin)
        edge.empty()
        ids = edge.store_all([{"content": f"{COFFEE} Number {n}."} for n in range(150)])
        edge.settle()
        assert {model for (model,) in edge.rows("select distinct model from vector_state")} != set()
        edge.close()
    with worker(tmp_path, standin, MODEL=OTHER_MODEL, **secrets()) as rig, rig.watched():
        edge = Edge(rig, standin)
        assert edge.find("coffee machine")
        deadline = time.monotonic() + 60
        while edge.stats()["pending_embeddings"]:
            assert time.monotonic() < deadline
            edge.catch_up()
        (model,) = {model for (model,) in edge.rows("select model from vector_state")}
        assert OTHER_MODEL in model
        edge.catch_up()
        assert len(edge.vector_ids()) == len(ids) == len(edge.rows("select * from vector_state"))
        assert len(edge.meant(n_results=50)) == 50
        edge.empty()
        edge.close()
