import sys
from pathlib import Path

import pytest

from shoal.local.cli import output, words
from shoal.local.cli.output import progress, size
from shoal.schema.models import DeleteStatus, StoreStatus


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (7_100_000_000, "7.1 GB")]
)
def test_bytes_are_written_as_people_read_them(count: int, text: str) -> None:
    assert size(count) == text


def test_a_bar_is_shown_only_on_a_terminal_and_only_for_long_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("Working") as report:
        report(0.5)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("Working") as report:
        report(0.5)
    with progress("Working", hidden=True) as report:
        report(0.5)
    assert "Working" not in capsys.readouterr().err
    monkeypatch.setattr(output, "PROGRESS_AFTER_S", 0.0)
    with progress("Working") as report:
        report(0.5)
        report(1.0)
    assert "Working" in capsys.readouterr().err


def test_every_message_is_used_and_both_languages_have_the_same_parts() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(words.__file__).parent.glob("*.py"))
    table = words._WORDS
    statuses = {*StoreStatus, *DeleteStatus}
    for key, (english, chinese) in table.items():
        assert code.count(f'"{key}"') >= 2 or key in statuses, key
        fields = [{part.partition("}")[0] for part in text.split("{")[1:]} for text in (english, chinese)]
        assert fields[0] == fields[1], key


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "ZH"}, True),
        ({"LANG": "zh_TW.UTF-8", "LC_ALL": "C"}, False),
        ({"LC_MESSAGES": "zh_CN", "LANG": "de_DE"}, True),
        ({}, False),
    ],
)
def test_the_language_is_that_of_the_locale(environ: dict[str, str], expected: bool) -> None:
    assert words.chinese(environ) is expected
