import json
import re
import tomllib
from datetime import date
from typing import Any

import pytest
from tests.worker.tools import NODE_MODULES, ROOT, made

from shoal.schema.limits import TRASH_DAYS_DEFAULT
from shoal.worker.configuration import Variables, parse

CONFIG: dict[str, Any] = tomllib.loads((ROOT / "wrangler.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
BINDINGS = {"DB", "VECTORIZE", "AI", "QUEUE", "BLOBS", "LIMIT"}
"""What the code of worker/ asks of its `env`, besides variables and secrets."""
SECRETS = {"OWNER_KEY_SHA256"}
VARIABLES = {*Variables._fields, "PRELOAD"} - SECRETS
METADATA_INDEXES = {"space": "string", "kind": "string", "type": "string", "occurred_at": "number", "state": "number"}
"""What Vectorize must index before the first vector: the fields that searches filter by."""
PYTHON_314_SINCE = date(2026, 9, 8)
RETRIES_MAX = 10


def bound() -> set[str]:
    return {
        *(found["binding"] for found in CONFIG["d1_databases"] + CONFIG["vectorize"] + CONFIG["r2_buckets"]),
        *(found["binding"] for found in CONFIG["queues"]["producers"]),
        *(found["name"] for found in CONFIG["ratelimits"]),
        CONFIG["ai"]["binding"],
    }


def test_the_worker_is_bound_to_what_it_uses_and_to_nothing_else() -> None:
    assert bound() == BINDINGS
    assert CONFIG["vars"].keys() == VARIABLES
    assert set(CONFIG["secrets"]["required"]) == SECRETS


def test_variables_are_texts_as_everywhere_else() -> None:
    assert all(isinstance(value, str) for value in CONFIG["vars"].values())
    assert CONFIG["vars"]["TRASH_DAYS"] == str(TRASH_DAYS_DEFAULT)
    assert CONFIG["vars"]["PRELOAD"] in {"core", "rest", "all"}


def test_what_the_file_says_is_what_is_meant_where_it_says_nothing() -> None:
    assert parse(Variables(**{name: CONFIG["vars"][name] for name in VARIABLES - {"PRELOAD"}})) == parse(Variables())


def test_no_account_and_no_secret_stands_in_the_file() -> None:
    text = (ROOT / "wrangler.toml").read_text(encoding="utf-8")
    assert not re.search(r"^\s*(\w+_id|account\w*|route\w*)\s*=\s*\"(?!8378\")", text, re.MULTILINE)
    assert not re.search(r"[0-9a-f]{32}", text)


def test_the_compatibility_date_chooses_python_3_14_and_is_one_that_the_tests_runtime_knows() -> None:
    chosen = date.fromisoformat(CONFIG["compatibility_date"])
    assert chosen >= PYTHON_314_SINCE
    assert CONFIG["compatibility_flags"] == ["python_workers"]
    package = made(NODE_MODULES / "workerd" / "package.json", "edge-tools")
    released = re.match(r"1\.(\d{4})(\d\d)(\d\d)\.", json.loads(package.read_text(encoding="utf-8"))["version"])
    assert released
    assert chosen <= date(*map(int, released.groups()))


def test_the_sources_are_staged_before_they_are_bundled() -> None:
    assert CONFIG["main"] == "build/worker/entry.py"
    assert CONFIG["build"]["command"] == "python3 worker/stage.py"


def test_the_migrations_are_the_shared_ones() -> None:
    (database,) = CONFIG["d1_databases"]
    assert list((ROOT / database["migrations_dir"]).glob("*.sql"))


def test_no_minute_wakes_both_schedules() -> None:
    often, hourly = CONFIG["triggers"]["crons"]
    assert often == "*/5 * * * *"
    minute, rest = hourly.split(" ", 1)
    assert rest == "* * * *"
    assert int(minute) % 5


def test_no_message_is_tried_for_ever_and_what_fails_is_kept_where_it_is_seen() -> None:
    consumers = {found["queue"]: found for found in CONFIG["queues"]["consumers"]}
    (producer,) = CONFIG["queues"]["producers"]
    dead = consumers[producer["queue"]]["dead_letter_queue"]
    assert consumers.keys() == {producer["queue"], dead}
    for consumer in consumers.values():
        assert 1 <= consumer["max_retries"] <= RETRIES_MAX
        assert 1 <= consumer["max_batch_size"] <= 100
        assert 0 <= consumer["max_batch_timeout"] <= 60
        assert consumer["retry_delay"] > 0


def test_the_index_is_named_after_the_model_that_fills_it() -> None:
    assert CONFIG["vectorize"][0]["index_name"] == f"shoal-{CONFIG['vars']['MODEL'].rpartition('/')[2]}"


def test_logs_hold_no_query_strings() -> None:
    assert CONFIG["observability"] == {"enabled": True, "redact_query_string": True}


def test_static_files_exist_and_keep_search_engines_out() -> None:
    folder = ROOT / CONFIG["assets"]["directory"]
    assert "Disallow: /" in (folder / "robots.txt").read_text(encoding="utf-8").splitlines()


def resources() -> list[str]:
    index = CONFIG["vectorize"][0]["index_name"]
    return [
        *(f"d1 create {found['database_name']}" for found in CONFIG["d1_databases"]),
        *(f"vectorize create {found['index_name']} " for found in CONFIG["vectorize"]),
        *(f"queues create {found['queue']}" for found in CONFIG["queues"]["consumers"]),
        *(f"r2 bucket create {found['bucket_name']}" for found in CONFIG["r2_buckets"]),
        *(
            f"vectorize create-metadata-index {index} --propertyName={name} --type={kind}"
            for name, kind in METADATA_INDEXES.items()
        ),
        *SECRETS,
    ]


@pytest.mark.parametrize("command", resources())
def test_the_page_on_deploying_makes_all_that_the_worker_needs(command: str) -> None:
    assert command in PAGE


def test_metadata_is_indexed_before_the_first_deployment_and_nothing_else_is() -> None:
    indexed = re.findall(r"create-metadata-index \S+ --propertyName=(\w+)", PAGE)
    assert sorted(indexed) == sorted(METADATA_INDEXES)
    assert PAGE.index("create-metadata-index") < PAGE.index("pywrangler deploy")


def test_the_page_on_deploying_names_the_versions_that_were_tested() -> None:
    pinned = json.loads(made(NODE_MODULES / "wrangler" / "package.json", "edge-tools").read_text(encoding="utf-8"))
    assert set(re.findall(r"wrangler@([\d.]+)", PAGE)) == {pinned["version"]}
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    locked = {found["version"] for found in lock["package"] if found["name"] == "workers-py"}
    assert set(re.findall(r"workers-py@([\d.]+)", PAGE)) == locked
