"""What a deployment would upload, made by wrangler itself without a network."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.worker.test_wrangler import BINDINGS, VARIABLES
from tests.worker.tools import ROOT, made, wrangler
from worker.stage import STAGED
from worker.vendor import STAMP, VENDORED

from shoal.schema.migrations import load

OWN_MAX_BYTES = 1_000_000
VENDORED_MAX_BYTES = 20_000_000
OF_THE_TOOL = {"README.md"}
"""wrangler writes it beside the bundle; it isn't uploaded."""


class Bundle(NamedTuple):
    """The files by their size in bytes, with paths as the Worker sees them, and what wrangler printed."""

    files: dict[str, int]
    printed: str

    def vendored(self) -> dict[str, int]:
        return {name: size for name, size in self.files.items() if name.startswith(f"{VENDORED}/")}

    def own(self) -> dict[str, int]:
        return {name: size for name, size in self.files.items() if not name.startswith(f"{VENDORED}/")}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    made(ROOT / VENDORED / STAMP, "edge-vendor")
    folder = tmp_path_factory.mktemp("bundle")
    printed = wrangler(tmp_path_factory.mktemp("home"), "deploy", "--dry-run", "--outdir", str(folder))
    found = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return Bundle({name: size for name, size in found.items() if name not in OF_THE_TOOL}, printed)


def test_a_deployment_uploads_the_staged_sources_whole(bundle: Bundle) -> None:
    staged = {path.relative_to(STAGED).as_posix() for path in STAGED.rglob("*") if path.is_file()}
    assert bundle.own().keys() == staged
    assert {"entry.py", "shoal/core/service.py", "shoal/schema/migrations/0001_cells.sql"} <= staged


def test_a_deployment_uploads_the_vendored_packages_without_what_no_worker_runs(bundle: Bundle) -> None:
    uploaded = bundle.vendored()
    assert {f"{VENDORED}/{name}/__init__.py" for name in ("mcp", "httpx", "pydantic", "fastapi", "workers")} <= set(
        uploaded
    )
    assert f"{VENDORED}/workers/py.typed" in uploaded
    useless = re.compile(r"\.pyi$|\.pyc$|/(tests|benchmarks|bin)/|/\.[^/]*$")
    assert [name for name in uploaded if useless.search(name)] == []
    assert [name for name in uploaded if re.search(r"/(cloudflare|fastembed|uvicorn|click|numpy)[/-]", name)] == []


def test_our_own_code_stays_under_a_megabyte(bundle: Bundle) -> None:
    assert sum(bundle.own().values()) <= OWN_MAX_BYTES


def test_the_vendored_packages_stay_under_twenty_megabytes(bundle: Bundle) -> None:
    assert sum(bundle.vendored().values()) <= VENDORED_MAX_BYTES


def test_a_deployment_binds_what_the_worker_uses(bundle: Bundle) -> None:
    assert set(re.findall(r"^env\.(\w+)", bundle.printed, re.MULTILINE)) == BINDINGS | VARIABLES


def test_wrangler_has_nothing_against_the_configuration(bundle: Bundle) -> None:
    said = [line for line in bundle.printed.splitlines() if "WARNING" in line or "ERROR" in line]
    assert all("Proxy environment variables" in line for line in said), bundle.printed
    assert said, "warnings look different now: this test sees none"


def test_wrangler_applies_the_shared_migrations_to_d1_once(tmp_path: Path) -> None:
    command = ("d1", "migrations", "apply", "DB", "--local", "--persist-to", str(tmp_path / "state"))
    printed = wrangler(tmp_path / "home", *command)
    for migration in load():
        assert re.search(rf"{re.escape(migration.name)} *│ *✅", printed), printed
    assert "No migrations to apply" in wrangler(tmp_path / "home", *command)
