"""The commands in this process, on a database of their own."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shoal.local.cli.group import COMMANDS, shoal
from shoal.local.cli.words import say
from shoal.local.home import Home


def run(*arguments: str, code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(shoal, arguments, catch_exceptions=False, **options)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str, **options: Any) -> Any:
    return json.loads(run(*arguments, "--json", **options).stdout)


def store(text: str, *options: str) -> str:
    return run_json("store", text, *options)["id"]


@pytest.fixture(autouse=True)
def _own_home(home: Home) -> None:
    """Every command works in the test's home."""


def test_a_memory_is_stored_found_and_shown() -> None:
    one = store(
        "Deploys happen on Fridays", "--type", "decision", "--tags", "topic:deploy,urgent", "--entity", "Mei",
        "--metadata", "who=Mei", "--metadata", "n=3", "--occurred-at", "2026-03-01", "--importance", "1.5",
    )  # fmt: skip
    assert "Deploys happen on Fridays" in run("find", "deploys").stdout
    (found,) = run_json("find", "deploys", "--type", "decision", "--tags", "urgent", "--explain")["results"]
    assert found["id"] == one
    (memory,) = run_json("get", one)["memories"]
    assert memory["metadata"] == {"who": "Mei", "n": 3}
    assert (memory["sources"], memory["entities"], memory["importance"]) == (["cli"], ["Mei"], 1.5)
    shown = run("get", one).stdout
    assert "topic:deploy, urgent" in shown
    assert one in shown


def test_text_and_query_come_from_stdin() -> None:
    one = run_json("store", "-", input="多行\n内容\n")["id"]
    assert run_json("get", one)["memories"][0]["content"] == "多行\n内容"
    assert run_json("find", "-", input="内容")["results"][0]["id"] == one
    assert "UTF-8" in run("store", "-", input=b"\xff\xfe", code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("store", "caf\udce9"),
        ("store", "x", "--tags", "caf\udce9"),
        ("store", "x", "--entity", "caf\udce9"),
        ("store", "x", "--metadata", "k=caf\udce9"),
        ("find", "caf\udce9"),
        ("list", "--since", "caf\udce9"),
        ("get", "caf\udce9"),
        ("update", "0" * 32, "--content", "caf\udce9"),
        ("delete", "--entity", "caf\udce9", "--yes"),
        ("revive", "caf\udce9"),
    ],
)
def test_an_argument_in_another_encoding_is_refused_in_words(arguments: tuple[str, ...]) -> None:
    """Python passes the byte E9 on as half of a surrogate pair, which no request to a daemon can carry."""
    refused = run(*arguments, code=1)
    assert refused.stderr.endswith("caf?' is not UTF-8.\nConvert it first, with iconv for example.\n")


def test_storing_twice_joins_and_storing_what_was_deleted_needs_revive() -> None:
    one = store("once")
    assert "Already known" in run("store", "once").stdout
    run("delete", one, "--yes")
    refused = run("store", "once", code=1)
    assert "--revive" in refused.stderr
    assert run_json("store", "once", "--revive")["status"] == "revived"


def test_lists_are_paged_filtered_and_ordered() -> None:
    for day in (1, 2, 3):
        store(f"day {day}", "--occurred-at", f"2026-03-0{day}", "--tags", f"d{day}")
    contents = [memory["content"] for memory in run_json("list", "--order", "oldest")["memories"]]
    assert contents == ["day 1", "day 2", "day 3"]
    page = run("list", "--page-size", "2").stdout
    assert "day 3" in page
    assert "--page 2" in page
    assert [m["content"] for m in run_json("list", "--since", "2026-03-03")["memories"]] == ["day 3"]
    assert [m["content"] for m in run_json("list", "--tags", "d1,d2", "--all-tags")["memories"]] == []


def test_an_update_changes_tags_or_supersedes_the_text() -> None:
    one = store("first text", "--tags", "a,b")
    run("update", one, "--add-tags", "c", "--remove-tags", "a", "--metadata", "k=1", "--importance", "2")
    (memory,) = run_json("get", one)["memories"]
    assert sorted(memory["tags"]) == ["b", "c"]
    newer = run_json("update", one, "--content", "second text")["superseded_by"]
    shown = run("get", one, "--history").stdout
    assert f"{newer}  second text" in shown
    run("update", newer, "--archive")
    assert run_json("get", newer)["memories"][0]["state"] == "archived"
    assert run_json("list", "--archived")["memories"]
    assert "Updated" in run("update", newer, "--unarchive").stdout
    run("update", newer, "--tags", "x", "--add-tags", "y", code=2)


def test_a_delete_asks_shows_and_can_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = store("one"), store("two")
    assert run_json("delete", one, "--dry-run")["status"] == "cancelled"
    assert "--yes" in run("delete", one, code=1).stderr
    monkeypatch.setattr("shoal.local.cli.removing._can_ask", lambda: True)
    assert "Nothing was changed" in run("delete", one, input="n\n").stdout
    assert "shoal revive" in run("delete", one, input="y\n").stdout
    assert [m["id"] for m in run_json("list")["memories"]] == [two]
    assert [m["id"] for m in run_json("list", "--trash")["memories"]] == [one]
    assert "Brought back 1" in run("revive", one).stdout
    assert two in run("revive", two, code=1).stderr


@pytest.mark.parametrize("command", ["delete", "purge"])
def test_what_would_go_is_shown_in_words(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Live, archived, trashed, long and of many lines: nobody knows a memory by its id."""
    kept = [store(text, "--tags", "old") for text in ("short", "两行\n内容", "long " * 100)]
    run("update", kept[0], "--archive")
    if command == "purge":
        run("delete", kept[1], "--yes")
    lines = run(command, *kept, "--dry-run").stdout.splitlines()
    assert set(lines[1:-1]) == {
        f"{kept[0]}  short", f"{kept[1]}  两行 内容", f"{kept[2]}  {('long ' * 100)[:79]}…",
    }  # fmt: skip
    monkeypatch.setattr("shoal.local.cli.removing._can_ask", lambda: True)
    assert f"{kept[0]}  short" in run(command, *kept, input="n\n").stderr
    assert set(run_json(command, *kept, "--dry-run")["ids"]) == set(kept)


def test_why_a_memory_was_deleted_is_shown_until_an_update_revives_it() -> None:
    one = store("once")
    run("delete", one, "--yes", "--reason", "it was wrong")
    assert "it was wrong" in run("get", one).stdout
    run("update", one, "--add-tags", "right", code=1)
    run("update", one, "--add-tags", "right", "--revive")
    assert "it was wrong" not in run("get", one).stdout
    assert run_json("find", "once")["results"][0]["tags"] == ["right"]


def test_a_purge_leaves_nothing_to_revive() -> None:
    one = store("a secret", "--entity", "Former Customer")
    assert run_json("purge", "--entity", "Former Customer", "--yes")["status"] == "purged"
    run("get", one, code=1)
    run("revive", one, code=1)


def test_removing_without_saying_what_is_a_usage_error_and_nothing_matching_a_failure() -> None:
    run("delete", "--yes", code=2)
    assert "No memory matches" in run("delete", "--tags", "none", "--yes", code=1).stderr


def test_errors_say_what_to_do_and_are_json_on_demand() -> None:
    text = run("find", "x", "--type", "nonsense", code=1)
    assert "Use one of" in text.stderr
    assert text.stdout == ""
    error = json.loads(run("find", "x", "--type", "nonsense", "--json", code=1).stderr)["error"]
    assert error["code"] == "unknown_type"
    assert error["mend"]
    run("get", "0" * 32, code=1)
    run("store", "  ", code=1)
    run("store", "x", "--metadata", "nonsense", code=2)
    run("find", "--nonsense", code=2)
    run("nonsense", code=2)


def test_settings_that_cannot_be_used_end_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_TRASH_DAYS", "none")
    assert "trash_days" in run("stats", code=1).stderr
    monkeypatch.setenv("SHOAL_TRASH_DAYS", "3")
    monkeypatch.setenv("SHOAL_TRASH_DASY", "3")
    assert "SHOAL_TRASH_DASY" in run("stats").stderr


def test_the_space_of_the_settings_is_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store("in main")
    monkeypatch.setenv("SHOAL_SPACE", "work")
    one = store("in work")
    assert [m["content"] for m in run_json("list")["memories"]] == ["in work"]
    assert len(run_json("list", "--space", "*")["memories"]) == 2
    monkeypatch.delenv("SHOAL_SPACE")
    assert [m["content"] for m in run_json("list")["memories"]] == ["in main"]
    assert run_json("get", one)["memories"][0]["space"] == "work"


def test_another_home_and_another_database_are_chosen_before_the_command(tmp_path: Path) -> None:
    run("--home", str(tmp_path / "second"), "store", "elsewhere")
    assert (tmp_path / "second" / "shoal.db").is_file()
    run("--db", str(tmp_path / "folder" / "third.db"), "store", "elsewhere too")
    assert (tmp_path / "folder" / "third.db").is_file()
    assert run_json("list")["memories"] == []


def test_stats_and_doctor_speak_to_people_and_programs() -> None:
    store("one", "--type", "decision")
    assert "decision 1" in run("stats").stdout
    assert run_json("stats")["total"] == 1
    assert "All is well." in run("doctor").stdout
    assert run_json("doctor")["level"] == "ok"


def test_the_doctor_fails_on_a_damaged_database_and_restore_mends_it(home: Home) -> None:
    store("kept")
    backup = run_json("backup")["path"]
    store("lost")
    home.database.write_bytes(b"\0" * 8192)
    found = run("doctor", code=1).stdout
    assert "damaged" in found
    assert "shoal restore" in found
    assert "damaged" in run("stats", code=1).stderr or "corrupt" in run("stats", code=1).stderr
    assert "is now" in run("restore", backup).stdout
    assert [m["content"] for m in run_json("list")["memories"]] == ["kept"]
    assert run_json("doctor")["level"] == "ok"


def test_backups_go_where_they_are_told(home: Home, tmp_path: Path) -> None:
    store("x")
    assert "checked" in run("backup", str(tmp_path / "copy.db")).stdout
    assert (tmp_path / "copy.db").is_file()
    run("backup")
    assert len(list(home.backups.iterdir())) == 1
    assert run_json("restore", str(tmp_path / "copy.db"))["kept_aside"]
    run("restore", str(tmp_path / "missing.db"), code=1)


@pytest.mark.parametrize("content", [b"# A page\n" * 200, b"", b"SQLite format 3\0" + b"\1" * 5000])
def test_what_is_no_backup_is_not_restored_and_another_is_asked_for(tmp_path: Path, content: bytes) -> None:
    one = store("kept")
    (tmp_path / "page.md").write_bytes(content)
    refused = run("restore", str(tmp_path / "page.md"), code=1).stderr
    assert refused.startswith(f"{tmp_path / 'page.md'} can't be used: ")
    assert refused.endswith("\nUse another backup.\n")
    assert run_json("list")["memories"][0]["id"] == one


def test_seeding_twice_changes_nothing_and_bad_lines_are_named(tmp_path: Path) -> None:
    assert run("seed").stdout.startswith("12 stored, 0 already known")
    assert run_json("seed")["merged"] == 12
    file = tmp_path / "seed.jsonl"
    file.write_text('{"content": "good"}\n{"content": ""}\nnonsense\n')
    result = run("seed", str(file))
    assert result.stdout.startswith("1 stored, 0 already known, 2 skipped")
    assert "Line 2" in result.stderr
    assert "Line 3" in result.stderr
    run("seed", str(tmp_path / "missing"), code=1)


def test_a_seed_file_of_another_kind_fails_in_a_few_lines(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("words\n" * 500)
    failed = run("seed", str(file), code=1)
    assert failed.stdout.startswith("0 stored, 0 already known, 500 skipped")
    assert "490 more lines" in failed.stderr
    assert len(failed.stderr.splitlines()) == 11
    assert len(json.loads(run("seed", str(file), "--json", code=1).stdout)["warnings"]) == 500


def test_messages_are_chinese_for_people_who_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    one = store("gone")
    run("delete", one, "--yes")
    assert "加 --revive 可恢复" in run("store", "gone", code=1).stderr
    assert "已保存" in run("store", "x").stdout
    assert "没有找到" in run("find", "nothing of the kind", "--type", "bug").stdout
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    assert say("no_results") == "Nothing found."
    assert "Search by meaning" in run("find", "--help").stdout


def test_the_shim_starts_without_what_makes_others_slow() -> None:
    import subprocess
    import sys

    code = (
        "import sys, shoal.local.cli.mcp, shoal.local.shim, shoal.local.launch, shoal.local.lock;"
        "print([m for m in ('pydantic', 'mcp', 'numpy', 'fastembed', 'fastapi', 'rich', 'httpx') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


def test_every_command_can_be_loaded() -> None:
    for name in COMMANDS:
        assert name in run("--help").stdout
        assert "Examples" in run(name, "--help").stdout
    assert "0." in run("--version").stdout


def test_an_owner_key_is_made_and_told_with_what_the_worker_must_know() -> None:
    from shoal.api.oauth.owner_key import digest

    made = run_json("owner-key")
    assert made["sha256"] == digest(made["key"])
    shown = run("owner-key").stdout.splitlines()
    key, sha256 = shown[0].removeprefix("The owner's key: "), shown[2].removeprefix("Its SHA-256: ")
    assert digest(key) == sha256
    assert key != made["key"]
    assert "0, 1, 8 or 9" in shown[1]
    assert "OWNER_KEY_SHA256" in shown[3]


def test_an_owner_keys_hash_can_be_written_into_a_file_of_secrets() -> None:
    from shoal.api.oauth.owner_key import digest

    result = run("owner-key", "--env")
    assert result.stdout == f"OWNER_KEY_SHA256={digest(result.stderr.strip())}\n"
    run("owner-key", "--env", "--json", code=2)


def test_an_owner_key_needs_neither_the_memory_nor_its_model(home: Home) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from shoal.local.cli.group import shoal\n"
        "try: shoal(['owner-key'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('mcp', 'numpy', 'fastembed', 'fastapi', 'apsw', 'httpx') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert told.splitlines()[-1] == "[]"
    assert not home.root.exists() or not list(home.root.iterdir())
