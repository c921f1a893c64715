"""Schemathesis: requests made from our own OpenAPI document, and answers held to what it promises."""

import json
import os
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.judging import HANG_S
from tests.fuzz.place import MARKER, Place
from tests.fuzz.test_requests import SEED, SEED_VARIABLE

TOOL = Path(__file__).parents[2] / ".tools" / "schemathesis" / ("Scripts" if os.name == "nt" else "bin")
LIMIT_S = 3_000.0

# A document can't say all that makes a request good: a memory of nothing but spaces, an id of another form, a `since`
# after `until`. So this check of Schemathesis is left out; every other one stands.
LEFT_OUT = "positive_data_acceptance"


def run(place: Place, folder: Path, seed: int, examples: int) -> dict[str, Any]:
    """Run all phases with so many examples an operation, and return Schemathesis' own report."""
    program = TOOL / "schemathesis"
    if not program.exists():
        pytest.fail(f"{program} is missing. Run `make fuzz-tools`.", pytrace=False)
    print(f"seed {seed}: {SEED_VARIABLE}={seed} replays it")
    report = folder / "report.json"
    command = [
        *(str(program), "run", f"{place.url}/openapi.json", "--header", f"Authorization: Bearer {place.token}"),
        *("--checks", "all", "--exclude-checks", LEFT_OUT, "--continue-on-failure", "--no-color"),
        *("--seed", str(seed), "--max-examples", str(examples), "--request-timeout", str(HANG_S)),
        *("--report", "json", "--report-json-path", str(report)),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent / "hooks"),
        "SCHEMATHESIS_HOOKS": "schemathesis_checks",
        "SHOAL_FUZZ_MARKER": MARKER,
        "SHOAL_FUZZ_COUNTED": place.counted,
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    told = json.loads(report.read_text(encoding="utf-8"))
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-8000:]}{done.stderr}"
    assert told["complete"] and told["operations"]["tested"] == told["operations"]["total"], told
    return told


def sent(report: dict[str, Any]) -> int:
    """Return how many requests were made."""
    return report["test_cases"]["generated"]


def test_five_hundred_requests_of_the_openapi_document_are_answered_as_it_says(place: Place, tmp_path: Path) -> None:
    assert sent(run(place, tmp_path, int(os.environ.get(SEED_VARIABLE, SEED)), 5)) >= 500


@pytest.mark.long
def test_ten_thousand_requests_of_the_openapi_document_are_answered_as_it_says(place: Place, tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, secrets.randbits(32)))
    assert sent(run(place, tmp_path, seed, 1_100)) >= 10_000


@pytest.mark.long
def test_ten_thousand_requests_of_the_workers_document_are_answered_as_it_says(worker: Place, tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, secrets.randbits(32)))
    assert sent(run(worker, tmp_path, seed, 700)) >= 10_000
