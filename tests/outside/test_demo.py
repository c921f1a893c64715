"""What `make run ONCE=1` runs: the main job over a real client, with the real model, and an edge beside it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_stores_finds_lets_a_memory_cross_each_way_and_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.demo", "--once"],
        cwd=ROOT,
        env={**os.environ, "SHOAL_HOME": str(tmp_path / "home"), "SHOAL_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "12 memories stored" in done.stdout
    found = int(done.stdout.partition(" of 10 questions")[0].split()[-1])
    assert found >= 8, done.stdout
    assert "a memory stored on the laptop was found there" in " ".join(done.stdout.split())
    assert not (tmp_path / "home" / "run" / "daemon.json").exists()
