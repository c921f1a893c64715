import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.local.home import DaemonRecord, Home, alive, read_record, remove_record, write_record
from shoal.schema.errors import DatabaseReadOnly, InvalidSettings

RECORD = DaemonRecord(1234, "127.0.0.1", 8377, "secret", "0.1.0", "/x/shoal.db", "person")


def test_the_variable_names_the_home_and_the_platform_does_without_it(tmp_path: Path) -> None:
    assert Home.locate({"SHOAL_HOME": str(tmp_path)}).root == tmp_path
    assert Home.locate({"SHOAL_HOME": "~/memories"}).root == Path.home() / "memories"
    assert Home.locate({}).root.name == "shoal"


def test_the_home_and_the_note_can_be_read_by_their_owner_only(home: Home) -> None:
    home.ensure()
    write_record(home, RECORD)
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.record.stat().st_mode) == 0o600
    assert [path.name for path in home.record.parent.iterdir()] == ["daemon.json"]


def test_a_note_is_read_as_it_was_written(home: Home) -> None:
    home.ensure()
    write_record(home, RECORD)
    assert read_record(home) == RECORD
    assert RECORD.url == "http://127.0.0.1:8377"
    assert DaemonRecord(1, "::1", 1, "", "", "", "shim").url == "http://[::1]:1"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}', "\udcff"])
def test_a_note_that_makes_no_sense_counts_as_none(home: Home, text: str) -> None:
    home.ensure()
    home.record.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_record(home) is None


def test_only_its_own_note_is_removed(home: Home) -> None:
    home.ensure()
    remove_record(home, 1234)
    write_record(home, RECORD)
    remove_record(home, 4321)
    assert read_record(home) == RECORD
    remove_record(home, 1234)
    assert read_record(home) is None


def test_a_process_that_has_ended_is_not_alive() -> None:
    assert alive(os.getpid())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not alive(ended.pid)


@pytest.mark.parametrize("name", ["x" * 300, "/tmp/\udcff", "~nobody-of-this-name/x"])
def test_what_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettings, match="SHOAL_HOME"):
        Home.locate({"SHOAL_HOME": name})


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseReadOnly, match="SHOAL_HOME"):
        Home(tmp_path / "file" / "home").ensure()
