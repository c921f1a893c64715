"""The double against real D1: every case of d1_answers.json, which record_d1_answers.mjs asks the real one."""

import json
from pathlib import Path
from typing import Any

from tests.edge.doubles.d1 import D1Database, D1PreparedStatement
from tests.edge.doubles.sdk import SAFE_INT_MAX, JsError, from_js

RECORDED = json.loads(Path(__file__).with_name("d1_answers.json").read_text(encoding="utf-8"))
LONG_TEXT = "D1_ERROR: To execute a transaction"
"""Of this one the double keeps the first sentence."""


def revived(value: Any) -> Any:
    if value == SAFE_INT_MAX:
        # JavaScript sent it as a number, as Python does with a float only.
        return float(value)
    return bytes(value["$bytes"]) if isinstance(value, dict) and "$bytes" in value else value


def prepared(database: D1Database, asked: dict[str, Any]) -> D1PreparedStatement:
    statement = database.prepare(asked["sql"])
    return statement.bind(*map(revived, asked["params"])) if "params" in asked else statement


def kept(result: Any) -> dict[str, Any]:
    return {"results": result.results, "changes": result.meta.changes, "changed": result.meta.changed_db}


async def ask(database: D1Database, asked: dict[str, Any]) -> Any:
    if "exec" in asked:
        return {"count": (await database.exec(asked["exec"])).count}
    if "batch" in asked:
        return [kept(result) for result in await database.batch([prepared(database, one) for one in asked["batch"]])]
    statement = prepared(database, asked)
    match asked.get("method"):
        case "raw":
            return await statement.raw(columnNames=True)
        case "first":
            return await statement.first(asked.get("column"))
        case _:
            return kept(await statement.all())


async def answered(database: D1Database, case: dict[str, Any]) -> dict[str, Any]:
    asked = {key: value for key, value in case.items() if key not in ("answer", "error")}
    try:
        return {**asked, "answer": await ask(database, asked)}
    except JsError as error:
        text = error.message
        long = text.startswith(LONG_TEXT) and case.get("error", "").startswith(text)
        return {**asked, "error": case["error"] if long else text}


async def test_the_double_answers_as_real_d1_did():
    database = D1Database()
    got = [await answered(database, case) for case in RECORDED["cases"]]
    database.close()
    differing = [pair for pair in zip(got, from_js(RECORDED["cases"]), strict=True) if pair[0] != pair[1]]
    assert differing == []


def test_the_recorded_answers_are_whole():
    assert RECORDED["from"].startswith("workerd ")
    assert len(RECORDED["cases"]) > 150
    assert all(("answer" in case) != ("error" in case) for case in RECORDED["cases"])
