"""`shoal sync`, `shoal status` and `shoal restore --from-edge`, and what doctor says, with an edge on this machine."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result
from starlette.responses import JSONResponse
from tests.local.sync.owner import device_token
from tests.local.sync.rig import Asked, LocalEdge

from shoal.local.cli.group import shoal
from shoal.local.home import Home
from shoal.sync import backoff


def run(*arguments: str, code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(shoal, arguments, catch_exceptions=False, **options)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str, **options: Any) -> Any:
    return json.loads(run(*arguments, "--json", **options).stdout)


@pytest.fixture
def linked(edge: LocalEdge, home: Home) -> LocalEdge:
    """The edge that the home's memory is linked to."""
    run("link", edge.url, "--token-stdin", input=device_token(edge))
    return edge


def finding(check: str) -> Any:
    """Return what doctor says of one thing."""
    result = CliRunner().invoke(shoal, ["doctor", "--json"], catch_exceptions=False)
    return next(one for one in json.loads(result.stdout)["findings"] if one["check"] == check)


def change(home: Home, *statements: str) -> None:
    connection = apsw.Connection(str(home.database))
    for text in statements:
        connection.execute(text)
    connection.close()


# sync


def test_without_a_link_nothing_can_be_exchanged_and_it_is_said_how_to_link(home: Home):
    refused = run("sync", code=1)
    assert "shoal link URL" in refused.stderr
    assert "shoal link URL" in run("status").stdout
    assert run_json("status")["linked"] is False


def test_a_sync_sends_what_waits_and_says_how_much(linked: LocalEdge):
    run("store", "one thing")
    assert run_json("status")["queue"] >= 1
    report = run_json("sync")
    assert report["pushed"] >= 1
    assert report["gained"] == ["main"]
    assert run("sync").stdout == "Sent 0 changes, received 0.\n"
    status = run_json("status")
    assert (status["queue"], status["lag_s"], status["failure"], status["daemon"]) == (0, 0.0, None, False)


def test_an_edge_that_can_not_be_reached_is_an_error_that_status_repeats(linked: LocalEdge, home: Home):
    change(home, "update meta set v = 'http://127.0.0.1:9' where k = 'sync_url'")
    path = next((home.root / "links").iterdir())
    path.write_text(path.read_text().replace(linked.url, "http://127.0.0.1:9"))
    failed = run("sync", "--json", code=1)
    assert json.loads(failed.stderr)["error"]["code"] == "edge_unreachable"
    shown = run("status").stdout
    assert "127.0.0.1:9 could not be asked" in shown
    assert "since" in shown


def test_what_was_refused_is_told_in_words_and_sent_again_when_asked(linked: LocalEdge):
    def refuse(asked: Asked) -> JSONResponse | None:
        error = {"code": "invalid_input", "message": "Too odd.", "mend": "None."}
        return JSONResponse({"error": error}, 422) if asked.path == "/sync/push" else None

    run("store", "one thing")
    linked.before = refuse
    done = run("sync")
    assert "refused" in done.stderr
    assert "shoal sync --retry" in run("status").stdout
    assert run_json("status")["refused"]["refused"] >= 1
    linked.before = lambda _: None
    assert run_json("sync")["pushed"] == 0
    assert run_json("sync", "--retry")["pushed"] >= 1
    assert run_json("status")["quarantine"] == 0


def test_once_and_watch_exclude_each_other(home: Home):
    assert "exclude" in run("sync", "--once", "--watch", code=2).stderr


# status


def test_status_says_in_plain_words_what_was_refused_and_why(linked: LocalEdge, home: Home):
    run("sync")
    codes = ("malformed", "wrong_id", "not_allowed", "refused", "brand_new")
    change(
        home,
        *(f"insert into sync_refused values ({n}, 'tag:x', 1, '', '{code}', '', 0)" for n, code in enumerate(codes)),
        "update meta set v = 4 where k = 'sync_skipped'",
    )
    shown = run("status").stdout
    for part in ("fault of shoal", "shoal doctor", "account", "even alone", "brand_new", "4 changes of the edge"):
        assert part in shown
    assert "有误" in run("status", env={"LANG": "zh_CN.UTF-8"}).stdout


def test_spaces_that_have_left_are_told_to_people_once_and_to_programs_any_time(linked: LocalEdge, home: Home):
    run("sync")
    left = '[{"spaces": ["team"], "backup": "/backups/copy.db", "at": "2026-12-01T00:00:00Z"}]'
    change(home, f"insert into meta (k, v) values ('sync_left', '{left}')")
    for _ in range(2):
        assert run_json("status")["left"][0]["spaces"] == ["team"]
    assert "/backups/copy.db" in run("status").stdout
    assert "/backups/copy.db" not in run("status").stdout


def test_what_stays_here_is_told_apart_from_what_waits(linked: LocalEdge):
    run("store", "mine alone", "--space", "private")
    run("sync")
    status = run_json("status")
    assert status["queue"] == 0
    assert status["not_shared"] >= 1
    assert "stay here" in run("status").stdout


# restore --from-edge


def has(text: str) -> bool:
    return text in run("find", text).stdout


def test_a_lost_file_comes_back(linked: LocalEdge, home: Home):
    run("store", "one thing")
    run("sync")
    home.database.unlink()
    assert "restore --from-edge" in finding("database")["mend"]
    done = run_json("restore", "--from-edge")
    assert (done["memories"], done["url"], done["kept_aside"]) == (1, linked.url, None)
    assert has("one thing")
    assert run_json("status")["linked"] is True
    assert run_json("sync")["pushed"] == 0


def test_a_damaged_file_is_kept_aside_and_doctor_says_what_brings_it_back(linked: LocalEdge, home: Home):
    run("store", "one thing")
    run("sync")
    home.database.write_bytes(b"not a database" * 1_000)
    assert "restore --from-edge" in finding("database")["mend"]
    done = run("restore", "--from-edge").stdout
    assert "1 memories came back" in done
    (aside,) = home.root.glob("shoal.db.before-*")
    assert aside.read_bytes().startswith(b"not a database")
    assert has("one thing")
    assert finding("sync")["level"] == "ok"


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try comes at once."""
    monkeypatch.setattr(backoff, "BASE_S", 0.0)


@pytest.mark.usefixtures("no_waiting")
def test_a_few_failures_on_the_way_are_waited_out(linked: LocalEdge):
    run("store", "one thing")
    run("sync")
    failures = iter([JSONResponse({}, 503), JSONResponse({}, 502)])
    linked.before = lambda asked: next(failures, None) if asked.path == "/sync/pull" else None
    assert run_json("restore", "--from-edge")["memories"] == 1


def test_an_edge_that_asks_for_an_hour_is_not_waited_for(linked: LocalEdge):
    busy = JSONResponse({}, 429, {"retry-after": "3600"})
    linked.before = lambda asked: busy if asked.path == "/sync/pull" else None
    failed = run("restore", "--from-edge", "--json", code=1)
    assert json.loads(failed.stderr)["error"]["code"] == "edge_busy"


@pytest.mark.usefixtures("no_waiting")
def test_until_all_has_come_the_old_file_stays(linked: LocalEdge, home: Home):
    run("store", "one thing")
    run("sync")
    linked.before = lambda asked: JSONResponse({}, 503) if asked.path == "/sync/pull" else None
    run("restore", "--from-edge", code=1)
    assert has("one thing")
    assert sorted(path.name for path in home.root.glob("shoal.db.*")) == []


def test_without_a_link_it_is_said_that_none_is_known(home: Home):
    assert "shoal link URL" in run("restore", "--from-edge", code=1).stderr


@pytest.mark.parametrize("arguments", [(), ("x.db", "--from-edge")])
def test_a_restore_is_from_one_place(home: Home, arguments: tuple[str, ...]):
    assert "--from-edge" in run("restore", *arguments, code=2).stderr


def test_a_database_that_somebody_has_removed_comes_back_by_itself(linked: LocalEdge, home: Home):
    run("store", "one thing")
    run("sync")
    home.database.unlink()
    assert "http" in run("status").stdout
    assert run_json("sync")["pulled"] >= 1
    assert has("one thing")


# doctor


def test_doctor_says_how_the_exchange_stands(linked: LocalEdge, home: Home):
    run("sync")
    assert finding("sync")["level"] == "ok"
    change(home, "update meta set v = 1790000000000 where k = 'sync_success_at'")
    found = finding("sync")
    assert found["level"] == "warning"
    assert "shoal serve" in found["message"]


def test_doctor_notices_a_database_that_is_not_the_linked_one(linked: LocalEdge, home: Home, tmp_path: Path):
    change(home, "delete from meta where k = 'sync_url'")
    found = finding("sync")
    assert found["level"] == "warning"
    assert f"shoal link {linked.url}" in found["mend"]
    assert linked.url in run("status").stdout


def test_doctor_has_nothing_to_say_of_a_memory_without_a_link(home: Home):
    run("store", "one thing")
    assert finding("sync")["message"] == "linked to no edge"
