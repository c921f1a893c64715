"""The Worker's release is the package's."""

import tomllib
from pathlib import Path

from shoal.worker.version import VERSION


def test_the_worker_has_the_version_of_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == VERSION
