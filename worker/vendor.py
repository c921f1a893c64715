"""Fill python_modules/ with the packages that the Worker imports: `make edge-vendor`.

pywrangler does this at every deployment, but only with the internet at hand: it takes a CPython for Emscripten and
wheels from Pyodide's own distribution. Here the package registry is enough, and uv.lock says which versions:

1. uv exports the lock file as pylock.toml. It stays at the root, where pywrangler looks for one, and so deploys the
   versions that the tests ran with instead of the newest.
2. packaging picks what a Worker's Python would install: [project].dependencies and what they need, by their markers.
3. pip unpacks those wheels, checked against the lock file's hashes.

What the registry has no WebAssembly wheel of is left out, by name: a deployment has it, the offline rig replaces it.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from packaging.markers import Environment
from packaging.pylock import Package, PackageWheel, Pylock, PylockSelectError
from packaging.tags import Tag, compatible_tags, cpython_tags

ROOT: Final = Path(__file__).resolve().parents[1]
TOOLS: Final = ROOT / ".tools" / "bin"
VENDORED: Final = "python_modules"
LOCK: Final = "pylock.toml"
STAMP: Final = ".vendored"
"""Says when these packages came. pywrangler replaces the folder, stamp and all, and then they come anew."""

PYTHON: Final = "3.14"
ABI: Final = "cp314"
PLATFORM: Final = "pyemscripten_2026_0_wasm32"
"""Python 3.14 of the Workers runtime, which the compatibility date in wrangler.toml chooses, and its ABI (PEP 783)."""
ENVIRONMENT: Final[Environment] = {
    "implementation_name": "cpython",
    "implementation_version": "3.14.2",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_release": "5.0.3",
    "platform_system": "Emscripten",
    "platform_version": "#1",
    "python_full_version": "3.14.2",
    "python_version": PYTHON,
    "sys_platform": "emscripten",
}
"""What markers are held against: Pyodide 314's answers."""
FROM_PYODIDE: Final = frozenset({"cffi", "cryptography", "rpds-py"})
"""Packages without a WebAssembly wheel on the registry that Pyodide's distribution has."""


class VendoringError(Exception):
    """The packages can't be vendored; the text says which and what to do."""


class Plan(NamedTuple):
    """What goes into python_modules: a pip requirement with its hash a wheel, and the names that are left out."""

    pins: tuple[str, ...]
    left_out: tuple[str, ...]


def export(root: Path) -> Pylock:
    """Write uv.lock's runtime packages to pylock.toml, and return them. Raises VendoringError."""
    options = ("--frozen", "--no-dev", "--no-emit-project", "--format", "pylock.toml", "--output-file", LOCK)
    _run([str(TOOLS / "uv"), "export", "--quiet", *options], root)
    return Pylock.from_dict(tomllib.loads((root / LOCK).read_text(encoding="utf-8")))


def tags() -> list[Tag]:
    """Return the kinds of wheels that a Worker can use, best first."""
    return [*cpython_tags((3, 14), [ABI], [PLATFORM]), *compatible_tags((3, 14), ABI, [PLATFORM])]


def plan(lock: Pylock) -> Plan:
    """Choose the wheels of a lock file that a Worker can use. Raises VendoringError.

    A package for which only a source distribution is left has no such wheel, and nothing compiles for WebAssembly here.
    """
    try:
        chosen = list(lock.select(environment=ENVIRONMENT, tags=tags()))
    except PylockSelectError as error:
        raise VendoringError(f"uv.lock: {error}") from error
    pins = tuple(_pin(package, found) for package, found in chosen if isinstance(found, PackageWheel))
    left_out = tuple(sorted(package.name for package, found in chosen if not isinstance(found, PackageWheel)))
    if unknown := sorted(set(left_out) - FROM_PYODIDE):
        raise VendoringError(
            f"{', '.join(unknown)}: no wheel for {PLATFORM} in uv.lock, and not known to be in Pyodide's distribution."
            " Mark what needs it `; sys_platform != 'emscripten'` in pyproject.toml, or, if Pyodide has it, add it to"
            " FROM_PYODIDE in worker/vendor.py."
        )
    return Plan(pins, left_out)


def _pin(package: Package, wheel: PackageWheel) -> str:
    return f"{package.name}=={package.version} --hash=sha256:{wheel.hashes['sha256']}"


def install(pins: tuple[str, ...], target: Path) -> None:
    """Put the wheels of `pins` in the place of what `target` had, whole or not at all. Raises VendoringError."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(pins), encoding="utf-8")
        fresh = Path(folder) / target.name
        _run(
            [
                *(str(TOOLS / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-deps", "--no-compile", "--only-binary", ":all:", "--require-hashes"),
                *("--platform", PLATFORM, "--python-version", PYTHON, "--implementation", "cp", "--abi", ABI),
                *("--abi", "abi3", "--abi", "none", "--platform", "any"),
                # pip holds `requires-python` against the Python that runs it, whatever --python-version says.
                "--ignore-requires-python",
                *("--target", str(fresh), "--requirement", str(requirements)),
            ],
            target.parent,
        )
        # Scripts name the Python that made them; a Worker has no use for them, and pywrangler doesn't copy them either.
        shutil.rmtree(fresh / "bin", ignore_errors=True)
        # Marks the folder as an environment, as pywrangler does.
        (fresh / "pyvenv.cfg").touch()
        (fresh / STAMP).touch()
        if target.exists():
            target.rename(Path(folder) / "old")
        fresh.rename(target)


def _run(command: list[str], folder: Path) -> None:
    """Run a tool in a folder. Raises VendoringError with what it said."""
    try:
        done = subprocess.run(  # noqa: S603 - the commands are this module's
            command, cwd=folder, check=False, capture_output=True, text=True, encoding="utf-8"
        )
    except FileNotFoundError as error:
        raise VendoringError(f"{command[0]} is missing. Run `make setup`.") from error
    if done.returncode:
        raise VendoringError(f"`{' '.join(command)}` failed:\n{done.stderr.strip()}")


def main() -> None:
    """Vendor, and say what was left out."""
    try:
        planned = plan(export(ROOT))
        install(planned.pins, ROOT / VENDORED)
    except VendoringError as error:
        sys.exit(f"worker/vendor.py: {error}")
    size_bytes = sum(path.stat().st_size for path in (ROOT / VENDORED).rglob("*") if path.is_file())
    sys.stdout.write(
        f"{VENDORED}: {len(planned.pins)} packages, {size_bytes / 1e6:.1f} MB. Left out, because only Pyodide's own"
        f" distribution has them for WebAssembly (a deployment does): {', '.join(planned.left_out)}.\n"
    )


if __name__ == "__main__":
    main()
