"""Work after the answer, and the log: nothing that fails there is silent, and nothing in the log is anybody's text."""

import json
import logging
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from shoal.schema.errors import VectorIndexError
from shoal.worker.background import Background
from shoal.worker.logs import JsonLines, describe, set_up_logs


def failing() -> Exception:
    def inner() -> None:
        raise ValueError("what somebody stored")

    try:
        inner()
    except ValueError as error:
        return error
    raise AssertionError("it raised")


async def test_work_is_given_to_the_runtime_and_done(caplog: pytest.LogCaptureFixture):
    given: list[Coroutine[Any, Any, None]] = []
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    Background(given.append).start("some work", work())
    assert done == []
    await given[0]
    assert done == ["work"]
    assert caplog.records == []


async def test_what_it_cant_do_is_logged_by_name(caplog: pytest.LogCaptureFixture):
    given: list[Coroutine[Any, Any, None]] = []

    async def refused() -> None:
        raise VectorIndexError("Vectorize refused.", "Try again.")

    async def broken() -> None:
        raise failing()

    background = Background(given.append)
    background.start("discard", refused())
    background.start("announce", broken())
    for work in given:
        await work
    assert [record.getMessage() for record in caplog.records] == [
        "discard: vector_index_error Vectorize refused. Try again.",
        "announce failed",
    ]


def test_a_line_is_json_with_the_fields_of_the_access_log():
    record = logging.LogRecord("shoal.access", logging.INFO, "", 0, "GET %s", ("/x",), None)
    record.shoal = {"status": 200, "route": "/x"}
    assert json.loads(JsonLines().format(record)) == {
        "level": "info",
        "logger": "shoal.access",
        "message": "GET /x",
        "status": 200,
        "route": "/x",
    }


def test_a_fault_is_told_by_type_and_place_without_its_text():
    error = failing()
    record = logging.LogRecord(
        "shoal.api", logging.ERROR, "", 0, "it failed", (), (type(error), error, error.__traceback__)
    )
    line = JsonLines().format(record)
    assert "what somebody stored" not in line
    assert json.loads(line)["exception"].startswith("ValueError at test_background.py:")
    assert " inner < test_background.py:" in describe(error)


def test_the_log_goes_to_the_console_and_libraries_are_quiet(capsys: pytest.CaptureFixture[str]):
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    try:
        set_up_logs()
        logging.getLogger("shoal.edge").info("鱼")
        logging.getLogger("asgi").info("a notice")
    finally:
        root.handlers[:], root.level = before
    assert json.loads(capsys.readouterr().out) == {"level": "info", "logger": "shoal.edge", "message": "鱼"}
    assert sys.stdout is not None
