"""Takes the runtime's own Python helpers out of the workerd binary: `python -m tests.edge.rig.runtime`, in set-up.

They keep entropy out of global scope, find the Worker's classes and convert arguments, so the rig runs the very ones
that production runs. They lie in the binary as plain text, each after its name; nothing of them is kept in this
repository.
"""

import ast
import re
from pathlib import Path
from typing import Final

from tests.edge.rig.tools import RUNTIME, TOOLS, RigError

PREFIX: Final = "pyodide-internal:"
HELPERS: Final = (
    "introspection.py",
    "setup_python_search_path.py",
    "topLevelEntropy/allow_entropy.py",
    "topLevelEntropy/entropy_import_context.py",
    "topLevelEntropy/entropy_patches.py",
    "topLevelEntropy/import_patch_manager.py",
)


def find_helper(binary: bytes, name: str) -> bytes:
    """Return the source that follows a name in the binary; RigError when there is none that is Python."""
    # A name, padded with zeros, then the text up to the next zero.
    pattern = re.compile(re.escape((PREFIX + name).encode()) + rb"\0+([^\0]+)\0")
    for match in pattern.finditer(binary):
        try:
            ast.parse(match[1])
        except (SyntaxError, ValueError):
            continue
        return match[1]
    raise RigError(f"workerd holds no {name}: its layout has changed; look at where it keeps its Python files now")


def workerd() -> Path:
    """Return the workerd binary of this machine's platform."""
    found = sorted((TOOLS / "node_modules" / "@cloudflare").glob("workerd-*/bin/workerd"))
    if not found:
        raise RigError(f"{TOOLS} holds no workerd: npm has not installed the package for this platform")
    return found[0]


def extract(binary: Path, folder: Path) -> None:
    """Write the package `_cloudflare` into the folder."""
    contents = binary.read_bytes()
    helpers = {name.rpartition("/")[2]: find_helper(contents, name) for name in HELPERS}
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in helpers.items():
        (folder / name).write_bytes(source)
    (folder / "__init__.py").write_bytes(b"")


if __name__ == "__main__":
    extract(workerd(), RUNTIME)
